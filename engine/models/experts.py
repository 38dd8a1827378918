"""A mixture of experts in place of an MLP (Mixtral, arXiv 2401.04088, section 2.1).

A router picks a few experts for every row; each expert runs on the rows that chose it. The
router's scores are computed on an integer grid in float64, exactly, so that a row chooses
the same experts whatever other rows stand beside it; a row's experts are summed in their
own order.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional

from engine.models.linear import Linear

_GRID = 2.0**20
"""Integers of 20 bits: a product of two, summed over 4,096 channels, is exact in float64 (53 bits)."""


class Router:
    """Chooses ``count`` of the experts for each row and weighs them."""

    def __init__(self, weight: Tensor, count: int) -> None:
        """``weight`` [experts, hidden]."""
        peak = weight.double().abs().amax(1, keepdim=True).clamp_min(1e-30)
        self._integers = (weight.double() / peak * _GRID).round_().T.contiguous()
        self._scale = (peak / _GRID).T
        self._count = count

    def __call__(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """``x`` [rows, hidden] → experts [rows, count] and their shares [rows, count], which sum to 1."""
        wide = x.double()
        peak = wide.abs().amax(1, keepdim=True).clamp_min(1e-30)
        scores = (wide / peak * _GRID).round_() @ self._integers
        logits = (scores * self._scale * (peak / _GRID)).float()
        share, chosen = torch.softmax(logits, -1).topk(self._count, -1)
        return chosen, share / share.sum(-1, True)

    def weight(self) -> Tensor:
        """[experts, hidden] float32, as it was given up to the grid's step."""
        return (self._integers * self._scale).T.float().contiguous()

    def memory_bytes(self) -> int:
        return self._integers.numel() * self._integers.element_size()


class Experts:
    def __init__(self, router: Router, gate_up: Sequence[Linear], down: Sequence[Linear]) -> None:
        self.router = router
        self.gate_up = tuple(gate_up)
        self.down = tuple(down)

    def __call__(self, x: Tensor) -> Tensor:
        """``x`` [rows, hidden], normed → [rows, hidden]."""
        chosen, share = self.router(x)
        out = torch.zeros_like(x)
        # One look at the choices: experts that nobody chose are not run.
        for expert, picks in enumerate(_picks(chosen, len(self.gate_up))):
            if not picks:
                continue
            rows = torch.tensor([row for row, _ in picks], device=x.device)
            places = torch.tensor([place for _, place in picks], device=x.device)
            both = self.gate_up[expert](x[rows])
            width = both.shape[1] // 2
            part = self.down[expert](functional.silu(both[:, :width]) * both[:, width:])
            out[rows] += part * share[rows, places, None]
        return out

    def memory_bytes(self) -> int:
        return self.router.memory_bytes() + sum(part.memory_bytes() for part in (*self.gate_up, *self.down))


def _picks(chosen: Tensor, experts: int) -> list[list[tuple[int, int]]]:
    """For each expert the (row, place) pairs that chose it, rows ascending."""
    found: list[list[tuple[int, int]]] = [[] for _ in range(experts)]
    for row, line in enumerate(chosen.tolist()):
        for place, expert in enumerate(line):
            found[expert].append((row, place))
    return found
