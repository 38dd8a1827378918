"""Several chats: what is typed, what runs, what is deleted."""

from __future__ import annotations

from PySide6.QtCore import QAbstractItemModel, Qt
from PySide6.QtTest import QAbstractItemModelTester
from PySide6.QtWidgets import QLineEdit, QStyle, QStyleOptionFrame
from pytestqt.qtbot import QtBot

from app.chat.book import ChatBook
from app.chat.conversation import ChatMessage
from app.chat.list_model import ChatListModel
from app.chat.transcript import PAGE
from app.main_window import MainWindow
from engine.protocol import FinishReason, Role
from tests.app.conftest import OpenWindow
from tests.app.fake_engine import SENTENCE, Script, say

ENDLESS = Script(say(SENTENCE * 2000), tokens_per_second=200, chunk_seconds=0.0)
"""Never ends by itself in the time of a test."""


def send(qtbot: QtBot, window: MainWindow, prompt: str) -> ChatMessage:
    window.send_prompt(prompt)
    message = window.replies.running
    assert message is not None
    return message


def finish(qtbot: QtBot, window: MainWindow) -> None:
    qtbot.waitUntil(lambda: window.replies.running is None, timeout=20000)
    qtbot.wait(30)


def texts(model: QAbstractItemModel) -> list[str]:
    return [model.index(row, 0).data() for row in range(model.rowCount())]


def test_the_list_model_keeps_qts_rules(qtbot: QtBot) -> None:
    book = ChatBook()
    model = ChatListModel(book)
    tester = QAbstractItemModelTester(model, QAbstractItemModelTester.FailureReportingMode.Warning)
    first = book.current
    first.add([ChatMessage(Role.USER, "one")])
    second = book.new()
    second.add([ChatMessage(Role.USER, "two")])
    first.pin(True)
    second.move("Work")
    assert texts(model) == ["Pinned", "one", "Work", "two"]
    model.fold("Work")
    assert texts(model) == ["Pinned", "one", "Work"] and not model.index_of(second).isValid()
    model.fold("Work")
    first.pin(False)
    assert texts(model) == ["Work", "two", "Today", "one"]
    first.updated = 0.0
    second.move("")
    assert texts(model) == ["Today", "two", "Older", "one"]
    book.restore(book.remove(first))
    book.remove(second)
    book.remove(first)
    assert texts(model) == ["Today", "New chat"]
    index = model.index_of(book.current)
    assert model.setData(index, "Named") and book.current.title == "Named"
    assert index.data(Qt.ItemDataRole.AccessibleTextRole) == "Chat: Named"
    del tester


def test_unsent_text_is_kept_per_chat(qtbot: QtBot, open_window: OpenWindow) -> None:
    window = open_window()
    send(qtbot, window, "first")
    finish(qtbot, window)
    first = window.book.current
    qtbot.keyClicks(window.composer.edit, "draft one")
    window.commands.new_chat.trigger()
    assert window.composer.text == "" and window.stack.currentWidget() is window.empty
    qtbot.keyClicks(window.composer.edit, "draft two")
    window.book.select(first)
    assert window.composer.text == "draft one"
    window.commands.next_chat.trigger()
    assert window.composer.text == "draft two"


def test_a_reply_goes_on_while_another_chat_is_shown(qtbot: QtBot, open_window: OpenWindow) -> None:
    window = open_window(ENDLESS)
    reply = send(qtbot, window, "first")
    first = window.book.current
    qtbot.waitUntil(lambda: len(reply.text) > 50, timeout=20000)
    window.commands.new_chat.trigger()
    before = len(reply.text)
    assert "first" in window.composer.hint.text(), "where the reply is written is said"
    qtbot.keyClicks(window.composer.edit, "second")
    qtbot.keyClick(window.composer.edit, Qt.Key.Key_Return)
    assert window.composer.text == "second", "nothing is sent while a reply runs"
    qtbot.waitUntil(lambda: len(reply.text) > before + 100, timeout=20000)
    window.book.select(first)
    view = window.transcript.view_of(reply)
    assert view is not None
    window.replies.stop()
    finish(qtbot, window)
    assert view.body.plain_text() == reply.text and reply.reason is not FinishReason.ERROR


def test_a_chat_is_deleted_and_comes_back(qtbot: QtBot, open_window: OpenWindow) -> None:
    window = open_window()
    send(qtbot, window, "first")
    finish(qtbot, window)
    chat = window.book.current
    window.chat_list.view.setFocus()
    window.chat_list.delete_action.trigger()
    assert window.toast.isVisible() and "first" in window.toast.label.text()
    assert chat not in window.book.chats and window.stack.currentWidget() is window.empty
    qtbot.mouseClick(window.toast.button, Qt.MouseButton.LeftButton)
    assert window.book.current is chat and window.stack.currentWidget() is window.transcript
    assert not window.toast.isVisible()
    assert window.chat_list.view.currentIndex() == window.chat_list.model.index_of(chat)


def test_several_deleted_chats_come_back_one_after_the_other(qtbot: QtBot, open_window: OpenWindow) -> None:
    window = open_window()
    undo = window.commands.undo_delete
    made = []
    for name in ("one", "two"):
        window.commands.new_chat.trigger()
        send(qtbot, window, name)
        finish(qtbot, window)
        made.append(window.book.current)
    assert not undo.isEnabled()
    for chat in made:
        window.delete_chat(chat)
    undo.trigger()
    assert window.book.current is made[1] and undo.isEnabled()
    undo.trigger()
    assert window.book.current is made[0] and not undo.isEnabled()


def test_deleting_a_chat_ends_its_reply(qtbot: QtBot, open_window: OpenWindow) -> None:
    window = open_window(ENDLESS)
    reply = send(qtbot, window, "first")
    qtbot.waitUntil(lambda: bool(reply.text), timeout=20000)
    window.delete_chat(window.book.current)
    finish(qtbot, window)
    assert reply.reason is FinishReason.STOPPED


def test_a_chat_is_renamed_in_the_list(qtbot: QtBot, open_window: OpenWindow) -> None:
    window = open_window()
    window.chat_list.rename_action.trigger()
    editor = window.chat_list.view.findChild(QLineEdit)
    assert editor is not None
    option = QStyleOptionFrame()
    editor.initStyleOption(option)
    inside = editor.style().subElementRect(QStyle.SubElement.SE_LineEditContents, option, editor)
    assert inside.height() >= editor.fontMetrics().height(), "the letters are seen whole"
    editor.setText("My <i>chat</i>")
    qtbot.keyClick(editor, Qt.Key.Key_Return)
    qtbot.waitUntil(lambda: window.book.current.title == "My <i>chat</i>", timeout=20000)


def test_a_chat_that_the_list_does_not_show_is_renamed_there(qtbot: QtBot, open_window: OpenWindow) -> None:
    """Hidden with the side bar, filtered by a search, or in a folded folder: F2 brings it into view."""
    window = open_window()
    chat = window.book.current
    chat.rename("one")
    chat.move("Work")
    side = window.chat_list
    side.model.fold("Work")
    side.search.setText("something else")
    side.run_search()
    window.commands.chats.setChecked(False)
    side.rename_action.trigger()
    assert side.isVisible() and side.search.text() == ""
    editor = side.view.findChild(QLineEdit)
    assert editor is not None and editor.text() == "one"
    qtbot.keyClick(editor, Qt.Key.Key_Escape)
    side.search.setText("something else")
    side.run_search()
    window.commands.new_chat.trigger()
    assert side.search.text() == "" and side.model.index_of(window.book.current).isValid()
    assert side.view.currentIndex() == side.model.index_of(window.book.current)


def test_old_messages_are_made_on_demand(qtbot: QtBot, open_window: OpenWindow) -> None:
    window = open_window()
    chat = window.book.current
    chat.add(
        [
            ChatMessage(Role.USER if place % 2 == 0 else Role.ASSISTANT, f"message {place}")
            for place in range(300)
        ]
    )
    window.commands.new_chat.trigger()
    window.book.select(chat)
    views = window.transcript._views
    assert len(views) < PAGE, "opening a long chat does not make all of it at once"
    qtbot.waitUntil(lambda: len(views) == PAGE, timeout=20000)
    qtbot.wait(50)
    assert window.transcript.view_of(chat.messages[-1]) is not None
    assert window.transcript._earlier.isVisible()
    bar = window.transcript.verticalScrollBar()
    assert bar.value() == bar.maximum()
    bar.setValue(0)
    qtbot.mouseClick(window.transcript._earlier, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: len(views) == 2 * PAGE, timeout=20000)
    assert bar.value() < bar.maximum(), "what was read stays in view"


def test_the_end_is_followed_only_from_the_end(qtbot: QtBot, open_window: OpenWindow) -> None:
    window = open_window(Script(say((SENTENCE + "\n") * 300), tokens_per_second=300, chunk_seconds=0.0))
    window.store.update(max_new_tokens=4000)
    reply = send(qtbot, window, "first")
    bar = window.transcript.verticalScrollBar()
    qtbot.waitUntil(lambda: bar.maximum() > 200, timeout=20000)
    assert bar.value() == bar.maximum()
    bar.setValue(10)
    length = len(reply.text)
    qtbot.waitUntil(lambda: len(reply.text) > length + 150, timeout=20000)
    assert bar.value() == 10 and window.transcript._jump.isVisible()
    qtbot.mouseClick(window.transcript._jump, Qt.MouseButton.LeftButton)
    assert bar.value() == bar.maximum() and not window.transcript._jump.isVisible()
    window.replies.stop()
    finish(qtbot, window)
    assert bar.value() == bar.maximum()


def test_a_long_prompt_is_folded(qtbot: QtBot, open_window: OpenWindow) -> None:
    window = open_window()
    text = "\n".join(f"line {number}" for number in range(500))
    window.send_prompt(text)
    finish(qtbot, window)
    view = window.transcript.view_of(window.book.current.messages[0])
    assert view is not None and view.body.plain_text().count("\n") < 40
    folded = view.height()
    qtbot.mouseClick(view._more, Qt.MouseButton.LeftButton)
    assert view.body.plain_text() == text and not view._more.isVisible()
    qtbot.waitUntil(lambda: view.height() > 5 * folded, timeout=20000)
    assert window.engine_.commands[-1].messages[0].content == text  # type: ignore[attr-defined]


def test_shift_enter_makes_a_line_and_the_field_grows_to_eight(qtbot: QtBot, open_window: OpenWindow) -> None:
    window = open_window()
    edit = window.composer.edit
    heights = [edit.height()]
    for number in range(12):
        qtbot.keyClicks(edit, str(number))
        qtbot.keyClick(edit, Qt.Key.Key_Return, Qt.KeyboardModifier.ShiftModifier)
        heights.append(edit.height())
    assert window.composer.text.count("\n") == 12
    line = edit.fontMetrics().lineSpacing()
    assert heights[7] == heights[12] == heights[0] + 7 * line
    assert heights[1] == heights[0] + line
