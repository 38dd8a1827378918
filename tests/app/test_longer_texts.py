"""Under a language of 40 % longer texts: the chat column and the model picker fit a small screen, wholly translated."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from PySide6.QtCore import QCoreApplication, QEvent
from PySide6.QtGui import QKeySequence
from PySide6.QtWidgets import (
    QAbstractButton,
    QApplication,
    QComboBox,
    QDialog,
    QLabel,
    QLineEdit,
    QPlainTextEdit,
    QTabBar,
    QTextEdit,
    QWidget,
)
from pytestqt.qtbot import QtBot

from app.gallery import exhibits, put_away
from app.language import tr, tr_n
from app.main_window import MainWindow
from tests.app.conftest import OpenWindow
from tests.app.fake_engine import Script, say
from tests.app.pseudo_language import lengthened, pseudo_language

SCREEN = (1280, 720)
FRAME = 30
"""Height of a title bar."""
HUB = [each for each in exhibits() if each.name.startswith(("hub", "link", "instructions"))]


@pytest.fixture
def longer(qapp: QApplication) -> Iterator[None]:
    with pseudo_language(qapp):
        yield


@pytest.fixture
def window(longer: None, qtbot: QtBot, open_window: OpenWindow) -> MainWindow:
    made = open_window(Script(say("A reply. " * 40), chunk_seconds=0.0))
    made.resize(SCREEN[0], SCREEN[1] - FRAME)
    return made


def settle(root: QWidget) -> None:
    """Layouts are done when what they have posted is."""
    for _ in range(3):
        QCoreApplication.sendPostedEvents(None, QEvent.Type.LayoutRequest.value)
        QApplication.processEvents()


def cut(root: QWidget) -> list[str]:
    """Texts of labels and buttons that have less room than they need."""
    found = []
    for widget in root.findChildren(QWidget):
        if not widget.isVisible():
            continue
        if isinstance(widget, QLabel) and widget.text() and not widget.wordWrap():
            shown = widget.sizePolicy().horizontalPolicy() is not widget.sizePolicy().Policy.Ignored
            if shown and widget.width() < widget.sizeHint().width():
                found.append(widget.text())
        elif isinstance(widget, QLabel) and widget.text():
            if widget.height() < widget.heightForWidth(widget.width()):
                found.append(widget.text())
        elif isinstance(widget, QAbstractButton) and widget.text():
            if widget.width() < widget.minimumSizeHint().width():
                found.append(widget.text())
        elif isinstance(widget, QTabBar) and widget.width() < widget.sizeHint().width():
            found.append(widget.tabText(0))
    return found


def texts(root: QWidget) -> Iterator[str]:
    """What a person or a screen reader is told by the widgets in sight."""
    yield root.windowTitle()
    for widget in root.findChildren(QWidget):
        if not widget.isVisible():
            continue
        yield from (widget.toolTip(), widget.accessibleName(), widget.accessibleDescription())
        if isinstance(widget, QLabel | QAbstractButton):
            yield widget.text()
        elif isinstance(widget, QLineEdit | QPlainTextEdit | QTextEdit):
            yield widget.placeholderText()
        elif isinstance(widget, QTabBar):
            yield from (widget.tabText(place) for place in range(widget.count()))
        elif isinstance(widget, QComboBox):
            yield widget.itemText(0)


def untranslated(root: QWidget, known: str) -> list[str]:
    """Texts with words of no language but English; those that match ``known`` are names and data."""
    found = {text for text in texts(root) if re.search(r"[A-Za-z]{2}", text) and "[" not in text}
    return sorted(text for text in found if not re.fullmatch(known, text, re.DOTALL))


# --------------------------------------------------------------------------- the windows


def test_the_main_window_fits_a_small_screen_and_cuts_nothing(qtbot: QtBot, window: MainWindow) -> None:
    assert window.minimumSizeHint().width() <= SCREEN[0]
    assert window.minimumSizeHint().height() <= SCREEN[1] - FRAME
    column = window.empty.parentWidget().parentWidget()
    settle(window)
    assert cut(column) == [] and cut(window.chat_list) == []
    assert window.empty.widget().width() == window.empty.viewport().width()
    window.send_prompt("A question of the user")
    qtbot.waitUntil(lambda: window.replies.running is None, timeout=20000)
    window.desk.edit(window.book.current.messages[0])
    window.desk.regenerate_last()
    qtbot.waitUntil(lambda: window.replies.running is None, timeout=20000)
    settle(window)
    assert cut(column) == [] and cut(window.chat_list) == []
    data = r"A question.*|Scripted.*|Gemma.*|\d+/\d+|Eyrie"
    assert untranslated(column, data) == [] and untranslated(window.chat_list, data) == []


@pytest.mark.parametrize("exhibit", HUB, ids=lambda each: each.name)
def test_the_dialogs_fit_a_small_screen_and_cut_nothing(qtbot: QtBot, window: MainWindow, exhibit) -> None:
    widget = exhibit.open(window)
    widget.show()
    qtbot.waitUntil(lambda: exhibit.ready(widget), timeout=20000)
    settle(widget)
    assert isinstance(widget, QDialog)
    assert widget.minimumSizeHint().width() <= SCREEN[0]
    assert widget.minimumSizeHint().height() <= SCREEN[1] - FRAME
    assert cut(widget) == []
    # Names, addresses and what a hub tells; and sentences of the engine, which has its own translations.
    data = r"[\w.\- ]+/[\w.\-: ]+|hf_…|https?:.*|file:.*|Needs .*|Qwen.*|New chat|[\w.\-/]+ is gated.*|It was made .*"
    assert untranslated(widget, data) == []
    put_away(widget)


# --------------------------------------------------------------------------- the language


@pytest.mark.parametrize("text", ["Open", "&Delete chat", "Accepted {count} tokens of {total:,}", "%n chats", "{a}"])
def test_a_text_is_longer_and_keeps_its_placeholders(longer: None, text: str) -> None:
    shown = lengthened(text)
    for kept in re.findall(r"\{[^}]*\}|%n|&\w", text):
        assert kept in shown
    letters = re.sub(r"\{[^}]*\}|%n|&", "", text)
    assert text == "{a}" or len(shown) >= len(text) + 0.4 * len(letters)


def test_texts_are_put_together_and_keys_stay(longer: None) -> None:
    assert tr("Any", "{done} of {total}").format(done=1, total=2) == "[1 öf 2lô]"
    assert tr_n("Any", "{count} chat", "{count} chats", 1).format(count=1) == "[1 çhátšlô]"
    assert tr("Any", "Chats (*.json)") == "[Chátš (*.json)lô]"
    assert QKeySequence("Ctrl+D").toString(QKeySequence.SequenceFormat.NativeText) == "Ctrl+D"
