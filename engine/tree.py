"""The draft tree: guesses of a drafter, hung under a token that is already certain.

Plain data and tensors, no model. Row 0 is the *root*, a token sampled from the target
whose keys and values do not exist until the pass that verifies the tree.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from engine.settings import Shape


@dataclass(frozen=True, slots=True)
class DraftTree:
    """Nodes in an order in which parents come before children.

    ``parents[0]`` is -1. ``probabilities[i]`` is the drafter's probability of node i
    given its parent, ``path_probabilities[i]`` the product along its path; both are 1
    for the root.
    """

    tokens: tuple[int, ...]
    parents: tuple[int, ...]
    probabilities: tuple[float, ...]
    path_probabilities: tuple[float, ...]
    shape: Shape = Shape.TREE
    window: int = 0
    """How many of the last rows are no guesses: the target computes them for the drafter's sake
    (lookahead decoding). They are never accepted, and may repeat a sibling's token."""
    draws: Mapping[int, Tensor] = field(default_factory=dict)
    """Node → the distribution [vocab] from which its children were *drawn*, one after the other
    without replacement, in the order of their rows. A node that is left out has children that
    were chosen without chance."""
    match: tuple[int, int] | None = None
    """Where guesses were copied from the sequence: the position behind an earlier occurrence of its
    last tokens, and how many of them it repeats."""
    depths: tuple[int, ...] = field(init=False)
    children: tuple[dict[int, int], ...] = field(init=False)
    """For each node, token id → child node, in the order of rows. Siblings carry distinct tokens."""

    def __post_init__(self) -> None:
        if not self.tokens or self.parents[0] != -1:
            raise ValueError("a draft tree starts with its root")
        depths = [0] * len(self.tokens)
        children: list[dict[int, int]] = [{} for _ in self.tokens]
        for node in range(1, len(self.tokens)):
            parent = self.parents[node]
            if not 0 <= parent < node:
                raise ValueError(f"node {node} comes before its parent {parent}")
            depths[node] = depths[parent] + 1
            if node >= self.guesses:
                continue
            if parent >= self.guesses:
                raise ValueError(f"node {node} hangs below the window")
            if children[parent].setdefault(self.tokens[node], node) != node:
                raise ValueError(f"node {parent} has two children with token {self.tokens[node]}")
        object.__setattr__(self, "depths", tuple(depths))
        object.__setattr__(self, "children", tuple(children))

    @classmethod
    def root_only(cls, token: int) -> DraftTree:
        """The tree of plain decoding."""
        return cls((token,), (-1,), (1.0,), (1.0,))

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def guesses(self) -> int:
        """Rows that can be accepted, root included; they come first."""
        return len(self.tokens) - self.window

    @property
    def depth(self) -> int:
        """Levels of guesses below the root."""
        return max(self.depths[: self.guesses])

    def path(self, node: int) -> list[int]:
        """Nodes from the root to ``node``, both included."""
        found = [node]
        while found[-1] > 0:
            found.append(self.parents[found[-1]])
        return found[::-1]

    def mask(self) -> Tensor:
        """[nodes, nodes] bool: true where the column is the row itself or an ancestor."""
        return ancestor_mask(self.parents)

    def positions(self, root_position: int) -> Tensor:
        """[nodes] positions: a node's depth counts, not its row."""
        return torch.tensor([root_position + depth for depth in self.depths])


def ancestor_mask(parents: Sequence[int]) -> Tensor:
    """[n, n] bool, true where the column is the row or one of its ancestors."""
    size = len(parents)
    rows: list[list[bool]] = []
    for node, parent in enumerate(parents):
        row = list(rows[parent]) if parent >= 0 else [False] * size
        row[node] = True
        rows.append(row)
    return torch.tensor(rows)
