"""What every drafter offers the generation loop."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from torch import Tensor

from engine.sampling import Sampler
from engine.settings import SettingValue
from engine.tree import DraftTree
from engine.verification import Target, Verified, verify

Options = Mapping[str, SettingValue | None]
"""A method's settings, checked and complete; None where the engine chooses."""


@dataclass(frozen=True, slots=True)
class TreeLimits:
    nodes: int
    """Rows of a verify pass, root included."""
    depth: int
    """Levels below the root."""
    top_k: int
    """Children considered per node, and nodes expanded per level."""
    threshold: float = 0.0
    """A node whose own probability lies below this gets no children."""
    worth: float = 0.0
    """A node must be reached with a higher probability than this: what its row costs, in tokens."""
    room: int = 1 << 30
    """Positions left in the context, the root's included: bounds rows that are no guesses."""


class Drafter(ABC):
    """Proposes a tree from what the target has verified.

    The loop tells it of every verified position through :meth:`observe`, also while
    drafting is switched off, so that it can be switched on at any step. Only
    :meth:`propose` must be written.
    """

    weighs = False
    """Whether it leaves out nodes that are not worth their row (:attr:`TreeLimits.worth`)."""

    @property
    def taps(self) -> tuple[int, ...]:
        """Hidden states of the target that :meth:`observe` wants (layer inputs). None at
        all means the last layer's output, before the target's final norm."""
        return ()

    def observe(self, features: Tensor) -> None:
        """Features [rows, taps * hidden] of the next verified positions, in order."""
        return

    def truncate(self, length: int) -> int:
        """Forget positions from ``length`` on; returns how many of the target's
        positions may be kept so that nothing is missing (at most ``length``)."""
        return length

    def start(self, tokens: Sequence[int], options: Options, sampler: Sampler) -> None:
        """Called once a reply, before its first proposal, and again when options that were left open
        change. A drafter that draws its guesses takes the numbers from ``sampler.noise`` under
        ``Purpose.DRAFT``."""
        return

    @abstractmethod
    def propose(self, tokens: Sequence[int], limits: TreeLimits) -> DraftTree:
        """A tree under ``tokens[-1]``, the root; ``tokens`` are all known tokens, and
        every position before the root has been observed."""

    def accept(self, tree: DraftTree, target: Target) -> Verified:
        """Which guesses stand. Whoever overrides this gives up losslessness."""
        return verify(tree, target)

    def learn(self, tree: DraftTree, path: Sequence[int], best: Callable[[int], int]) -> None:
        """After the pass: what was accepted of the last proposal, and ``best(row)``, the
        target's most likely token after any row of it."""
        return
