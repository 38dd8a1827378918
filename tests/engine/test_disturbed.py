"""Measuring on a machine that is disturbed meanwhile: seen, outlasted where it can be, and never kept.

The machine is simulated: passes and proposals take what its table says, times what disturbs it at that
moment, and nothing depends on the real one.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from engine.calibration import at_load, passes
from engine.calibration.at_load import forget_timing, measure, timing_for
from engine.calibration.passes import LONGEST, ROWS_SECONDS, time_passes
from engine.calibration.timing import WITNESSES, Clock, Timing
from engine.drafting.eagle import EagleDrafter
from engine.drafting.method import Methods
from engine.models.decoder import Decoder
from tests.engine import tiny
from tests.engine.test_calibration import TEXT, decoder, methods

__all__ = ["decoder", "methods"]  # fixtures

PLAIN, ROW = 0.010, 0.06
BASE, LEVEL = 0.002, 0.0005
"""Seconds of the simulated passes and proposals."""
Slow = Callable[[float], float]
"""Seconds since the beginning → how many times as long everything takes then."""


class Machine:
    def __init__(self, slow: Slow) -> None:
        self.now = 0.0
        self.slow = slow

    def spend(self, seconds: float) -> None:
        self.now += seconds * self.slow(self.now)

    def clock(self) -> float:
        return self.now


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    it = Machine(lambda _: 1.0)

    def run_pass(_decoder: object, _cache: object, _token: int, rows: int) -> None:
        it.spend(PLAIN * (1 + ROW * (rows - 1)))

    real = EagleDrafter.propose

    def propose(self: EagleDrafter, *args: Any) -> Any:
        tree = real(self, *args)
        it.spend(BASE + LEVEL * tree.depth)
        return tree

    forward = Decoder.forward

    def pass_over(self: Decoder, tokens: Any, *args: Any) -> Any:
        it.spend(PLAIN * (1 + ROW * (len(tokens) - 1)))
        return forward(self, tokens, *args)

    monkeypatch.setattr(passes, "run_pass", run_pass)
    monkeypatch.setattr(EagleDrafter, "propose", propose)
    monkeypatch.setattr(Decoder, "forward", pass_over)
    return it


def right(rows: tuple[tuple[int, float], ...]) -> bool:
    return all(seconds == pytest.approx(PLAIN * (1 + ROW * (count - 1)), rel=0.08) for count, seconds in rows)


@pytest.mark.parametrize("seed", range(5))
def test_hiccups_do_not_spoil_the_table(machine: Machine, seed: int) -> None:
    """Every fifth pass takes up to ten times as long."""
    chance = random.Random(seed)
    machine.slow = lambda _: chance.uniform(1, 10) if chance.random() < 0.2 else 1 + 0.05 * chance.random()
    found = time_passes(None, None, 2, machine.clock)  # type: ignore[arg-type]
    assert found.steady and right(found.rows)
    assert [count for count, _ in found.rows] == [
        1,
        2,
        4,
        8,
        12,
        16,
        32,
    ]  # 64 would cost nearly five plain ones
    assert machine.now < 1.5 * LONGEST * ROWS_SECONDS


def test_one_quick_pass_in_a_slow_second_is_not_believed() -> None:
    """Something else has the machine; it lets go after a second and a half, and once for a moment before."""

    def slow(now: float) -> float:
        return 1.0 if now > 1.5 or 0.38 < now < 0.42 else 3.0

    it = Machine(slow)

    def timed(_decoder: object, _cache: object, _token: int, rows: int) -> None:
        it.spend(PLAIN * (1 + ROW * (rows - 1)))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(passes, "run_pass", timed)
        found = time_passes(None, None, 2, it.clock)  # type: ignore[arg-type]
        assert found.steady and right(found.rows) and it.now > 1.5
        patch.setattr(passes, "LONGEST", 1.0)  # without more time it is at least known
        it.now = 0.0
        found = time_passes(None, None, 2, it.clock)  # type: ignore[arg-type]
        assert not found.steady and not right(found.rows)


def test_a_machine_that_never_rests_is_not_steady(machine: Machine) -> None:
    chance = random.Random(1)
    machine.slow = lambda _: chance.uniform(1, 20)
    assert not time_passes(None, None, 2, machine.clock).steady  # type: ignore[arg-type]
    assert machine.now < 40 * LONGEST * ROWS_SECONDS


def test_proposals_of_a_slow_moment_are_timed_again(
    machine: Machine, decoder: Decoder, methods: Methods
) -> None:
    quiet = measure(decoder, methods, tiny.LIMITS, TEXT, machine.clock)
    assert quiet.steady and right(quiet.rows)
    base, level = quiet.draft["eagle3"]
    assert base + 3 * level == pytest.approx(BASE + 3 * LEVEL, rel=0.05)
    begun = machine.now = 0.0
    first: list[float] = []

    def slow(now: float) -> float:
        """From the first proposal on, as long as the first try for the default method takes."""
        return 6.0 if first and now - first[0] < 1.5 else 1.0

    real = EagleDrafter.propose

    def propose(self: EagleDrafter, *args: Any) -> Any:
        first.append(machine.now)
        return real(self, *args)

    machine.slow = slow
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(EagleDrafter, "propose", propose)
        found = measure(decoder, methods, tiny.LIMITS, TEXT, machine.clock)
        base, level = found.draft["eagle3"]
        assert found.steady and base + 3 * level == pytest.approx(BASE + 3 * LEVEL, rel=0.05)
        assert machine.now - begun > 2  # it was slow when they were timed at first
        patch.setattr(at_load, "TRIES", 1)
        first.clear()
        found = measure(decoder, methods, tiny.LIMITS, TEXT, machine.clock)
        worst = max(base + 3 * level for base, level in found.draft.values())
        assert not found.steady and worst > 2 * (BASE + 3 * LEVEL)


def test_what_was_measured_in_a_bad_moment_is_measured_again_and_only_the_good_is_kept(
    machine: Machine, decoder: Decoder, methods: Methods, data_dir: Path
) -> None:
    def kept() -> int:
        return len(list(data_dir.rglob("timings/*.json")))

    def timing(name: str) -> Timing:
        return timing_for(decoder, methods, tiny.LIMITS, TEXT, name, clock=machine.clock)

    # All passes alone are slow, evenly: only the passes beside the proposals can tell.
    machine.slow = lambda now: 4.0 if now < 1.0 else 1.0
    first = measure(decoder, methods, tiny.LIMITS, TEXT, machine.clock)
    machine.now = 0.0
    found = timing("machine")
    assert found.steady and right(found.rows) and kept() == 1
    assert timing("machine") == found
    if first.steady:  # the rounds had outlasted it
        assert right(first.rows)
    chance = random.Random(1)
    machine.slow = lambda _: chance.choice((1, 3, 9))
    bad = timing("busy")
    assert not bad.steady and kept() == 1
    machine.slow = lambda _: 1.0
    assert timing("busy").steady and kept() == 2
    forget_timing("busy")
    assert kept() == 1
    machine.slow = lambda _: chance.choice((1, 3, 9))
    assert not timing_for(decoder, methods, tiny.LIMITS, TEXT, "machine", True, machine.clock).steady
    assert kept() == 0  # whoever asked to measure again has no trust in the old one


TABLE = Timing(((1, 1.0), (8, 2.0), (16, 3.0)), {"m": (0.1, 0.1)}, {}, {"m": 0.0})


def test_steps_of_a_chat_refute_a_table_from_a_bad_moment() -> None:
    for rows, seconds in ((1, 0.7), (8, 1.4)):
        clock = Clock(TABLE, "m")
        for _ in range(WITNESSES - 1):
            clock.saw_pass(rows, seconds)
            assert not clock.refuted
        clock.saw_pass(rows, seconds)
        assert clock.refuted, rows
    clock = Clock(TABLE, "m")
    for _ in range(WITNESSES):
        clock.saw_draft(5, 0.25)
    assert clock.refuted


@pytest.mark.parametrize("slower", (0.9, 1.0, 3.0))
def test_ordinary_steps_refute_nothing(slower: float) -> None:
    """Nor do slow ones, a few quick ones, sizes between those of the table, and proposals that cost nothing."""
    chance = random.Random(2)
    clock = Clock(TABLE, "m")
    for step in range(200):
        rows = (1, 8, 16)[step % 3]
        quick = 0.5 if step % 20 == 0 else 1.0
        clock.saw_pass(rows, slower * quick * (1 + 0.2 * chance.random()) * TABLE.seconds(rows))
        clock.saw_pass(10, 0.5 * TABLE.seconds(10))
        clock.saw_draft(1 + step % 5, slower * 0.1 * (2 + step % 5))
        clock.saw_draft(1, 0.12)  # its parts were told apart badly; it is one level of five
        clock.saw_draft(5, 0.0, unread=500)
        assert not clock.refuted, step
    cheap = Clock(Timing(TABLE.rows, {"m": (0.001, 0.001)}, {}), "m")
    for _ in range(50):
        cheap.saw_draft(3, 1e-6)
    assert not cheap.refuted
