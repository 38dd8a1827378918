"""What drafting brought in earlier chats with this model on this machine, kept between starts.

What is timed at load tells about one short text, read greedily. A method that won there may lose in the
chats that are really held, and to find that out costs each of them some steps. So the recent steps of
every method are kept, beside the settings that trials have found best, and the next chat begins where
the last one ended: with sizes that fit, or with drafting switched off and small trees for a new try.

Replies that are drawn and replies that are not are different things to guess, and kept apart. Of the
text nothing is kept: only how sure the drafter was of each guess, and whether it stood.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace

from engine.calibration.timing import Sample, sample_from
from engine.remembered import keep, recall
from engine.settings import GenerationSettings, SettingValue

KIND, VERSION = "experience", 1
"""Of the file and its contents."""
ENOUGH = 12
"""Drafted steps of a first chat from which on it tells more than what was seen at load."""
KEPT = 64
"""Steps of each that are kept."""
DRAWN = 0.5
"""A temperature from which on a reply follows the model's shares rather than its likeliest tokens."""


@dataclass(frozen=True, slots=True)
class Manner:
    """Steps that can be compared: of one method, in replies that are drawn or not."""

    method: str
    drawn: bool

    @classmethod
    def of(cls, method: str, settings: GenerationSettings) -> Manner:
        return cls(method, settings.temperature >= DRAWN)


@dataclass(frozen=True, slots=True)
class Learned:
    samples: tuple[Sample, ...]
    """The last steps, made with:"""
    tuning: Mapping[str, SettingValue]


Experience = Mapping[Manner, Learned]


def as_drawn(samples: Iterable[Sample], temperature: float = 1.0) -> tuple[Sample, ...]:
    """Steps of greedy replies as those of drawn ones are likely to be: at temperature 1 the model takes a
    token as often as it gives it a share, which is what a drafter says of its guesses; below that the
    truth lies between. Guesses that are drawn as well stand more often than that, about as often as
    likely ones do in greedy replies."""
    share = min(1.0, temperature)

    def guesses(sample: Sample) -> tuple[tuple[float, int, float], ...]:
        return tuple((p, depth, share * p + (1 - share) * stood) for p, depth, stood in sample.guesses)

    return tuple(replace(sample, guesses=guesses(sample)) for sample in samples)


def recall_experience(name: str) -> Experience:
    """What was kept under ``name``; see :func:`engine.calibration.at_load.timing_for`."""
    return recall(KIND, name, _read) or {}


def keep_experience(name: str, learned: Experience) -> None:
    """Keep what was learned, beside what is known of other methods and manners."""
    found = {**recall_experience(name), **learned}
    manners = [
        {"method": manner.method, "drawn": manner.drawn, **asdict(each), "tuning": dict(each.tuning)}
        for manner, each in found.items()
    ]
    keep(KIND, name, {"version": VERSION, "manners": manners})


def _read(raw: object) -> Experience:
    if not isinstance(raw, dict) or raw["version"] != VERSION:
        raise ValueError("another version")
    return {
        Manner(str(each["method"]), bool(each["drawn"])): Learned(
            tuple(sample_from(sample) for sample in each["samples"][-KEPT:]), dict(each["tuning"])
        )
        for each in raw["manners"]
    }
