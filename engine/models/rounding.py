"""Rounding weights to integers: by rows alone, or with a look at what flows through them.

:func:`round_with_inputs` is GPTQ (arXiv 2210.17323, algorithm 1): columns are rounded one
after the other, and what a column's rounding spoils is made good in the columns
that follow, as far as the inputs seen allow.
"""

from __future__ import annotations

import torch
from torch import Tensor

_DAMPING = 0.02
"""Share of the mean input power added to every channel, against over-fitting the sample."""
_BLOCK = 64


def row_scales(weight: Tensor, levels: int) -> Tensor:
    """Scale of each row [out, 1] for integers up to ``levels``: of a few fractions of the
    row's peak, the one with the least squared error."""
    peak = weight.abs().amax(1, keepdim=True).clamp_min(1e-12)
    best_scale = peak / levels
    best_error = torch.full_like(peak, float("inf"))
    for fraction in (1.0, 0.95, 0.9, 0.85, 0.8):
        scale = peak * (fraction / levels)
        error = (weight - (weight / scale).round_().clamp_(-levels, levels) * scale).square_().sum(1, True)
        better = error < best_error
        best_error = torch.where(better, error, best_error)
        best_scale = torch.where(better, scale, best_scale)
    return best_scale


def quantise_rows(weight: Tensor, levels: int) -> tuple[Tensor, Tensor]:
    """``weight`` [out, in] as (int8 [out, in], scale [out]), each entry to its nearest step."""
    scale = row_scales(weight, levels)
    return (weight / scale).round_().clamp_(-levels, levels).to(torch.int8), scale.squeeze(1)


def round_with_inputs(weight: Tensor, inputs: Tensor, levels: int) -> tuple[Tensor, Tensor]:
    """As :func:`quantise_rows`, keeping ``inputs @ weight.T`` rather than ``weight``.

    ``inputs`` [rows, in] is a sample of what the layer sees.
    """
    scale = row_scales(weight, levels)
    power = inputs.T @ inputs
    mean = power.diagonal().mean().clamp_min(1e-12)
    power.diagonal().add_(_DAMPING * mean)
    inverse = torch.cholesky_inverse(torch.linalg.cholesky(power))
    spread = torch.linalg.cholesky(inverse, upper=True)
    left = weight.T.contiguous()  # [in, out]: a column of the weight is a row here
    divisor = scale.squeeze(1)
    quantised = torch.empty(left.shape, dtype=torch.int8)
    size = left.shape[0]
    for begin in range(0, size, _BLOCK):
        end = min(begin + _BLOCK, size)
        errors = torch.empty(end - begin, left.shape[1])
        for column in range(begin, end):
            row = left[column]
            integers = (row / divisor).round_().clamp_(-levels, levels)
            quantised[column] = integers.to(torch.int8)
            error = (row - integers * divisor) / spread[column, column]
            errors[column - begin] = error
            if column + 1 < end:
                left[column + 1 : end] -= torch.outer(spread[column, column + 1 : end], error)
        if end < size:
            left[end:] -= spread[begin:end, end:].T @ errors
    return quantised.T.contiguous(), divisor
