"""What GGUF files of each family call their tensors and settings, and what they changed on the way.

Names and changes as in llama.cpp (``gguf-py/gguf/tensor_mapping.py``, ``convert_hf_to_gguf.py``):

* Llama (also Mistral and Mixtral): rows of queries and keys are reordered so that RoPE's
  pairs lie side by side; Llama 3's scaling is a tensor of divisors, ``rope_freqs``.
* Gemma: norms hold 1 + w.
* Phi-3: longrope's divisors are tensors, ``rope_factors_short`` and ``rope_factors_long``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from engine.errors import ModelError
from engine.models.gguf_architectures import ARCHITECTURES
from engine.models.gguf_file import GGUFFile
from engine.models.gguf_tokenizer import special_ids

ROPE_TENSORS = ("rope_freqs.weight", "rope_factors_long.weight", "rope_factors_short.weight")
"""Settings that are stored as tensors."""

_OUTER = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}
_LLAMA = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
    "ffn_gate_inp": "block_sparse_moe.gate",
}
_QWEN3 = _LLAMA | {"attn_q_norm": "self_attn.q_norm", "attn_k_norm": "self_attn.k_norm"}
_PHI3 = {
    "attn_norm": "input_layernorm",
    "attn_qkv": "self_attn.qkv_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_up": "mlp.gate_up_proj",
    "ffn_down": "mlp.down_proj",
}
_GEMMA2 = _LLAMA | {
    "post_attention_norm": "post_attention_layernorm",
    "ffn_norm": "pre_feedforward_layernorm",
    "post_ffw_norm": "post_feedforward_layernorm",
}
EXPERTS = {"ffn_gate_exps": "w1", "ffn_up_exps": "w3", "ffn_down_exps": "w2"}
"""Tensors of all experts [experts, out, in] and Mixtral's names of one."""


@dataclass(frozen=True, slots=True)
class GGUFFamily:
    inner: dict[str, str]
    """Tensors of one layer: after ``blk.N.`` and before ``.weight`` or ``.bias`` → after ``model.layers.N.``"""
    config: Callable[[GGUFFile], dict[str, Any]]
    """Content of ``config.json``."""
    tokenizer_class: str
    norm_offset: float = 0.0
    """What norms have too much."""
    paired_rows: bool = False
    """Whether rows of queries and keys lie in pairs."""

    def names(self, file: GGUFFile) -> dict[str, str]:
        """Hugging Face name → name in the file, of what one tensor of the file is one of the model's.

        :raises ModelError: the file has a tensor that nobody knows.
        """
        found: dict[str, str] = {}
        for stored in file.tensors:
            stem, _, kind = stored.rpartition(".")
            part = stem.split(".", 2)
            name: str | None = None
            if part[0] == "blk" and len(part) == 3:
                if part[2] in EXPERTS:
                    continue
                inner = self.inner.get(part[2])
                name = None if inner is None else f"model.layers.{part[1]}.{inner}"
            elif stored in ROPE_TENSORS:
                continue
            else:
                name = _OUTER.get(stem)
            if name is None:
                raise ModelError(
                    f"{file.path} has an unknown tensor: {stored}.",
                    "Choose another file of this model, or its safetensors version.",
                )
            found[f"{name}.{kind}"] = stored
        return found


def family_of(file: GGUFFile) -> GGUFFamily:
    """:raises ModelError: no table says how to read this kind of model."""
    name = file.text("general.architecture")
    if name not in GGUF_FAMILIES:
        raise ModelError(
            f"{file.path.name} is a {name} model; only {', '.join(sorted(GGUF_FAMILIES))} can be read from GGUF.",
            "Choose the safetensors version of this model.",
        )
    return GGUF_FAMILIES[name]


# --------------------------------------------------------------------------- configurations


def _common(file: GGUFFile, model_type: str) -> dict[str, Any]:
    arch = file.text("general.architecture")
    hidden, heads = file.whole(f"{arch}.embedding_length"), file.whole(f"{arch}.attention.head_count")
    positions = file.whole(f"{arch}.context_length")
    width = file.whole(f"{arch}.attention.key_length", hidden // heads)
    turned = file.whole(f"{arch}.rope.dimension_count", width)
    ids = special_ids(file)
    return {
        "model_type": model_type,
        "hidden_size": hidden,
        "intermediate_size": file.whole(f"{arch}.feed_forward_length"),
        "num_hidden_layers": file.whole(f"{arch}.block_count"),
        "num_attention_heads": heads,
        "num_key_value_heads": file.whole(f"{arch}.attention.head_count_kv", heads),
        "head_dim": width,
        "rms_norm_eps": file.number(f"{arch}.attention.layer_norm_rms_epsilon"),
        "max_position_embeddings": positions,
        "vocab_size": file.tensors["token_embd.weight"].shape[0]
        if "token_embd.weight" in file.tensors
        else len(file.texts("tokenizer.ggml.tokens")),
        "tie_word_embeddings": "output.weight" not in file.tensors,
        "rope_parameters": _rope(file, arch, positions) | {"partial_rotary_factor": turned / width},
        "sliding_window": file.whole(f"{arch}.attention.sliding_window", 0) or None,
        "bos_token_id": ids.get("bos_token"),
        "eos_token_id": ids.get("eos_token"),
    }


def _rope(file: GGUFFile, arch: str, positions: int) -> dict[str, Any]:
    theta = {"rope_theta": file.number(f"{arch}.rope.freq_base", 10_000.0)}
    if "rope_freqs.weight" in file.tensors:
        divisors = _numbers(file, "rope_freqs.weight")
        # The same divisors at every length.
        return theta | _longrope(divisors, divisors, positions, 1.0)
    original = file.whole(f"{arch}.rope.scaling.original_context_length", 0)
    if "rope_factors_long.weight" in file.tensors:
        lists = [_numbers(file, f"rope_factors_{name}.weight") for name in ("short", "long")]
        magnitude = file.number(f"{arch}.rope.scaling.attn_factor", 1.0)
        return theta | _longrope(lists[0], lists[1], original or positions, magnitude)
    kind = file.text(f"{arch}.rope.scaling.type", "none")
    if kind == "none":
        return theta | {"rope_type": "default"}
    scaled = {"rope_type": kind, "factor": file.number(f"{arch}.rope.scaling.factor", 1.0)}
    return theta | scaled | {"original_max_position_embeddings": original or positions}


def _longrope(short: list[float], long: list[float], original: int, magnitude: float) -> dict[str, Any]:
    return {
        "rope_type": "longrope",
        "factor": 1.0,
        "attention_factor": magnitude,
        "short_factor": short,
        "long_factor": long,
        "original_max_position_embeddings": original,
    }


def _numbers(file: GGUFFile, name: str) -> list[float]:
    return [float(number) for rows in file.rows(name) for number in rows.reshape(-1)]


def _llama_config(file: GGUFFile) -> dict[str, Any]:
    experts = file.whole("llama.expert_count", 0)
    config = _common(file, "mixtral" if experts else "llama")
    if not experts:
        bias = "blk.0.attn_q.bias" in file.tensors
        return config | {"attention_bias": bias}
    return config | {"num_local_experts": experts, "num_experts_per_tok": file.whole("llama.expert_used_count")}


def _qwen_config(file: GGUFFile) -> dict[str, Any]:
    return _common(file, file.text("general.architecture")) | {"sliding_window": None}


def _phi3_config(file: GGUFFile) -> dict[str, Any]:
    return _common(file, "phi3")


def _gemma2_config(file: GGUFFile) -> dict[str, Any]:
    config = _common(file, "gemma2")
    hidden, heads = config["hidden_size"], config["num_attention_heads"]
    return config | {
        "attn_logit_softcapping": file.number("gemma2.attn_logit_softcapping", 50.0),
        "final_logit_softcapping": file.number("gemma2.final_logit_softcapping", 30.0),
        # The file does not have it; the 27B model, of 46 layers, is the exception.
        "query_pre_attn_scalar": hidden // heads if config["num_hidden_layers"] == 46 else config["head_dim"],
    }


_GEMMA3 = ARCHITECTURES["gemma3"]
GGUF_FAMILIES: dict[str, GGUFFamily] = {
    "llama": GGUFFamily(_LLAMA, _llama_config, "LlamaTokenizer", paired_rows=True),
    "qwen2": GGUFFamily(_LLAMA, _qwen_config, "Qwen2Tokenizer"),
    "qwen3": GGUFFamily(_QWEN3, _qwen_config, "Qwen2Tokenizer"),
    "phi3": GGUFFamily(_PHI3, _phi3_config, "LlamaTokenizer"),
    "gemma2": GGUFFamily(_GEMMA2, _gemma2_config, "GemmaTokenizer", norm_offset=1.0),
    "gemma3": GGUFFamily(
        dict(_GEMMA3.inner), _GEMMA3.config, _GEMMA3.tokenizer_class, norm_offset=_GEMMA3.norm_offset
    ),
}
