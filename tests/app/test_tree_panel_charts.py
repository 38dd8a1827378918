"""The charts below the tree: τ and speed over the reply, what was said on the way, speed by size."""

from __future__ import annotations

from dataclasses import replace

import pytest
from PySide6.QtCore import QPoint, Qt

from app.tree_panel.calibration_chart import CalibrationChart
from app.tree_panel.history import ReplyHistory
from app.tree_panel.panel import TreePanel
from app.tree_panel.timeline import Timeline
from engine.protocol import Calibrated, Calibration, CurvePoint, StepTimes
from tests.app.conftest import OpenWindow
from tests.app.tree_panel_steps import play, step, steps, window_step

SPEEDS = ((1, 40.0), (4, 66.0), (8, 72.0), (16, 51.0))
CURVE = tuple(CurvePoint(nodes, speed / 30, 1 / 30, speed) for nodes, speed in SPEEDS)
FOUND = Calibration("eagle", ((1, 0.02),), (), CURVE, CURVE[2], 5, acceptance=(0.7,), steps=40)
PAUSE = "Drafting pauses: it makes the reply slower here."


def filled(played) -> ReplyHistory:
    history = ReplyHistory("r")
    for one in played:
        history.add(one)
    return history


@pytest.fixture
def timeline(qtbot) -> Timeline:
    made = Timeline()
    qtbot.addWidget(made)
    made.resize(440, 110)
    return made


def test_the_timeline_draws_tau_and_speed(timeline: Timeline) -> None:
    slow = [replace(one, times=StepTimes(0.0, 0.5, 0.0, 0.0)) for one in steps(30)]
    history = filled(slow)
    timeline.show_history(history, 29)
    both = timeline.grab().toImage()
    history.recent_length = lambda position=-1: 1.0  # type: ignore[method-assign]
    assert timeline.grab().toImage() != both, "τ is not drawn"
    del history.recent_length
    history.recent_speed = lambda position=-1: 1.0  # type: ignore[method-assign]
    assert timeline.grab().toImage() != both, "the speed is not drawn"


def test_the_timeline_says_it_in_words(timeline: Timeline) -> None:
    history = filled([*steps(10), replace(step(10), notice=PAUSE), step(11, nodes=0)])
    timeline.show_history(history, 5)
    flagged = timeline.grab().toImage()
    timeline.describe()
    said = timeline.accessibleDescription()
    assert f"lately τ {history.recent_length():.2f} and {history.recent_speed():.1f} tokens per second" in said
    assert said.endswith(f"At step 10: {PAUSE}")
    assert f"τ {history.recent_length(4):.2f}" in timeline.tooltip_text(4)
    assert PAUSE not in timeline.tooltip_text(4)
    assert timeline.tooltip_text(10).splitlines()[-1] == f"At step 10: {PAUSE}"
    timeline.show_history(filled([*steps(11), step(11, nodes=0)]), 5)
    assert timeline.grab().toImage() != flagged, "the flag is not drawn"


def test_a_notice_is_said_while_it_holds(qtbot) -> None:
    panel = TreePanel()
    qtbot.addWidget(panel)
    panel.resize(440, 820)
    panel.show()
    play(panel, [step(0), replace(window_step(1), notice=PAUSE), step(2, nodes=0), step(3)])
    said = []
    for position in range(4):
        panel.go_to(position)
        said.append(panel.notice.text())
        assert panel.notice.isVisible() is bool(said[-1])
    assert said == ["", f"Since step 1: {PAUSE}", f"Since step 1: {PAUSE}", ""]
    assert panel.notice.textFormat() is Qt.TextFormat.PlainText


def test_the_curve_shows_where_drafting_stands(qtbot) -> None:
    chart = CalibrationChart()
    qtbot.addWidget(chart)
    chart.resize(240, 110)
    assert chart.isHidden()
    chart.show_calibration(FOUND)
    assert not chart.isHidden()
    points = [at for _, at in chart._points()]
    assert [at.x() for at in points] == sorted({at.x() for at in points})
    heights = [at.y() for at in points]
    assert sorted(range(4), key=lambda number: heights[number]) == [2, 1, 3, 0]  # the fastest is highest
    assert chart._chosen_at() == points[2]
    between = replace(FOUND, chosen=replace(CURVE[2], nodes=6))
    chart.show_calibration(between)
    chosen = chart._chosen_at()
    assert chosen is not None and points[1].x() < chosen.x() < points[2].x()
    one = chart.grab().toImage()
    chart.show_calibration(replace(FOUND, chosen=CURVE[0], paused=True, notice=PAUSE))
    assert chart.grab().toImage() != one and chart._chosen_at() == points[0]
    said = chart.words()
    assert "no guessing" in said and said.endswith(PAUSE)
    assert "without guessing: 40.0 tokens/s" in said and "8 rows: 72.0 tokens/s, 2.40 tokens a step" in said
    chart.show_calibration(FOUND)
    assert "Chosen: up to 8 rows, 5 levels." in chart.accessibleDescription()
    chart.show_calibration(replace(FOUND, curve=CURVE[:1], chosen=CURVE[0]))
    assert not chart.grab().isNull() and chart._chosen_at() is not None
    chart.show_calibration(None)
    assert chart.isHidden()


def test_what_the_engine_measured_reaches_the_chart(qtbot, open_window: OpenWindow) -> None:
    window = open_window()
    window.client._dispatch(Calibrated(FOUND))
    assert window.panel.calibration.calibration == FOUND and window.panel.calibration.isVisible()
    window.load(window.engine.command)
    qtbot.waitUntil(lambda: window.client.model is None, timeout=20000)
    qtbot.waitUntil(lambda: window.client.model is not None, timeout=20000)
    assert window.panel.calibration.calibration is None, "another model's curve stayed"


def test_the_charts_stand_below_each_other_in_a_narrow_panel(qtbot) -> None:
    panel = TreePanel()
    qtbot.addWidget(panel)
    panel.resize(440, 900)
    panel.show()
    panel.show_calibration(FOUND)
    play(panel, steps(3))
    qtbot.waitUntil(lambda: panel.calibration.width() > 0 and panel.depths.width() > 0)

    def places() -> list[QPoint]:
        return [each.mapTo(panel, QPoint(0, 0)) for each in (panel.timeline, panel.depths, panel.calibration)]

    qtbot.waitUntil(lambda: places()[1].y() > places()[0].y() and places()[1].y() == places()[2].y())
    panel.resize(900, 900)
    qtbot.waitUntil(lambda: len({place.y() for place in places()}) == 1)
