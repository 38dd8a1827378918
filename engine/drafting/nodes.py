"""The nodes of a draft tree while it grows, whatever grows it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from torch import Tensor

from engine.settings import Shape
from engine.tree import DraftTree


class Nodes:
    """Nodes in order of creation, root first, so that a parent always precedes its child."""

    def __init__(self, root: int) -> None:
        self.tokens: list[int] = [root]
        self.parents: list[int] = [-1]
        self.depths: list[int] = [0]
        self.logs: list[float] = [0.0]
        """Log-probability of each node given its parent."""
        self.scores: list[float] = [0.0]
        """Log-probability of each node's whole path."""

    def add(self, parent: int, token: int, log: float) -> int:
        """A new node; returns its number."""
        self.tokens.append(token)
        self.parents.append(parent)
        self.depths.append(self.depths[parent] + 1)
        self.logs.append(log)
        self.scores.append(self.scores[parent] + log)
        return len(self.tokens) - 1

    def tree(
        self, nodes: Iterable[int], draws: Mapping[int, Tensor] | None = None, shape: Shape = Shape.TREE
    ) -> DraftTree:
        """The tree of ``nodes``; the root is always in it, and every node's parent must be.

        ``draws`` are the distributions [vocab] from which some nodes' children were drawn; all
        children of such a node must stay, since leaving some out would be a choice by their tokens.
        """
        chosen = sorted({0, *nodes})
        place = {node: index for index, node in enumerate(chosen)}
        return DraftTree(
            tokens=tuple(self.tokens[node] for node in chosen),
            parents=tuple(-1 if node == 0 else place[self.parents[node]] for node in chosen),
            probabilities=tuple(math.exp(self.logs[node]) for node in chosen),
            path_probabilities=tuple(math.exp(self.scores[node]) for node in chosen),
            shape=shape,
            draws={place[node]: q for node, q in (draws or {}).items()},
        )
