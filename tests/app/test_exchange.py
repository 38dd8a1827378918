"""Chats to files and back in a thread: nothing half-written stays, whenever it is broken off."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

from app.chat import exchange
from app.storage import archive
from app.storage.archive import ArchiveError, chats_in
from app.storage.records import ChatRecord, MessageRecord
from app.storage.store import ChatStore
from app.whole_files import Cancelled
from engine.protocol import Origin, Piece, Step, StepTimes
from tests.app.conftest import OpenWindow

CHATS = 12


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[ChatStore]:
    """With some chats, each of a prompt and a reply with steps."""
    (tmp_path / "data").mkdir()
    store = ChatStore(tmp_path / "data")
    for number in range(CHATS):
        chat, prompt, reply = f"c{number}", f"p{number}", f"r{number}"
        store.put_chat(ChatRecord(chat, f"Größe {number}", updated=float(number)))
        store.put_message(MessageRecord(prompt, chat, None, "user", "Why?\n" * number))
        store.put_message(MessageRecord(reply, chat, prompt, "assistant", "", request_id=reply, state="writing"))
        for index in range(3):
            piece = Piece(index, f"word{number} ", Origin.TARGET)
            store.grow(reply, Step(reply, index, (piece,), StepTimes(0, 0, 0, 0)))
        store.finish(MessageRecord(reply, chat, prompt, "assistant", f"word{number} " * 3, request_id=reply))
    assert store.flush(20)
    yield store
    store.close()


class Stop:
    """Cancels at the nth word of progress."""

    def __init__(self, at: int) -> None:
        self.left = at

    def __call__(self, _done: int, _total: int) -> None:
        self.left -= 1
        if self.left < 0:
            raise Cancelled


def titles(kept: ChatStore) -> list[str]:
    return [chat.title for chat in kept.chats()]


def contents(path: Path) -> list[dict[str, object]]:
    return list(chats_in(path))


def test_a_file_holds_one_chat_a_line_and_is_valid_json(kept: ChatStore, tmp_path: Path) -> None:
    path = tmp_path / "all.json"
    assert kept.export(path) == CHATS
    lines = path.read_text("utf-8").splitlines()
    assert len(lines) == CHATS + 2
    whole = json.loads(path.read_text("utf-8"))
    assert whole["chats"] == contents(path) and len(whole["chats"]) == CHATS
    message = whole["chats"][0]["messages"][1]
    assert message["text"] == f"word{CHATS - 1} " * 3 and len(message["steps"]) == 1
    kept.export(path, [])
    assert contents(path) == [] == json.loads(path.read_text("utf-8"))["chats"]


@pytest.mark.parametrize("indent", [None, 1])
def test_another_layout_of_the_same_is_read_as_well(kept: ChatStore, tmp_path: Path, indent: int | None) -> None:
    path, other = tmp_path / "all.json", tmp_path / "other.json"
    kept.export(path)
    other.write_text(json.dumps(json.loads(path.read_text("utf-8")), indent=indent), encoding="utf-8")
    assert contents(other) == contents(path)
    lines = path.read_text("utf-8").splitlines()
    broken_up = "\n".join([*lines[:3], lines[3].replace(', "messages"', ',\n"messages"', 1), *lines[4:]])
    other.write_text(broken_up, encoding="utf-8")
    assert contents(other) == contents(path), "a chat of it stands on two lines"


@pytest.mark.parametrize("at", [0, 1, 40])
def test_a_cancelled_export_leaves_what_was_there(kept: ChatStore, tmp_path: Path, at: int) -> None:
    path = tmp_path / "out" / "all.json"
    path.parent.mkdir()
    path.write_text("older")
    with pytest.raises(Cancelled):
        kept.export(path, None, Stop(at))
    assert [each.name for each in path.parent.iterdir()] == ["all.json"] and path.read_text() == "older"


def test_an_export_without_a_chat_leaves_what_was_there(kept: ChatStore, tmp_path: Path) -> None:
    path = tmp_path / "one.json"
    path.write_text("older")
    with pytest.raises(OSError, match="no messages"):
        kept.export(path, ["unknown"])
    assert path.read_text() == "older"


def test_an_import_appears_at_once_or_not_at_all(
    kept: ChatStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.storage.store.AT_ONCE", 3)
    path = tmp_path / "all.json"
    kept.export(path)
    before = titles(kept)
    seen: list[int] = []

    def watch(done: int, total: int) -> None:
        if total:
            assert titles(kept) == before and len(kept.search("word3")) == 1, "nothing shows before all is there"
            seen.append(done)

    assert len(kept.take_in(path, watch)) == CHATS
    assert seen == sorted(seen) and len(seen) > CHATS
    assert sorted(titles(kept)) == sorted([*before, *before]) and len(kept.search("word3")) == 2
    again = {chat.id for chat in kept.chats()}
    with pytest.raises(Cancelled):
        kept.take_in(path, Stop(9))
    assert kept.flush(20)
    assert {chat.id for chat in kept.chats()} == again and len(kept.search("word3")) == 2
    assert kept._reader.execute("SELECT count(*) FROM chats WHERE deleted IS NOT NULL").fetchone() == (0,)


def test_a_file_that_is_broken_off_adds_nothing(kept: ChatStore, tmp_path: Path) -> None:
    path = tmp_path / "all.json"
    kept.export(path)
    before = titles(kept)
    path.write_bytes(path.read_bytes()[:-400])
    with pytest.raises(ArchiveError, match=r"all\.json"):
        kept.take_in(path)
    assert kept.flush(20)
    assert titles(kept) == before
    assert kept._reader.execute("SELECT count(*) FROM chats WHERE deleted IS NOT NULL").fetchone() == (0,)


def test_the_window_goes_on_while_a_file_is_written(
    qtbot: QtBot, open_window: OpenWindow, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exchange, "SHOWN_AFTER_MS", 0)
    monkeypatch.setattr("app.job.TELL_SECONDS", 0.0)
    window = open_window()
    window.send_prompt("Hello")
    qtbot.waitUntil(lambda: window.replies.running is None, timeout=20000)
    go_on = threading.Event()
    real = archive.chat_pieces

    def slow(*arguments: object) -> Iterator[str]:
        while not go_on.wait(0.01):
            yield ""
        yield from real(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(archive, "chat_pieces", slow)
    strip, path = window.notices.files, tmp_path / "all.json"
    assert window.exchange.export_all_to(path)
    qtbot.waitUntil(strip.isVisible, timeout=20000)
    assert "all.json" in strip.label.text() and not window.exchange.import_from(path), "one at a time"
    window.send_prompt("Still there?")
    qtbot.waitUntil(lambda: window.replies.running is None, timeout=20000)
    with qtbot.waitSignal(window.exchange.ended, timeout=20000) as ended:
        strip.cancel_button.click()
    assert ended.args == [False] and "cancelled" in window.status.text() and not strip.isVisible()
    assert list(tmp_path.glob("*all*")) == []
    assert window.exchange.export_all_to(path)
    qtbot.waitUntil(strip.isVisible, timeout=20000)
    with qtbot.waitSignal(window.gone, timeout=20000):
        window.close()
    assert list(tmp_path.glob("*all*")) == [], "the end of the application leaves nothing half-written"
