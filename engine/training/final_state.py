"""The target's own way out: from its last layer's output to tokens.

Heads of EAGLE-1 and Medusa start where the target ends, at the state behind its final norm.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from engine.models.config import DecoderConfig
from engine.models.weights import EMBEDDING, Tensors

OUTPUT = "lm_head.weight"
FINAL_NORM = "model.norm.weight"


@dataclass(frozen=True)
class FinalState:
    norm: Tensor
    """``[hidden]`` float32, Gemma's 1 added."""
    eps: float
    table: Tensor
    """``[vocab, hidden]``: the output table."""

    @classmethod
    def load(cls, config: DecoderConfig, source: Tensors) -> FinalState:
        """Raises ModelError when ``source`` lacks a tensor."""
        table = source.get(EMBEDDING if config.tied_head else OUTPUT)
        norm = source.get(FINAL_NORM).float() + config.norm_offset
        return cls(norm, config.norm_eps, table.to(torch.bfloat16))

    def of(self, states: Tensor) -> Tensor:
        """The last layer's output ``[rows, hidden]`` → final states ``[rows, hidden]``, float32."""
        states = states.float()
        return states * torch.rsqrt(states.square().mean(-1, keepdim=True) + self.eps) * self.norm
