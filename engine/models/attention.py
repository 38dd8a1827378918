"""Attention of a few rows over one cached sequence, with any tree among the rows.

Two arithmetics behind one call. :func:`float_attention` is the textbook one.
:func:`exact_attention` works on integers held in float32, small enough that every
product and every partial sum is exact. A sum of exact integers does not depend on
its order, so a row's result does not depend on how many rows stand beside it, on
which slots its keys lie in, or on the BLAS kernel that was picked: tree decoding
equals plain decoding bit for bit, by construction rather than by luck.

Bounds (2**24 is the largest integer up to which float32 holds them all):

* queries and keys come out of an RMS norm, so their length is bounded; they are
  scaled to length <= 4080 and rounded: |q·k| <= 4088**2 < 2**24, partial sums too;
* softmax weights are rounded to 2**-13, summed exactly (in float64 where it takes it), scaled to sum to
  about 4096 and rounded again; values are rounded to 11 bits: |sum p·v| < 2**24
  for up to 8,000 keys.

Families without a norm on queries and keys get one for the grid's sake, which is undone in
the scores: each head's vector is divided by its length, and the lengths multiply the product.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

QUERY_KEY_LENGTH = 4080.0
"""Bound of |q| and |k| on the integer grid."""
VALUE_LEVELS = 2047
"""Values are integers of at most 11 bits and a sign."""
_WEIGHT_LEVELS = torch.tensor(8192.0)
_WEIGHT_SUM = torch.tensor(4096.0)
_FLOOR = -20.0
_SURE_SLOTS = 2048
"""Up to here the weights' sum is exact in float32: 2048 * 8192 = 2**24."""


@dataclass(frozen=True, slots=True)
class Visibility:
    """Which cached slots the rows of one pass see, for one kind of layer.

    ``start`` is the first slot any row sees, ``end`` one past the last; ``bias``
    [rows * heads / kv_heads, end - start] holds 0 or -inf, None when every row sees
    every slot.
    """

    start: int
    end: int
    bias: Tensor | None


def visibility(
    cached: int,
    positions: Tensor,
    tree_mask: Tensor | None,
    window: int,
    heads_per_kv: int,
    device: torch.device | None = None,
) -> Visibility:
    """Work out what rows at ``positions`` [rows] see; the bias lies on ``device``.

    ``positions`` and ``tree_mask`` come from the CPU, so that nothing waits for a GPU.

    Slots below ``cached`` hold their own position; the rows lie in the slots after
    them. ``tree_mask`` [rows, rows] is true where the column is the row itself or an
    ancestor; None means one causal run. ``window`` > 0 limits sight to that many
    positions, the row's own included: by position, never by slot, because the rows
    of a tree share slots beyond their position.
    """
    rows = positions.numel()
    end = cached + rows
    start = 0
    if window:
        start = max(0, int(positions.min()) - window + 1)
        start = min(start, cached)
    if rows == 1:
        return Visibility(start, end, None)
    if device is not None:
        positions = positions.to(device)
        tree_mask = None if tree_mask is None else tree_mask.to(device)
    if tree_mask is None:
        tree_mask = torch.ones(rows, rows, dtype=torch.bool, device=positions.device).tril_()
    seen = torch.ones(rows, end - start, dtype=torch.bool, device=positions.device)
    seen[:, cached - start :] = tree_mask
    if window:
        slots = torch.arange(start, cached, device=positions.device)
        slot_positions = torch.cat((slots, positions))
        seen &= positions[:, None] - slot_positions[None, :] < window
    bias = torch.zeros(seen.shape, device=positions.device).masked_fill_(~seen, float("-inf"))
    if heads_per_kv > 1:
        bias = bias.repeat_interleave(heads_per_kv, 0)
    return Visibility(start, end, bias)


def float_attention(query: Tensor, keys: Tensor, values: Tensor, scale: Tensor, bias: Tensor | None) -> Tensor:
    """Softmax attention. ``query`` [kv_heads, rows * group, d], ``keys``/``values``
    [kv_heads, slots, d] → [kv_heads, rows * group, d]."""
    scores = torch.matmul(query, keys.transpose(-1, -2)).mul_(scale)
    if bias is not None:
        scores += bias
    return torch.matmul(torch.softmax(scores, -1), values)


def capped_attention(
    query: Tensor, keys: Tensor, values: Tensor, scale: Tensor, bias: Tensor | None, cap: Tensor
) -> Tensor:
    """As :func:`float_attention` with scores s turned into cap · tanh(s / cap) (Gemma 2)."""
    scores = torch.matmul(query, keys.transpose(-1, -2)).float().mul_(scale)
    scores = scores.div_(cap).tanh_().mul_(cap)
    if bias is not None:
        scores += bias
    return torch.matmul(torch.softmax(scores, -1).to(values.dtype), values)


def fused_attention(
    query: Tensor, keys: Tensor, values: Tensor, scale: float, bias: Tensor | None
) -> Tensor:
    """As :func:`float_attention` in the cache's own type, by torch's fused kernels (GPU)."""
    if bias is not None:
        bias = bias.to(query.dtype)
    whole = functional.scaled_dot_product_attention(
        query[None], keys[None], values[None], attn_mask=bias, scale=scale
    )
    return whole[0]


def exact_attention(query: Tensor, keys: Tensor, values: Tensor, scale: Tensor, bias: Tensor | None) -> Tensor:
    """As :func:`float_attention` on integer-valued inputs, order-independent.

    ``scale`` turns q·k on the grid into the softmax's logits; the result is in units
    of the values' grid.
    """
    scores = torch.matmul(query, keys.transpose(-1, -2))
    if bias is not None:
        scores += bias
    scores -= scores.amax(-1, True)
    return _integer_softmax(scores.mul_(scale), values)


def exact_attention_sized(
    query: Tensor,
    keys: Tensor,
    values: Tensor,
    query_size: Tensor,
    key_size: Tensor,
    bias: Tensor | None,
    cap: Tensor | None,
) -> Tensor:
    """As :func:`exact_attention` for vectors on the grid whose true lengths come beside them.

    ``query_size`` [kv_heads, rows * group, 1] and ``key_size`` [kv_heads, 1, slots] turn
    q·k on the grid into the scores; ``cap`` as in :func:`capped_attention`.
    """
    scores = torch.matmul(query, keys.transpose(-1, -2)).mul_(query_size).mul_(key_size)
    if cap is not None:
        scores = scores.div_(cap).tanh_().mul_(cap)
    if bias is not None:
        scores += bias
    scores -= scores.amax(-1, True)
    return _integer_softmax(scores, values)


def _integer_softmax(scores: Tensor, values: Tensor) -> Tensor:
    """Weights exp(``scores``) on the integer grid, applied to ``values``; the largest score is 0."""
    # Below -20 a weight rounds to 0 anyway, and exp of less makes denormals, tens of times slower.
    weights = scores.clamp_min_(_FLOOR).exp_().mul_(_WEIGHT_LEVELS).round_()
    if weights.shape[-1] <= _SURE_SLOTS:
        total = weights.sum(-1, True)
    else:
        total = weights.sum(-1, True, dtype=torch.float64).float()
    weights = weights.mul_(_WEIGHT_SUM / total).round_()
    return torch.matmul(weights, values).div_(weights.sum(-1, True))
