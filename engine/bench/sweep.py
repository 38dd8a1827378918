"""How far the engine's own choice of sizes lies from the best fixed one, on the same prompts in one run.

Two figures are given. The plain one compares with the setting that turned out fastest over all these
replies, which holds its luck against the choice; the other leaves that out (:mod:`engine.bench.crossed`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from engine.bench.crossed import Crossed, crossed
from engine.bench.rows import Row
from engine.bench.summary import pairs_of
from engine.bench.variants import PLAIN, Variant

_RESAMPLES = 2000
_TAIL = 0.05
"""On each side of the interval that is given."""


@dataclass(frozen=True, slots=True)
class Standing:
    """A setting's speed over all prompts: tokens by seconds, so that long replies count for more."""

    variant: Variant
    rate: float
    """tokens/s"""
    speed_up: float
    tau: float
    step_ms: float


@dataclass(frozen=True, slots=True)
class Verdict:
    """The automatic choice against the best of the fixed ones."""

    automatic: Standing
    best: Standing
    ratio: float
    """Automatic over best: 0.95 is 5 % slower."""
    low: float
    high: float
    """Where 90 % of the ratios lie when prompts are drawn again with replacement."""
    crossed: Crossed | None
    """The same with the best setting chosen on other replies; None where these are too few."""


def standings(rows: Sequence[Row], variants: Sequence[Variant], temperature: float) -> list[Standing]:
    """Fastest first."""
    found = []
    for variant in variants:
        pairs = pairs_of(rows, variant.label, temperature)
        if not pairs:
            continue
        plain, drafted = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
        steps = max(1, sum(row.steps for row in drafted))
        rate = _rate(drafted)
        found.append(
            Standing(
                variant,
                rate,
                rate / _rate(plain),
                sum(row.tokens - 1 for row in drafted) / steps,
                1000 * sum(row.seconds for row in drafted) / steps,
            )
        )
    return sorted(found, key=lambda each: -each.rate)


def verdict(rows: Sequence[Row], variants: Sequence[Variant], temperature: float) -> Verdict | None:
    """None where either kind is missing. The variant that is not fixed is the automatic one."""
    found = standings(rows, variants, temperature)
    automatic = next((each for each in found if not each.variant.fixed), None)
    best = next((each for each in found if each.variant.fixed), None)
    if automatic is None or best is None:
        return None
    rows_of = {
        each.variant: [row for _, row in pairs_of(rows, each.variant.label, temperature)] for each in found
    }
    ours, theirs = _by_prompt(rows_of[automatic.variant]), _by_prompt(rows_of[best.variant])
    names = [name for name in ours if name in theirs]
    random = Random(0)
    ratios = sorted(
        _rate([row for name in drawn for row in ours[name]])
        / _rate([row for name in drawn for row in theirs[name]])
        for drawn in (random.choices(names, k=len(names)) for _ in range(_RESAMPLES))
    )
    edge = int(_TAIL * _RESAMPLES)
    fixed = [each for variant, each in rows_of.items() if variant.fixed]
    return Verdict(
        automatic,
        best,
        automatic.rate / best.rate,
        ratios[edge],
        ratios[-edge - 1],
        crossed(rows_of[automatic.variant], fixed),
    )


def _by_prompt(rows: Sequence[Row]) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(row.prompt, []).append(row)
    return found


def sweep_table(found: Sequence[Standing], plain_rate: float) -> list[list[str]]:
    table = [["setting", "tokens/s", "speed-up", "τ", "ms a step"]]
    for each in found:
        name = each.variant.label if each.variant.fixed else f"{each.variant.method}, chosen by the engine"
        table.append(
            [name, f"{each.rate:.1f}", f"{each.speed_up:.2f}×", f"{each.tau:.2f}", f"{each.step_ms:.1f}"]
        )
    table.append([PLAIN, f"{plain_rate:.1f}", "1.00×", "1.00", f"{1000 / plain_rate:.1f}"])
    return table


def plain_rate(rows: Sequence[Row], temperature: float) -> float:
    return _rate([row for row in rows if row.variant == PLAIN and row.temperature == temperature])


def sentence(found: Verdict) -> str:
    """For people."""
    plain = (
        f"The engine's choice is {_change(found.ratio)} than the best fixed setting, "
        f"{found.best.variant.label} ({_interval(found.low, found.high)})."
    )
    if found.crossed is None:
        return plain
    each = "of every prompt's replies" if found.crossed.by_repeat else "of the prompts"
    return (
        f"{plain}\nWith the best setting chosen on one half {each} and compared with on the other, so that "
        f"its luck does not count, the choice is {_change(found.crossed.ratio)} "
        f"({_interval(found.crossed.low, found.crossed.high)})."
    )


def _change(ratio: float) -> str:
    change = 100 * (ratio - 1)
    return f"{abs(change):.1f} % {'faster' if change >= 0 else 'slower'}"


def _interval(low: float, high: float) -> str:
    return f"90 % interval over prompts: {100 * (low - 1):+.1f} % to {100 * (high - 1):+.1f} %"


def _rate(rows: Sequence[Row]) -> float:
    seconds = sum(row.seconds for row in rows)
    return sum(row.tokens - 1 for row in rows) / seconds if seconds else 0.0
