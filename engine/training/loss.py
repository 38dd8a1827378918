"""Cross-entropy of a head against the target's distribution, without keeping the scores.

Scores over the draft vocabulary are by far the largest tensor of training: 4,096
rows of 16,384 are 134 MB, once per unrolled step. The target's distribution, in
contrast, lives on a few dozen tokens. So the loss and both gradients are computed
together, a few hundred rows at a time, and the scores are thrown away.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

CHUNK = 1024
"""Rows at a time: 16 MB of scores, and few additions to the gradient of the table."""


class SparseCrossEntropy(torch.autograd.Function):
    """Sum over rows of ``weight * (logsumexp(z) - sum_k p_k z_k)`` with ``z = hidden @ table.T``."""

    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, table: Tensor, ids: Tensor, probabilities: Tensor, weights: Tensor
    ) -> Tensor:
        """``hidden [rows, h]``, ``table [draft, h]``, ``ids/probabilities [rows, k]``, ``weights [rows]``.

        Rows of ``probabilities`` sum to 1; entries without meaning have probability 0 and any valid id.
        """
        d_hidden = torch.empty_like(hidden)
        learns = ctx.needs_input_grad[1]  # the target's own table does not
        d_table = torch.zeros(table.shape if learns else (0,), dtype=torch.float32)
        loss = torch.zeros((), dtype=torch.float64)
        for start in range(0, len(hidden), CHUNK):
            part = slice(start, start + CHUNK)
            rows, scale = hidden[part], weights[part, None].float()
            z = rows @ table.T
            top = z.amax(-1, keepdim=True)
            wanted = (z.gather(1, ids[part]).float() - top.float()) * probabilities[part]
            z.sub_(top).exp_()
            total = z.sum(-1, keepdim=True).float()  # summed in float32; asking for it as dtype is ten times slower
            loss += ((total.log() - wanted.sum(-1, keepdim=True)) * scale).sum().double()
            z.mul_((scale / total).to(z.dtype))
            z.scatter_add_(1, ids[part], (-probabilities[part] * scale).to(z.dtype))
            d_hidden[part] = z @ table
            if learns:
                d_table += z.T @ rows
        ctx.save_for_backward(d_hidden, d_table.to(table.dtype))
        return loss.float()

    @staticmethod
    def backward(ctx: Any, *grad: Tensor) -> tuple[Tensor, Tensor | None, None, None, None]:
        d_hidden, d_table = ctx.saved_tensors
        return d_hidden * grad[0], d_table * grad[0] if ctx.needs_input_grad[1] else None, None, None, None


def soft_cross_entropy(hidden: Tensor, table: Tensor, ids: Tensor, probabilities: Tensor, weights: Tensor) -> Tensor:
    """See :class:`SparseCrossEntropy`."""
    loss: Tensor = SparseCrossEntropy.apply(hidden, table, ids, probabilities, weights)  # type: ignore[no-untyped-call]
    return loss
