"""Everything one reply showed, step by step, kept small. No Qt.

A reply of ten thousand steps with sixty nodes each would cost hundreds of megabytes as
objects; packed (`app.tree_panel.packed`) they are some 45 bytes a node, and there is a bound on
top (`tree_bytes`).
"""

from __future__ import annotations

import copy
import math
from array import array
from bisect import bisect_left, bisect_right
from collections import deque
from dataclasses import dataclass

from app.tree_panel.packed import NodePacker
from engine.protocol import Bonus, Finished, Match, Mode, Piece, Shape, Step, StepTimes

WINDOW_SECONDS = 2.0
"""Span of the sliding window of tokens per second."""


@dataclass(frozen=True, slots=True)
class Figures:
    """Where a reply stands after one of its steps; everything counts from its beginning."""

    position: int
    """Place of the step in the history, from 0."""
    index: int
    """The step's own number; 0 is the prompt pass."""
    last_index: int
    """Number of the newest step received."""
    acceptance_length: float
    """Tau so far: tokens emitted per target pass after the prompt. 0 before the first pass."""
    tokens_per_second: float
    """Decode speed so far, prompt pass left out. 0 when there is nothing to tell."""
    recent_tokens_per_second: float
    """The same over the last `WINDOW_SECONDS` of engine time."""
    accepted: int
    drafted: int
    tokens: int
    """Tokens emitted so far, the prompt pass's included."""
    times: StepTimes
    """Of this step alone, seconds."""
    mode: Mode

    @property
    def acceptance_rate(self) -> float | None:
        return self.accepted / self.drafted if self.drafted else None


@dataclass(frozen=True, slots=True)
class DepthAcceptance:
    """How often a level of the tree was right."""

    depth: int
    """1 for the children of the root."""
    accepted: int
    """Steps whose accepted path reached this depth."""
    proposed: int
    """Steps that had a node at this depth."""

    @property
    def rate(self) -> float:
        return self.accepted / self.proposed if self.proposed else 0.0


@dataclass(frozen=True, slots=True)
class _Packed:
    pieces: tuple[Piece, ...]
    times: StepTimes
    accepted: tuple[int, ...]
    bonus: Bonus | None
    index: int
    mode: Mode
    method: str
    shape: Shape
    window: int
    """How many of the packed nodes, the last ones, are the window's."""
    notice: str
    match: Match | None


class ReplyHistory:
    """The steps of one reply, in the order they came.

    Positions count from 0 and are what the methods take; `Step.index` is only a label.
    ``tree_bytes`` bounds the packed trees: beyond it the oldest steps lose their nodes, but
    keep their text, times and figures (`has_tree` tells).
    """

    def __init__(self, request_id: str, tree_bytes: int = 64 * 2**20) -> None:
        self.request_id = request_id
        self.finished: Finished | None = None
        self._steps: list[_Packed] = []
        self._nodes: deque[bytes] = deque()
        self._dropped = 0
        self._bytes = 0
        self._tree_bytes = tree_bytes
        self._packer = NodePacker()
        self._notices: list[int] = []
        # One entry a step, each the sum up to and including it.
        self._seconds = array("d")
        self._emitted = array("q")
        self._passes = array("q")
        self._accepted = array("q")
        self._drafted = array("q")
        # One entry a step, of that step alone.
        self._speeds = array("d")
        self._lengths = array("d")
        self._tokens = array("H")
        self._accepted_depth = array("H")
        self._tree_depth = array("H")
        # How many steps had exactly this depth of tree, and of accepted path.
        self._trees_of_depth = [0]
        self._paths_of_depth = [0]
        self.most_tokens = 0
        """Most tokens emitted by one step."""

    # ------------------------------------------------------------------ writing

    def add(self, step: Step) -> None:
        """Append a step. Raises `ValueError` when it belongs to another reply."""
        if step.request_id != self.request_id:
            raise ValueError(f"step of {step.request_id!r} added to the reply {self.request_id!r}")
        decoding = step.index > 0
        tokens = len(step.pieces)
        drafted = max(0, len(step.nodes) - 1)
        deepest = max((node.depth for node in step.nodes), default=0)

        def grow(sums: array[int], amount: int) -> None:
            sums.append((sums[-1] if sums else 0) + amount)

        seconds = max(0.0, step.times.total) if decoding and math.isfinite(step.times.total) else 0.0
        self._seconds.append((self._seconds[-1] if self._seconds else 0.0) + seconds)
        grow(self._emitted, tokens if decoding else 0)
        grow(self._passes, 1 if decoding else 0)
        grow(self._accepted, len(step.accepted))
        grow(self._drafted, drafted)
        # Asked for at every frame, for every step.
        first = self._before_window(len(self._seconds) - 1)
        for recent, whole in ((self._speeds, self._seconds), (self._lengths, self._passes)):
            span = whole[-1] - (whole[first] if first >= 0 else 0)
            emitted = self._emitted[-1] - (self._emitted[first] if first >= 0 else 0)
            recent.append(emitted / span if span > 0 else 0.0)
        self._tokens.append(min(tokens, 0xFFFF))
        self._accepted_depth.append(min(len(step.accepted), 0xFFFF))
        self._tree_depth.append(min(deepest, 0xFFFF))
        self.most_tokens = max(self.most_tokens, tokens)
        for counts, depth in ((self._trees_of_depth, deepest), (self._paths_of_depth, len(step.accepted))):
            counts.extend([0] * (depth + 1 - len(counts)))
            counts[depth] += 1
        self._steps.append(
            _Packed(
                step.pieces,
                step.times,
                step.accepted,
                step.bonus,
                step.index,
                step.mode,
                step.method,
                step.shape,
                len(step.window),
                step.notice,
                step.match,
            )
        )
        if step.notice:
            self._notices.append(len(self._steps) - 1)
        packed = self._packer.pack((*step.nodes, *step.window))
        self._nodes.append(packed)
        self._bytes += len(packed)
        while self._bytes > self._tree_bytes and len(self._nodes) > 1:
            self._bytes -= len(self._nodes.popleft())
            self._dropped += 1

    def finish(self, finished: Finished) -> None:
        self.finished = finished

    def frozen(self) -> ReplyHistory:
        """A copy that stays as it is while this one grows, for another thread to read."""
        made = copy.copy(self)
        for name, value in vars(self).items():
            if isinstance(value, list | deque | array):
                setattr(made, name, copy.copy(value))
        return made

    # ------------------------------------------------------------------ reading

    def __len__(self) -> int:
        return len(self._steps)

    @property
    def tree_memory(self) -> int:
        """Bytes of packed nodes now held."""
        return self._bytes

    def has_tree(self, position: int) -> bool:
        """False when the step never had nodes or they were dropped to stay within the bound."""
        position = self._place(position)
        return position >= self._dropped and bool(self._nodes[position - self._dropped])

    def dropped_tree(self, position: int) -> bool:
        """True when the step's nodes were given up to stay within the bound."""
        return self._place(position) < self._dropped

    def step(self, position: int) -> Step:
        """The step as it came; without its nodes when they were dropped."""
        position = self._place(position)
        kept = self._steps[position]
        packed = b"" if position < self._dropped else self._nodes[position - self._dropped]
        nodes = tuple(self._packer.unpack(packed))
        guesses = max(0, len(nodes) - kept.window)
        return Step(
            request_id=self.request_id,
            index=kept.index,
            pieces=kept.pieces,
            times=kept.times,
            nodes=nodes[:guesses],
            accepted=kept.accepted,
            bonus=kept.bonus,
            mode=kept.mode,
            method=kept.method,
            shape=kept.shape,
            window=nodes[guesses:],
            notice=kept.notice,
            match=kept.match,
        )

    def _place(self, position: int) -> int:
        if not -len(self) <= position < len(self):
            raise IndexError(f"the reply has {len(self)} steps, none at {position}")
        return position % len(self)

    @property
    def notices(self) -> tuple[int, ...]:
        """Positions of the steps that told the user something."""
        return tuple(self._notices)

    def notice_of(self, position: int) -> str:
        """What one step told the user."""
        return self._steps[self._place(position)].notice

    def notice_at(self, position: int) -> tuple[int, str] | None:
        """The notice that holds at a step, and the number of the step that gave it.

        A notice holds for its own step, and for the plain ones that follow it without a break.
        """
        at = self._place(position)
        found = bisect_right(self._notices, at) - 1
        if found < 0:
            return None
        given = self._notices[found]
        if any(self._steps[later].mode is not Mode.PLAIN for later in range(given + 1, at + 1)):
            return None
        return self._steps[given].index, self._steps[given].notice

    def position_of(self, index: int) -> int | None:
        """Position of the step numbered ``index``, if it was received."""
        found = bisect_left(self._steps, index, key=lambda kept: kept.index)
        if found < len(self._steps) and self._steps[found].index == index:
            return found
        return None

    # ------------------------------------------------------------------ figures

    def figures(self, position: int = -1) -> Figures:
        """Figures up to and including one step.

        At the last step of a finished reply the engine's own statistics are used, so that the
        panel and the chat never disagree. Raises `IndexError` while there is no step.
        """
        at = self._place(position)
        kept = self._steps[at]
        passes, emitted = self._passes[at], self._emitted[at]
        seconds = self._seconds[at]
        tau = emitted / passes if passes else 0.0
        speed = emitted / seconds if seconds > 0 else 0.0
        if self.finished is not None and at == len(self) - 1:
            tau = self.finished.stats.acceptance_length or tau
            speed = self.finished.stats.tokens_per_second or speed
        return Figures(
            position=at,
            index=kept.index,
            last_index=self._steps[-1].index,
            acceptance_length=tau,
            tokens_per_second=speed,
            recent_tokens_per_second=self.recent_speed(at),
            accepted=self._accepted[at],
            drafted=self._drafted[at],
            tokens=emitted + (self._tokens[0] if self._steps[0].index == 0 else 0),
            times=kept.times,
            mode=kept.mode,
        )

    def recent_speed(self, position: int = -1) -> float:
        """Tokens per second over the steps that reach into the last `WINDOW_SECONDS`, each in full."""
        return self._speeds[self._place(position)]

    def recent_length(self, position: int = -1) -> float:
        """Tau over the same steps; 0 before the first pass."""
        return self._lengths[self._place(position)]

    def _before_window(self, at: int) -> int:
        """The last step that lies before the window; what came after it counts. -1: none does."""
        return min(bisect_right(self._seconds, self._seconds[at] - WINDOW_SECONDS, 0, at + 1), at) - 1

    @property
    def least_tokens(self) -> int:
        """Fewest tokens emitted by one step."""
        return min(self._tokens, default=0)

    def tokens_of(self, position: int) -> int:
        """Tokens emitted by one step."""
        return self._tokens[self._place(position)]

    def accepted_of(self, position: int) -> int:
        """Draft tokens accepted in one step."""
        return self._accepted_depth[self._place(position)]

    def column(self, first: int, last: int) -> tuple[float, float]:
        """Mean tokens emitted and draft tokens accepted of the steps ``first`` to ``last``, both included."""
        count = last - first + 1
        if count == 1:
            return float(self._tokens[first]), float(self._accepted_depth[first])
        prompt = self._tokens[first] - (self._emitted[first] - (self._emitted[first - 1] if first else 0))
        emitted = prompt + self._emitted[last] - (self._emitted[first - 1] if first else 0)
        accepted = self._accepted[last] - (self._accepted[first - 1] if first else 0)
        return emitted / count, accepted / count

    def acceptance_by_depth(self, position: int = -1) -> tuple[DepthAcceptance, ...]:
        """Acceptance of every level up to and including one step, level 1 first.

        O(levels) at the newest step, O(steps) at an earlier one.
        """
        if not self._steps:
            return ()
        end = self._place(position) + 1
        trees, paths = self._trees_of_depth, self._paths_of_depth
        if end < len(self):
            trees = _histogram(self._tree_depth[:end])
            paths = _histogram(self._accepted_depth[:end])
        levels: list[DepthAcceptance] = []
        # "At least this deep" is a sum from the bottom of the tree up.
        proposed = 0
        accepted = sum(paths[len(trees) :])
        for depth in range(len(trees) - 1, 0, -1):
            proposed += trees[depth]
            accepted += paths[depth] if depth < len(paths) else 0
            levels.append(DepthAcceptance(depth, accepted, proposed))
        return tuple(reversed(levels))


def _histogram(values: array[int]) -> list[int]:
    counts = [0] * (max(values, default=0) + 1)
    for value in values:
        counts[value] += 1
    return counts
