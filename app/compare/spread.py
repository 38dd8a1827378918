"""How much faster one side is, and how far that can be trusted. No Qt.

A pair is A's and B's reply to the same prompt in the same repeat. Its ratio of decode speeds is the
unit: a prompt's speed-up is the median over its repeats, that of a set the median over its
prompts. Repeats differ by chance and tell how exact the figure is; prompts differ in earnest,
so their range is given by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from app.compare.comparison import Which
from app.compare.record import Record


@dataclass(frozen=True, slots=True)
class Spread:
    median: float
    low: float
    high: float
    count: int

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread | None:
        return cls(median(values), min(values), max(values), len(values)) if values else None


@dataclass(frozen=True, slots=True)
class SpeedUp:
    """A's speed over B's."""

    factor: float
    repeats: Spread
    """Of the whole figure, over the repeats that all timed prompts have; ``count`` 1 tells nothing."""
    prompts: Spread
    """Of the prompts' own figures."""

    @property
    def is_certain(self) -> bool:
        """Whether all repeats agree on which side is faster; one repeat is not asked."""
        return self.repeats.count < 2 or self.repeats.low > 1 or self.repeats.high < 1


def ratios_of(record: Record, prompt: int) -> list[float]:
    """One for each repeat in which both replies have a speed."""
    return [
        a.tokens_per_second / b.tokens_per_second
        for a, b in record.pairs(prompt)
        if a.tokens_per_second > 0 and b.tokens_per_second > 0
    ]


def speed_up(record: Record) -> SpeedUp | None:
    """``None`` while no pair has speeds."""
    ratios = [found for prompt in range(len(record.answers)) if (found := ratios_of(record, prompt))]
    prompts = Spread.of([median(each) for each in ratios])
    if prompts is None:
        return None
    most = max(map(len, ratios))
    whole = [each for each in ratios if len(each) == most]
    repeats = Spread.of([median(each[repeat] for each in whole) for repeat in range(most)])
    assert repeats is not None
    return SpeedUp(prompts.median, repeats, prompts)


def speed(record: Record, which: Which, prompt: int | None = None) -> Spread | None:
    """Tokens per second of a side's replies."""
    speeds = [reply.tokens_per_second for reply in record.replies_of(which, prompt)]
    return Spread.of([each for each in speeds if each > 0])


def tau(record: Record, which: Which, prompt: int | None = None) -> float:
    """Tokens per pass of the target over all of a side's replies; 0 where there is none."""
    replies = [reply for reply in record.replies_of(which, prompt) if reply.tokens > 1]
    steps = sum(reply.steps for reply in replies)
    return sum(reply.tokens - 1 for reply in replies) / steps if steps else 0.0
