"""A draft tree while it grows on an EAGLE head: which nodes there are, and the head's pass over some of them.

The shape of the tree is decided elsewhere (:mod:`engine.drafting.eagle` keeps the likeliest
nodes; a static tree names them beforehand). A level goes like this::

    growth = drafter.begin(tokens)  # the beam is the root
    for level in range(1, depth + 1):
        fresh = growth.branch(top_k)  # children of every beam node
        growth.advance(some of fresh)  # the head runs on them; they are the beam now
    tree = growth.tree(nodes that stay)
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from engine.drafting.nodes import Nodes
from engine.heads.inference import EagleInference
from engine.models.cache import KVCache


class Growth(Nodes):
    """The nodes, and the beam: those of them on whose outputs the next level grows."""

    def __init__(
        self, head: EagleInference, cache: KVCache, tokens: Sequence[int], root_output: Tensor
    ) -> None:
        """``tokens`` are all known tokens, the root last; ``root_output`` [1, hidden] is the head's
        output at the pair that ends in the root. The cache's stable slots are left as they are."""
        super().__init__(tokens[-1])
        self._head = head
        self._cache = cache
        self._root_pair = len(tokens) - 2
        self._slots: dict[int, int] = {}  # node → its slot among this tree's keys
        self._outputs = root_output
        self.beam: list[int] = [0]
        """Nodes that the head has run on last; their children are known to it."""

    def branch(self, count: int, floor: float = -math.inf) -> list[int]:
        """Add the ``count`` likeliest children of every beam node, best first; returns them.

        Children whose path falls to ``floor`` or below are left out.
        """
        best_ids, best_logs = self.top(count)
        fresh: list[int] = []
        for row, node in enumerate(self.beam):
            for token, log in zip(best_ids[row], best_logs[row], strict=True):
                score = self.scores[node] + log
                if score <= floor or score == -math.inf:
                    break
                fresh.append(self.add(node, token, log))
        return fresh

    def top(self, count: int) -> tuple[list[list[int]], list[list[float]]]:
        """The ``count`` likeliest tokens after each beam node, best first, and their log-probabilities."""
        return self._head.best(self._outputs, count)

    def logits(self) -> Tensor:
        """What the head thinks comes after each beam node. [beam, target vocab]"""
        return self._head.logits(self._outputs).float().cpu()

    def advance(self, nodes: Sequence[int]) -> None:
        """Run the head on ``nodes``, children of the beam; a node sees its ancestors and itself."""
        source = {node: row for row, node in enumerate(self.beam)}
        # A node's input is its parent's output.
        states = self._outputs[torch.tensor([source[self.parents[node]] for node in nodes])]
        drafted = len(self._slots)
        seen = [[False] * (drafted + len(nodes)) for _ in nodes]
        for row, node in enumerate(nodes):
            self._slots[node] = drafted + row
            while node > 0:
                seen[row][self._slots[node]] = True
                node = self.parents[node]
        tokens = [self.tokens[node] for node in nodes]
        positions = [self._root_pair + self.depths[node] for node in nodes]
        self._outputs = self._head.forward(
            states, tokens, positions, self._cache, drafted, torch.tensor(seen)
        )
        self.beam = list(nodes)
