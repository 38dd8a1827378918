"""A database that is not what it should be: repaired, read as far as it goes, or left alone, and always told."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from app.chat.book import ChatBook
from app.chat.keeping import Keeper
from app.storage import database, records
from app.storage.records import ChatRecord, MessageRecord
from app.storage.store import ChatStore
from app.window_frame import open_chats

Open = Callable[[], ChatStore]


@pytest.fixture
def open_store(tmp_path: Path) -> Iterator[Open]:
    opened: list[ChatStore] = []

    def open_() -> ChatStore:
        opened.append(ChatStore(tmp_path))
        return opened[-1]

    yield open_
    for store in opened:
        if store._writer is not None:
            store.close(0.2)


@pytest.fixture
def path(tmp_path: Path, open_store: Open) -> Path:
    """A database of three chats, closed."""
    store = open_store()
    for place in range(3):
        store.put_chat(ChatRecord(f"c{place}", f"Chat {place}", created=place, updated=place))
        store.put_message(
            MessageRecord(f"u{place}", f"c{place}", None, "user", f"Question {place}\nabout a fox")
        )
        store.put_message(
            MessageRecord(f"a{place}", f"c{place}", f"u{place}", "assistant", f"Answer {place}")
        )
    assert store.flush(10)
    store.close()
    return tmp_path / database.FILE_NAME


def change(path: Path, script: str) -> None:
    connection = sqlite3.connect(path, isolation_level=None)
    connection.executescript(script)
    connection.close()


@pytest.mark.parametrize(
    "script",
    [
        "ALTER TABLE chats RENAME COLUMN folder TO shelf",
        "DROP TABLE notes",
        "DROP TABLE found_messages",
        "PRAGMA user_version = -5",
        "PRAGMA user_version = 0",
        "PRAGMA user_version = 1",
        "UPDATE chats SET updated = 'soon', created = 'x', pinned = 'maybe' WHERE id = 'c1'",
        "UPDATE chats SET title = CAST(x'ff4368617420ff' AS TEXT) WHERE id = 'c1'",
    ],
)
def test_what_is_not_what_its_version_says_is_repaired(path: Path, open_store: Open, script: str) -> None:
    change(path, script)
    store = open_store()
    assert "damaged" in store.problem and "3 chats" in store.problem
    book = ChatBook(Keeper(store))
    assert {chat.id: [m.text[:8] for m in chat.messages] for chat in book.chats} == {
        f"c{place}": ["Question", f"Answer {place}"] for place in range(3)
    }
    assert len(store.search("fox")) == 3
    store.put_chat(ChatRecord("new", "New"))
    assert store.flush(10)
    store.close()
    again = open_store()
    assert again.problem == "" and len(again.chats()) == 4


@pytest.mark.parametrize("content", [b"", b"S"])
def test_a_file_that_was_emptied_is_no_new_one(path: Path, open_store: Open, content: bytes) -> None:
    database.back_up_if_old(path)
    path.write_bytes(content)
    store = open_store()
    assert len(store.chats()) == 3 and "damaged" in store.problem


def test_an_index_that_the_list_reads_is_repaired(path: Path, open_store: Open) -> None:
    """Found although the session before has ended properly, and nothing is checked."""
    connection = sqlite3.connect(path)
    ((page,),) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'messages_of_chat'").fetchall()
    connection.close()
    content = bytearray(path.read_bytes())
    content[(page - 1) * 4096 : page * 4096] = b"\xa5" * 4096
    path.write_bytes(content)
    store = open_store()
    assert "3 chats" in store.problem and [len(store.messages(f"c{place}")) for place in range(3)] == [2, 2, 2]


def test_a_newer_version_that_cannot_be_read_is_left_alone(path: Path) -> None:
    change(path, "ALTER TABLE chats RENAME COLUMN folder TO shelf; PRAGMA user_version = 99")
    before = path.read_bytes()
    store, problem = open_chats(path.parent)
    assert store is None and "newer version of Eyrie" in problem and path.read_bytes() == before


def test_messages_without_a_chat_get_one(path: Path, open_store: Open) -> None:
    change(path, "PRAGMA foreign_keys = OFF; DELETE FROM chats WHERE id <> 'c1'; PRAGMA user_version = -1")
    store = open_store()
    titles = {record.id: record.title for record in store.chats()}
    assert titles == {"c0": "Question 0 about a fox", "c1": "Chat 1", "c2": "Question 2 about a fox"}
    assert [record.text for record in store.messages("c2")] == ["Question 2\nabout a fox", "Answer 2"]


def test_a_damaged_index_of_the_search_is_made_anew(path: Path, open_store: Open) -> None:
    change(
        path,
        "DELETE FROM found_messages_idx; UPDATE found_messages_data SET block = x'00ff00ff' WHERE id > 10",
    )
    (path.parent / database.MARK_NAME).touch()
    store = open_store()
    assert len(store.search("fox")) == 3 and store.problem == ""
    store.put_message(MessageRecord("more", "c0", "a0", "user", "And a badger?"))
    assert store.flush(10) and len(store.search("badger")) == 1


def test_a_message_of_another_kind_than_it_should_be_is_shown_as_far_as_it_goes(
    path: Path, open_store: Open
) -> None:
    change(
        path,
        "UPDATE messages SET text = x'ff41', created = 'now', facts = 3, role = 'king', reason = 'because', "
        "runs = 'text' WHERE id = 'a0'",
    )
    chat = next(chat for chat in Keeper(open_store()).chats() if chat.id == "c0")
    assert [message.text for message in chat.messages] == ["Question 0\nabout a fox", "\ufffdA"]
    assert chat.messages[1].runs == [] and chat.messages[1].created == 0


def test_a_place_that_cannot_be_read_ends_only_itself(path: Path, open_store: Open) -> None:
    store = open_store()
    told: list[str] = []

    class Damaged:
        def execute(self, *_: object) -> None:
            raise sqlite3.DatabaseError("database disk image is malformed")

        def close(self) -> None: ...

    store._reader.close()
    store._reader = store._search._connection = Damaged()  # type: ignore[assignment]
    assert store.note("current chat") == "" and store.presets() == []
    store.watch(told.append)
    assert "malformed" in told[0], "what was found before anybody listened is told then"
    assert store.search("fox") == [] and list(store.steps("a0", "r")) == []
    assert store.comparisons("c0") == [] and store.comparison("x") == ""
    assert len(told) == 5
    store.close()
    assert (path.parent / database.MARK_NAME).exists(), "the next start checks the whole of it"


def test_damage_found_in_writing_is_told_and_nothing_is_dropped(
    path: Path, open_store: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.storage.writer.RETRY", 0.01)
    store = open_store()
    told: list[str] = []
    store.watch(told.append)

    def fails(*_: object) -> None:
        error = sqlite3.DatabaseError("database disk image is malformed")
        error.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
        raise error

    real = records.put_message
    monkeypatch.setattr(records, "put_message", fails)
    ticket = store.put_message(MessageRecord("new", "c0", "a0", "user", "More"))
    deadline = time.monotonic() + 10
    while not told:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert "damaged" in told[0] and "start Eyrie again" in told[0] and not ticket.done
    monkeypatch.setattr(records, "put_message", real)
    assert ticket.wait(10) and told[-1] == "", "it was tried again"


def test_a_mark_that_cannot_be_taken_away_does_no_harm(path: Path, open_store: Open) -> None:
    (path.parent / database.MARK_NAME).mkdir()
    store = open_store()
    store.close(10)
    assert len(open_store().chats()) == 3


def test_a_database_that_cannot_be_written_is_read(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = sqlite3.connect

    class Refused:
        """What SQLite gives in a folder in which it may not make the files beside its own."""

        def execute(self, _: str) -> None:
            error = sqlite3.OperationalError("unable to open database file")
            error.sqlite_errorcode = sqlite3.SQLITE_CANTOPEN
            raise error

        def close(self) -> None: ...

    monkeypatch.setattr(
        "app.storage.connection.sqlite3.connect",
        lambda place, uri=False, **more: real(place, uri=uri, **more) if uri else Refused(),
    )
    store, problem = open_chats(path.parent)
    assert store is not None and store.read_only and "cannot be written" in problem and path.name in problem
    assert len(store.chats()) == 3 and [record.text for record in store.messages("c0")][1] == "Answer 0"
    store.put_chat(ChatRecord("new", "New"))
    store.close()
    monkeypatch.undo()
    again = ChatStore(path.parent)
    assert len(again.chats()) == 3
    again.close()
