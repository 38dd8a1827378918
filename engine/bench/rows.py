"""One reply in one way of decoding, as it stands in the bench's JSON; all figures are made of these."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from engine.protocol import ReplyStats

SHORT_REPLY = 16
"""Replies of fewer tokens say little about speed and are left out of the speed figures."""


@dataclass(frozen=True, slots=True)
class Row:
    prompt: str
    category: str
    temperature: float
    variant: str
    """Label of the variant, or ``plain``."""
    identical: bool
    """The ids are those of plain decoding with the same seed."""
    looping: bool
    tokens: int
    seconds: float
    """Of decoding: the prompt, and the first token with it, are left out."""
    steps: int
    drafted: int
    accepted: int
    accepted_by_depth: tuple[int, ...]
    proposed_by_depth: tuple[int, ...]
    draft: float
    """Seconds in the parts of the steps; the rest is something else."""
    verify: float
    accept: float
    repeat: int = 0
    """Which of several answers to the same prompt it is."""

    @classmethod
    def of(
        cls,
        prompt: str,
        category: str,
        temperature: float,
        variant: str,
        stats: ReplyStats,
        *,
        identical: bool,
        looping: bool,
        repeat: int = 0,
    ) -> Row:
        times = stats.times
        return cls(
            prompt,
            category,
            temperature,
            variant,
            identical,
            looping,
            stats.new_tokens,
            stats.decode_seconds,
            stats.steps,
            stats.drafted_tokens,
            stats.accepted_tokens,
            stats.accepted_by_depth,
            stats.proposed_by_depth,
            times.draft,
            times.verify,
            times.accept,
            repeat,
        )

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> Row:
        """Raises KeyError, TypeError or ValueError for what is no row."""
        fields = dict(raw)
        for name in ("accepted_by_depth", "proposed_by_depth"):
            fields[name] = tuple(int(count) for count in fields[name])
        return cls(**fields)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def long_enough(self) -> bool:
        return self.tokens >= SHORT_REPLY

    @property
    def rate(self) -> float:
        """tokens/s"""
        return (self.tokens - 1) / self.seconds if self.seconds > 0 and self.tokens > 1 else 0.0
