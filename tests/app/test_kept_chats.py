"""What the window does with chats that are kept: versions, continuing, search, files, and the next start."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication
from pytestqt.qtbot import QtBot

from app.chat.conversation import Chat, ChatMessage
from app.chat.exchange import file_name
from app.chat.instructions import InstructionsDialog
from app.main_window import MainWindow
from app.settings.per_model import resolve
from app.storage.archive import ArchiveError, chats_in
from app.storage.database import FILE_NAME
from engine.protocol import FinishReason, Generate, Role, Stop
from tests.app.conftest import OpenWindow
from tests.app.fake_engine import SENTENCE, Script, say

ENDLESS = Script(say(SENTENCE * 2000), tokens_per_second=200, chunk_seconds=0.0)


def ask(qtbot: QtBot, window: MainWindow, prompt: str) -> ChatMessage:
    window.send_prompt(prompt)
    reply = window.replies.running
    assert reply is not None
    finish(qtbot, window)
    return reply


def finish(qtbot: QtBot, window: MainWindow) -> None:
    qtbot.waitUntil(lambda: window.replies.running is None, timeout=20000)
    qtbot.wait(20)


def close(qtbot: QtBot, window: MainWindow) -> None:
    with qtbot.waitSignal(window.gone, timeout=20000):
        window.close()


def moved(qtbot: QtBot, window: MainWindow, begun: bool) -> bool:
    """Whether a file was written or read that was begun just now."""
    assert begun
    with qtbot.waitSignal(window.exchange.ended, timeout=20000) as ended:
        pass
    return bool(ended.args and ended.args[0])


def shown(chat: Chat) -> list[str]:
    return [message.text for message in chat.messages]


def test_everything_is_there_after_a_restart(qtbot: QtBot, open_window: OpenWindow) -> None:
    window = open_window(Script(say("A reply."), chunk_seconds=0.0))
    first = ask(qtbot, window, "one")
    kept = window.book.current
    kept.pin(True)
    kept.move("Work")
    kept.instruct("Be kind.", {"temperature": 0.5})
    ask(qtbot, window, "two")
    window.commands.new_chat.trigger()
    qtbot.keyClicks(window.composer.edit, "not sent yet")
    close(qtbot, window)

    again = open_window()
    assert again.composer.text == "not sent yet" and again.book.current.is_empty, (
        "the chat shown last, with its draft"
    )
    found = again.book.find(kept.id)
    assert found is not None and not found.is_loaded, "messages are read when they are asked for"
    assert (found.title, found.pinned, found.folder, found.system_prompt) == ("one", True, "Work", "Be kind.")
    again.book.select(found)
    assert shown(found) == ["one", "A reply.", "two", "A reply."]
    stored = found.message(first.id)
    assert stored is not None and stored.runs == first.runs and stored.stats == first.stats
    assert stored.reason is FinishReason.EOS and stored.model_name == first.model_name
    assert stored.settings == first.settings and first.settings is not None
    qtbot.waitUntil(lambda: again.panel.history is not None and again.panel.history.step(0).index == 0)
    history = again.panel.history
    assert again.panel.request_id == found.messages[-1].request_id and history is not None
    assert any(history.step(place).nodes for place in range(len(history))), "the draft trees are shown again"


def test_the_system_prompt_and_own_settings_are_sent(qtbot: QtBot, open_window: OpenWindow) -> None:
    window = open_window()
    chat = window.book.current
    dialog = InstructionsDialog(chat, window.store.current.generation(), window.chats, window)
    qtbot.addWidget(dialog)
    dialog.prompt.setPlainText("Answer in one word.")
    dialog.values.fields["top_k"].own.setChecked(True)
    dialog.values.fields["top_k"].number.setValue(7)
    dialog.keep_preset("Short")
    qtbot.mouseClick(dialog.save_button, Qt.MouseButton.LeftButton)
    ask(qtbot, window, "one")
    sent = window.engine_.sent(Generate)[0]  # type: ignore[attr-defined]
    assert [(m.role, m.content) for m in sent.messages] == [
        (Role.SYSTEM, "Answer in one word."),
        (Role.USER, "one"),
    ]
    assert sent.settings.top_k == 7 and sent.settings.top_p == window.store.current.top_p
    other = InstructionsDialog(window.book.new(), window.store.current.generation(), window.chats, window)
    qtbot.addWidget(other)
    other.presets.setCurrentIndex(other.presets.findText("Short"))
    other.presets.activated.emit(other.presets.currentIndex())
    assert other.entered() == ("Answer in one word.", {"top_k": 7})
    other.clear_button.click()
    assert other.entered() == ("", {})


def test_writing_again_and_editing_keep_versions(qtbot: QtBot, open_window: OpenWindow) -> None:
    answers = iter(["first.", "second.", "after.", "edited."])
    window = open_window(Script(lambda _: texts[-1], chunk_seconds=0.0))
    texts = [next(answers)]
    reply = ask(qtbot, window, "one")
    chat = window.book.current
    texts.append(next(answers))
    window.commands.again.trigger()
    finish(qtbot, window)
    assert shown(chat) == ["one", "second."] and chat.versions(chat.messages[-1]) == (2, 2)
    texts.append(next(answers))
    ask(qtbot, window, "two")
    view = window.transcript.view_of(chat.messages[1])
    assert view is not None and view.versions.label.text() == "2/2" and view.versions.isVisible()
    qtbot.mouseClick(view.versions.before, Qt.MouseButton.LeftButton)
    assert chat.messages[-1] is reply and shown(chat) == ["one", "first."]
    window.commands.version_after.trigger()
    assert shown(chat) == ["one", "second.", "two", "after."], "what followed a version comes back with it"

    texts.append(next(answers))
    qtbot.keyClicks(window.composer.edit, "draft")
    window.transcript.edit_requested.emit(chat.messages[0])
    assert window.composer.text == "one" and window.editing.isVisible()
    window.composer.set_text("uno")
    qtbot.keyClick(window.composer.edit, Qt.Key.Key_Return)
    finish(qtbot, window)
    assert (
        shown(chat) == ["uno", "edited."]
        and window.composer.text == "draft"
        and not window.editing.isVisible()
    )
    assert [m.content for m in window.engine_.sent(Generate)[-1].messages] == ["uno"]  # type: ignore[attr-defined]
    close(qtbot, window)

    again = open_window()
    chat = again.book.current
    assert shown(chat) == ["uno", "edited."] and len(chat.all_messages) == 7
    chat.show_version(chat.messages[0], -1)
    assert shown(chat) == ["one", "second.", "two", "after."]


def test_an_edit_can_be_left(qtbot: QtBot, open_window: OpenWindow) -> None:
    window = open_window()
    ask(qtbot, window, "one")
    qtbot.keyClicks(window.composer.edit, "draft")
    window.commands.edit_prompt.trigger()
    assert window.composer.text == "one"
    qtbot.keyClick(window.composer.edit, Qt.Key.Key_Escape)
    assert window.composer.text == "draft" and not window.editing.isVisible()
    assert shown(window.book.current) == ["one", "A reply."]


def test_what_is_typed_in_an_edit_is_kept(qtbot: QtBot, open_window: OpenWindow) -> None:
    """Through a look at another chat and the end of the session; it goes to its own prompt, whatever is shown."""
    window = open_window(Script(say("A reply."), chunk_seconds=0.0))
    ask(qtbot, window, "one")
    chat, prompt = window.book.current, window.book.current.messages[0]
    ask(qtbot, window, "two")
    qtbot.keyClicks(window.composer.edit, "draft")
    window.desk.edit(prompt)
    window.composer.edit.selectAll()
    qtbot.keyClicks(window.composer.edit, "uno, du")
    window.commands.new_chat.trigger()
    assert window.composer.text == "" and not window.editing.isVisible()
    window.book.select(chat)
    assert window.composer.text == "uno, du" and window.editing.isVisible()
    close(qtbot, window)

    again = open_window()
    assert again.composer.text == "uno, du" and again.editing.isVisible()
    again.book.current.branch(again.book.current.messages[0], [ChatMessage(Role.USER, "another way")])
    qtbot.keyClicks(again.composer.edit, "e")
    qtbot.keyClick(again.composer.edit, Qt.Key.Key_Return)
    finish(qtbot, again)
    assert shown(again.book.current) == ["uno, due", "A reply."]
    assert again.composer.text == "draft" and not again.editing.isVisible()
    close(qtbot, again)

    once_more = open_window()
    assert once_more.composer.text == "draft" and not once_more.editing.isVisible()


def test_what_is_set_for_a_chat_without_messages_is_kept(qtbot: QtBot, open_window: OpenWindow) -> None:
    window = open_window()
    told = window.book.current
    told.instruct("Be kind.", {"temperature": 0.5})
    window.commands.new_chat.trigger()
    named = window.book.current
    assert named is not told, "a new chat has nothing of another's system prompt"
    named.rename("Plans")
    window.commands.new_chat.trigger()
    assert window.book.current is not named
    window.commands.new_chat.trigger()
    assert len(window.book.chats) == 3, "an untouched one is there already"
    close(qtbot, window)

    again = open_window()
    found = again.book.find(told.id)
    assert found is not None and (found.system_prompt, found.overrides) == ("Be kind.", {"temperature": 0.5})
    found = again.book.find(named.id)
    assert found is not None and found.title == "Plans"


def test_a_reply_is_continued_in_place(qtbot: QtBot, open_window: OpenWindow) -> None:
    window = open_window(Script(say("It begins"), chunk_seconds=0.0))
    reply = ask(qtbot, window, "one")
    before, steps = reply.stats, reply.live.tokens
    assert before is not None and steps
    window.engine_.script = Script(say(" and goes on."), chunk_seconds=0.0)  # type: ignore[attr-defined]
    window.client.restart()
    qtbot.waitUntil(lambda: window.client.model is not None, timeout=20000)
    window.commands.resume.trigger()
    assert window.replies.running is reply
    finish(qtbot, window)
    assert shown(window.book.current) == ["one", "It begins and goes on."]
    sent = window.engine_.sent(Generate)[-1]  # type: ignore[attr-defined]
    assert [(m.role, m.content) for m in sent.messages] == [(Role.USER, "one"), (Role.ASSISTANT, "It begins")]
    assert reply.stats is not None and reply.stats.new_tokens > before.new_tokens
    indexes = [run.step for run in reply.runs]
    assert (
        indexes == sorted(indexes) and "".join(reply.text[r.start : r.end] for r in reply.runs) == reply.text
    )
    view = window.transcript.view_of(reply)
    assert view is not None and view.body.plain_text() == reply.text
    close(qtbot, window)
    again = open_window()
    assert again.book.current.messages[-1].text == "It begins and goes on."
    qtbot.waitUntil(lambda: again.panel.history is not None)
    assert again.panel.history is not None
    assert [again.panel.history.step(place).index for place in range(len(again.panel.history))] == list(
        range(len(again.panel.history))
    )


def test_stopping_and_closing_keep_what_came(qtbot: QtBot, open_window: OpenWindow) -> None:
    window = open_window(ENDLESS)
    window.send_prompt("one")
    stopped = window.replies.running
    assert stopped is not None
    qtbot.waitUntil(lambda: len(stopped.text) > 60, timeout=20000)
    window.commands.stop.trigger()
    finish(qtbot, window)
    assert window.engine_.sent(Stop) and stopped.stats is not None  # type: ignore[attr-defined]
    window.send_prompt("two")
    running = window.replies.running
    assert running is not None
    qtbot.waitUntil(lambda: len(running.text) > 60, timeout=20000)
    close(qtbot, window)
    again = open_window()
    stored = again.book.current.messages
    assert stored[1].text == stopped.text and stored[1].stats == stopped.stats
    assert stored[3].text == running.text and stored[3].reason is FinishReason.STOPPED
    assert stored[3].live.tokens == running.live.tokens


def test_the_search_shows_and_opens_what_it_finds(qtbot: QtBot, open_window: OpenWindow) -> None:
    window = open_window(Script(lambda request: f"About {request.messages[-1].content}.", chunk_seconds=0.0))
    ask(qtbot, window, "foxes")
    foxes = window.book.current
    window.commands.new_chat.trigger()
    ask(qtbot, window, "owls and lanterns")
    owls = window.book.current
    window.commands.again.trigger()
    finish(qtbot, window)
    window.commands.search.trigger()
    assert window.chat_list.search.hasFocus()
    qtbot.keyClicks(window.chat_list.search, "lant")
    model = window.chat_list.model
    qtbot.waitUntil(lambda: model.rowCount() == 2, timeout=20000)
    assert model.index_of(owls).isValid() and not model.index_of(foxes).isValid()
    hit = model.hit_at(model.index_of(owls))
    assert hit is not None and [hit.snippet.text[a:b] for a, b in hit.snippet.hits] == ["lant"]
    window.book.select(foxes)
    window.chat_list.view.clicked.emit(model.index_of(owls))
    assert window.book.current is owls
    window.chat_list.search.clear()
    qtbot.waitUntil(lambda: model.index_of(foxes).isValid(), timeout=20000)


def test_chats_go_to_files_and_come_back_equal(qtbot: QtBot, open_window: OpenWindow, tmp_path: Path) -> None:
    window = open_window(Script(say("A *reply*."), chunk_seconds=0.0))
    ask(qtbot, window, "one\ntwo")
    window.commands.again.trigger()
    finish(qtbot, window)
    chat = window.book.current
    chat.pin(True)
    one, other = tmp_path / "one.json", tmp_path / "other.json"
    assert moved(qtbot, window, window.exchange.export_to(chat, one, markdown=False))
    assert moved(qtbot, window, window.exchange.import_from(one))
    copy = window.book.current
    assert copy is not chat and copy.id != chat.id and len(window.book.chats) == 2
    assert [(m.text, m.runs, m.stats, m.created) for m in copy.all_messages] == [
        (m.text, m.runs, m.stats, m.created) for m in chat.all_messages
    ]
    window.delete_chat(copy)
    window.delete_chat(chat)
    close(qtbot, window)

    window = open_window()
    assert moved(qtbot, window, window.exchange.import_from(one))
    assert moved(qtbot, window, window.exchange.export_all_to(other))
    assert json.loads(one.read_text("utf-8")) == json.loads(other.read_text("utf-8")), (
        "nothing is lost on the way"
    )
    assert moved(qtbot, window, window.exchange.export_to(window.book.current, tmp_path / "chat", markdown=True))
    written = (tmp_path / "chat.md").read_text("utf-8")
    assert "> one\n> two" in written and written.rstrip().endswith("A *reply*.")
    window.commands.copy_chat.trigger()
    assert QGuiApplication.clipboard().text() == written


@pytest.mark.parametrize(
    "content",
    [
        "{", "[]", '{"format": "eyrie-chats", "version": 2, "chats": []}', '{"format": "eyrie-chats", "version": 1}',
        '{"format": "eyrie-chats", "version": 1, "chats": [{"id": "a"}]}',
        '{"format": "eyrie-chats", "version": 1, "chats": [{"id": 1, "title": "x", "messages": []}]}',
        '{"format": "eyrie-chats", "version": 1, "chats": [{"id": "a", "title": "x", "messages": '
        '[{"id": "m", "parent_id": "n", "role": "user", "text": "t"}]}]}',
    ],
)  # fmt: skip
def test_files_of_something_else_are_refused(tmp_path: Path, content: str) -> None:
    path = tmp_path / "chats.json"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(ArchiveError, match=r"chats\.json|this file"):
        list(chats_in(path))


def test_settings_of_an_imported_chat_are_checked(
    qtbot: QtBot, open_window: OpenWindow, tmp_path: Path
) -> None:
    """A file may say anything; what no form could have made is left out, and the chat can be written in."""
    window = open_window()
    window.book.current.instruct("Be kind.", {"temperature": 0.5})
    window.book.current.draft = "x"
    path = tmp_path / "chat.json"
    assert moved(qtbot, window, window.exchange.export_to(window.book.current, path, markdown=False))
    table = json.loads(path.read_text("utf-8"))
    table["chats"][0]["settings"] |= {"top_k": 2.5, "top_p": "most", "seed": -1, "min_p": 0.1, "eagle": 7}
    path.write_text(json.dumps(table), "utf-8")
    assert moved(qtbot, window, window.exchange.import_from(path))
    asked = resolve(window.store.current, window.client.model, window.book.current)
    usual = replace(resolve(window.store.current, window.client.model, Chat()), temperature=0.5, min_p=0.1)
    assert asked == usual
    dialog = InstructionsDialog(window.book.current, usual, None, window)
    assert dialog.entered() == ("Be kind.", {"temperature": 0.5, "min_p": 0.1})


def test_a_refused_file_is_told(qtbot: QtBot, open_window: OpenWindow, tmp_path: Path) -> None:
    window = open_window()
    path = tmp_path / "photo.json"
    path.write_bytes(b"\x89PNG\r\n")
    assert not moved(qtbot, window, window.exchange.import_from(path))
    assert window.notices.error.isVisible() and "photo.json" in window.notices.error.label.text()
    assert not moved(qtbot, window, window.exchange.export_all_to(tmp_path / "no folder" / "x.json"))
    assert file_name('a/b: "c"?.') == "a b c" and file_name("...") == "chat"


def test_a_damaged_database_is_told_in_the_window(
    qtbot: QtBot, open_window: OpenWindow, data_dir: Path
) -> None:
    (data_dir / FILE_NAME).write_bytes(b"\0" * 8192)
    window = open_window()
    assert window.notices.chats.isVisible() and "damaged" in window.notices.chats.label.text()
    ask(qtbot, window, "one")
    close(qtbot, window)
    assert shown(open_window().book.current) == ["one", "A reply."]


def test_the_prompt_is_stored_before_it_is_sent(qtbot: QtBot, open_window: OpenWindow) -> None:
    window = open_window()
    assert window.chats is not None
    seen: list[list[str]] = []
    send = window.client.send

    def spy(command: object) -> bool:
        if isinstance(command, Generate) and window.chats is not None:
            seen.append([record.text for record in window.chats.messages(window.book.current.id)])
        return send(command)  # type: ignore[arg-type]

    window.client.send = spy  # type: ignore[method-assign, assignment]
    ask(qtbot, window, "one")
    assert seen == [["one", ""]]
