"""Chats and messages, without Qt."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import pytest

from app.chat import figures
from app.chat.book import ChatBook
from app.chat.conversation import TITLE_LENGTH, UNTITLED, Chat, ChatMessage, MessageState, title_from
from engine.protocol import (
    Failed,
    Finished,
    FinishReason,
    Mode,
    Origin,
    Piece,
    ReplyStats,
    Role,
    Started,
    Step,
    StepTimes,
)

TIMES = StepTimes(0.01, 0.02, 0.0, 0.01)


def step(index: int, *pieces: tuple[str, Origin], mode: Mode = Mode.EAGLE) -> Step:
    return Step("r", index, tuple(Piece(1, text, origin) for text, origin in pieces), TIMES, mode=mode)


def stats(tokens: int = 4) -> ReplyStats:
    return ReplyStats(Mode.EAGLE, 3, 0, tokens, 1, 4, 2, (1, 1), (1, 1), 0.1, 0.2, TIMES)


def reply() -> ChatMessage:
    made = ChatMessage(Role.ASSISTANT, "", "r", "Model")
    made.begin(Started("r", 3, 0))
    made.append(step(0, ("Lima", Origin.TARGET), mode=Mode.PLAIN))
    made.append(step(1, (" is", Origin.DRAFT), (" a", Origin.DRAFT), (" city", Origin.TARGET)))
    return made


def test_a_reply_that_broke_off_tells_the_method_that_drafted() -> None:
    made = reply()
    assert figures.live(made.live)[-1] == "EAGLE"
    made.append(replace(step(2, (" of", Origin.DRAFT), (" kings", Origin.TARGET)), method="prompt-lookup"))
    made.fail(Failed("The engine stopped unexpectedly."))
    assert figures.live(made.live)[-1] == "Prompt lookup", "whatever was asked for: the engine had chosen"


@pytest.mark.parametrize(
    ("prompt", "title"),
    [
        ("What is the capital of Peru?", "What is the capital of Peru?"),
        ("```file notes.txt\nx\n```", "notes.txt"),
        ("`````file notes.md\n````\n`````", "notes.md"),
        ("\n\n  Second   line \nthird", "Second line"),
        ("   \n ", UNTITLED),
        ("a" * 100, "a" * (TITLE_LENGTH - 1) + "…"),
        ("Tell a short story about a fox who finds a lantern", "Tell a short story about a fox who…"),
    ],
)
def test_title_of_a_prompt(prompt: str, title: str) -> None:
    assert title_from(prompt) == title
    assert len(title_from(prompt)) <= TITLE_LENGTH


def test_a_reply_keeps_where_its_tokens_came_from() -> None:
    message = reply()
    assert message.text == "Lima is a city"
    assert [(message.text[run.start : run.end], run.origin, run.step) for run in message.runs] == [
        ("Lima", Origin.TARGET, 0),
        (" is a", Origin.DRAFT, 1),
        (" city", Origin.TARGET, 1),
    ]
    begin, end = message.step_range(1) or (0, 0)
    assert message.text[begin:end] == " is a city"
    assert message.step_at(6) == 1 and message.step_at(0) == 0 and message.step_at(99) is None
    assert message.live.tokens == 4
    assert message.live.acceptance_length == 3.0
    assert message.live.tokens_per_second == pytest.approx(3 / TIMES.total)


def test_pieces_without_text_make_no_run() -> None:
    message = ChatMessage(Role.ASSISTANT, "", "r")
    message.append(step(0, ("", Origin.TARGET)))
    message.append(step(1, ("", Origin.DRAFT), ("é", Origin.DRAFT)))
    assert [(run.start, run.end) for run in message.runs] == [(0, 1)]
    assert message.live.tokens == 3


def test_switching_in_mid_reply_is_seen() -> None:
    message = reply()
    message.append(step(2, (".", Origin.TARGET), mode=Mode.PLAIN))
    assert message.live.mode is Mode.MIXED


def test_the_final_text_counts() -> None:
    message = reply()
    message.finish(Finished("r", FinishReason.EOS, stats(), (1,), "Lima is"))
    assert message.text == "Lima is"
    assert [(run.start, run.end) for run in message.runs] == [(0, 4)]
    assert message.state is MessageState.DONE and message.stats is not None


def test_failing_keeps_the_text() -> None:
    message = reply()
    message.fail(Failed("It broke.", "Mend it.", request_id="r"))
    assert message.text == "Lima is a city"
    assert message.reason is FinishReason.ERROR and not message.is_running


def test_the_request_alternates_roles() -> None:
    chat = Chat()
    broken = ChatMessage(Role.ASSISTANT, "", "r1")
    broken.fail(Failed("It broke."))
    chat.add([ChatMessage(Role.USER, "first"), broken])
    chat.add([ChatMessage(Role.USER, "second"), ChatMessage(Role.ASSISTANT, "", "r2")])
    assert [(m.role, m.content) for m in chat.request()] == [(Role.USER, "second")]
    chat.messages[-1].append(step(0, ("yes", Origin.TARGET)))
    chat.add([ChatMessage(Role.USER, "third"), ChatMessage(Role.ASSISTANT, "", "r3")])
    assert [m.content for m in chat.request()] == ["second", "yes", "third"]


def test_a_chat_takes_its_title_once() -> None:
    chat = Chat()
    chat.add([ChatMessage(Role.USER, "About foxes")])
    assert chat.title == "About foxes"
    chat.rename("  My   foxes ")
    chat.add([ChatMessage(Role.USER, "About owls")])
    assert chat.title == "My foxes"
    chat.rename("   ")
    assert chat.title == "My foxes"


def test_the_book_always_has_a_current_chat() -> None:
    book = ChatBook()
    first = book.current
    assert book.new() is first, "an empty chat is used again"
    first.add([ChatMessage(Role.USER, "one")])
    second = book.new()
    assert book.chats == [second, first] and book.current is second
    shown: list[Chat] = []
    book.current_changed.subscribe(shown.append)
    removed = book.remove(second)
    assert book.current is first and shown == [first]
    book.restore(removed)
    assert book.chats == [second, first] and book.current is second
    book.restore(removed)
    assert book.chats == [second, first]
    book.remove(second)
    book.remove(first)
    assert len(book.chats) == 1 and book.current.is_empty


def test_deleting_another_chat_keeps_the_current() -> None:
    book = ChatBook()
    first = book.current
    first.add([ChatMessage(Role.USER, "one")])
    second = book.new()
    removed = book.remove(first)
    assert book.current is second
    book.restore(removed)
    assert book.current is second and book.chats == [second, first]


def test_the_reply_is_found_by_its_request() -> None:
    book = ChatBook()
    book.current.add([ChatMessage(Role.ASSISTANT, "", "r9")])
    assert book.find_reply("r9") is book.current
    assert book.find_reply("r8") is None


def test_the_model_of_the_chats_needs_no_widgets() -> None:
    code = (
        "import sys; sys.modules['PySide6.QtWidgets'] = sys.modules['PySide6.QtGui'] = None\n"
        "import app.chat.conversation, app.chat.book, app.chat.figures\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("which", "method", "said"),
    [
        (Mode.EAGLE, "", "EAGLE"), (Mode.EAGLE, "eagle3", "EAGLE"), (Mode.EAGLE, "prompt-lookup", "Prompt lookup"),
        (Mode.EAGLE, "lookahead", "Lookahead"), (Mode.PLAIN, "lookahead", "plain"), (Mode.MIXED, "lookahead", "mixed"),
    ],
)  # fmt: skip
def test_what_drafted_is_called_by_its_name(which: Mode, method: str, said: str) -> None:
    assert figures.mode(which, method) == said
