"""The window on a scripted engine: streaming, stopping, switching, chats."""

from __future__ import annotations

from dataclasses import replace

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication
from pytestqt.qtbot import QtBot

from app import theme
from app.chat.conversation import ChatMessage, MessageState
from app.chat.message_view import MessageView
from app.main_window import MainWindow
from app.rehearsal import REHEARSAL_MODEL
from app.settings.store import SettingsStore
from engine.protocol import Failed, FinishReason, Generate, Load, Mode, Origin, Role, SetEagle, Stop
from tests.app.conftest import OpenWindow
from tests.app.fake_engine import PROBLEM, SENTENCE, Script, say

LONG = Script(say(SENTENCE * 40), tokens_per_second=300, chunk_seconds=0.0)
ENDLESS = Script(say(SENTENCE * 2000), tokens_per_second=200, chunk_seconds=0.0)
"""For what must be stopped: it never ends by itself in the time of a test."""
HOSTILE = "<script>alert(1)</script> <img src=http://example.invalid/x.png> **bold**"


def ask(qtbot: QtBot, window: MainWindow, prompt: str = "Hello?") -> ChatMessage:
    """Type a prompt and press Enter."""
    window.composer.edit.setFocus()
    qtbot.keyClicks(window.composer.edit, prompt)
    qtbot.keyClick(window.composer.edit, Qt.Key.Key_Return)
    message = window.replies.running
    assert message is not None
    return message


def finish(qtbot: QtBot, window: MainWindow, timeout: int = 20000) -> None:
    qtbot.waitUntil(lambda: window.replies.running is None, timeout=timeout)
    qtbot.wait(30)


def view_of(window: MainWindow, message: ChatMessage) -> MessageView:
    view = window.transcript.view_of(message)
    assert view is not None
    return view


def test_a_prompt_is_answered(qtbot: QtBot, open_window: OpenWindow) -> None:
    window = open_window(Script(say("Lima is the capital.\n\nIt lies on the coast."), chunk_seconds=0.0))
    assert window.stack.currentWidget() is window.empty
    reply = ask(qtbot, window, "What is the capital of Peru?")
    assert window.composer.text == "" and window.stack.currentWidget() is window.transcript
    finish(qtbot, window)
    view = view_of(window, reply)
    assert view.body.plain_text() == reply.text == "Lima is the capital.\n\nIt lies on the coast."
    assert any(run.origin is Origin.DRAFT for run in view.body.marks.runs)
    footer = view._figures.text().replace("\u00a0", " ")
    for part in ("tokens/s", "first token after", "τ ", "EAGLE", "complete"):
        assert part in footer
    assert window.book.current.title == "What is the capital of Peru?"
    sent = window.engine_.sent(Generate)[0]  # type: ignore[attr-defined]
    assert [(m.role, m.content) for m in sent.messages] == [(Role.USER, "What is the capital of Peru?")]
    assert window.panel.request_id == reply.request_id


def test_the_model_is_loaded_and_named(open_window: OpenWindow) -> None:
    window = open_window()
    assert window.engine_.sent(Load) == [Load("demo")]  # type: ignore[attr-defined]
    assert window.top_bar._model.text() == REHEARSAL_MODEL.name
    assert REHEARSAL_MODEL.device in window.top_bar._where.text()
    assert window.notices.demo.isVisible() and "makes things up" in window.notices.demo.label.text()


def test_stop_ends_the_reply_and_keeps_it(qtbot: QtBot, open_window: OpenWindow) -> None:
    window = open_window(ENDLESS)
    reply = ask(qtbot, window)
    qtbot.waitUntil(lambda: len(reply.text) > 100, timeout=20000)
    assert window.commands.stop.isEnabled()
    qtbot.keyClick(window.composer.edit, Qt.Key.Key_Escape)
    finish(qtbot, window)
    assert reply.reason is FinishReason.STOPPED and reply.text
    assert view_of(window, reply).body.plain_text() == reply.text
    assert "stopped by you" in view_of(window, reply)._figures.text().replace("\u00a0", " ")
    assert len(window.engine_.sent(Stop)) == 1  # type: ignore[attr-defined]
    assert not window.commands.stop.isEnabled()


def test_the_stop_button_stands_where_send_was(qtbot: QtBot, open_window: OpenWindow) -> None:
    window = open_window(ENDLESS)
    reply = ask(qtbot, window)
    assert window.composer.send_button.accessibleName().startswith("Stop")
    qtbot.waitUntil(lambda: bool(reply.text), timeout=20000)
    qtbot.mouseClick(window.composer.send_button, Qt.MouseButton.LeftButton)
    finish(qtbot, window)
    assert reply.reason is FinishReason.STOPPED
    assert window.composer.send_button.accessibleName().startswith("Send")


def test_eagle_is_switched_in_mid_reply(qtbot: QtBot, open_window: OpenWindow) -> None:
    window = open_window(LONG)
    button = window.top_bar.button(window.commands.eagle)
    assert button.text() == "EAGLE on"
    reply = ask(qtbot, window)
    qtbot.waitUntil(lambda: len(reply.text) > 60, timeout=20000)
    window.commands.eagle.trigger()
    assert button.text() == "EAGLE off" and not window.store.current.eagle
    finish(qtbot, window)
    assert window.engine_.sent(SetEagle) == [SetEagle(reply.request_id, False)]  # type: ignore[attr-defined]
    assert reply.stats is not None and reply.stats.mode is Mode.MIXED
    assert "mixed" in view_of(window, reply)._figures.text()

    second = ask(qtbot, window)
    finish(qtbot, window)
    assert second.stats is not None and second.stats.mode is Mode.PLAIN
    assert not window.engine_.sent(Generate)[1].settings.eagle  # type: ignore[attr-defined]


def test_without_a_head_the_reason_is_visible(open_window: OpenWindow) -> None:
    model = replace(REHEARSAL_MODEL, head_name=None, head_problem="No head fits this model. Choose another.")
    window = open_window(Script(say("x"), model=model, chunk_seconds=0.0))
    action = window.commands.eagle
    assert not action.isEnabled() and not action.isChecked()
    assert window.top_bar.button(action).text() == "EAGLE not available"
    assert "No head fits" in window.top_bar.button(action).toolTip()
    assert window.notices.head.isVisible() and "No head fits" in window.notices.head.label.text()
    assert window.store.current.eagle, "the choice itself is kept for the next model"


def test_a_long_prompt_shows_its_progress(qtbot: QtBot, open_window: OpenWindow) -> None:
    window = open_window(Script(say("Yes."), prompt_chunks=6, chunk_seconds=0.05))
    reply = ask(qtbot, window, "one two three four five six seven eight")
    seen: set[str] = set()

    def reading() -> bool:
        seen.add(view_of(window, reply).remark("state"))
        return reply.state is MessageState.DONE

    qtbot.waitUntil(reading, timeout=20000)
    assert any("Reading the prompt" in text and " of " in text for text in seen), seen


def test_untrusted_text_stays_text(qtbot: QtBot, open_window: OpenWindow) -> None:
    window = open_window(Script(say(HOSTILE), chunk_seconds=0.0))
    reply = ask(qtbot, window, "<b>prompt</b>")
    finish(qtbot, window)
    assert view_of(window, reply).body.pieces()[0].toPlainText() == HOSTILE.replace("**", "")
    prompt = window.book.current.messages[0]
    assert view_of(window, prompt).body.pieces()[0].toPlainText() == "<b>prompt</b>"
    index = window.chat_list.model.index_of(window.book.current)
    assert index.data() == "<b>prompt</b>"


def test_copy_gives_the_text_alone(qtbot: QtBot, open_window: OpenWindow) -> None:
    window = open_window(Script(say(HOSTILE), chunk_seconds=0.0))
    reply = ask(qtbot, window)
    finish(qtbot, window)
    qtbot.mouseClick(view_of(window, reply)._copy, Qt.MouseButton.LeftButton)
    assert QGuiApplication.clipboard().text() == HOSTILE.replace("**", "")
    qtbot.mouseClick(view_of(window, reply)._copy_source, Qt.MouseButton.LeftButton)
    assert QGuiApplication.clipboard().text() == HOSTILE
    assert not QGuiApplication.clipboard().mimeData().hasHtml()


def test_writing_again_replaces_the_last_reply(qtbot: QtBot, open_window: OpenWindow) -> None:
    window = open_window()
    first = ask(qtbot, window, "one")
    finish(qtbot, window)
    second = ask(qtbot, window, "two")
    finish(qtbot, window)
    assert not view_of(window, first)._again.isVisible() and view_of(window, second)._again.isVisible()
    qtbot.mouseClick(view_of(window, second)._again, Qt.MouseButton.LeftButton)
    finish(qtbot, window)
    messages = window.book.current.messages
    assert [m.text for m in messages] == ["one", "A reply.", "two", "A reply."]
    assert messages[-1] is not second and window.transcript.view_of(second) is None
    assert [m.content for m in window.engine_.sent(Generate)[-1].messages] == ["one", "A reply.", "two"]  # type: ignore[attr-defined]


def test_a_failed_reply_says_what_to_do_and_can_be_tried_again(qtbot: QtBot, open_window: OpenWindow) -> None:
    script = Script(
        say(SENTENCE), tokens_per_second=500, reply_problem=PROBLEM, problem_after=3, chunk_seconds=0.0
    )
    window = open_window(script)
    reply = ask(qtbot, window)
    finish(qtbot, window)
    assert reply.text and reply.reason is FinishReason.ERROR
    bar = window.notices.error
    assert bar.isVisible() and PROBLEM.message in bar.label.text() and PROBLEM.next_step in bar.label.text()
    again, details = bar.offers()
    qtbot.mouseClick(details, Qt.MouseButton.LeftButton)
    assert PROBLEM.detail in QGuiApplication.clipboard().text()
    window.engine_.script = replace(script, reply_problem=None)  # type: ignore[attr-defined]
    qtbot.mouseClick(again, Qt.MouseButton.LeftButton)
    assert not bar.isVisible() and window.replies.running is not None
    window.replies.stop()
    finish(qtbot, window)
    ask(qtbot, window)
    finish(qtbot, window)
    assert bar.isVisible()
    window.book.new()
    window.send_prompt("Something else")
    assert not bar.isVisible(), "the next reply leaves it behind: Try again would mean another one"
    finish(qtbot, window)
    window.notices.show_failure(Failed("The file could not be read."))
    window.send_prompt("More")
    assert bar.isVisible(), "what has nothing to do with a reply stays"
    finish(qtbot, window)
    window.notices.show_failure(Failed("The file could not be read."))
    window.commands.free.trigger()
    window.commands.reload.trigger()
    qtbot.waitUntil(lambda: window.client.model is not None, timeout=20000)
    assert bar.isVisible(), "and is not taken away by the engine"


def test_a_failed_load_can_be_tried_again(qtbot: QtBot, open_window: OpenWindow) -> None:
    problem = Failed("The weights are damaged.", "Download them again.", kind="model")
    window = open_window(Script(say("x"), load_problem=problem, chunk_seconds=0.0), loaded=False)
    bar = window.notices.error
    qtbot.waitUntil(bar.isVisible, timeout=20000)
    assert "The weights are damaged. Download them again." in bar.label.text()
    assert "No model" in window.composer.hint.text() and not window.notices.loading.isVisible()
    qtbot.mouseClick(bar.offers()[0], Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: len(window.engine_.sent(Load)) == 2, timeout=20000)  # type: ignore[attr-defined]


def test_typing_is_possible_before_the_model_is_there(qtbot: QtBot, open_window: OpenWindow) -> None:
    window = open_window(Script(say("x"), chunk_seconds=0.15), loaded=False)
    qtbot.keyClicks(window.composer.edit, "early")
    assert window.composer.send_button.isEnabled() and "already" in window.composer.hint.text()
    qtbot.keyClick(window.composer.edit, Qt.Key.Key_Return)
    assert window.desk.waits and window.composer.text == "early" and window.replies.running is None
    assert "sent as soon as" in window.composer.hint.text() and not window.composer.send_button.isEnabled()
    qtbot.waitUntil(lambda: window.notices.loading.bar.value() > 0, timeout=20000)
    qtbot.waitUntil(lambda: len(window.book.current.messages) == 2, timeout=20000)
    finish(qtbot, window)
    assert [each.text for each in window.book.current.messages] == ["early", "x"] and window.composer.text == ""
    assert len(window.engine_.sent(Load)) == 1, "waiting loads nothing a second time"  # type: ignore[attr-defined]


def test_a_prompt_that_waits_for_the_model_can_be_taken_back(qtbot: QtBot, open_window: OpenWindow) -> None:
    window = open_window(loaded=False)
    qtbot.keyClicks(window.composer.edit, "early")
    qtbot.keyClick(window.composer.edit, Qt.Key.Key_Return)
    assert window.desk.waits and window.client.model is None
    window.commands.stop.trigger()
    assert not window.desk.waits and window.composer.send_button.isEnabled()
    loaded: list[object] = []
    window.client.loaded.connect(loaded.append)
    qtbot.waitUntil(lambda: bool(loaded), timeout=20000)
    qtbot.wait(50)
    assert window.composer.text == "early" and window.book.current.is_empty


@pytest.mark.parametrize("place", range(4))
def test_examples_are_sent(qtbot: QtBot, open_window: OpenWindow, place: int) -> None:
    window = open_window()
    qtbot.mouseClick(window.empty.buttons[place], Qt.MouseButton.LeftButton)
    prompt = window.book.current.messages[0].text
    assert prompt in window.empty.buttons[place].accessibleName()
    finish(qtbot, window)


def test_marks_can_be_switched_at_any_time(qtbot: QtBot, open_window: OpenWindow) -> None:
    window = open_window(ENDLESS)
    reply = ask(qtbot, window)
    qtbot.waitUntil(lambda: len(reply.text) > 100, timeout=20000)
    window.commands.highlight.trigger()
    assert not view_of(window, reply).body.highlight and not window.store.current.highlight
    window.commands.highlight.trigger()
    assert view_of(window, reply).body.highlight
    window.replies.stop()
    finish(qtbot, window)


def test_panel_and_transcript_point_at_each_other(qtbot: QtBot, open_window: OpenWindow) -> None:
    window = open_window(replace(LONG, tokens_per_second=1000))
    reply = ask(qtbot, window)
    finish(qtbot, window)
    body = view_of(window, reply).body
    window.panel.step_selected.emit(reply.request_id, 5)
    assert body.step == 5
    window.panel.step_selected.emit(reply.request_id, -1)
    assert body.step is None
    stretch = reply.step_range(7)
    assert stretch is not None
    body.step_clicked.emit(7, stretch[0])
    panel, history = window.panel, window.panel.history
    assert history is not None and panel.position == history.position_of(7)
    first = history.step(panel.position).pieces[0]
    assert panel.view.pointed is not None
    assert panel.view.tree.items[panel.view.pointed].text == first.text


def test_a_token_of_the_tree_leads_to_its_place_in_the_text(qtbot: QtBot, open_window: OpenWindow) -> None:
    window = open_window(replace(LONG, tokens_per_second=1000))
    reply = ask(qtbot, window)
    finish(qtbot, window)
    panel, body = window.panel, view_of(window, reply).body
    history = panel.history
    assert history is not None
    position = next(n for n in range(4, len(history)) if len(history.step(n).accepted) > 1)
    panel.go_to(position)
    step = history.step(position)
    with qtbot.waitSignal(panel.token_selected) as selected:
        panel.view.token_clicked.emit(step.accepted[1])
    _, index, begin, end = selected.args
    stretch = reply.step_range(index)
    assert stretch is not None and index == step.index
    assert reply.text[stretch[0] + begin : stretch[0] + end] == step.pieces[1].text
    piece = next(each for each in body.pieces() if each.layer.step == step.index)
    reversed_ = [
        found
        for number in range(piece.document().blockCount())
        for found in piece.document().findBlockByNumber(number).layout().formats()
        if found.format.background().color() == theme.tokens(piece).accent
    ]
    assert sum(found.length for found in reversed_) == len(step.pieces[1].text)


def test_settings_that_cannot_be_saved_are_tried_again(
    qtbot: QtBot, open_window: OpenWindow, store: SettingsStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.main_window.RETRY_MS", 50)
    window = open_window()
    qtbot.waitUntil(lambda: not window._saver.isActive(), timeout=20000)
    refused = OSError(28, "No space left on device")

    def full(*_: object, **__: object) -> tuple[int, str]:
        raise refused

    with monkeypatch.context() as patched:
        patched.setattr("app.settings.store.tempfile.mkstemp", full)
        store.update(top_k=9)
        qtbot.waitUntil(window.notices.settings.isVisible, timeout=20000)
        assert "No space left" in window.notices.settings.label.text()
    qtbot.waitUntil(lambda: not window.notices.settings.isVisible(), timeout=20000)
    assert SettingsStore(store.path.parent).current.top_k == 9
