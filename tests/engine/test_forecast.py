"""What the application is told of the calibration: a curve that stands on what was measured."""

from __future__ import annotations

import pytest

from engine.calibration.forecast import forecast
from engine.calibration.pilot import Freedom
from engine.calibration.timing import Timing
from engine.drafting.drafter import TreeLimits
from tests.engine.simulated_machine import Machine, Pilot
from tests.engine.test_pilot import ALL, BEGIN


def test_a_curve_from_what_was_measured_at_load() -> None:
    machine = Machine(row=0.05, base=0.05, level=0.04, low=0.4, high=0.9)
    pilot = Pilot(machine.timing(40), "m", BEGIN, ALL)
    told = forecast(pilot)
    assert told.method == "m" and told.steps == 40 and not told.paused and told.notice == ""
    assert [rows for rows, _ in told.passes] == [1, 2, 4, 8, 16, 32]
    assert [seconds for _, seconds in told.passes] == pytest.approx([machine.cost(n) for n, _ in told.passes])
    assert told.drafting[1] == (2, pytest.approx(0.13)) and len(told.drafting) == told.depth
    first, *rest = told.curve
    assert (first.nodes, first.tokens, first.seconds, first.tokens_per_second) == (1, 1.0, 1.0, 1.0)
    nodes = [point.nodes for point in told.curve]
    assert nodes == sorted(set(nodes)) and len(rest) > 5
    assert told.chosen in rest and told.chosen.nodes == pilot.limits.nodes
    # The choice is the curve's top, within the margin under which it would not change.
    assert 1.02 * told.chosen.tokens_per_second >= max(point.tokens_per_second for point in rest)
    assert all(1 >= a >= b > 0 for a, b in zip(told.acceptance, told.acceptance[1:], strict=False))
    # Tokens of a step: the bonus, and each level's chance.
    assert 1 + sum(told.acceptance) == pytest.approx(told.chosen.tokens, rel=1e-6)


def test_nothing_known_is_nothing_told() -> None:
    timing = Timing(((1, 0.5), (8, 1.0)), {}, {})
    told = forecast(Pilot(timing, "m", TreeLimits(8, 4, 3), Freedom(True, True, False)))
    assert [point.nodes for point in told.curve] == [1] and told.chosen.tokens_per_second == 2.0
    assert told.acceptance == () and told.drafting == () and told.steps == 0


def test_a_pause_stands_on_plain_decoding() -> None:
    bad = Machine(row=0.2, base=0.5, level=0.3, low=0.0, high=0.1)
    pilot = Pilot(bad.timing(), "m", BEGIN, Freedom(False, False, False))
    while not pilot.paused:
        bad.guided(pilot)
    told = forecast(pilot)
    assert told.paused and told.chosen == told.curve[0] and "slower" in told.notice
