"""What a decoder-only target is made of, read from a model folder's ``config.json``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.errors import ModelError
from engine.models.rope import Rope


class UnsupportedModel(ModelError):
    """The files are fine, but this decoder does not follow the architecture."""

    kind = "unsupported"


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
    """Not always ``hidden_size / num_heads``: read, never derived where it is given."""
    norm_eps: float
    max_positions: int
    attention_scale: float
    """Factor on q·k; Gemma takes it from ``query_pre_attn_scalar``."""
    rope: Rope
    """Of the full-attention layers."""
    rope_sliding: Rope
    """Of the sliding layers; Gemma 3 has a base of 10,000 there and 1,000,000 elsewhere."""
    tied_head: bool
    embedding_scale: float = 1.0
    """Gemma multiplies embeddings by sqrt(hidden_size)."""
    sliding_window: int = 0
    """Positions a sliding layer sees, its own included; 0 when there are none."""
    layer_is_sliding: tuple[bool, ...] = ()
    activation: str = "silu"
    """Of the gated MLP: ``silu`` or ``gelu_tanh``."""
    norm_offset: float = 0.0
    """Added to stored norm weights: Gemma multiplies by 1 + w."""
    qk_norm: bool = False
    """RMS norms on each head's query and key (Gemma 3, Qwen3)."""
    post_norms: bool = False
    """Further norms after attention and MLP, before the residual sum (Gemma 2 and 3)."""
    qkv_bias: bool = False
    out_bias: bool = False
    mlp_bias: bool = False
    fused_projections: bool = False
    """The checkpoint stores q, k, v in one tensor and gate, up in another (Phi-3)."""
    attention_softcap: float = 0.0
    """Scores s become cap · tanh(s / cap); 0 where there is no cap (Gemma 2)."""
    logit_softcap: float = 0.0
    experts: int = 0
    """Experts of each MLP (Mixtral); 0 for a plain MLP."""
    experts_per_token: int = 0

    @property
    def query_size(self) -> int:
        return self.num_heads * self.head_dim

    @property
    def kv_size(self) -> int:
        return self.num_kv_heads * self.head_dim

    @property
    def rope_theta(self) -> float:
        """Base of the full-attention layers."""
        return self.rope.theta

    @property
    def rope_theta_sliding(self) -> float:
        """Base of the sliding layers."""
        return self.rope_sliding.theta

    @classmethod
    def from_folder(cls, folder: Path) -> DecoderConfig:
        """Read ``folder/config.json``.

        :raises UnsupportedModel: the decoder does not follow this architecture.
        :raises ModelError: the file is missing or damaged, named with what is wrong.
        """
        return cls.from_hf(read_config(folder))

    @classmethod
    def from_hf(cls, raw: Mapping[str, Any]) -> DecoderConfig:
        """Read a transformers configuration (5.x ``rope_parameters`` or the older fields).

        :raises UnsupportedModel: see :func:`engine.models.families.read_family`.
        :raises ModelError: a field is missing or makes no sense.
        """
        from engine.models.families import read_family

        return read_family(raw)


def read_config(folder: Path) -> dict[str, Any]:
    """The content of ``folder/config.json``.

    :raises ModelError: it is missing or not a JSON object.
    """
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
    return raw
