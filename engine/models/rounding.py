"""Rounding a weight matrix to integers, one scale per row."""

from __future__ import annotations

import torch
from torch import Tensor


def quantise_rows(weight: Tensor, levels: int) -> tuple[Tensor, Tensor]:
    """``weight`` [out, in] as (int8 [out, in], scale [out]), integers up to ``levels``.

    The scale of a row is the one, of a few fractions of its peak, that leaves the
    least squared error.
    """
    peak = weight.abs().amax(1, keepdim=True).clamp_min(1e-12)
    best_scale = peak / levels
    best_error = torch.full_like(peak, float("inf"))
    for fraction in (1.0, 0.95, 0.9, 0.85, 0.8):
        scale = peak * (fraction / levels)
        error = (weight - (weight / scale).round_().clamp_(-levels, levels) * scale).square_().sum(1, True)
        better = error < best_error
        best_error = torch.where(better, error, best_error)
        best_scale = torch.where(better, scale, best_scale)
    quantised = (weight / best_scale).round_().clamp_(-levels, levels).to(torch.int8)
    return quantised, best_scale.squeeze(1)
