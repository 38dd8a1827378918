"""A walk through the windows over the main one: names, keys, and room for large text, in each language and theme."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from PySide6.QtCore import QLocale, QRect, Qt
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
from app.language import installing
from app.language.choice import OWN_NAMES, Language
from app.theme import ThemeChoice
from tests.app.conftest import OpenWindow
from tests.app.fake_engine import Script, say

CONTROLS = QAbstractButton | QComboBox | QAbstractSpinBox | QLineEdit | QPlainTextEdit | QAbstractItemView


Speak = Callable[[Language], object]


@pytest.fixture
def speak(qapp: QApplication) -> Iterator[Speak]:
    """``speak(language)`` puts it in force until the test is over."""
    before = QLocale()
    yield lambda language: installing.install(qapp, language)
    installing.install(qapp, Language.ENGLISH)
    QLocale.setDefault(before)


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


def wait_for_rest(qtbot: QtBot, root: QWidget) -> None:
    """Until nothing moves any more: layouts follow each other from the inside out."""
    last: list[QRect] = []

    def rests() -> bool:
        places = [widget.geometry() for widget in root.findChildren(QWidget) if widget.isVisible()]
        same, last[:] = places == last, places
        return same

    qtbot.waitUntil(rests, timeout=20000)


BOTH = (ThemeChoice.LIGHT, ThemeChoice.DARK)


# Themes differ in colours alone, so that one of them is enough for the larger sizes.
@pytest.mark.parametrize(("points", "themes"), [(10, BOTH), (15, BOTH[:1]), (20, BOTH[1:])])
@pytest.mark.parametrize("language", list(OWN_NAMES))
def test_every_window_names_its_controls_and_cuts_no_text(
    qtbot: QtBot, open_window: OpenWindow, look: QApplication, speak: Speak,
    language: Language, points: int, themes: tuple[ThemeChoice, ...],
) -> None:  # fmt: skip
    speak(language)
    style.apply(look, themes[0], points)
    window = open_window(Script(say("A reply."), model=MODEL, chunk_seconds=0.0))
    window.send_prompt("Hello")
    qtbot.waitUntil(lambda: window.replies.running is None, timeout=20000)
    found = {}
    for theme in themes:
        style.apply(look, theme, points)
        wait_for_rest(qtbot, window)
        found["main"] = faults(window)
        for exhibit in exhibits():
            widget = exhibit.open(window)
            widget.show()
            qtbot.waitUntil(lambda exhibit=exhibit, widget=widget: exhibit.ready(widget), timeout=20000)
            wait_for_rest(qtbot, widget)
            found[f"{exhibit.name}, {theme.value}"] = faults(widget)
            put_away(widget)
    assert {name: wrong for name, wrong in found.items() if wrong} == {}


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
