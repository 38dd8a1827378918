"""The comparison with the best fixed setting, on made-up sweeps of which the truth is known."""

from __future__ import annotations

from random import Random
from statistics import fmean

import pytest

from engine.bench.crossed import LEAST, crossed
from engine.bench.rows import Row
from engine.bench.sweep import sentence, verdict
from engine.bench.variants import Variant
from tests.engine.test_bench import row

AUTO = Variant("eagle3")
FIXED = [Variant("eagle3", (("nodes", nodes),), True) for nodes in range(2, 11)]
NOISE = 0.25


def sweep(speeds: dict[Variant, float], prompts: int, repeats: int, seed: int) -> list[Row]:
    """Replies of 40 tokens with these speeds, those of the fixed settings each a little off by chance."""
    random = Random(seed)
    return [
        row(
            f"p{prompt}",
            each.label,
            41,
            20,
            4.0 / speed * (random.uniform(1 - NOISE, 1 + NOISE) if each.fixed else 1.0),
            repeat=repeat,
        )
        for repeat in range(repeats)
        for prompt in range(prompts)
        for each, speed in {Variant("plain"): 1.0, **speeds}.items()
    ]


def figures(speeds: dict[Variant, float], repeats: int = 1) -> tuple[list[float], list[float]]:
    """The plain ratios and the crossed ones of many such sweeps, with as many replies in each."""
    plain, fair = [], []
    for seed in range(16):
        found = verdict(sweep(speeds, 12 // repeats, repeats, seed), [AUTO, *FIXED], 0.0)
        assert found is not None and found.crossed is not None
        assert found.crossed.by_repeat == (repeats > 1)
        assert found.crossed.low < found.crossed.ratio < found.crossed.high
        plain.append(found.ratio)
        fair.append(found.crossed.ratio)
    return plain, fair


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.bench.crossed.CUTS", 60)
    monkeypatch.setattr("engine.bench.crossed.RESAMPLES", 200)
    monkeypatch.setattr("engine.bench.sweep._RESAMPLES", 200)


@pytest.mark.parametrize("repeats", (1, 3))
def test_of_equal_settings_the_luckiest_does_not_win(repeats: int) -> None:
    plain, fair = figures(dict.fromkeys([AUTO, *FIXED], 1.5), repeats)
    assert fmean(plain) < 0.96, plain  # it looks slower than it is
    assert fmean(fair) == pytest.approx(1.0, abs=0.02), fair


@pytest.mark.parametrize("repeats", (1, 3))
def test_a_setting_that_is_truly_better_is_found(repeats: int) -> None:
    speeds = {AUTO: 1.5, **dict.fromkeys(FIXED, 1.2), FIXED[3]: 1.8}
    _, fair = figures(speeds, repeats)
    assert fmean(fair) == pytest.approx(1.5 / 1.8, abs=0.02), fair
    _, fair = figures({**speeds, AUTO: 1.98}, repeats)
    assert fmean(fair) == pytest.approx(1.1, abs=0.03), fair


def test_prompts_that_differ_are_no_noise_where_each_has_several_replies() -> None:
    """One setting is best for half of the prompts, another for the rest, and both are equally good over all."""
    rows = [
        row(f"p{prompt}", each.label, 41, 20, 4.0 / speed, repeat=repeat)
        for repeat in range(2)
        for prompt in range(8)
        for each, speed in (
            (AUTO, 1.0),
            (FIXED[0], (2.0, 1.0)[prompt % 2]),
            (FIXED[1], (1.0, 2.0)[prompt % 2]),
        )
    ]
    by_way = [[each for each in rows if each.variant == way.label] for way in (AUTO, *FIXED[:2])]
    split = crossed(by_way[0], by_way[1:])
    assert split is not None and split.by_repeat and split.ratio == pytest.approx(0.75)
    once = [[each for each in way if not each.repeat] for way in by_way]
    by_prompt = crossed(once[0], once[1:])
    assert by_prompt is not None and not by_prompt.by_repeat and by_prompt.ratio > 0.77


def test_too_few_replies_are_not_halved_and_the_sentence_says_what_was_done() -> None:
    speeds = {AUTO: 1.5, FIXED[0]: 1.5, FIXED[1]: 1.4}
    few = verdict(sweep(speeds, LEAST - 1, 1, 0), [AUTO, *FIXED], 0.0)
    assert few is not None and few.crossed is None and "one half" not in sentence(few)
    assert "half of the prompts" in sentence(verdict(sweep(speeds, 8, 1, 0), [AUTO, *FIXED], 0.0))  # type: ignore[arg-type]
    several = verdict(sweep(speeds, 4, 2, 0), [AUTO, *FIXED], 0.0)
    assert several is not None and "half of every prompt's replies" in sentence(several)
    assert sentence(several).count("90 % interval") == 2
