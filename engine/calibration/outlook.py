"""What a size of the draft tree would bring: recent guesses, looked at again under other limits.

A smaller tree would have held the first of the same guesses. What they would have
brought is the chance that such a guess stands, which is counted from all recent guesses
by claimed probability and by depth: a few dozen steps know that much better than
which of their own few guesses stood.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.calibration.timing import Clock, Sample
from engine.drafting.drafter import TreeLimits

WINDOW = 160
"""Steps that are remembered."""
SUPPORT = 6
"""Steps that must speak for a size before it is chosen."""
MOST_NODES = 64
MOST_DEPTH = 12
_EDGES = np.array((0.01, 0.03, 0.06, 0.1, 0.15, 0.22, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.97))
_BELIEF = 4.0
"""Guesses that the coarser estimate counts for."""

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Outlook:
    """What a choice promises."""

    limits: TreeLimits
    tokens: float
    """Per step."""
    seconds: float
    """Per step."""
    gain: float
    """Tokens a second over those of plain decoding."""
    steps: int
    """How many remembered steps speak for it."""


class Memory:
    """The recent steps' samples."""

    def __init__(self, samples: Iterable[Sample] = ()) -> None:
        self._samples: deque[Sample] = deque(samples, maxlen=WINDOW)

    def __len__(self) -> int:
        return len(self._samples)

    def add(self, sample: Sample) -> None:
        self._samples.append(sample)

    def last(self, count: int) -> tuple[Sample, ...]:
        return tuple(self._samples)[-count:]

    def view(self, clock: Clock) -> View:
        """The present state, to ask about many limits."""
        return View(list(self._samples), clock)


class View:
    """Samples as arrays, one row a step and one column a guess, in the samples' order."""

    def __init__(self, samples: list[Sample], clock: Clock) -> None:
        width = max((len(sample.guesses) for sample in samples), default=0) + 1
        shape = (len(samples), width)
        self._claimed = np.zeros(shape)
        self._depth = np.zeros(shape, dtype=np.int64)
        stood = np.zeros(shape)
        for row, sample in enumerate(samples):
            for column, (probability, depth, right) in enumerate(sample.guesses):
                self._claimed[row, column] = probability
                self._depth[row, column] = min(depth, MOST_DEPTH)
                stood[row, column] = right
        self._chance = _chances(self._claimed, self._depth, stood)
        self._extra = np.array([sample.extra for sample in samples], dtype=np.int64)
        self._nodes = np.array([sample.nodes for sample in samples])
        self._full = np.array([len(sample.guesses) >= sample.nodes - 1 for sample in samples], dtype=bool)
        self._levels = np.array([sample.depth for sample in samples])
        self._reached = self._depth.max(axis=1, initial=0)
        self._worth = np.array([sample.worth for sample in samples])
        most = width + int(self._extra.max(initial=0))
        self._plain = clock.passing(1)
        self._passing = _rising(clock.passing, most + 1)
        self._drafting = np.array([clock.drafting(level) for level in range(MOST_DEPTH + 1)])
        self._steps = np.arange(len(samples))
        self._prefixes: dict[int, tuple[Floats, Floats, NDArray[np.int64]]] = {}

    def __len__(self) -> int:
        """Steps."""
        return len(self._steps)

    def acceptance(self, limits: TreeLimits) -> tuple[float, ...]:
        """The chance that a step under ``limits`` accepts at least 1, 2, … guesses; empty where nothing
        tells. At most one guess of a level stands, so the chances of its guesses add up."""
        able = self._covered([limits])[0]
        if not able.any():
            return ()
        most = min(limits.depth, MOST_DEPTH)
        inside = (self._depth > 0) & (self._depth <= most) & (self._claimed > limits.worth)
        inside &= (np.cumsum(inside, axis=1) < limits.nodes) & able[:, None]
        sums = np.bincount(self._depth[inside], weights=self._chance[inside], minlength=most + 1)[1:]
        chances = np.minimum.accumulate(np.minimum(1.0, sums / able.sum()))
        return tuple(float(chance) for chance in chances if chance > 0)

    def outlook(self, limits: TreeLimits, present: TreeLimits) -> Outlook | None:
        """What ``limits`` would have brought; None where too few steps can tell."""
        return self.outlooks([limits], present)[0]

    def outlooks(self, candidates: Sequence[TreeLimits], present: TreeLimits) -> list[Outlook | None]:
        """What each of these would have brought, None where too few steps can tell.

        Steps that speak for a larger tree are fewer, so it is compared with the present sizes
        over these steps alone, and their ratio applied to the present sizes' own outlook.
        """
        able = self._covered(candidates)
        tokens, seconds = self._each(candidates)
        here = self._covered([present])
        at_present = np.concatenate(self._each([present]))
        whole_tokens, whole_seconds = (at_present * here).sum(1)
        counts = able.sum(1)
        both = able & here
        shared = both.sum(1)
        found: list[Outlook | None] = []
        sums = (tokens * able).sum(1), (seconds * able).sum(1)
        ours = (tokens * both).sum(1), (seconds * both).sum(1)
        theirs = at_present @ both.T.astype(np.float64)
        for place, limits in enumerate(candidates):
            count = int(counts[place])
            if count < SUPPORT:
                found.append(None)
                continue
            rate = sums[0][place] / sums[1][place]
            if limits != present and count < here.sum():
                if shared[place] < SUPPORT:
                    found.append(None)
                    continue
                rate = (
                    (ours[0][place] / ours[1][place])
                    * (whole_tokens / whole_seconds)
                    / (theirs[0, place] / theirs[1, place])
                )
            mean = float(sums[0][place] / count), float(sums[1][place] / count)
            found.append(Outlook(limits, *mean, float(rate * self._plain), count))
        return found

    def _covered(self, candidates: Sequence[TreeLimits]) -> NDArray[np.bool_]:
        """[candidates, steps]: whether a step's tree held everything that the limits would have let in."""
        nodes, depth = (np.array([[getattr(c, name)] for c in candidates]) for name in ("nodes", "depth"))
        worth = np.array([[c.worth] for c in candidates])
        wide = (self._nodes >= nodes) | ~self._full
        deep = (self._levels >= depth) | (self._reached < self._levels)
        covered: NDArray[np.bool_] = wide & deep & (self._worth <= worth)
        return covered

    def _each(self, candidates: Sequence[TreeLimits]) -> tuple[Floats, Floats]:
        """(tokens, seconds) that each step would have had, [candidates, steps] each."""
        shape = (len(candidates), len(self._steps))
        tokens, seconds = np.zeros(shape), np.zeros(shape)
        counts: dict[tuple[int, float], NDArray[np.int64]] = {}
        for depth in {min(limits.depth, MOST_DEPTH) for limits in candidates}:
            claimed, chances, levels = self._prefix(depth)
            rows = [place for place, c in enumerate(candidates) if min(c.depth, MOST_DEPTH) == depth]
            for worth in {candidates[place].worth for place in rows}:
                counts[depth, worth] = (claimed > worth).sum(1)
            kept = np.stack(
                [
                    np.minimum(counts[depth, candidates[place].worth], candidates[place].nodes - 1)
                    for place in rows
                ]
            )
            tokens[rows] = 1 + chances[self._steps, kept]
            # The drafter runs even where nothing that it finds is worth a row.
            drafting = self._drafting[np.maximum(1, levels[self._steps, kept])]
            seconds[rows] = self._passing[1 + kept + self._extra] + drafting
        return tokens, seconds

    def _prefix(self, depth: int) -> tuple[Floats, Floats, NDArray[np.int64]]:
        """Without guesses below ``depth``: claimed probabilities [steps, guesses], and for the first
        k = 0, 1, … guesses the sum of their chances and their deepest level [steps, guesses + 1]."""
        if depth not in self._prefixes:
            inside = (self._depth > 0) & (self._depth <= depth)
            order = np.argsort(~inside, axis=1, kind="stable")
            claimed, chance, level = (
                np.take_along_axis(np.where(inside, values, 0), order, axis=1)
                for values in (self._claimed, self._chance, self._depth)
            )
            start = np.zeros((len(inside), 1))
            chances = np.concatenate((start, np.cumsum(chance, axis=1)), axis=1)
            levels = np.concatenate((start.astype(np.int64), np.maximum.accumulate(level, axis=1)), axis=1)
            self._prefixes[depth] = claimed, chances, levels
        return self._prefixes[depth]


def _chances(claimed: Floats, depth: NDArray[np.int64], stood: Floats) -> Floats:
    """How likely each guess stood, from how guesses like it fared. Same shape as ``claimed``."""
    there = depth > 0
    bucket = np.digitize(claimed, _EDGES)
    size = len(_EDGES) + 1
    count, right, claims = (
        np.bincount(bucket[there], weights=weights[there], minlength=size)
        for weights in (np.ones_like(claimed), stood, claimed)
    )
    # From the drafter's own word to its bucket, and from that to bucket and depth.
    believed = np.divide(claims, count, out=np.zeros(size), where=count > 0)
    coarse = (right + _BELIEF * believed) / (count + _BELIEF)
    cell = bucket * (MOST_DEPTH + 1) + depth
    cells = size * (MOST_DEPTH + 1)
    fine_count = np.bincount(cell[there], minlength=cells)
    fine_right = np.bincount(cell[there], weights=stood[there], minlength=cells)
    fine = (fine_right + _BELIEF * np.repeat(coarse, MOST_DEPTH + 1)) / (fine_count + _BELIEF)
    chances: Floats = np.where(there, fine[cell], 0.0)
    return chances


def _rising(passing: Callable[[int], float], most: int) -> Floats:
    """Seconds by rows up to ``most``, never falling: what looks so is noise."""
    return np.maximum.accumulate(np.array([passing(max(1, rows)) for rows in range(most + 1)]))
