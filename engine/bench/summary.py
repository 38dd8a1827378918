"""Medians and sums over a bench's rows: what the tables, the plots and the JSON show."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from engine.bench.rows import Row
from engine.bench.variants import PLAIN, Variant

Pair = tuple[Row, Row]
"""(plain, drafted) of one prompt."""


@dataclass(frozen=True, slots=True)
class Speed:
    """Medians over prompts, of replies long enough to time."""

    replies: int
    plain: float
    """tokens/s, drafting off."""
    drafted: float
    """tokens/s, drafting on."""
    speed_up: float
    """Median of the prompts' own ratios."""
    tau: float
    """Tokens per target pass, over all tokens of these replies; passes without a draft count too."""

    @classmethod
    def of(cls, pairs: Sequence[Pair]) -> Speed | None:
        timed = [(plain, drafted) for plain, drafted in pairs if plain.long_enough and drafted.long_enough]
        if not timed:
            return None
        return cls(
            replies=len(timed),
            plain=median(plain.rate for plain, _ in timed),
            drafted=median(drafted.rate for _, drafted in timed),
            speed_up=median(drafted.rate / plain.rate for plain, drafted in timed),
            tau=sum(drafted.tokens - 1 for _, drafted in timed)
            / max(1, sum(drafted.steps for _, drafted in timed)),
        )


@dataclass(frozen=True, slots=True)
class Result:
    """One variant at one temperature."""

    variant: Variant
    temperature: float
    all: Speed | None
    without_loops: Speed | None
    categories: Mapping[str, Speed | None]
    replies: int
    identical: int
    """Replies with the ids of plain decoding."""
    same_text: bool
    """Whether all of them must be identical."""
    looping_share: float
    acceptance_by_depth: tuple[float, ...]
    acceptance_rate: float
    drafting_share: float
    """Of the steps, those that held a guess; the others were plain, since drafting did not pay or found none."""
    step_ms: Mapping[str, float]
    """draft, verify, accept, other and total of an average step, in milliseconds."""
    plain_ms: Mapping[str, float]
    """The same of plain decoding."""
    memory: int = 0
    """Bytes beside the target's."""

    def share(self, part: str) -> float:
        """Of a step's time, between 0 and 1."""
        return self.step_ms[part] / self.step_ms["total"] if self.step_ms["total"] else 0.0

    def to_json(self) -> dict[str, Any]:
        fields = asdict(self)
        fields["variant"] = self.variant.label
        return fields


def acceptance_by_depth(rows: Iterable[Row]) -> tuple[float, ...]:
    """Share of the steps with a node at depth d+1 in which one was accepted there."""
    accepted: list[int] = []
    proposed: list[int] = []
    for row in rows:
        for sums, counts in ((accepted, row.accepted_by_depth), (proposed, row.proposed_by_depth)):
            sums.extend([0] * (len(counts) - len(sums)))
            for depth, count in enumerate(counts):
                sums[depth] += count
    return tuple(a / p if p else 0.0 for a, p in zip(accepted, proposed, strict=False))


def step_milliseconds(rows: Sequence[Row]) -> dict[str, float]:
    """Where a step's time goes, per step."""
    steps = max(1, sum(row.steps for row in rows))
    parts = {
        name: 1000 * sum(getattr(row, name) for row in rows) / steps for name in ("draft", "verify", "accept")
    }
    total = 1000 * sum(row.seconds for row in rows) / steps
    return {**parts, "other": max(0.0, total - sum(parts.values())), "total": total}


def pairs_of(rows: Sequence[Row], variant: str, temperature: float) -> list[Pair]:
    """Each prompt's plain reply and the variant's, in the order in which they were asked."""
    here = [row for row in rows if row.temperature == temperature]
    plain = {(row.prompt, row.repeat): row for row in here if row.variant == PLAIN}
    ours = [row for row in here if row.variant == variant]
    return [(plain[key], row) for row in ours if (key := (row.prompt, row.repeat)) in plain]


def result(rows: Sequence[Row], variant: Variant, temperature: float, memory: int = 0) -> Result | None:
    """The figures of ``variant`` at ``temperature``; None where there is no reply yet."""
    pairs = pairs_of(rows, variant.label, temperature)
    if not pairs:
        return None
    drafted = [row for _, row in pairs]
    categories = list(dict.fromkeys(row.category for row in drafted))
    steps = sum(row.steps for row in drafted)
    return Result(
        variant,
        temperature,
        Speed.of(pairs),
        Speed.of([pair for pair in pairs if not pair[0].looping]),
        {name: Speed.of([pair for pair in pairs if pair[1].category == name]) for name in categories},
        len(pairs),
        sum(row.identical for row in drafted),
        variant.same_text(temperature),
        sum(row.looping for row in drafted) / len(drafted),
        acceptance_by_depth(drafted),
        sum(row.accepted for row in drafted) / max(1, sum(row.drafted for row in drafted)),
        sum(row.proposed_by_depth[0] for row in drafted if row.proposed_by_depth) / max(1, steps),
        step_milliseconds(drafted),
        step_milliseconds([plain for plain, _ in pairs]),
        memory,
    )


def results(
    rows: Sequence[Row],
    variants: Sequence[Variant],
    temperatures: Sequence[float],
    memory: Mapping[str, int] | None = None,
) -> list[Result]:
    """In the order of temperatures, then of variants; ``memory`` maps labels to bytes."""
    found = (
        result(rows, variant, temperature, (memory or {}).get(variant.label, 0))
        for temperature in temperatures
        for variant in variants
    )
    return [each for each in found if each is not None]
