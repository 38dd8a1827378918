"""A simulated machine and drafter: what the pilot is tried on, with a clock that the test holds."""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial

from engine.calibration.pilot import Pilot as RealPilot
from engine.calibration.timing import ORDINARY, Timing, sample_of
from engine.drafting.drafter import TreeLimits
from engine.tree import DraftTree

Pilot = partial(RealPilot, now=lambda: 0.0)
"""Its own thinking takes no time here, so that nothing depends on the real machine."""
Mood = Callable[[int], tuple[float, float]]
"""Token of the chat → how sure of itself, and how right, the drafter is at least and at most."""


@dataclass(frozen=True)
class Reply:
    prompt: int
    tokens: int
    mood: tuple[float, float]


@dataclass
class Machine:
    """Times in units of a plain step; a head whose probabilities are right, and sure of itself by turns."""

    row: float
    base: float
    level: float
    low: float
    high: float
    noise: float = 0.0
    seed: int = 0
    window: int = 0
    """Rows beside the guesses."""
    reading: float = 0.0
    """Of each token that the drafter has not read yet."""
    mood: Mood | None = None
    """Instead of ``low`` and ``high``, once the chat runs."""
    growth: float = 0.0
    """Of every pass for each token of the chat."""
    wrong: float = 1.0
    """How much dearer rows are than when they were timed."""
    width: int = 99
    """Children of a node at most: 1 drafts chains."""

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.time = 0.0
        self.plain = 0.0
        """What plain decoding would have taken."""
        self.tokens = 0
        self.read = 0

    def timing(self, steps: int = 0) -> Timing:
        """As measured at load, with ``steps`` wide trees."""
        wide = TreeLimits(24, 8, 3, worth=0.025)
        samples = []
        other = replace(self, seed=9, mood=None, wrong=1.0)
        for _ in range(steps):
            tree, path, *_ = other.step(wide)
            samples.append(sample_of(tree, path, wide))
        rows = tuple((n, other.cost(n)) for n in (1, 2, 4, 8, 16, 32))
        draft = {"m": (self.base, self.level)}
        return Timing(rows, draft, {"m": tuple(samples)}, {"m": self.reading})

    def cost(self, rows: int) -> float:
        return (1 + self.growth * self.tokens) * (1 + self.wrong * self.row * (rows - 1))

    def jitter(self) -> float:
        return 1 + self.noise * self.random.random() ** 4

    def step(self, limits: TreeLimits | None) -> tuple[DraftTree | None, tuple[int, ...], int, float, float]:
        """What a step under ``limits`` brings: as :meth:`Pilot.learn` wants it."""
        low, high = self.mood(self.tokens) if self.mood else (self.low, self.high)
        sure = self.random.uniform(low, high)
        if limits is None:
            rest = self.cost(1) * self.jitter()
            self._pass_by(rest, 1)
            return None, (), 1, 0.0, rest
        nodes: list[tuple[float, int, int]] = [(1.0, -1, 0)]  # path probability, parent, depth
        heap = [(-sure, 0, 0)]  # (-path probability, parent, rank)
        ranks: dict[tuple[int, int], int] = {}
        while heap and len(nodes) < limits.nodes:
            minus, parent, rank = heapq.heappop(heap)
            if -minus <= limits.worth:
                break
            depth = nodes[parent][2] + 1
            ranks[parent, rank] = len(nodes)
            nodes.append((-minus, parent, depth))
            if rank + 1 < min(limits.top_k, self.width):
                heapq.heappush(heap, (minus * (1 - sure), parent, rank + 1))
            if depth < limits.depth:
                heapq.heappush(heap, (minus * sure, len(nodes) - 1, 0))
        path: list[int] = []
        node = 0
        while True:
            rank = 0
            while self.random.random() > sure and rank < 50:
                rank += 1
            if (node, rank) not in ranks:
                break
            node = ranks[node, rank]
            path.append(node)
        rows = (*nodes, *[(1.0, 0, 1)] * self.window)
        tree = DraftTree(
            tuple(range(len(rows))),
            tuple(parent for _, parent, _ in rows),
            tuple(p for p, _, _ in rows),
            tuple(p for p, _, _ in rows),
            window=self.window,
        )
        draft = (self.base + self.level * tree.depth) * self.jitter()
        unread = self.tokens - self.read
        draft += self.reading * unread if unread > ORDINARY else 0.0
        self.read = self.tokens
        rest = self.cost(len(tree)) * self.jitter()
        self._pass_by(draft + rest, 1 + len(path))
        return (tree if len(tree) > 1 else None), tuple(path), 1 + len(path), draft, rest

    def _pass_by(self, seconds: float, tokens: int) -> None:
        self.time += seconds
        self.plain += tokens * (1 + self.growth * self.tokens)
        self.tokens += tokens

    def answers(self, replies: Iterable[Reply], how: RealPilot | TreeLimits) -> float:
        """A chat of whole replies, under a pilot or with fixed limits; its speed against plain decoding."""
        for reply in replies:
            self.low, self.high = reply.mood
            self.read = self.tokens - reply.prompt
            if isinstance(how, RealPilot):
                how.begin_reply()
            end = self.tokens + reply.tokens
            while self.tokens < end:
                if isinstance(how, RealPilot):
                    self.guided(how)
                else:
                    self.step(how)
        return self.plain / self.time

    def fixed(self, limits: TreeLimits, steps: int) -> float:
        """Speed against plain decoding."""
        for _ in range(steps):
            self.step(limits)
        return self.plain / self.time

    def guided(self, pilot: RealPilot, slow: float = 1.0) -> str:
        """One step as the pilot plans it; what it says."""
        unread = self.tokens - self.read
        planned = pilot.plan(unread)
        tree, path, emitted, draft, rest = self.step(planned)
        return pilot.learn(tree, path, emitted, draft * slow, rest * slow, planned, unread)

    def piloted(self, pilot: RealPilot, tokens: int) -> float:
        """Speed against plain decoding when the chat has ``tokens``."""
        while self.tokens < tokens:
            self.guided(pilot)
        return self.plain / self.time
