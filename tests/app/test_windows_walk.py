"""A walk through the windows over the main one: names, keys, and room for large text, in both themes."""

from __future__ import annotations

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QAccessible
from PySide6.QtWidgets import (
    QAbstractButton,
    QAbstractItemView,
    QAbstractSpinBox,
    QApplication,
    QComboBox,
    QLabel,
    QLineEdit,
    QPlainTextEdit,
    QTabBar,
    QWidget,
)
from pytestqt.qtbot import QtBot

from app import style
from app.gallery import MODEL, exhibits, put_away
from app.theme import ThemeChoice
from tests.app.conftest import OpenWindow
from tests.app.fake_engine import Script, say

CONTROLS = QAbstractButton | QComboBox | QAbstractSpinBox | QLineEdit | QPlainTextEdit | QAbstractItemView


def name_of(widget: QWidget) -> str:
    interface = QAccessible.queryAccessibleInterface(widget)
    return interface.text(QAccessible.Text.Name) if interface is not None else ""


def is_part(widget: QWidget) -> bool:
    """Whether Qt made the widget as a part of another: a spin box has its own line edit."""
    parent = widget.parentWidget()
    return isinstance(
        parent, QAbstractSpinBox | QComboBox | QAbstractItemView | QLineEdit | QTabBar
    ) or widget.objectName().startswith("qt_")


def faults(root: QWidget) -> list[str]:
    found = []
    for widget in root.findChildren(QWidget):
        if not widget.isVisible() or is_part(widget):
            continue
        if isinstance(widget, CONTROLS) and not name_of(widget):
            found.append(f"{type(widget).__name__} has no name")
        reached = bool(widget.focusPolicy() & Qt.FocusPolicy.TabFocus) or not widget.isEnabled()
        if isinstance(widget, QAbstractButton | QComboBox) and not reached:
            found.append(f"{name_of(widget)} cannot be reached")
        if isinstance(widget, QAbstractButton) and widget.width() < widget.minimumSizeHint().width() - 1:
            found.append(f"“{widget.text()}” is cut")
        if isinstance(widget, QLabel) and widget.text():
            room = widget.contentsRect()
            flags = Qt.TextFlag.TextWordWrap if widget.wordWrap() else Qt.TextFlag.TextSingleLine
            need = widget.fontMetrics().boundingRect(0, 0, max(1, room.width()), 10_000, flags, widget.text())
            if need.height() > room.height() + 2 or need.width() > room.width() + 2:
                found.append(f"“{widget.text()}” is cut: {need.size()} in {room.size()}")
    return found


@pytest.mark.parametrize("points", [10, 15, 20])
def test_every_window_names_its_controls_and_cuts_no_text(
    qtbot: QtBot, open_window: OpenWindow, look: QApplication, points: int
) -> None:
    window = open_window(Script(say("A reply."), model=MODEL, chunk_seconds=0.0))
    found = {}
    for theme in (ThemeChoice.LIGHT, ThemeChoice.DARK):
        style.apply(look, theme, points)
        for exhibit in exhibits():
            widget = exhibit.open(window)
            widget.show()
            qtbot.waitUntil(lambda exhibit=exhibit, widget=widget: exhibit.ready(widget), timeout=20000)
            qtbot.wait(20)
            if wrong := faults(widget):
                found[f"{exhibit.name}, {theme.value}, {points} pt"] = wrong
            put_away(widget)
    assert found == {}


def test_the_walk_finds_what_is_wrong(qtbot: QtBot) -> None:
    root = QWidget()
    qtbot.addWidget(root)
    QLineEdit(root)
    label = QLabel("A long text that has no room", root)
    label.resize(20, 10)
    root.show()
    assert [fault.split(":")[0] for fault in faults(root)] == [
        "QLineEdit has no name",
        "“A long text that has no room” is cut",
    ]
