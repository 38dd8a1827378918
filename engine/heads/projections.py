"""How a head's matrices are held: a choice of the machine, not of the head."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

from engine.models.linear import DenseLinear, Linear, RowwiseInt8Linear, body_weight_levels
from engine.models.rounding import quantise_rows


class MakeLinear(Protocol):
    def __call__(self, weight: Tensor, bias: Tensor | None = None, *, fine: bool = False) -> Linear:
        """A linear of ``weight`` [out, in] and ``bias`` [out]; ``fine`` asks for more exact activations."""
        ...


def int8_linear(weight: Tensor, bias: Tensor | None = None, *, fine: bool = False) -> Linear:
    """Row-wise int8, for CPUs."""
    return RowwiseInt8Linear(*quantise_rows(weight, body_weight_levels()), bias, fine=fine)


def dense_linear(weight: Tensor, bias: Tensor | None = None, *, fine: bool = False) -> Linear:
    """Float32 as it comes; the reference."""
    return DenseLinear(weight, bias)


def placed_linear(device: torch.device, dtype: torch.dtype) -> MakeLinear:
    """Floats of ``dtype`` on ``device``, for GPUs: a head is small beside its target, and in 16 bits it drafts best."""

    def make(weight: Tensor, bias: Tensor | None = None, *, fine: bool = False) -> Linear:
        return DenseLinear(weight.to(device, dtype), None if bias is None else bias.to(device))

    return make


class FusionLinear:
    """The matrix that takes in the target's states, whose columns differ in size.

    A few columns of those states are hundreds of times larger than the rest. A row's
    int8 step would follow them, so the columns' sizes move from the weights to the states.
    """

    def __init__(
        self, weight: Tensor, bias: Tensor | None, make_linear: MakeLinear, device: torch.device
    ) -> None:
        columns = weight.abs().amax(0).clamp_min(1e-12)
        self._linear = make_linear(weight / columns, bias, fine=True)
        self._columns = columns.to(device)

    def __call__(self, states: Tensor) -> Tensor:
        """[rows, in] → [rows, out]"""
        return self._linear(states * self._columns)

    def memory_bytes(self) -> int:
        return self._linear.memory_bytes()
