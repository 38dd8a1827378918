"""What a pass costs on this machine: measured at load, and followed as the chat goes.

A pass of the target over more rows costs more, and how much more differs between
machines by a factor of ten: eight rows may cost as much as one or three times that.
Only the measured times decide how many nodes are worth drafting.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import log2
from statistics import median
from typing import Any

from engine.drafting.drafter import TreeLimits
from engine.drafting.tree_shapes import likelihood
from engine.tree import DraftTree

_KEPT = 15
"""Times of one count of rows, or of levels, that a running median looks at."""
_NOW = 9
"""Passes that tell how fast the machine is at present."""
ORDINARY = 16
"""Tokens that a drafter reads in a proposal without its being a matter of reading."""
DISTURBED = 0.4
"""A proposal's share of its known seconds below which these were measured in a bad moment."""
QUICK, QUICK_DRAFT = 0.8, 0.5
"""Shares of the table's seconds below which a pass, or a proposal, speaks against the table."""
MATERIAL, USUAL_LEVELS = 0.05, 5
"""Only proposals that take such a share of a plain pass are looked at; most were timed with so many levels."""
WITNESSES = 8
"""So many of them, and half of all, refute it."""
_BELIEF = 3.0
"""Times that the table made at load counts for; one row's own are believed at once."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One step's guesses: what the drafter claimed and what came of it."""

    guesses: tuple[tuple[float, int, float], ...]
    """(path probability, depth, 1 where it stood and 0 where not), in the order of :func:`sample_of`."""
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
    reading: Mapping[str, float] = field(default_factory=dict)
    """Method id → seconds of its drafter for each known token that it has to read first."""
    steady: bool = True
    """Whether the machine ran evenly meanwhile; otherwise the times are the best that could be had."""

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
    """What things cost at present, next to the table made at load.

    Two corrections are told apart. The *pace* is the whole machine's: it gets warm, another
    program starts. The *shape* is that of one count of rows against the others: a
    context has grown, or the table was measured in a bad moment. When everything slows down at
    once, drafting has not become a worse bargain.
    """

    def __init__(self, timing: Timing, method: str) -> None:
        self._timing = timing
        self._now: deque[tuple[int, float]] = deque(maxlen=_NOW)
        """(rows, seconds over the table's) of the last passes."""
        self._pace = 1.0
        self._shapes: dict[int, deque[float]] = {}
        self._kinds: dict[int, deque[float]] = {}
        """The same for counts of about the same size."""
        self._known = timing.draft.get(method, (0.0, 0.0))
        self._drafts: dict[int, dict[int, deque[float]]] = {}
        self._lines: dict[int, tuple[float, float]] = {}
        self.tuning = 0
        """Which of the method's combinations of settings drafts: each has its own costs."""
        self._reading = timing.reading.get(method, 0.0)
        self._readings: deque[float] = deque(maxlen=_NOW)
        self.plain_passes = 0
        """Passes over a single row so far."""
        self.since_plain = 0
        """Passes since the last one of these."""
        self._passes: dict[int, _Witnesses] = {rows: _Witnesses() for rows in self.measured_rows}
        self._proposals = _Witnesses()

    @property
    def refuted(self) -> bool:
        """Whether the table made at load was of a disturbed moment. What disturbs only ever adds, so passes
        and proposals that are much quicker tell. Slower ones do not: the machine may be busy now, or the
        context long."""
        return self._proposals.enough or any(each.enough for each in self._passes.values())

    @property
    def measured_rows(self) -> tuple[int, ...]:
        """Counts of rows of the table made at load."""
        return tuple(rows for rows, _ in self._timing.rows)

    @property
    def knows_drafting(self) -> bool:
        """Whether a proposal's seconds were ever measured."""
        return max(self._line()) > 0

    def saw_pass(self, rows: int, seconds: float) -> None:
        self.plain_passes += rows == 1
        self.since_plain = 0 if rows == 1 else self.since_plain + 1
        ratio = seconds / self._timing.seconds(rows)
        if rows in self._passes:  # between two counts of the table the line is only a guess
            self._passes[rows].hear(ratio < QUICK)
        # Only passes over other counts can tell what is this count's own.
        others = [other / self._shape(n) for n, other in self._now if n != rows]
        if others:
            shape = ratio / median(others)
            self._shapes.setdefault(rows, deque(maxlen=_KEPT)).append(shape)
            self._kinds.setdefault(_kind(rows), deque(maxlen=2 * _KEPT)).append(shape)
        self._now.append((rows, ratio))
        self._pace = median(other / self._shape(n) for n, other in self._now)

    def saw_draft(self, levels: int, seconds: float, unread: int = 1) -> float:
        """A proposal before which the drafter had ``unread`` tokens to read; the seconds that this took
        beyond an ordinary proposal."""
        known = self._least_known(levels)
        if unread <= ORDINARY and known > MATERIAL * self._timing.seconds(1):
            self._proposals.hear(seconds < QUICK_DRAFT * known)
        if seconds < DISTURBED * self.drafting(levels):  # hiccups only ever add: what was known came from one
            base, level = self._line()
            share = seconds / self.drafting(levels)
            self._lines[self.tuning] = base * share, level * share
        elif unread > ORDINARY:
            surplus = max(0.0, seconds - self.drafting(levels))
            self._readings.append(surplus / self._pace / unread)
            self._reading = median(self._readings)
            return surplus
        if unread > ORDINARY:
            return 0.0
        drafts = self._drafts.setdefault(self.tuning, {})
        drafts.setdefault(levels, deque(maxlen=_KEPT)).append(seconds / self._pace)
        points = {n: median(times) for n, times in drafts.items() if len(times) >= 3}
        if points:
            self._lines[self.tuning] = _line(points, self._line()[1])
        return 0.0

    def reading(self, unread: int) -> float:
        """Seconds of a drafter for reading ``unread`` tokens, beyond an ordinary proposal."""
        return self._reading * unread * self._pace if unread > ORDINARY else 0.0

    def passing(self, rows: int) -> float:
        """Seconds of a pass over ``rows``."""
        return self._timing.seconds(rows) * self._shape(rows) * self._pace

    def drafting(self, levels: int) -> float:
        """Seconds of a proposal of ``levels`` levels."""
        base, level = self._line()
        return max(0.0, base + level * levels) * self._pace

    def _least_known(self, levels: int) -> float:
        """What the table says of a proposal at least: how it splits into levels and the rest is a rough guess."""
        base, level = self._known
        return min(base + level * levels, (base + level * USUAL_LEVELS) * levels / USUAL_LEVELS)

    def _line(self) -> tuple[float, float]:
        """(base, per level) seconds of a proposal at the table's pace."""
        return self._lines.get(self.tuning, self._known)

    def _shape(self, rows: int) -> float:
        """From the table to what counts of about this size cost, and from that to this very count."""
        kind = _kind(rows)
        near = self._kinds.get(kind)
        if near is None and rows > 1:  # never run: like the nearest ones that were
            nearest = min((k for k in self._kinds if k), key=lambda k: abs(k - kind), default=None)
            near = self._kinds[nearest] if nearest is not None else None
        coarse = _shrunk(near, 1.0, 1.0 if rows == 1 else _BELIEF)
        return _shrunk(self._shapes.get(rows), coarse, _BELIEF) if rows > 1 else coarse


class _Witnesses:
    """Counts what speaks against the table, out of all that was heard."""

    def __init__(self) -> None:
        self._against = self._heard = 0

    def hear(self, against: bool) -> None:
        self._against += against
        self._heard += 1

    @property
    def enough(self) -> bool:
        return self._against >= WITNESSES and 2 * self._against >= self._heard


def _kind(rows: int) -> int:
    """Counts of rows that differ by less than two fifths or so; a single row is a kind of its own."""
    return round(2 * log2(rows))


def _shrunk(found: Sequence[float] | None, known: float, belief: float) -> float:
    """The median of what was found, and what was known before as ``belief`` more of them."""
    return (len(found) * median(found) + belief * known) / (len(found) + belief) if found else known


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


def sample_of(tree: DraftTree | None, path: Sequence[int], limits: TreeLimits, weighs: bool = True) -> Sample:
    """What came of a step's tree, drafted under ``limits``; None where there was nothing to guess.

    The guesses are put in the order in which smaller limits would have let them in: the likeliest
    first where the drafter ``weighs`` them, else by their place in a tree of fixed shape.
    """
    if tree is None:
        return Sample((), limits.nodes, limits.depth, limits.worth)
    stood = frozenset(path)
    nodes = range(1, tree.guesses)
    if weighs:  # stable: among equals, parents stay first
        order = sorted(nodes, key=lambda node: -tree.path_probabilities[node])
    else:
        ranks: list[tuple[int, ...]] = [()]
        children = [0] * tree.guesses
        for node in nodes:
            parent = tree.parents[node]
            ranks.append((*ranks[parent], children[parent]))
            children[parent] += 1
        order = sorted(nodes, key=lambda node: (-likelihood(ranks[node]), ranks[node]))
    guesses = tuple(
        (tree.path_probabilities[node], tree.depths[node], float(node in stood)) for node in order
    )
    return Sample(guesses, limits.nodes, limits.depth, limits.worth, tree.window)


def sample_from(raw: Mapping[str, Any]) -> Sample:
    """A sample as JSON holds it. Raises KeyError, TypeError or ValueError for what is none."""
    guesses = tuple((float(p), int(depth), float(stood)) for p, depth, stood in raw["guesses"])
    if not all(0 <= p <= 1 and 0 <= stood <= 1 and depth > 0 for p, depth, stood in guesses):
        raise ValueError("no guesses")
    return Sample(guesses, int(raw["nodes"]), int(raw["depth"]), float(raw["worth"]), int(raw["extra"]))
