"""Comparisons in the chats' database: kept, deleted with undo, exported, and brought up from an older file."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.storage import archive, database, schema
from app.storage.comparisons import ComparisonRecord
from app.storage.records import ChatRecord, MessageRecord
from app.storage.store import ChatStore


def one(number: int, chat: str = "c0", data: str = '{"n": 1}') -> ComparisonRecord:
    return ComparisonRecord(f"k{number}", chat, float(number), f"Comparison {number}", data)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[ChatStore]:
    made = ChatStore(tmp_path)
    for place in range(2):
        made.put_chat(ChatRecord(f"c{place}", f"Chat {place}", created=place, updated=place))
    made.put_message(MessageRecord("u0", "c0", None, "user", "Question"))
    yield made
    if made._writer is not None:
        made.close()


def ids(store: ChatStore, chat: str = "c0") -> list[str]:
    assert store.flush(20)
    return [record.id for record in store.comparisons(chat)]


def test_comparisons_are_kept_with_their_chat_newest_first(store: ChatStore, tmp_path: Path) -> None:
    store.put_comparison(one(1))
    store.put_comparison(one(2))
    store.put_comparison(one(3, "c1"))
    store.put_comparison(one(1, data='{"n": 2}')._replace(title="Grown \ud800"))
    assert ids(store) == ["k2", "k1"] and ids(store, "c1") == ["k3"]
    assert store.comparisons("c0")[1] == ("k1", "c0", 1.0, "Grown ?", "")
    store.close()
    again = ChatStore(tmp_path)
    assert again.comparison("k1") == '{"n": 2}' and again.comparison("nothing") == ""
    again.close()


def test_a_deleted_comparison_comes_back_until_the_session_ends(store: ChatStore, tmp_path: Path) -> None:
    store.put_comparison(one(1))
    store.put_comparison(one(2))
    store.delete_comparison("k1")
    store.delete_comparison("k2")
    assert ids(store) == []
    store.restore_comparison("k1")
    assert ids(store) == ["k1"]
    store.close()
    again = ChatStore(tmp_path)
    assert again.flush(20)
    assert again.comparison("k1") and again.comparison("k2") == ""
    again.close()


def test_a_deleted_chat_takes_its_comparisons_with_it(store: ChatStore, tmp_path: Path) -> None:
    store.put_comparison(one(1))
    store.put_comparison(one(2, "c1"))
    store.delete("c0")
    store.close()
    with sqlite3.connect(tmp_path / database.FILE_NAME) as file:
        assert file.execute("SELECT id FROM comparisons").fetchall() == [("k2",)]


def test_export_and_import_keep_comparisons(store: ChatStore, tmp_path: Path) -> None:
    store.put_comparison(one(1, data='{"text": "größer 🦅"}'))
    store.put_comparison(one(2))
    store.delete_comparison("k2")
    path = tmp_path / "out.json"
    assert store.export(path, ["c0"]) == 1
    taken = store.take_in(path)
    assert taken[0].id != "c0", "the chat is there already: it comes in beside it"
    (copy,) = store.comparisons(taken[0].id)
    assert copy.id not in ("k1", "k2") and (copy.created, copy.title) == (1.0, "Comparison 1")
    assert store.comparison(copy.id) == '{"text": "größer 🦅"}'
    empty = ChatStore(tmp_path / "new") if (tmp_path / "new").mkdir() is None else store
    empty.take_in(path)
    assert ids(empty) == ["k1"]
    empty.close()


@pytest.mark.parametrize("wrong", [{"id": "k"}, {"id": "k", "created": "now", "title": "", "data": ""}, 7])
def test_a_damaged_comparison_in_a_file_is_refused(store: ChatStore, tmp_path: Path, wrong: object) -> None:
    path = tmp_path / "out.json"
    store.export(path, ["c0"])
    whole = json.loads(path.read_text("utf-8"))
    whole["chats"][0]["comparisons"] = [wrong]
    path.write_text(json.dumps(whole), encoding="utf-8")
    with pytest.raises(archive.ArchiveError):
        store.take_in(path)
    del whole["chats"][0]["comparisons"]  # as an older Eyrie writes it
    path.write_text(json.dumps(whole), encoding="utf-8")
    assert len(store.take_in(path)) == 1


def test_a_database_of_before_is_brought_up(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / database.FILE_NAME) as old:
        for script in schema.MIGRATIONS[:2]:
            old.executescript(script)
        old.execute("INSERT INTO chats(id, title, created, updated) VALUES('c0', 'Old', 1, 1)")
        old.execute("PRAGMA user_version = 2")
    store = ChatStore(tmp_path)
    assert [chat.title for chat in store.chats()] == ["Old"]
    store.put_comparison(one(1))
    assert ids(store) == ["k1"]
    store.close()


def test_comparisons_are_saved_from_a_damaged_file(store: ChatStore, tmp_path: Path) -> None:
    store.put_comparison(one(1))
    store.put_comparison(one(2, "c1"))
    store.close()
    path = tmp_path / database.FILE_NAME
    raw = bytearray(path.read_bytes())
    raw[:16] = b"no database here"
    path.write_bytes(raw)
    (tmp_path / database.BACKUP_NAME).unlink(missing_ok=True)
    with sqlite3.connect(path.with_name(database.BACKUP_NAME)) as backup:
        schema.migrate(backup)
        backup.execute("INSERT INTO chats(id, title, created, updated) VALUES('c0', 'Kept', 1, 1)")
        for key, chat in (("k1", "c0"), ("lost", "no such chat")):
            backup.execute(
                "INSERT INTO comparisons(id, chat_id, created, title, data) VALUES(?, ?, 1, 't', '{}')",
                (key, chat),
            )
    again = ChatStore(tmp_path)
    assert "damaged" in again.problem and ids(again) == ["k1"]
    again.close()
