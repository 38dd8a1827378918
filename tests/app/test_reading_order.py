"""Tab goes through chats and the model picker as they are read, and every stop has a name."""

from __future__ import annotations

from itertools import pairwise

import pytest
from PySide6.QtCore import QCoreApplication, QEvent, QPoint, QRect, Qt
from PySide6.QtGui import QAccessible
from PySide6.QtWidgets import QPushButton, QVBoxLayout, QWidget
from pytestqt.qtbot import QtBot

from app.chat.conversation import Chat, ChatMessage
from app.chat.message_text import MessageText
from app.gallery import exhibits, put_away
from app.tab_order import in_order
from engine.protocol import Role
from tests.app.conftest import OpenWindow
from tests.app.fake_engine import Script, say

REPLY = "<think>\nIt is short.\n</think>\n\nCode:\n\n```python\nprint(1)\n```\n\nand text, and\n\n```c\nint a;\n```\n"
WINDOWS = [each for each in exhibits() if each.name.startswith(("hub", "link", "instructions"))]


def stops(root: QWidget) -> list[QWidget]:
    """What Tab reaches in a window, in its order."""
    found, at = [], root.nextInFocusChain()
    while at is not root:
        reached = at.focusPolicy() & Qt.FocusPolicy.TabFocus and at.focusProxy() is None
        if reached and at.isVisible() and at.isEnabled():
            found.append(at)
        at = at.nextInFocusChain()
    return found


def name_of(widget: QWidget) -> str:
    interface = QAccessible.queryAccessibleInterface(widget)
    return interface.text(QAccessible.Text.Name) if interface is not None else ""


def goes_back(one: QWidget, other: QWidget) -> bool:
    """Whether ``other`` is read before ``one``: it stands straight above it, or left of it in its line."""
    if one.isAncestorOf(other) or other.isAncestorOf(one):
        return False
    a, b = (QRect(each.mapToGlobal(QPoint(0, 0)), each.size()) for each in (one, other))
    beside = a.top() < b.bottom() and b.top() < a.bottom()
    below = a.left() < b.right() and b.left() < a.right()
    return (b.bottom() <= a.top() and below) or (b.right() <= a.left() and beside)


def faults(found: list[QWidget]) -> list[str]:
    nameless = [f"{type(each).__name__} has no name" for each in found if not name_of(each)]
    back = [
        f"from “{name_of(one)}” back to “{name_of(other)}”" for one, other in pairwise(found) if goes_back(one, other)
    ]
    return nameless + back


def between(found: list[QWidget], first: QWidget, last: QWidget) -> list[QWidget]:
    return found[found.index(first) : found.index(last) + 1]


@pytest.mark.parametrize("exhibit", WINDOWS, ids=lambda each: each.name)
def test_dialogs_are_gone_through_as_they_are_read(qtbot: QtBot, open_window: OpenWindow, exhibit) -> None:
    window = open_window()
    widget = exhibit.open(window)
    widget.show()
    qtbot.waitUntil(lambda: exhibit.ready(widget), timeout=20000)
    found = stops(widget)
    assert len(found) > 1 and faults(found) == []
    put_away(widget)


def conversation(turns: int) -> Chat:
    chat = Chat()
    for number in range(turns):
        chat.add([ChatMessage(Role.USER, f"Question {number}"), ChatMessage(Role.ASSISTANT, f"Answer {number}")])
    return chat


def test_messages_stand_between_the_list_and_the_prompt(qtbot: QtBot, open_window: OpenWindow) -> None:
    """Those that are made first, the older ones that come in above, and the reply that grows."""
    window = open_window(Script(say(REPLY), chunk_seconds=0.0))
    chat = conversation(9)
    window.book.take([chat])
    window.book.select(chat)
    views = window.transcript._views
    qtbot.waitUntil(lambda: len(views) == 18, timeout=20000)
    window.send_prompt("Think, and write code")
    qtbot.waitUntil(lambda: window.replies.running is None and len(views) == 20, timeout=20000)
    newest = views[chat.messages[-1].id]
    thoughts = newest.body.thoughts
    assert thoughts is not None
    thoughts.open()
    for view in views.values():
        for flow in view.body._flows():
            flow.build()
    # What stood in for the texts is gone before anybody walks along it: PySide takes a widget that
    # ``nextInFocusChain`` gives for a child of the one before, and would let it go with that one.
    QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete.value)
    qtbot.waitUntil(lambda: newest.body.answer.pieces[-1].height() > 100, timeout=20000)
    window.transcript.follow()

    def found() -> list[QWidget]:
        return between(stops(window), window.chat_list.new_button, window.composer.edit)

    qtbot.waitUntil(lambda: faults(found()) == [], timeout=20000)  # heights come with the texts
    texts = [each for each in found() if isinstance(each, MessageText)]
    assert [name_of(each).partition(" of ")[0] for each in texts[-3:]] == ["Your prompt", "Thoughts", "Reply"]
    assert [each.source() for each in texts[:4]] == ["Question 0", "Answer 0", "Question 1", "Answer 1"]
    assert [name_of(each) for each in found() if name_of(each).startswith("Copy this code")] == [
        "Copy this code (python)",
        "Copy this code (c)",
    ]


def test_an_empty_chat_and_its_notices_are_gone_through_as_they_are_read(
    qtbot: QtBot, open_window: OpenWindow, tmp_path
) -> None:
    window = open_window()
    window.notices.error.say("Something went wrong.", details="More")
    files = [tmp_path / name for name in ("one.txt", "two.txt")]
    for path in files:
        path.write_text("text")
    window.composer.attach(files)
    found = between(stops(window), window.chat_list.new_button, window.composer.send_button)
    assert faults(found) == []
    names = [name_of(each) for each in found]
    assert {"Copy details", "Take one.txt away", "Take two.txt away", "Send (Enter)"} <= set(names)
    assert sum(each in window.empty.buttons for each in found) == 4


def test_the_walk_finds_what_is_wrong(qtbot: QtBot) -> None:
    root = QWidget()
    qtbot.addWidget(root)
    column = QVBoxLayout(root)
    column.addWidget(QPushButton("first"))
    buttons = [QPushButton(name) for name in ("lower", "upper", "")]
    for button in reversed(buttons):
        column.addWidget(button)
    in_order(buttons)
    root.show()
    assert faults(stops(root)) == [
        "QPushButton has no name", "from “lower” back to “upper”", "from “upper” back to “”",
    ]  # fmt: skip
    in_order(reversed(buttons))
    assert faults(stops(root)) == ["QPushButton has no name"]
