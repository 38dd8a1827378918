"""What a pass costs on this machine: measured at load, and followed as the chat goes.

A pass of the target over more rows costs more, and how much more differs between
machines by a factor of ten: eight rows may cost as much as one or three times that.
Only the measured times decide how many nodes are worth drafting.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from engine.drafting.drafter import TreeLimits
from engine.tree import DraftTree

_RECENT = 15
"""Times of one kind that a running median looks at."""
_TRUSTED = 3
"""Fewer say nothing."""
_BELIEF = 6
"""Times that the table made at load, scaled to the present, counts for."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One step's guesses: what the drafter claimed and what came of it."""

    guesses: tuple[tuple[float, int, bool], ...]
    """(path probability, depth, whether it stood), the most probable first."""
    nodes: int
    """The limits under which it was drafted: rows, root included,"""
    depth: int
    """levels,"""
    worth: float
    """and least path probability."""
    extra: int = 0
    """Rows beside the guesses."""


@dataclass(frozen=True, slots=True)
class Timing:
    """Measured at load; see :mod:`engine.calibration`."""

    rows: tuple[tuple[int, float], ...]
    """(rows, seconds of a pass of the target), fewest rows first; starts with one row."""
    draft: Mapping[str, tuple[float, float]]
    """Method id → seconds of a proposal: (whatever its depth, more for each level)."""
    samples: Mapping[str, tuple[Sample, ...]]
    """Method id → what came of its guesses while they were timed."""

    def seconds(self, rows: int) -> float:
        """Of a pass over ``rows``: between two measured counts on the line, beyond the last on its slope."""
        before = self.rows[0]
        for point in self.rows[1:]:
            if rows <= point[0] or point is self.rows[-1]:
                share = (rows - before[0]) / (point[0] - before[0])
                return before[1] + share * (point[1] - before[1])
            before = point
        return before[1]


class Clock:
    """Running medians over the table: a machine gets warm, a context grows, another program starts."""

    def __init__(self, timing: Timing, method: str) -> None:
        self._timing = timing
        self._passes: dict[int, deque[float]] = {}
        self._drafts: dict[int, deque[float]] = {}
        self._base, self._level = timing.draft.get(method, (0.0, 0.0))
        self._ratios: dict[int, tuple[int, float]] = {}
        """Rows → (times seen, what they took over what the table says)."""
        self._drift = 1.0
        self.since_plain = 0
        """Passes since the last one over a single row."""

    def saw_pass(self, rows: int, seconds: float) -> None:
        self._passes.setdefault(rows, deque(maxlen=_RECENT)).append(seconds)
        self.since_plain = 0 if rows == 1 else self.since_plain + 1
        self._ratios = {
            n: (len(times), median(times) / self._timing.seconds(n))
            for n, times in self._passes.items()
            if len(times) >= _TRUSTED
        }
        if self._ratios:
            weight = sum(count for count, _ in self._ratios.values())
            self._drift = sum(count * ratio for count, ratio in self._ratios.values()) / weight

    def saw_draft(self, levels: int, seconds: float) -> None:
        self._drafts.setdefault(levels, deque(maxlen=_RECENT)).append(seconds)
        points = {n: median(times) for n, times in self._drafts.items() if len(times) >= _TRUSTED}
        if points:
            self._base, self._level = _line(points, self._level)

    def passing(self, rows: int) -> float:
        """Seconds of a pass over ``rows`` as things stand."""
        count, ratio = self._ratios.get(rows, (0, 0.0))
        share = count / (count + _BELIEF)
        return self._timing.seconds(rows) * (share * ratio + (1 - share) * self._drift)

    def drafting(self, levels: int) -> float:
        """Seconds of a proposal of ``levels`` levels."""
        return max(0.0, self._base + self._level * levels)


def _line(points: Mapping[int, float], slope: float) -> tuple[float, float]:
    """(base, per level) through medians by level: least squares, or the slope known before where
    all of them are of one level."""
    count = len(points)
    mean_x = sum(points) / count
    mean_y = sum(points.values()) / count
    spread = sum((x - mean_x) ** 2 for x in points)
    if spread:
        slope = max(0.0, sum((x - mean_x) * (y - mean_y) for x, y in points.items()) / spread)
    return mean_y - slope * mean_x, slope


def sample_of(tree: DraftTree | None, path: Sequence[int], limits: TreeLimits) -> Sample:
    """What came of a step's tree, drafted under ``limits``; None where there was nothing to guess."""
    if tree is None:
        return Sample((), limits.nodes, limits.depth, limits.worth)
    stood = frozenset(path)
    guesses = [
        (tree.path_probabilities[node], tree.depths[node], node in stood) for node in range(1, tree.guesses)
    ]
    guesses.sort(key=lambda guess: -guess[0])  # stable: among equals, parents stay first
    return Sample(tuple(guesses), limits.nodes, limits.depth, limits.worth, tree.window)
