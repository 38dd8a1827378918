"""EAGLE's dynamic draft tree (EAGLE-2, arXiv 2406.16858, section 4) on an EAGLE head of any version.

Expand level by level, keeping the best ``top_k`` nodes by path probability as the beam;
then rerank: of all candidates the ``nodes - 1`` best form the tree. Two shortcuts
leave the result unchanged, because a path's probability only falls with depth: a
beam node that is not among the best ``nodes - 1`` so far cannot have a child that is,
and when no beam node is left, drafting ends.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from engine.drafting.drafter import Drafter, TreeLimits
from engine.drafting.growth import Growth
from engine.heads.inference import EagleInference
from engine.tree import DraftTree

EXPANSION = math.log(2.0)
"""A node must be worth two rows to be expanded: a pass of the head costs about as much as that,
and a child is never likelier than its parent."""
REFRESH_ROWS = 256
"""Rows of one pass while the prompt's features go through the head."""
TREE_ROOM = 32 * 64
"""Slots behind a full context: the largest tree's nodes that are run through the head."""


class EagleDrafter(Drafter):
    """One sequence's drafting state: the head's stable cache and features not yet in it.

    The stable cache is built from true features only; what the head computes for a tree
    is written behind it and never counted in (re-using guesses makes acceptance decay
    with length).
    """

    weighs = True

    def __init__(self, head: EagleInference, max_length: int) -> None:
        self._head = head
        self._cache = head.new_cache(max_length + TREE_ROOM)
        self._pending: list[Tensor] = []
        self._pending_rows = 0

    @property
    def name(self) -> str:
        return self._head.name

    @property
    def taps(self) -> tuple[int, ...]:
        return self._head.taps

    def observe(self, features: Tensor) -> None:
        self._pending.append(features)
        self._pending_rows += features.shape[0]

    def truncate(self, length: int) -> int:
        # The pair at position i holds token i + 1, so the pair of the last kept token goes
        # too; its features are gone unless they still wait, so the target redoes it.
        known = self._cache.length + self._pending_rows
        length = min(length, known)
        kept = max(0, length - 1)
        if kept <= self._cache.length:
            self._cache.truncate(kept)
            self._pending, self._pending_rows = [], 0
            return kept
        rows = kept - self._cache.length
        self._pending = [torch.cat(self._pending)[:rows]]
        self._pending_rows = rows
        return kept

    def refresh(self, tokens: Sequence[int]) -> Tensor:
        """Take waiting features into the stable cache; the last row's output [1, hidden]."""
        if not self._pending:
            raise ValueError("nothing was observed since the last proposal")
        features = self._pending[0] if len(self._pending) == 1 else torch.cat(self._pending)
        start = self._cache.length
        if start + features.shape[0] != len(tokens) - 1:
            raise ValueError(
                f"{start + features.shape[0]} positions were observed, {len(tokens) - 1} lie before the root"
            )
        for begin in range(0, features.shape[0], REFRESH_ROWS):
            part = features[begin : begin + REFRESH_ROWS]
            first = self._cache.length
            positions = range(first, first + part.shape[0])
            following = tokens[first + 1 : first + 1 + part.shape[0]]
            states = self._head.forward(self._head.fuse(part), following, positions, self._cache)
            self._cache.keep(part.shape[0])
        self._pending, self._pending_rows = [], 0
        return states[-1:]

    def begin(self, tokens: Sequence[int], rows: int = 0) -> Growth:
        """A tree of the root alone, ready to grow by up to ``rows`` more nodes run through the head."""
        output = self.refresh(tokens)
        # Growing the cache later would forget what this tree has written behind its length.
        self._cache.reserve(rows)
        return Growth(self._head, self._cache, tokens, output)

    def propose(self, tokens: Sequence[int], limits: TreeLimits) -> DraftTree:
        growth = self.begin(tokens, (limits.depth - 1) * limits.top_k)
        scores, wanted = growth.scores, limits.nodes - 1
        sure = math.log(limits.threshold) if limits.threshold > 0 else -math.inf
        floor = math.log(limits.worth) if limits.worth > 0 else -math.inf
        for level in range(1, limits.depth + 1):
            fresh = growth.branch(limits.top_k, floor)
            fresh.sort(key=lambda node: (-scores[node], node))
            bar = max(self._bar(scores, wanted), floor + EXPANSION)
            beam = [node for node in fresh[: limits.top_k] if scores[node] >= bar and growth.logs[node] >= sure]
            if not beam:
                break
            if level < limits.depth:
                growth.advance(beam)
        return growth.tree(sorted(range(1, len(scores)), key=lambda node: (-scores[node], node))[:wanted])

    @staticmethod
    def _bar(scores: Sequence[float], wanted: int) -> float:
        """The score that a node must reach to stand among the ``wanted`` best so far."""
        if len(scores) - 1 < wanted:
            return -math.inf
        return sorted(scores[1:], reverse=True)[wanted - 1]
