"""How each kind of GGUF model maps to its Hugging Face counterpart.

One entry of :data:`ARCHITECTURES` is all a further architecture needs: names of
tensors, the configuration, and the tokenizer. Sources: ``gguf-py/gguf/tensor_mapping.py``
and ``convert_hf_to_gguf.py`` in ggml-org/llama.cpp, ``Gemma3TextConfig`` in transformers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from engine.errors import ModelError
from engine.models.gguf_file import GGUFFile
from engine.models.gguf_tokenizer import gemma_tokenizer, special_ids

Shapes = Mapping[str, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class Architecture:
    outer: Mapping[str, str]
    """Tensors outside of the layers: name in the GGUF file to Hugging Face name, without ``.weight``."""
    inner: Mapping[str, str]
    """Tensors of one layer, without ``blk.N.`` and ``model.layers.N.``."""
    norm_offset: float
    """What the file's norm weights have too much: Gemma multiplies by 1 + w, and llama.cpp stores that."""
    shapes: Callable[[dict[str, Any]], Shapes]
    """Expected shape of each tensor of ``outer`` and ``inner``, by its name in the file."""
    config: Callable[[GGUFFile], dict[str, Any]]
    """Content of ``config.json``."""
    tokenizer: Callable[[GGUFFile], dict[str, Any]]
    """Content of ``tokenizer.json``."""
    tokenizer_class: str

    def checked_shapes(self, file: GGUFFile) -> dict[str, tuple[str, tuple[int, ...]]]:
        """Hugging Face name of every tensor, with its name in the file and its shape.

        :raises ModelError: a tensor is missing, unknown, or of another shape than the configuration says.
        """
        config = self.config(file)
        expected = self.shapes(config)
        names = {f"{stem}.weight": f"{name}.weight" for stem, name in self.outer.items()}
        for layer in range(config["num_hidden_layers"]):
            for stem, name in self.inner.items():
                names[f"blk.{layer}.{stem}.weight"] = f"model.layers.{layer}.{name}.weight"
        if config["tie_word_embeddings"]:
            names.pop("output.weight", None)
        unknown = sorted(set(file.tensors) - set(names))
        missing = [name for name in names if name not in file.tensors]
        if unknown or missing:
            what, which = ("lacks", missing) if missing else ("has an unknown tensor:", unknown)
            raise ModelError(
                f"{file.path} {what} {which[0]}" + (f" and {len(which) - 1} more." if which[1:] else "."),
                "Choose another file of this model, or its safetensors version.",
            )
        for stored in names:
            shape = expected[stored.removesuffix(".weight").split(".")[-1]]
            if file.tensors[stored].shape != shape:
                raise ModelError(
                    f"The tensor {stored} of {file.path} has shape {list(file.tensors[stored].shape)} "
                    f"where {list(shape)} is expected.",
                    "Delete this file and download it again.",
                )
        return {name: (stored, file.tensors[stored].shape) for stored, name in names.items()}


# --------------------------------------------------------------------------- Gemma 3


def _gemma3_config(file: GGUFFile) -> dict[str, Any]:
    """The fields of ``Gemma3TextConfig``."""

    def whole(key: str, default: int | None = None) -> int:
        return file.whole(f"gemma3.{key}", default)

    def number(key: str, default: float | None = None) -> float:
        return file.number(f"gemma3.{key}", default)

    layers, hidden, heads = whole("block_count"), whole("embedding_length"), whole("attention.head_count")
    head_dim = whole("attention.key_length", 256)
    pattern = whole("attention.sliding_window_pattern", 6)
    ids = special_ids(file)
    full: dict[str, Any] = {"rope_type": "default", "rope_theta": number("rope.freq_base", 1e6)}
    if file.text("gemma3.rope.scaling.type", "none") == "linear":
        full |= {"rope_type": "linear", "factor": number("rope.scaling.factor")}
    softcap = "gemma3.final_logit_softcapping"
    return {
        "architectures": ["Gemma3ForCausalLM"],
        "model_type": "gemma3_text",
        "dtype": "float32",
        "attention_bias": False,
        "attention_dropout": 0.0,
        "attn_logit_softcapping": None,
        "bos_token_id": ids.get("bos_token"),
        "eos_token_id": ids.get("eos_token"),
        "pad_token_id": ids.get("pad_token"),
        "final_logit_softcapping": file.number(softcap) if softcap in file.metadata else None,
        "head_dim": head_dim,
        "hidden_activation": "gelu_pytorch_tanh",
        "hidden_size": hidden,
        "initializer_range": 0.02,
        "intermediate_size": whole("feed_forward_length"),
        "layer_types": [
            "sliding_attention" if (layer + 1) % pattern else "full_attention" for layer in range(layers)
        ],
        "max_position_embeddings": whole("context_length"),
        "num_attention_heads": heads,
        "num_hidden_layers": layers,
        "num_key_value_heads": whole("attention.head_count_kv", heads),
        # The file does not have it; the 27B model, of 62 layers, is the exception.
        "query_pre_attn_scalar": hidden // heads if layers == 62 else head_dim,
        "rms_norm_eps": number("attention.layer_norm_rms_epsilon"),
        "rope_parameters": {
            "full_attention": full,
            "sliding_attention": {"rope_type": "default", "rope_theta": number("rope.freq_base_swa", 1e4)},
        },
        "sliding_window": whole("attention.sliding_window"),
        "tie_word_embeddings": "output.weight" not in file.tensors,
        "use_bidirectional_attention": False,
        "use_cache": True,
        "vocab_size": len(file.texts("tokenizer.ggml.tokens")),
    }


def _gemma3_shapes(config: dict[str, Any]) -> Shapes:
    hidden, inner, width = config["hidden_size"], config["intermediate_size"], config["head_dim"]
    queries, keys = width * config["num_attention_heads"], width * config["num_key_value_heads"]
    return {
        "token_embd": (config["vocab_size"], hidden),
        "output": (config["vocab_size"], hidden),
        "output_norm": (hidden,),
        "attn_norm": (hidden,),
        "attn_q": (queries, hidden),
        "attn_k": (keys, hidden),
        "attn_v": (keys, hidden),
        "attn_output": (hidden, queries),
        "attn_q_norm": (width,),
        "attn_k_norm": (width,),
        "post_attention_norm": (hidden,),
        "ffn_norm": (hidden,),
        "ffn_gate": (inner, hidden),
        "ffn_up": (inner, hidden),
        "ffn_down": (hidden, inner),
        "post_ffw_norm": (hidden,),
    }


ARCHITECTURES: dict[str, Architecture] = {
    "gemma3": Architecture(
        outer={"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"},
        inner={
            "attn_norm": "input_layernorm",
            "attn_q": "self_attn.q_proj",
            "attn_k": "self_attn.k_proj",
            "attn_v": "self_attn.v_proj",
            "attn_output": "self_attn.o_proj",
            "attn_q_norm": "self_attn.q_norm",
            "attn_k_norm": "self_attn.k_norm",
            "post_attention_norm": "post_attention_layernorm",
            "ffn_norm": "pre_feedforward_layernorm",
            "ffn_gate": "mlp.gate_proj",
            "ffn_up": "mlp.up_proj",
            "ffn_down": "mlp.down_proj",
            "post_ffw_norm": "post_feedforward_layernorm",
        },
        norm_offset=1.0,
        shapes=_gemma3_shapes,
        config=_gemma3_config,
        tokenizer=gemma_tokenizer,
        tokenizer_class="GemmaTokenizer",
    ),
}
