"""Growing a tree whose shape is fixed beforehand, with likeliest or with drawn children.

Drawn children are exact only if nothing about their number depends on which tokens come
up: the shape says how many a node gets, and all of them stay (EAGLE-1, ``Model.sample``
in eagle/model/cnets.py of SafeAILab/EAGLE, branch v1; arXiv 2401.15077, section 3.3).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol

from torch import Tensor

from engine.drafting.tree_shapes import Path, RankTree
from engine.sampling import Purpose, Sampler, draw
from engine.settings import MethodSetting, SettingKind, Shape
from engine.tree import DraftTree

DRAW = MethodSetting(
    "draw",
    "Draw the guesses",
    "At temperatures above 0, draw guesses from the drafter's own distribution, as published, and verify "
    "them by p/q. Off: try its likeliest tokens; a seed's text is then that of plain decoding.",
    SettingKind.SWITCH,
    True,
)


class Growing(Protocol):
    """A tree that grows by running a drafter on some of its nodes."""

    beam: list[int]

    def top(self, count: int) -> tuple[list[list[int]], list[list[float]]]:
        """The likeliest next tokens after each beam node, and their log-probabilities."""
        ...

    def logits(self) -> Tensor:
        """What may come after each beam node. [beam, target vocab]"""
        ...

    def add(self, parent: int, token: int, log: float) -> int: ...

    def advance(self, nodes: Sequence[int]) -> None:
        """Run the drafter on ``nodes``, children of the beam; they are the beam now."""
        ...

    def tree(self, nodes: Sequence[int], draws: dict[int, Tensor], shape: Shape) -> DraftTree: ...


def grow(
    growing: Growing, shape: RankTree, sampler: Sampler | None, root_position: int, form: Shape = Shape.TREE
) -> DraftTree:
    """The whole tree. ``sampler`` draws the children; None takes the likeliest ones."""
    paths: dict[int, Path] = {0: ()}
    draws: dict[int, Tensor] = {}
    while True:
        fresh: list[int] = []
        widths = [shape.counts.get(paths[node], 0) for node in growing.beam]
        if sampler is None:
            ids, logs = growing.top(max(widths))
        else:
            logits = growing.logits()
        for row, node in enumerate(growing.beam):
            if sampler is None:
                chosen = list(zip(ids[row], logs[row], strict=True))[: widths[row]]
            else:
                draws[node] = sampler.filtered(logits[row])
                first = len(paths)
                position = root_position + len(paths[node]) + 1
                numbers = [
                    sampler.noise.uniform(position, Purpose.DRAFT, first + rank) for rank in range(widths[row])
                ]
                chosen = draw_distinct(draws[node], numbers)
            for rank, (token, log) in enumerate(chosen):
                if log == -math.inf:
                    break
                child = growing.add(node, token, log)
                paths[child] = (*paths[node], rank)
                fresh.append(child)
        beam = [node for node in fresh if paths[node] in shape.counts]
        if not beam:
            return growing.tree(list(paths), draws, form)
        growing.advance(beam)


def draw_distinct(q: Tensor, numbers: Sequence[float]) -> list[tuple[int, float]]:
    """Tokens drawn from ``q`` [vocab] without replacement, one for each number in [0, 1), with the
    logarithm of their probability in ``q``; fewer where ``q`` allows no more."""
    left = q.clone()
    drawn: list[tuple[int, float]] = []
    for number in numbers:
        if float(left.sum()) <= 0:
            break
        token = draw(left, number)
        drawn.append((token, math.log(float(q[token]))))
        left[token] = 0
    return drawn
