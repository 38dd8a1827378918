"""The panel for everybody: table, names, words for pictures, narrow windows, literal text."""

from __future__ import annotations

import time

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QAbstractButton, QAbstractSlider, QApplication, QTableView, QWidget

from app import style
from app.theme import ThemeChoice
from app.tree_panel.description import COLUMNS
from app.tree_panel.panel import TreePanel
from app.tree_panel.token_text import visible
from app.tree_panel.tree_view import TreeView
from tests.app.tree_panel_steps import finished, play, shows, step, steps


@pytest.fixture
def panel(qtbot) -> TreePanel:
    made = TreePanel()
    qtbot.addWidget(made)
    made.resize(440, 820)
    made.show()
    qtbot.waitExposed(made)
    return made


def test_the_table_says_what_the_tree_shows(panel, qtbot) -> None:
    play(panel, steps(6, nodes=20))
    qtbot.waitUntil(shows(panel, 5))
    panel.table_button.click()
    assert panel.stack.currentWidget() is panel.table
    panel.go_to(3)
    model = panel.table.step_model
    one = panel.history.step(3)
    assert model.rowCount() == len(one.nodes) + 1
    column = COLUMNS.index("Token")
    texts = [model.index(row, column).data() for row in range(model.rowCount())]
    assert texts == [visible(node.text) for node in one.nodes] + [visible(one.bonus.text)]
    verdicts = [model.index(row, COLUMNS.index("Verdict")).data() for row in range(model.rowCount())]
    assert [row for row, said in enumerate(verdicts) if said.startswith("Accepted")] == sorted(one.accepted)
    spoken = model.index(1, column).data(Qt.ItemDataRole.AccessibleTextRole)
    assert spoken == f"Token: {texts[1]}"
    panel.tree_button.click()
    assert panel.stack.currentWidget() is panel.view


def test_a_live_table_changes_slowly_enough_to_be_read(panel, qtbot) -> None:
    play(panel, steps(3))
    qtbot.waitUntil(shows(panel, 2))
    panel.table_button.click()
    resets = []
    panel.table.step_model.modelReset.connect(lambda: resets.append(1))
    began = time.perf_counter()
    for index in range(3, 40):
        panel.add_step(step(index))
        qtbot.wait(15)
    qtbot.waitUntil(shows(panel, 39))
    assert 1 <= len(resets) <= (time.perf_counter() - began) * 4 + 2
    assert len(panel.table.step_model.rows) == 9  # and the newest step arrives


def test_the_table_is_copied_as_text(panel, qtbot) -> None:
    play(panel, steps(4, nodes=6))
    qtbot.waitUntil(shows(panel, 3))
    panel.table_button.click()
    panel.copy_button.click()
    lines = QGuiApplication.clipboard().text().split("\n")
    assert lines[0].split("\t") == list(COLUMNS) and len(lines) == 1 + 7

    def selected() -> bool:
        panel.table.selectRow(2)  # again if the table, which is drawn a few times a second, has come anew
        return len(panel.table.selectionModel().selectedRows()) == 1

    qtbot.wait(400)
    qtbot.waitUntil(selected)
    qtbot.keyClick(panel.table, Qt.Key.Key_C, Qt.KeyboardModifier.ControlModifier)
    assert QGuiApplication.clipboard().text().split("\n")[1:] == [lines[3]]


def test_markup_in_tokens_is_shown_as_it_is(panel, qtbot) -> None:
    panel.begin_reply("r")
    panel.add_step(step(0, words=("<h1>x</h1>",)))
    panel.add_step(step(1, words=("<b>bold</b>", "<img src=x>"), root="<i>r</i>"))
    panel.finish_reply(finished([step(0), step(1)]))
    assert "“\u2068<" in panel.view.accessibleDescription()
    texts = {row.token for row in _table_rows(panel)}
    assert texts == {"<b>bold</b>", "<img␣src=x>", "<i>r</i>"}
    assert panel.transport.label.textFormat() is Qt.TextFormat.PlainText
    assert panel.heading.explanation.textFormat() is Qt.TextFormat.PlainText


def _table_rows(panel: TreePanel):
    panel.table_button.click()
    return panel.table.step_model.rows


def test_the_explanation_opens_and_closes(panel, qtbot) -> None:
    assert not panel.heading.explanation.isVisible()
    panel.heading.button.click()
    assert panel.heading.explanation.isVisible() and "guess" in panel.heading.explanation.text()
    panel.heading.button.click()
    assert not panel.heading.explanation.isVisible()


def test_every_control_has_a_name(panel) -> None:
    controls = [
        widget
        for kind in (QAbstractButton, QAbstractSlider, QTableView, TreeView)
        for widget in panel.findChildren(kind)
        # Table headers bring nameless controls of their own, which nothing reaches by keyboard.
        if not widget.objectName().startswith("qt_") and not isinstance(widget.parent(), QTableView)
    ]
    controls = [widget for widget in controls if widget.focusPolicy() != Qt.FocusPolicy.NoFocus]
    assert len(controls) >= 15
    for widget in controls:
        assert widget.accessibleName(), f"{widget} has no name"
    for widget in (panel.timeline, panel.depths, panel.times, panel.legend, panel.figures.tau):
        assert widget.accessibleName()
    assert panel.accessibleName()


def test_screen_readers_get_words_for_every_picture(panel, qtbot) -> None:
    played = steps(8)
    play(panel, played)
    panel.finish_reply(finished(played))
    assert panel.view.accessibleDescription().startswith("Step 7:")
    assert panel.depths.accessibleDescription().startswith("Depth 1: accepted in")
    assert "8 steps" in panel.timeline.accessibleDescription()
    assert panel.figures.tau.accessibleName().startswith("tokens per step (τ): ")


@pytest.mark.parametrize("width", [320, 420, 900])
def test_nothing_is_cut_off_at_the_sides(panel, qtbot, width: int) -> None:
    play(panel, steps(4, nodes=30, depth=6))
    qtbot.waitUntil(shows(panel, 3))
    panel.resize(width, 820)
    QApplication.processEvents()
    assert panel.width() == width
    inner = panel._scroll.viewport()
    for widget in panel.findChildren(QWidget):
        if widget.isVisible() and panel._scroll.widget().isAncestorOf(widget):
            right = widget.mapTo(panel, QPoint(widget.width(), 0)).x()
            assert right <= panel.width(), f"{widget} ends at {right}"
    assert panel._scroll.widget().width() == inner.width()
    assert panel.figures._columns == (4 if width == 900 else 2)


@pytest.mark.parametrize("points", [10, 20])
def test_everything_is_in_reach_at_the_least_width(panel, qtbot, look, points: int) -> None:
    """In the application's own look: the buttons above the picture are what needs the most room."""
    style.apply(look, ThemeChoice.LIGHT, points)
    play(panel, steps(4, nodes=30, depth=6))
    qtbot.waitUntil(shows(panel, 3))
    panel.resize(panel.minimumSizeHint().width(), 600)
    area = panel._scroll
    qtbot.waitUntil(
        lambda: area.widget().width() <= area.viewport().width() + area.horizontalScrollBar().maximum(), timeout=20000
    )
    end = panel.export_button.mapTo(area.widget(), QPoint(panel.export_button.width(), 0)).x()
    assert end <= area.viewport().width() + area.horizontalScrollBar().maximum()
    assert panel.minimumSizeHint().width() <= 370
    if points == 10:
        assert area.horizontalScrollBar().maximum() == 0, "no need to scroll"
    else:
        qtbot.waitUntil(area.horizontalScrollBar().isVisible, timeout=20000)


def test_the_tab_key_goes_from_top_to_bottom(panel, qtbot) -> None:
    play(panel, steps(4))
    qtbot.waitUntil(shows(panel, 3))
    at = panel.heading.button
    met = []
    while at is not panel.transport.slider and len(met) < 40:
        at = at.nextInFocusChain()
        if at.isVisible() and at.focusPolicy() & Qt.FocusPolicy.TabFocus:
            met.append(at)
    assert met == [
        panel.tree_button,
        panel.table_button,
        panel.zoom_out,
        panel.zoom_fit,
        panel.zoom_in,
        panel.export_button,
        panel.view,
        panel.transport.slider,
    ]
