"""A head's tensors in the files of each public format, as their own tools write them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from engine.heads.checkpoint import Eagle1Checkpoint, Eagle3Checkpoint
from engine.heads.config import EagleConfig
from engine.heads.medusa import MedusaCheckpoint

TAPS_AS_INPUTS = "eagle_aux_hidden_state_layer_ids"


def _write(folder: Path, config: dict[str, Any], tensors: dict[str, Tensor], file: str) -> None:
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    if file.endswith(".safetensors"):
        save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, folder / file)
    else:
        torch.save(tensors, folder / file)


def _llama(config: EagleConfig, **more: Any) -> dict[str, Any]:
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "num_hidden_layers": 1,
        "hidden_size": config.hidden_size,
        "intermediate_size": config.intermediate_size,
        "num_attention_heads": config.num_attention_heads,
        "num_key_value_heads": config.num_key_value_heads,
        "vocab_size": config.vocab_size,
        "rms_norm_eps": 1e-6,
    } | more


def _draft(head: Eagle3Checkpoint, **more: Any) -> dict[str, Any]:
    return _llama(head.config, draft_vocab_size=head.config.draft_vocab_size, **more)


def _numbered(tensors: Any) -> dict[str, Tensor]:
    return {name.replace("midlayer.", "layers.0."): tensor for name, tensor in tensors.items()}


# --------------------------------------------------------------------------- EAGLE-1 and EAGLE-2


def as_first_release(folder: Path, head: Eagle1Checkpoint, table: Tensor) -> None:
    """SafeAILab's first files: a pickle in float32 with a copy of the embedding; no key tells of ``fc``'s bias."""
    tensors = {name: tensor.float() for name, tensor in _numbered(head.tensors).items()}
    _write(folder, _llama(head.config), tensors | {"embed_tokens.weight": table.float()}, "pytorch_model.bin")


def as_eagle1_safetensors(folder: Path, head: Eagle1Checkpoint, _table: Tensor) -> None:
    _write(folder, _llama(head.config, bias=True), _numbered(head.tensors), "model.safetensors")


def as_eagle1_for_vllm(folder: Path, head: Eagle1Checkpoint, table: Tensor) -> None:
    """A converted copy: the real config under ``model``."""
    nested = {"architectures": ["EAGLEModel"], "model_type": "eagle", "model": _llama(head.config)}
    _write(folder, nested, _numbered(head.tensors) | {"embed_tokens.weight": table}, "model.safetensors")


# --------------------------------------------------------------------------- EAGLE-3


def as_safeailab(folder: Path, head: Eagle3Checkpoint, _table: Tensor) -> None:
    config = _draft(head) | {TAPS_AS_INPUTS: list(head.config.taps)}
    _write(folder, config, dict(head.tensors), "pytorch_model.bin")


def as_safeailab_safetensors(folder: Path, head: Eagle3Checkpoint, table: Tensor) -> None:
    config = _draft(head) | {TAPS_AS_INPUTS: list(head.config.taps)}
    tensors = dict(head.tensors) | {"embed_tokens.weight": table.half()}
    _write(folder, config, tensors, "model.safetensors")


def _output_ids(head: Eagle3Checkpoint) -> dict[str, Any]:
    return {TAPS_AS_INPUTS: [tap - 1 for tap in head.config.taps]}


def as_angelslim(folder: Path, head: Eagle3Checkpoint, _table: Tensor, file: str = "model.safetensors") -> None:
    named = {"architectures": ["Eagle3LlamaForCausalLM"], "tie_word_embeddings": True}
    _write(folder, _draft(head, eagle_config=_output_ids(head), **named), dict(head.tensors), file)


def as_angelslim_bin(folder: Path, head: Eagle3Checkpoint, table: Tensor) -> None:
    as_angelslim(folder, head, table, "pytorch_model.bin")


def as_modelopt(folder: Path, head: Eagle3Checkpoint, _table: Tensor) -> None:
    nested = _output_ids(head) | {"use_aux_hidden_state": True}
    tensors = {name: tensor for name, tensor in _numbered(head.tensors).items() if name != "t2d"}
    config = _draft(head, architectures=["LlamaForCausalLMEagle3"], eagle_config=nested)
    _write(folder, config, tensors, "model.safetensors")


def as_speculators(folder: Path, head: Eagle3Checkpoint, table: Tensor, **more: Any) -> None:
    """``more`` goes into the config; a value of None leaves the key out."""
    config = {
        "architectures": ["Eagle3DraftModel"],
        "speculators_model_type": "eagle3",
        "draft_vocab_size": head.config.draft_vocab_size,
        "norm_before_residual": head.config.norm_before_residual,
        TAPS_AS_INPUTS: list(head.config.taps),
        "transformer_layer_config": _llama(
            head.config, model_type="qwen3" if head.config.qk_norm else "llama", head_dim=head.config.head_dim
        ),
    } | more
    config = {key: value for key, value in config.items() if value is not None}
    tensors = _numbered(head.tensors) | {"embed_tokens.weight": table.half()}
    _write(folder, config, tensors, "model.safetensors")


def as_speculators_with_norms(folder: Path, head: Eagle3Checkpoint, table: Tensor) -> None:
    """EAGLE-3.1: the config names every norm that it has."""
    names = ("norm_before_fc", "fc_norm", "norm_output")
    as_speculators(folder, head, table, **{name: getattr(head.config, name) or None for name in names})


def as_speculators_with_old_names(folder: Path, head: Eagle3Checkpoint, table: Tensor) -> None:
    """The norms of the tapped states as they were called first, in the config and in the file."""
    old = ("aux_norm_low", "aux_norm_mid", "aux_norm_high")
    names = {f"fc_norm.{tap}.weight": f"{name}.weight" for tap, name in enumerate(old)}
    tensors = {names.get(name, name): tensor for name, tensor in head.tensors.items()}
    renamed = Eagle3Checkpoint(head.config, tensors, head.format)
    as_speculators(folder, renamed, table, use_aux_norm=True, norm_output=True)


def as_speculators_of_two_layers(folder: Path, head: Eagle3Checkpoint, table: Tensor) -> None:
    """The second layer adds nothing to the first one's output: its attention and MLP end in zeros."""
    config = head.config
    wide, hidden, queries, keys = config.intermediate_size, config.hidden_size, config.query_size, config.kv_size
    generator = torch.Generator().manual_seed(2)

    def drawn(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator).half()

    second = {
        "self_attn.q_proj": drawn(queries, hidden),
        "self_attn.k_proj": drawn(keys, hidden),
        "self_attn.v_proj": drawn(keys, hidden),
        "self_attn.o_proj": torch.zeros(hidden, queries).half(),
        "mlp.gate_proj": drawn(wide, hidden),
        "mlp.up_proj": drawn(wide, hidden),
        "mlp.down_proj": torch.zeros(hidden, wide).half(),
        "input_layernorm": drawn(hidden),
        "post_attention_layernorm": drawn(hidden),
    }
    tensors = _numbered(head.tensors) | {f"layers.1.{name}.weight": tensor for name, tensor in second.items()}
    nested = _llama(config, num_hidden_layers=2, head_dim=config.head_dim)
    both = Eagle3Checkpoint(config, tensors, head.format)
    as_speculators(folder, both, table, transformer_layer_config=nested)


# --------------------------------------------------------------------------- Medusa


def as_medusa(folder: Path, head: MedusaCheckpoint, _table: Tensor, file: str = "medusa_lm_head.pt") -> None:
    """Version 0.1; the published configs state fewer heads than there are."""
    config = {"medusa_num_heads": 2, "medusa_num_layers": 1, "base_model_name_or_path": "toy"}
    _write(folder, config, dict(head.tensors), file)


def as_medusa_safetensors(folder: Path, head: MedusaCheckpoint, table: Tensor) -> None:
    as_medusa(folder, head, table, "medusa_lm_head.safetensors")
