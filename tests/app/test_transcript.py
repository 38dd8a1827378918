"""Long chats open at once, thoughts are folded, links are asked about, and tokens are found both ways."""

from __future__ import annotations

import time

import pytest
from PySide6.QtCore import QObject, Qt, QUrl, Signal
from PySide6.QtGui import QDesktopServices, QGuiApplication, QTextBlock
from PySide6.QtWidgets import QApplication, QToolButton
from pytestqt.qtbot import QtBot

from app.chat.conversation import Chat, ChatMessage, Run
from app.chat.link_dialog import LinkDialog, may_be_opened, spelled_out
from app.chat.message_body import MessageBody
from app.chat.message_text import MessageText
from app.chat.thinking_fold import thought_seconds
from app.chat.transcript import Transcript
from app.markdown import formulas
from app.markdown.plain import plain_text
from engine.protocol import Mode, Origin, ReplyStats, Role, StepTimes
from tests.app.busy_machine import allowed
from tests.app.markdown_samples import cuts, mixed_text

TIMES = StepTimes(0.01, 0.02, 0.0, 0.01)


@pytest.fixture
def transcript(qtbot: QtBot, look: QApplication) -> Transcript:
    widget = Transcript()
    qtbot.addWidget(widget)
    widget.resize(900, 700)
    widget.show()
    return widget


def reply(text: str, step_length: int = 12) -> ChatMessage:
    """A finished reply whose every ``step_length`` characters are a step."""
    message = ChatMessage(Role.ASSISTANT, text, model_name="Model")
    message.request_id = "r"
    for step, start in enumerate(range(0, len(text), step_length)):
        end = min(len(text), start + step_length)
        message.runs.append(Run(start, end, Origin.DRAFT if step % 3 else Origin.TARGET, step))
    return message


def test_a_chat_of_50000_tokens_opens_at_once(qtbot: QtBot, transcript: Transcript) -> None:
    """One enormous reply and many ordinary ones: what is seen is there in well under a second."""
    chat = Chat()
    text = mixed_text(2500)
    messages = [reply(mixed_text(25000))]
    for number in range(10):
        messages += [ChatMessage(Role.USER, f"Question {number}"), reply(text)]
    chat.add(messages)
    assert sum(len(message.text) for message in messages) > 150_000
    begun = time.thread_time()
    transcript.set_chat(chat)
    last = transcript.view_of(messages[-1])
    assert last is not None
    qtbot.waitUntil(lambda: last.body.pieces()[-1].is_built, timeout=20000)
    assert time.thread_time() - begun < allowed(1.0)
    qtbot.waitUntil(lambda: transcript.view_of(messages[0]) is not None, timeout=20000)
    qtbot.wait(50)
    bar = transcript.verticalScrollBar()
    assert bar.value() == bar.maximum() > 10000
    pieces = [piece for message in messages for piece in transcript.view_of(message).body.pieces()]  # type: ignore[union-attr]
    built = sum(piece.is_built for piece in pieces)
    assert built < len(pieces) / 3, "what is not seen is not built"


def seen(transcript: Transcript, body: MessageBody) -> list[MessageText]:
    """The pieces of a text that are in sight."""
    height = transcript.viewport().height()
    return [
        piece for piece in body.pieces()
        if top_of(transcript, piece) < height and top_of(transcript, piece) + piece.height() > 0
    ]  # fmt: skip


def top_of(transcript: Transcript, piece: MessageText, block: QTextBlock | None = None) -> int:
    """Where a piece, or a paragraph of it, stands in what is seen."""
    top = piece.mapTo(transcript.viewport(), piece.rect().topLeft()).y()
    return top + (round(piece.document().documentLayout().blockBoundingRect(block).top()) if block is not None else 0)


def wait_for_rest(qtbot: QtBot, transcript: Transcript, body: MessageBody, pictures: bool = False) -> None:
    """Until everything in sight is there and nothing is left to be done; ``pictures`` of formulas may be missing."""
    bar = transcript.verticalScrollBar()
    last: list[int] = []

    def rests() -> bool:
        # Layouts follow each other from the inside out: the same twice, with all events in between.
        tops = [bar.value(), bar.maximum(), *(top_of(transcript, piece) for piece in body.pieces())]
        moved, last[:] = tops != last, tops
        at_work = transcript._realiser.isActive() or transcript._builder.isActive()
        at_work = at_work or (formulas.setter().is_busy and not pictures)
        return not moved and not at_work and all(piece.is_built for piece in seen(transcript, body))

    qtbot.waitUntil(rests, timeout=20000)


def test_scrolling_builds_what_comes_into_sight_and_does_not_jump(qtbot: QtBot, transcript: Transcript) -> None:
    chat = Chat()
    chat.add([ChatMessage(Role.USER, "Go on"), message := reply(mixed_text(20000))])
    transcript.set_chat(chat)
    bar = transcript.verticalScrollBar()
    body = transcript.view_of(message).body  # type: ignore[union-attr]
    wait_for_rest(qtbot, transcript, body)
    for share in (0.9, 0.5, 0.3, 0.6):
        bar.setValue(round(bar.maximum() * share))
        wait_for_rest(qtbot, transcript, body)
        first = seen(transcript, body)[0]
        # Small steps up: what is read must move by that step and no more.
        for _ in range(6):
            top = top_of(transcript, first)
            bar.setValue(bar.value() - 40)
            wait_for_rest(qtbot, transcript, body)
            assert abs(top_of(transcript, first) - top - 40) <= 2


SQUARE = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1 1"><rect width="1" height="1"/></svg>'


class LateSetter(QObject):
    """Has no formula until it is told to have them."""

    ready = Signal()
    is_busy = True

    def formula(self, _tex: str, _display: bool) -> formulas.Formula | None:
        size = 5 * formulas.SIZE
        return None if self.is_busy else formulas.Formula(SQUARE, size, size, 0.0)


def test_pictures_that_come_late_leave_what_is_read_in_its_place(
    qtbot: QtBot, transcript: Transcript, monkeypatch: pytest.MonkeyPatch
) -> None:
    setter = LateSetter()
    monkeypatch.setattr(formulas, "setter", lambda: setter)
    chat = Chat()
    text = "".join(f"Line {number} is with $x_{{{number}}}$.\n\n" for number in range(40))
    chat.add([ChatMessage(Role.USER, "Go on"), message := reply(text)])
    transcript.set_chat(chat)
    body = transcript.view_of(message).body  # type: ignore[union-attr]
    bar = transcript.verticalScrollBar()
    qtbot.waitUntil(lambda: body.pieces()[0].is_built and bar.maximum() > 200, timeout=20000)
    piece = body.pieces()[0]
    wait_for_rest(qtbot, transcript, body, setter.is_busy)  # what was guessed of its height is corrected
    bar.setValue(bar.maximum() // 2)
    wait_for_rest(qtbot, transcript, body, setter.is_busy)
    document = piece.document()
    blocks = [document.findBlockByNumber(number) for number in range(document.blockCount())]
    number = next(place for place, block in enumerate(blocks) if top_of(transcript, piece, block) >= 0)
    top, before = top_of(transcript, piece, blocks[number]), piece.height()
    setter.is_busy = False
    setter.ready.emit()
    wait_for_rest(qtbot, transcript, body)
    assert piece.height() > before + 200
    assert abs(top_of(transcript, piece, document.findBlockByNumber(number)) - top) <= 2


def test_a_token_is_found_in_a_text_that_was_not_built(qtbot: QtBot, transcript: Transcript) -> None:
    chat = Chat()
    chat.add([ChatMessage(Role.USER, "Go on"), message := reply(mixed_text(20000))])
    transcript.set_chat(chat)
    qtbot.wait(50)
    body = transcript.view_of(message).body  # type: ignore[union-attr]
    assert not body.pieces()[1].is_built
    step = next(run.step for run in message.runs if run.start > body.pieces()[1].start + 500)
    assert transcript.point_at("r", step)
    qtbot.wait(60)
    piece = body.pieces()[1]
    assert piece.is_built and body.step == step
    marked = [
        block for block in (piece.document().findBlockByNumber(n) for n in range(piece.document().blockCount()))
        if any(f.format.background().color() == piece.layer._format("", False, True).background().color()
               for f in block.layout().formats())
    ]  # fmt: skip
    assert marked
    area = piece.document().documentLayout().blockBoundingRect(marked[0])
    top = piece.mapTo(transcript.viewport(), area.topLeft().toPoint()).y()
    assert 0 <= top < transcript.viewport().height(), "the step is brought into view"
    assert not transcript.point_at("unknown", 1) and body.step is None


def test_a_streaming_text_goes_on_in_pieces(qtbot: QtBot, look: QApplication) -> None:
    body = MessageBody("Reply")
    qtbot.addWidget(body)
    body.resize(700, 400)
    body.show()
    text = mixed_text(8000)
    shown = ""
    for piece in cuts(text, 1, 400):
        shown += piece
        body.show_text(shown, running=True)
        body.realise(0, body.height())
    body.show_text(text, running=False)
    body.realise(0, body.height())
    assert body.plain_text() == "".join(piece.source() for piece in body.pieces()) == text
    assert len(body.pieces()) > 2
    whole = MessageBody("Reply")
    qtbot.addWidget(whole)
    whole.show_text(text)
    whole.answer.build()
    code = [line for block in body.code_blocks() for line in block.split("\n")]
    assert code == [line for block in whole.code_blocks() for line in block.split("\n")]


def test_thoughts_are_folded_with_their_length_and_time(qtbot: QtBot, transcript: Transcript) -> None:
    text = "<think>\nSome words to think about.\n</think>\n\nThe **answer**."
    chat = Chat()
    chat.add([ChatMessage(Role.USER, "?"), message := reply(text)])
    message.stats = ReplyStats(Mode.EAGLE, 3, 0, 20, 5, 4, 2, (1,), (1,), 0.1, 6.0, TIMES)
    transcript.set_chat(chat)
    view = transcript.view_of(message)
    assert view is not None and view.body.thoughts is not None
    fold = view.body.thoughts
    assert fold.button.text() == "Thought for about 3.60 s · 5 words"
    assert fold.button.accessibleName() == fold.button.text()
    assert not fold.flow.isVisible() and [piece.source() for piece in view.body.pieces()] == ["\n\nThe **answer**."]
    qtbot.keyClick(fold.button, Qt.Key.Key_Space)
    qtbot.waitUntil(lambda: fold.flow.isVisible() and fold.flow.pieces[0].is_built, timeout=20000)
    assert "Some words" in fold.flow.pieces[0].toPlainText()
    qtbot.mouseClick(view._copy, Qt.MouseButton.LeftButton)
    assert QGuiApplication.clipboard().text() == "The answer."
    assert thought_seconds(message, 0, 0) == 0.0


def test_thoughts_stream_into_their_fold(qtbot: QtBot, look: QApplication) -> None:
    body = MessageBody("Reply")
    qtbot.addWidget(body)
    body.show()
    for text in ("<thi", "<think>Hm", "<think>Hm, <", "<think>Hm, 1 < 2</think", "<think>Hm, 1 < 2</think>Yes"):
        body.show_text(text, running=True)
    assert body.thoughts is not None and body.thoughts.flow.text == "Hm, 1 < 2" and body.answer.text == "Yes"
    other = MessageBody("Reply")
    qtbot.addWidget(other)
    other.show_text("Hm, so", running=True)
    other.show_text("Hm, so</think>\n\nYes", running=True)
    assert other.thoughts is not None and other.thoughts.flow.text == "Hm, so" and other.answer.text == "\n\nYes"


def test_a_link_is_opened_only_after_a_question(
    qtbot: QtBot, transcript: Transcript, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[QUrl] = []
    monkeypatch.setattr(QDesktopServices, "openUrl", lambda url: opened.append(url) or True)
    address = "https://exаmple.invalid/path?q=1"  # the "а" is Cyrillic
    chat = Chat()
    chat.add([ChatMessage(Role.USER, "?"), message := reply(f"[my bank]({address})")])
    transcript.set_chat(chat)
    view = transcript.view_of(message)
    assert view is not None
    view.body.link_clicked.emit(address)
    dialog = transcript.findChild(LinkDialog)
    assert dialog is not None and opened == []
    assert "xn--" in dialog.text(), "a letter that only looks like another gives itself away"
    assert dialog.defaultButton() is dialog.cancel_button
    qtbot.mouseClick(dialog.cancel_button, Qt.MouseButton.LeftButton)
    assert opened == []
    again = LinkDialog(address, transcript)
    again.open()
    assert again.open_button is not None
    qtbot.mouseClick(again.open_button, Qt.MouseButton.LeftButton)
    assert [url.host() for url in opened] == [QUrl(address).host()]


@pytest.mark.parametrize(
    ("address", "may"),
    [("http://a.invalid", True), ("https://a.invalid/b", True), ("mailto:a@b.invalid", True), ("file:///etc/passwd", False),
     ("javascript:alert(1)", False), ("smb://a/b", False), ("http://", False), ("//a.invalid", False), ("a b", False),
     ("https://a.invalid/\nb", False), ("http://[", False)],
)  # fmt: skip
def test_only_the_web_and_mail_are_opened(qtbot: QtBot, address: str, may: bool) -> None:
    assert may_be_opened(address) is may
    dialog = LinkDialog(address)
    qtbot.addWidget(dialog)
    assert (dialog.open_button is not None) is may
    assert len(spelled_out("http://a.invalid/" + "x" * 5000)) < 700


def test_plain_text_has_no_marks() -> None:
    source = "# Head\n\n1. **a**\n2. b\n\n| x | y |\n|---|---|\n| 1 | 2 |\n\n```py\ncode\n```\n\n> $q$ &amp; [l](http://x.invalid)"
    assert plain_text(source) == "Head\n\n1. a\n2. b\n\nx\ty\n1\t2\n\ncode\n\n$q$ & l"


def test_all_controls_of_a_reply_can_be_reached_and_have_names(qtbot: QtBot, transcript: Transcript) -> None:
    chat = Chat()
    text = "<think>x</think>\n```py\na\n```\n\n[l](http://a.invalid)"
    chat.add([ChatMessage(Role.USER, "```file a.txt\nx\n```"), reply(text)])
    transcript.set_chat(chat)
    qtbot.wait(50)
    buttons = [each for each in transcript.findChildren(QToolButton) if each.isVisible()]
    names = {each.accessibleName() for each in buttons}
    assert {"Copy this code (py)", "Copy this code (file a.txt)", "Copy this reply", "Copy this reply as Markdown",
            "Copy this prompt", "Edit this prompt", "Thoughts · 1 word"} <= names  # fmt: skip
    assert all(each.accessibleName() and each.focusPolicy() & Qt.FocusPolicy.TabFocus for each in buttons)


def test_reduced_motion_draws_seldom_and_loses_nothing(qtbot: QtBot, transcript: Transcript) -> None:
    transcript.set_calm(True)
    chat = Chat()
    message = ChatMessage(Role.ASSISTANT, "", "r")
    chat.add([ChatMessage(Role.USER, "?"), message])
    transcript.set_chat(chat)
    view = transcript.view_of(message)
    assert view is not None
    lengths = set()
    for number in range(40):
        message.text += f"word{number} "
        message.changed(message)
        transcript.flush()
        lengths.add(len(view.body.plain_text()))
        qtbot.wait(5)
    assert len(lengths) < 8
    qtbot.waitUntil(lambda: view.body.plain_text() == message.text, timeout=20000)
