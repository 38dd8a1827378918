"""What a decoder-only target is made of, read from a model folder's ``config.json``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.errors import ModelError

SUPPORTED_MODEL_TYPES = ("gemma3_text",)


@dataclass(frozen=True, slots=True)
class DecoderConfig:
    """Shape and arithmetic of a target. Every field changes the forward pass."""

    model_type: str
    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_layers: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    """Not always ``hidden_size / num_heads``: read, never derived."""
    norm_eps: float
    max_positions: int
    attention_scale: float
    """Factor on q·k; Gemma takes it from ``query_pre_attn_scalar``."""
    embedding_scale: float
    """Gemma multiplies embeddings by sqrt(hidden_size)."""
    rope_theta: float
    """Base of the full-attention layers."""
    rope_theta_sliding: float
    """Base of the sliding layers; Gemma 3 uses 10,000 there and 1,000,000 elsewhere."""
    sliding_window: int
    """Positions a sliding layer sees, its own included; 0 when there are none."""
    layer_is_sliding: tuple[bool, ...]
    tied_head: bool

    @property
    def query_size(self) -> int:
        return self.num_heads * self.head_dim

    @property
    def kv_size(self) -> int:
        return self.num_kv_heads * self.head_dim

    @classmethod
    def from_folder(cls, folder: Path) -> DecoderConfig:
        """Read ``folder/config.json``; :class:`ModelError` names what is missing."""
        path = folder / "config.json"
        try:
            raw = json.loads(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise ModelError(
                f"{path} cannot be read: {error.strerror or error}.",
                "Check that the folder holds a whole model, or download it again.",
            ) from error
        except ValueError as error:
            raise ModelError(
                f"{path} is not valid JSON: {error}.", "Delete the model and download it again."
            ) from error
        if not isinstance(raw, dict):
            raise ModelError(f"{path} is not a JSON object.", "Delete the model and download it again.")
        return cls.from_hf(raw)

    @classmethod
    def from_hf(cls, raw: Mapping[str, Any]) -> DecoderConfig:
        """Read a transformers configuration (5.x ``rope_parameters`` or the older fields)."""
        model_type = raw.get("model_type", "")
        if model_type not in SUPPORTED_MODEL_TYPES:
            raise ModelError(
                f"The architecture “{model_type or 'unknown'}” is not supported yet.",
                f"Supported: {', '.join(SUPPORTED_MODEL_TYPES)}.",
            )
        try:
            return _gemma3(raw)
        except (KeyError, TypeError, ValueError) as error:
            raise ModelError(
                f"config.json lacks or garbles a field: {error}.",
                "Delete the model and download it again.",
            ) from error


def _gemma3(raw: Mapping[str, Any]) -> DecoderConfig:
    layers = int(raw["num_hidden_layers"])
    window = int(raw.get("sliding_window") or 0)
    kinds = raw.get("layer_types")
    if kinds is None:
        every = int(raw.get("sliding_window_pattern", 6))
        kinds = ["full_attention" if (i + 1) % every == 0 else "sliding_attention" for i in range(layers)]
    if len(kinds) != layers:
        raise ValueError(f"layer_types names {len(kinds)} layers, num_hidden_layers {layers}")
    for cap in ("attn_logit_softcapping", "final_logit_softcapping"):
        if raw.get(cap) is not None:
            raise ValueError(f"{cap} is set, which Gemma 3 does not use")
    if raw.get("hidden_activation", "gelu_pytorch_tanh") != "gelu_pytorch_tanh":
        raise ValueError(f"hidden_activation is {raw['hidden_activation']!r}")
    return DecoderConfig(
        model_type="gemma3_text",
        vocab_size=int(raw["vocab_size"]),
        hidden_size=int(raw["hidden_size"]),
        intermediate_size=int(raw["intermediate_size"]),
        num_layers=layers,
        num_heads=int(raw["num_attention_heads"]),
        num_kv_heads=int(raw["num_key_value_heads"]),
        head_dim=int(raw["head_dim"]),
        norm_eps=float(raw.get("rms_norm_eps", 1e-6)),
        max_positions=int(raw["max_position_embeddings"]),
        attention_scale=float(raw.get("query_pre_attn_scalar") or raw["head_dim"]) ** -0.5,
        embedding_scale=float(raw["hidden_size"]) ** 0.5,
        rope_theta=_rope_theta(raw, "full_attention", "rope_theta", 1_000_000.0),
        rope_theta_sliding=_rope_theta(raw, "sliding_attention", "rope_local_base_freq", 10_000.0),
        sliding_window=window,
        layer_is_sliding=tuple(kind == "sliding_attention" for kind in kinds),
        tied_head=bool(raw.get("tie_word_embeddings", True)),
    )


def _rope_theta(raw: Mapping[str, Any], kind: str, old_name: str, default: float) -> float:
    parameters = raw.get("rope_parameters") or {}
    chosen = parameters.get(kind, {})
    if chosen.get("rope_type", "default") != "default" or raw.get("rope_scaling"):
        raise ValueError(f"RoPE scaling is not supported yet ({kind})")
    return float(chosen.get("rope_theta", raw.get(old_name, default)))
