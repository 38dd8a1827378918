"""How a head's matrices are held: a choice of the machine, not of the head."""

from __future__ import annotations

from typing import Protocol

from torch import Tensor

from engine.models.linear import DenseLinear, Linear, RowwiseInt8Linear, body_weight_levels
from engine.models.rounding import quantise_rows


class MakeLinear(Protocol):
    def __call__(self, weight: Tensor, *, fine: bool = False) -> Linear:
        """A linear of ``weight`` [out, in]; ``fine`` asks for more exact activations."""
        ...


def int8_linear(weight: Tensor, *, fine: bool = False) -> Linear:
    """Row-wise int8, for CPUs."""
    return RowwiseInt8Linear(*quantise_rows(weight, body_weight_levels()), fine=fine)


def dense_linear(weight: Tensor, *, fine: bool = False) -> Linear:
    return DenseLinear(weight)
