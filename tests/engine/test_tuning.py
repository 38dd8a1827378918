"""Settings that need a trial: which are tried, when, and what is kept."""

from __future__ import annotations

from dataclasses import replace

from engine.calibration.pilot import Freedom
from engine.calibration.tuning import open_tunings
from engine.drafting.drafter import TreeLimits
from engine.drafting.registry import METHODS
from tests.engine.simulated_machine import Machine, Pilot

GOOD = Machine(row=0.05, base=0.1, level=0.05, low=0.4, high=0.7, seed=4)
LIMITS = TreeLimits(12, 5, 3, worth=0.05)


def run(best: int, tokens: int) -> tuple[list[int], float]:
    """Windows in use, one a step, where guesses get better up to this one of 3, 6, 12, 24; the speed."""
    values = (3, 6, 12, 24)
    machine = replace(GOOD, window=3)
    tunings = tuple({"window": value} for value in values)
    pilot = Pilot(machine.timing(12), "m", LIMITS, Freedom(True, True, True), tunings=tunings)
    seen = []
    while machine.tokens < tokens:
        window = int(pilot.tuning["window"])
        seen.append(window)
        machine.window = window
        sure = 0.5 + 0.4 * min(1.0, window / best)
        machine.mood = lambda _, sure=sure: (sure - 0.1, sure)  # type: ignore[misc]
        machine.guided(pilot)
    return seen, machine.plain / machine.time


def test_a_better_window_is_found_and_kept() -> None:
    for best in (6, 12):
        seen, _ = run(best, 4000)
        assert seen[0] == 3 and seen[-300:].count(best) > 200, best


def test_trials_that_bring_nothing_become_rare_and_cost_little() -> None:
    seen, speed = run(3, 4000)
    assert 6 in seen and seen[-600:].count(3) > 540
    best = replace(GOOD, window=3, mood=lambda _: (0.8, 0.9))
    assert speed > 0.93 * best.fixed(TreeLimits(12, 5, 3, worth=0.05), 1000)


def test_only_what_was_left_open_is_tuned() -> None:
    known = ({"window": 3, "ngram": 3}, {"window": 3, "ngram": 4}, {"window": 7, "ngram": 5})
    assert open_tunings(known, {"window": None, "ngram": None}) == known
    assert open_tunings(known, {"window": None, "ngram": 5}) == ({"window": 3}, {"window": 7})
    assert open_tunings(known, {"window": 2, "ngram": 5}) == ()


def test_what_methods_declare_can_be_tuned() -> None:
    """Every value is in range, and its setting is one that the user may leave open."""
    seen = 0
    for method in METHODS:
        known = {setting.name: setting for setting in method.info.settings}
        for tuning in method.tunings:
            for name, value in tuning.items():
                setting = known[name]
                assert setting.default is None and setting.low is not None and setting.high is not None
                assert isinstance(value, int) and setting.low <= value <= setting.high
                seen += 1
    assert seen > 4
