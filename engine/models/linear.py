"""Linear layers by weight format, behind one call.

A layer is called with its input and, where a norm stands before it, that norm's
row factors: ``linear(x, row_scale)`` equals ``(x * row_scale) @ W.T``. Passing the
factor along spares the row-wise int8 format one small operation a layer, and small
operations are what a step on a CPU is made of.
"""

from __future__ import annotations

import functools
import warnings
from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional

_ACTIVATION_LEVELS = 127
"""8-bit activations, symmetric around the zero point 128."""
_LEVELS, _TWO, _REST = torch.tensor(127.0), torch.tensor(2.0), torch.tensor(0.5 / 127)
# Tensors of no dimensions: multiplying by one takes a third of the time of a Python number.
SAFE_WEIGHT_LEVELS = 63
"""7-bit weights: without VNNI, fbgemm adds pairs of u8·s8 products in 16 bits and saturates
beyond 2 · 255 · 63."""
FULL_WEIGHT_LEVELS = 127
"""8-bit weights, where pairs are added in 32 bits."""
HEAD_WEIGHT_LEVELS = 127
"""The output head stands 8-bit weights (its pairs rarely come near the limit)."""


class Linear(Protocol):
    out_features: int
    in_features: int

    def __call__(self, x: Tensor, row_scale: Tensor | None = None) -> Tensor:
        """``x`` [rows, in], ``row_scale`` [rows, 1] or None → [rows, out] float32."""
        ...

    def memory_bytes(self) -> int: ...


_HALF_PEAK = 8.0
"""Rows in float16 are scaled down to less than twice this: their products stay finite (65,504) as long as
the magnitudes of no output's weights add up to 4,000, ten times what those of large models do."""
_EXPONENT = 0x7F80_0000
"""The exponent's bits of a float32: without the others, the power of two below a number."""


def narrowed(x: Tensor, row_scale: Tensor | None, dtype: torch.dtype) -> tuple[Tensor, Tensor | None]:
    """``x`` times ``row_scale`` in ``dtype``, ready for a product, and what multiplies the product [rows, 1].

    The second is None but in float16, whose range ends where some states of Gemma and Qwen2 begin. Their
    rows are scaled by powers of two, which is exact; rows of ordinary size stay as they are.
    """
    if row_scale is not None:
        x = x * row_scale
    if dtype != torch.float16:
        return x.to(dtype), None
    power = x.float().abs().amax(-1, True).view(torch.int32).bitwise_and_(_EXPONENT).view(torch.float32)
    up = power.div_(_HALF_PEAK).clamp_min_(1.0)
    return (x / up).to(dtype), up


def widened(out: Tensor, up: Tensor | None, bias: Tensor | None) -> Tensor:
    """The product of what :func:`narrowed` gave, in float32; with ``up`` the bias is still to be added."""
    out = out.float()
    if up is None:
        return out
    out = out * up
    return out if bias is None else out.add_(bias)


class DenseLinear:
    """Float weights of any float type; the reference format."""

    def __init__(self, weight: Tensor, bias: Tensor | None = None) -> None:
        """``weight`` [out, in]; ``bias`` [out] is kept in the weight's type."""
        self.weight = weight
        self.bias = None if bias is None else bias.to(weight.dtype)
        self.out_features, self.in_features = weight.shape

    def __call__(self, x: Tensor, row_scale: Tensor | None = None) -> Tensor:
        x, up = narrowed(x, row_scale, self.weight.dtype)
        return widened(functional.linear(x, self.weight, self.bias if up is None else None), up, self.bias)

    def memory_bytes(self) -> int:
        return self.weight.numel() * self.weight.element_size()


class RowwiseInt8Linear:
    """Symmetric int8 weights, one scale per output channel; activations quantised row by row.

    Integer accumulation makes every row's result independent of the rows beside it,
    bit for bit: the ground on which tree decoding equals plain decoding on a CPU.
    """

    def __init__(
        self, weight: Tensor, scale: Tensor, bias: Tensor | None = None, *, fine: bool = False
    ) -> None:
        """``weight`` [out, in] int8, ``scale`` [out] float32: W ≈ weight * scale[:, None].
        ``bias`` [out] float32.

        ``fine`` runs every row twice, rounded and then what the rounding left over, which
        makes 16-bit activations of 8-bit ones. A row more costs far less than a row.
        """
        self.out_features, self.in_features = weight.shape
        self._fine = fine
        self._bias = bias
        with warnings.catch_warnings():
            # The op belongs to torch's older quantisation API, whose replacement has no
            # batch-invariant CPU kernel; this module is the only place that touches it.
            warnings.simplefilter("ignore", UserWarning)
            torch.backends.quantized.engine = "fbgemm"
            packed_input = torch._make_per_channel_quantized_tensor(
                weight.contiguous(),
                scale.double(),
                torch.zeros(self.out_features, dtype=torch.long),
                0,
            )
            self._packed = torch.ops.quantized.linear_prepack(packed_input, None)
        self._call = torch.ops.quantized.linear_with_input_q_dq_qweight_dq_output_fp32.default

    def __call__(self, x: Tensor, row_scale: Tensor | None = None) -> Tensor:
        unit, peak = unit_rows(x)
        if self._fine:
            steps = unit * _LEVELS
            rest = steps.sub_(steps.round()).mul_(_TWO)  # within -1 and 1
            both = self.unit_call(torch.cat((unit, rest)))
            out = both[: x.shape[0]] + both[x.shape[0] :].mul_(_REST)
        else:
            out = self.unit_call(unit)
        out.mul_(peak if row_scale is None else peak * row_scale)
        return out if self._bias is None else out.add_(self._bias)

    def unit_call(self, unit: Tensor) -> Tensor:
        """The product for rows whose largest magnitude is 1. [rows, in] → [rows, out]"""
        out: Tensor = self._call(unit, 1.0 / _ACTIVATION_LEVELS, 128, self._packed)
        return out

    def memory_bytes(self) -> int:
        return self.out_features * (self.in_features + 4)


@functools.cache
def body_weight_levels() -> int:
    """The weight range that this processor adds up exactly, measured on the worst case."""
    worst = RowwiseInt8Linear(torch.full((16, 64), FULL_WEIGHT_LEVELS, dtype=torch.int8), torch.ones(16))
    exact = bool((worst.unit_call(torch.ones(1, 64)) == FULL_WEIGHT_LEVELS * 64).all())
    return FULL_WEIGHT_LEVELS if exact else SAFE_WEIGHT_LEVELS


def unit_rows(x: Tensor) -> tuple[Tensor, Tensor]:
    """Rows divided by their largest magnitude, and that magnitude [rows, 1]."""
    peak = x.abs().amax(-1, True).clamp_min_(1e-30)
    return x / peak, peak
