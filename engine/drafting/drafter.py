"""What every drafter offers the generation loop."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from engine.tree import DraftTree


@dataclass(frozen=True, slots=True)
class TreeLimits:
    nodes: int
    """Rows of a verify pass, root included."""
    depth: int
    """Levels below the root."""
    top_k: int
    """Children considered per node, and nodes expanded per level."""


class Drafter(Protocol):
    """Proposes a tree from what the target has verified.

    The loop tells it of every verified position through :meth:`observe`, also while
    drafting is switched off, so that it can be switched on at any step.
    """

    @property
    def name(self) -> str: ...

    @property
    def taps(self) -> tuple[int, ...]:
        """Hidden states of the target that :meth:`observe` wants (layer inputs)."""
        ...

    def observe(self, features: Tensor) -> None:
        """Features [rows, taps * hidden] of the next verified positions, in order."""
        ...

    def truncate(self, length: int) -> int:
        """Forget positions from ``length`` on; returns how many of the target's
        positions may be kept so that nothing is missing (at most ``length``)."""
        ...

    def propose(self, tokens: Sequence[int], limits: TreeLimits) -> DraftTree:
        """A tree under ``tokens[-1]``, the root; ``tokens`` are all known tokens, and
        every position before the root has been observed."""
        ...
