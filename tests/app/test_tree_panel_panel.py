"""The panel: newest frame only, nothing while hidden, and a walk through every step."""

from __future__ import annotations

import time

import pytest
from PySide6.QtCore import QObject, QPoint, Qt
from PySide6.QtWidgets import QAbstractButton, QApplication

from app.tree_panel import pacer, shelf
from app.tree_panel import panel as panel_module
from app.tree_panel.explanation import DROPPED_NOTE, NO_REPLY, PLAIN_NOTE, PROMPT_NOTE, READING
from app.tree_panel.panel import TreePanel
from app.tree_panel.tree_view import TreeView
from app.tree_panel.zoom_area import Zoom
from engine.protocol import FinishReason, Mode
from tests.app.tree_panel_steps import finished, plain_steps, play, shows, step, steps


@pytest.fixture
def panel(qtbot) -> TreePanel:
    made = TreePanel()
    qtbot.addWidget(made)
    made.resize(440, 820)
    made.show()
    qtbot.waitExposed(made)
    return made


@pytest.fixture
def frames(monkeypatch) -> list[int]:
    """Numbers of the steps that were laid out."""
    shown: list[int] = []
    real = TreeView.show_step

    def counted(self: TreeView, one, note: str = "") -> None:
        shown.append(one.index)
        real(self, one, note)

    monkeypatch.setattr(TreeView, "show_step", counted)
    return shown


@pytest.fixture
def paints(monkeypatch) -> list[int]:
    seen: list[int] = []
    real = TreeView.paintEvent

    def counted(self: TreeView, event) -> None:
        seen.append(1)
        real(self, event)

    monkeypatch.setattr(TreeView, "paintEvent", counted)
    return seen


def test_only_the_newest_step_of_a_burst_is_drawn(panel, frames, qtbot) -> None:
    play(panel, steps(300, nodes=20))
    qtbot.waitUntil(shows(panel, 299))
    assert len(frames) <= 2
    assert len(panel.history) == 300


def test_never_more_than_sixty_frames_a_second(panel, frames, paints, qtbot) -> None:
    panel.begin_reply("r")
    began = time.perf_counter()
    for index in range(200):
        panel.add_step(step(index))
        qtbot.wait(2)
    qtbot.waitUntil(shows(panel, 199))
    spent = time.perf_counter() - began
    assert 3 <= len(frames) <= spent * 60 + 2
    assert frames == sorted(frames)
    assert len(paints) <= len(frames) + 5


def test_a_frame_that_takes_long_is_followed_by_a_longer_wait(panel, monkeypatch, qtbot) -> None:
    monkeypatch.setattr(pacer, "FRAME_BUDGET", -1.0)
    for index in range(12):
        if index == 0:
            panel.begin_reply("r")
        panel.add_step(step(index))
        qtbot.waitUntil(shows(panel, index))
    assert panel.pacer.interval == pacer.SLOWEST_FRAME_MS
    monkeypatch.setattr(pacer, "FRAME_BUDGET", 10.0)
    for index in range(12, 17):
        panel.add_step(step(index))
        qtbot.waitUntil(shows(panel, index))
    assert panel.pacer.interval < pacer.SLOWEST_FRAME_MS


def test_figures_of_a_live_reply_change_less_often_than_the_tree(panel, frames, monkeypatch, qtbot) -> None:
    """A number that changes sixty times a second cannot be read, and charts cost more than the tree."""
    play(panel, steps(3))
    qtbot.waitUntil(shows(panel, 2))
    told: list[int] = []
    real = panel.timeline.show_history
    monkeypatch.setattr(panel.timeline, "show_history", lambda history, at: (told.append(at), real(history, at)))
    monkeypatch.setattr(panel_module, "FIGURES_MS", 10**7)
    for index in range(3, 9):
        panel.add_step(step(index))
        qtbot.waitUntil(shows(panel, index))
    assert frames[-6:] == [3, 4, 5, 6, 7, 8] and told == [], "the tree goes on"
    monkeypatch.setattr(panel_module, "FIGURES_MS", 1)
    panel.add_step(step(9))
    qtbot.waitUntil(lambda: told != [])
    assert told == [9] and frames[-1] == 9
    monkeypatch.setattr(panel_module, "FIGURES_MS", 10**7)
    panel.add_step(step(10))
    qtbot.waitUntil(shows(panel, 10))
    panel.finish_reply(finished(steps(11)))
    assert told == [9, 10], "the end is told at once"


def test_a_frame_that_waits_long_is_brought_forward(qtbot) -> None:
    drawn: list[int] = []
    holder = QObject()
    paced = pacer.FramePacer(lambda: drawn.append(1), holder)
    paced.soon(10**6)
    assert paced.waits and drawn == []
    paced.soon()
    qtbot.waitUntil(lambda: drawn == [1])
    assert not paced.waits


def test_a_hidden_panel_costs_nothing_and_catches_up(panel, frames, paints, qtbot) -> None:
    panel.begin_reply("r")
    panel.hide()
    QApplication.processEvents()
    paints.clear()
    for one in steps(50):
        panel.add_step(one)
        assert not panel.pacer.waits  # nothing even waits
    qtbot.wait(80)
    assert frames == [] and paints == []
    assert len(panel.history) == 50
    panel.show()
    qtbot.waitUntil(shows(panel, 49))
    assert frames == [49]


def test_pausing_holds_the_step_and_goes_on_receiving(panel, frames, qtbot) -> None:
    play(panel, steps(10))
    qtbot.waitUntil(shows(panel, 9))
    panel.pause()
    assert not panel.is_live
    del frames[:]
    play(panel, [step(index) for index in range(10, 30)], begin=False)
    qtbot.waitUntil(lambda: panel.transport.slider.maximum() == 29)
    assert panel.view.step.index == 9 and frames == []
    assert panel.transport.pause.text() == "Live +20"
    assert "step of 29" in panel.figures.where.accessibleName(), "as the bar below says"
    panel.resume()
    assert panel.view.step.index == 29 and panel.is_live
    assert panel.transport.pause.text() == ""


def test_keys_walk_through_the_steps(panel, qtbot) -> None:
    play(panel, steps(20))
    qtbot.waitUntil(shows(panel, 19))
    chosen = []
    panel.step_selected.connect(lambda request, index: chosen.append((request, index)))
    for where in (panel, panel.view, panel.transport.slider):
        qtbot.keyClick(where, Qt.Key.Key_Home)
        assert panel.view.step.index == 0
        qtbot.keyClick(where, Qt.Key.Key_Right)
        qtbot.keyClick(where, Qt.Key.Key_Right)
        assert panel.view.step.index == 2
        qtbot.keyClick(where, Qt.Key.Key_Left)
        assert panel.view.step.index == 1
        qtbot.keyClick(where, Qt.Key.Key_End)
        assert panel.view.step.index == 19
    assert chosen[:5] == [("r", 0), ("r", 1), ("r", 2), ("r", 1), ("r", 19)]
    qtbot.keyClick(panel.view, Qt.Key.Key_Space)
    assert panel.is_live and chosen[-1] == ("r", -1)
    qtbot.keyClick(panel.view, Qt.Key.Key_Space)
    assert not panel.is_live and chosen[-1] == ("r", 19)


def test_keys_stop_at_both_ends(panel, qtbot) -> None:
    play(panel, steps(3))
    qtbot.waitUntil(shows(panel, 2))
    for key, index in ((Qt.Key.Key_Right, 2), (Qt.Key.Key_Home, 0), (Qt.Key.Key_Left, 0)):
        qtbot.keyClick(panel.view, key)
        assert panel.view.step.index == index


def test_buttons_and_slider_walk_too(panel, qtbot) -> None:
    play(panel, steps(20))
    qtbot.waitUntil(shows(panel, 19))
    bar = panel.transport
    assert not bar.forward.isEnabled() and not bar.last.isEnabled()
    bar.back.click()
    assert panel.view.step.index == 18
    bar.first.click()
    assert panel.view.step.index == 0 and not bar.back.isEnabled() and not bar.first.isEnabled()
    bar.forward.click()
    assert panel.view.step.index == 1
    bar.last.click()
    assert panel.view.step.index == 19
    bar.slider.setValue(7)
    assert panel.view.step.index == 7 and panel.position == 7
    assert bar.label.text() == "Step 7 of 19"
    bar.pause.click()
    assert panel.is_live and panel.view.step.index == 19


def test_the_timeline_leads_to_the_step_that_is_clicked(panel, qtbot) -> None:
    play(panel, steps(20))
    qtbot.waitUntil(shows(panel, 19))
    line = panel.timeline
    x = next(x for x in range(line.width()) if line.position_at(x) == 11)
    qtbot.mouseClick(line, Qt.MouseButton.LeftButton, pos=QPoint(x + 1, line.height() - 10))
    assert panel.view.step.index == 11


def test_the_timeline_holds_more_steps_than_pixels(panel, qtbot) -> None:
    play(panel, steps(3000, nodes=3, depth=2))
    qtbot.waitUntil(shows(panel, 2999))
    line = panel.timeline
    positions = [line.position_at(x) for x in range(line.width())]
    assert positions == sorted(positions) and positions[0] == 0 and 2900 < positions[-1] < 3000
    assert not line.grab().isNull()


def test_figures_follow_the_step_that_is_shown(panel, qtbot) -> None:
    played = steps(20, nodes=10)
    play(panel, played)
    qtbot.waitUntil(shows(panel, 19))
    panel.go_to(5)
    figures = panel.history.figures(5)
    assert panel.figures.tau.value == f"{figures.acceptance_length:.2f}"
    assert panel.figures.speed.value == f"{figures.tokens_per_second:.1f}"
    assert panel.figures.accepted.value == f"{figures.accepted}/{9 * 5}"
    assert panel.figures.where.value == "5" and panel.figures.where.caption == "step of 19"
    assert panel.depths.levels == panel.history.acceptance_by_depth(5)
    assert f"verify {played[5].times.verify * 1000:.1f} ms" in panel.times.text
    assert panel.times.accessibleDescription() == panel.times.text
    panel.go_to(0)
    assert panel.figures.tau.value == "–" and panel.figures.where.value == "prompt"


def test_the_time_bar_is_divided_as_the_step_was(panel, qtbot) -> None:
    play(panel, steps(3))
    qtbot.waitUntil(shows(panel, 2))
    with_parts = panel.times.grab().toImage()
    panel.times.show_times(None)
    assert panel.times.grab().toImage() != with_parts


def test_a_finished_reply_shows_its_last_step_and_ends_pausing(panel, qtbot) -> None:
    played = steps(6)
    panel.begin_reply("r")
    for one in played:
        panel.add_step(one)
    panel.finish_reply(finished(played, decode_seconds=2.0))
    assert panel.view.step.index == 5  # at once, not at the next frame
    tokens = sum(len(one.pieces) for one in played) - 1
    assert panel.figures.speed.value == f"{tokens / 2.0:.1f}"
    assert not panel.transport.pause.isEnabled()
    panel.add_step(step(6))
    assert len(panel.history) == 6  # nothing comes after the end
    qtbot.keyClick(panel.view, Qt.Key.Key_Left)
    assert panel.view.step.index == 4


def test_events_of_other_replies_are_ignored(panel, qtbot) -> None:
    play(panel, steps(3))
    panel.add_step(step(1, request_id="other"))
    panel.finish_reply(finished(steps(2, request_id="other")))
    qtbot.waitUntil(shows(panel, 2))
    assert len(panel.history) == 3 and panel.history.finished is None


def test_a_new_reply_is_followed_from_its_beginning(panel, qtbot) -> None:
    play(panel, steps(5))
    qtbot.waitUntil(shows(panel, 4))
    panel.go_to(1)
    panel.begin_reply("second")
    assert panel.is_live and panel.view.step is None and panel.view.message == READING
    assert panel.figures.tau.value == "–" and panel.transport.slider.maximum() == 0
    play(panel, steps(2, request_id="second"), begin=False)
    qtbot.waitUntil(shows(panel, 1))
    assert panel.view.step.request_id == "second"


def test_earlier_replies_can_be_looked_at_until_they_are_forgotten(panel, qtbot) -> None:
    for number in range(shelf.REPLIES_KEPT + 1):
        played = steps(4, request_id=f"r{number}")
        play(panel, played)
        panel.finish_reply(finished(played))
    assert not panel.show_step("r0")
    assert panel.show_step("r1", 2)
    assert panel.view.step.request_id == "r1" and panel.view.step.index == 2 and not panel.is_live
    assert not panel.show_step("r1", 99)
    assert panel.show_step("r2") and panel.view.step.index == 3
    panel.clear()
    assert panel.view.message == NO_REPLY and not panel.show_step("r2")


def test_a_reply_that_fails_can_still_be_walked_through(panel, qtbot) -> None:
    play(panel, steps(4))
    panel.fail_reply("r")
    assert panel.view.step.index == 3 and not panel.transport.pause.isEnabled()
    panel.begin_reply("empty")
    panel.fail_reply("empty")
    assert "before its first token" in panel.view.message


def test_empty_states_are_said_in_words(panel, qtbot) -> None:
    assert panel.view.message == NO_REPLY
    assert not any(button.isEnabled() for button in panel.transport.findChildren(QAbstractButton))
    play(panel, plain_steps(["a", " b", " c"]))
    qtbot.waitUntil(shows(panel, 2))
    assert panel.view.note == PLAIN_NOTE
    assert panel.figures.tau.value == "1.00" and panel.figures.accepted.value == "–"
    plain_line = panel.timeline.grab().toImage()
    panel.timeline.show_history(None, -1)
    assert panel.timeline.grab().toImage() != plain_line
    panel.go_to(0)
    assert panel.view.note == PROMPT_NOTE


def test_switching_eagle_in_a_reply_shows_trees_where_there_are_some(panel, qtbot) -> None:
    mixed = [step(0), step(1), step(2, nodes=0), step(3)]
    play(panel, mixed)
    panel.finish_reply(finished(mixed, mode=Mode.MIXED, reason=FinishReason.LENGTH))
    notes = []
    for position in range(4):
        panel.go_to(position)
        notes.append(panel.view.note)
    assert notes == [PROMPT_NOTE, "", PLAIN_NOTE, ""]


def test_a_dropped_tree_is_explained(panel, qtbot, monkeypatch) -> None:
    monkeypatch.setattr(shelf, "TREE_BYTES", 2000)
    play(panel, steps(60, nodes=20))
    qtbot.waitUntil(shows(panel, 59))
    panel.go_to(1)
    assert panel.view.note == DROPPED_NOTE
    panel.go_to(59)
    assert panel.view.note == ""


def test_zoom_buttons_work_on_the_tree(panel, qtbot) -> None:
    play(panel, steps(3, nodes=60, depth=8))
    qtbot.waitUntil(shows(panel, 2))
    panel.zoom_fit.click()
    fitted = panel.view.zoom
    assert panel.view.zoom_mode is Zoom.FIT and panel.zoom_fit.isChecked()
    panel.zoom_in.click()
    assert panel.view.zoom > fitted and not panel.zoom_fit.isChecked()
    panel.zoom_out.click()
    assert panel.view.zoom == pytest.approx(fitted)
    qtbot.keyClick(panel.view, Qt.Key.Key_0, Qt.KeyboardModifier.ControlModifier)
    assert panel.view.zoom_mode is Zoom.AUTO
