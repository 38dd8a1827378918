"""The chats' database: what is written is there again, whatever happens to the file."""

from __future__ import annotations

import sqlite3
import time
import zlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from app.chat.keeping import Keeper
from app.rehearsal import RehearsalEngine, Script, Tally, tokenise
from app.storage import database, schema
from app.storage.records import ChatRecord, MessageRecord
from app.storage.steps import STEPS_A_BLOCK, join, pack, pack_runs, unpack, unpack_runs
from app.storage.store import ChatStore
from app.storage.words import hits, snippet
from engine.protocol import Match, Origin, Shape, Step
from tests.app.tree_panel_steps import chain_step, window_step

TEXT = "The quick brown fox jumps over the lazy dog. " * 40


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path


@pytest.fixture
def open_store(folder: Path) -> Iterator[Callable[[], ChatStore]]:
    opened: list[ChatStore] = []

    def open_() -> ChatStore:
        opened.append(ChatStore(folder))
        return opened[-1]

    yield open_
    for store in opened:
        if store._writer is not None:
            store.close()


def steps(text: str = TEXT, request: str = "r") -> list[Step]:
    return list(RehearsalEngine(Script(lambda _: text))._steps(request, tokenise(text), Tally()))


def fill(store: ChatStore, number: int = 3) -> None:
    for place in range(number):
        store.put_chat(ChatRecord(f"c{place}", f"Chat {place}", created=place, updated=place))
        store.put_message(MessageRecord(f"u{place}", f"c{place}", None, "user", f"Question {place}"))
        store.put_message(MessageRecord(f"a{place}", f"c{place}", f"u{place}", "assistant", f"Answer {place}"))
    assert store.flush(10)


# --------------------------------------------------------------------------- the blobs


def test_steps_come_back_as_they_were() -> None:
    made = steps()
    back = [step for block in join([pack(made[:3]), pack(made[3:])]) for step in unpack(block, "r")]
    assert len(back) == len(made) > 10
    for one, other in zip(made, back, strict=True):
        assert (one.index, one.text, one.pieces, one.accepted, one.mode) == (
            other.index, other.text, other.pieces, other.accepted, other.mode,
        )  # fmt: skip
        assert [(n.token_id, n.text, n.parent, n.depth, n.verdict) for n in one.nodes] == [
            (n.token_id, n.text, n.parent, n.depth, n.verdict) for n in other.nodes
        ]
        assert [n.path_probability for n in one.nodes] == pytest.approx(
            [n.path_probability for n in other.nodes], rel=1e-4
        )
        assert (one.bonus and one.bonus.text) == (other.bonus and other.bonus.text)
    size = sum(len(block) for block in join([pack(made)]))
    nodes = sum(len(step.nodes) for step in made)
    assert size < 16 * nodes, f"{size / nodes:.1f} bytes a node"


def test_steps_of_every_form_come_back() -> None:
    made = [replace(chain_step(1, match=Match(" the man", 2, 40)), notice="Drafting pauses."), window_step(2)]
    for one, other in zip(made, unpack(pack(made), "r"), strict=True):
        assert (one.method, one.shape, one.notice, one.match) == (
            other.method, other.shape, other.notice, other.match,
        )  # fmt: skip
        assert one.window == other.window and one.bonus == other.bonus
        assert [node.target_rank for node in one.nodes] == [node.target_rank for node in other.nodes]


def test_steps_of_an_earlier_version_are_read() -> None:
    line = '[3,1,[0,0.02,0,0],[[5," a",0]],[[4,"x",-1,0,1,1,0,null]],[],[5," a",0,null]]'
    (old,) = unpack(zlib.compress(line.encode()), "r")
    assert (old.index, old.text, old.method, old.shape, old.window) == (3, " a", "", Shape.TREE, ())


def test_many_steps_make_several_blocks() -> None:
    made = steps(TEXT * 12)
    assert len(list(join([pack([step]) for step in made]))) == -(-len(made) // STEPS_A_BLOCK) > 1


def test_a_damaged_block_is_told() -> None:
    with pytest.raises(ValueError, match="cannot be read"):
        unpack(pack(steps())[:-7], "r")
    assert unpack_runs(b"nonsense", 9) == []
    runs = [(0, 4, Origin.TARGET, 0), (4, 9, Origin.DRAFT, 1)]
    assert unpack_runs(pack_runs(runs), 9) == runs and unpack_runs(pack_runs(runs), 8) == []


# --------------------------------------------------------------------------- reading and writing


def test_what_is_written_is_there_again(open_store: Callable[[], ChatStore]) -> None:
    store = open_store()
    fill(store)
    store.put_chat(ChatRecord("c1", "Other", True, 1, 9, True, "Work", "dra\ud800ft", "Be kind.", '{"top_k": 3}'))
    store.put_note("current chat", "c1")
    store.close()
    again = open_store()
    assert [record.id for record in again.chats()] == ["c1", "c2", "c0"], "the one used last comes first"
    other = again.chats()[0]
    assert (other.title, other.pinned, other.folder, other.draft, other.messages) == ("Other", True, "Work", "dra?ft", 1)
    assert [record.text for record in again.messages("c0")] == ["Question 0", "Answer 0"]
    assert again.note("current chat") == "c1" and again.problem == ""


def test_a_growing_reply_is_on_disk_at_once(open_store: Callable[[], ChatStore], folder: Path) -> None:
    store = open_store()
    fill(store, 1)
    store.put_message(
        MessageRecord("g", "c0", "a0", "assistant", "", request_id="r", state="writing")
    )
    made = steps()
    for step in made:
        store.grow("g", step)
    written = sum(len(step.text) for step in made)
    begun = time.monotonic()
    with sqlite3.connect(folder / database.FILE_NAME) as other:
        while sum(len(text) for (text,) in other.execute("SELECT text FROM growth")) < written:
            assert time.monotonic() - begun < 5, "the reply does not reach the disk"
            time.sleep(0.01)
    other.close()
    (record, grown) = store.interrupted()[0]
    assert record.id == "g" and "".join(step.text for step in grown) == TEXT
    store.finish(MessageRecord("g", "c0", "a0", "assistant", TEXT, request_id="r")).wait(5)
    assert store.interrupted() == []
    assert [step.index for part in store.steps("g", "r") for step in part] == [step.index for step in made]


def test_deleting_can_be_undone_until_the_end(open_store: Callable[[], ChatStore]) -> None:
    store = open_store()
    fill(store)
    store.delete("c0")
    store.delete("c1")
    assert store.flush(5)
    assert [record.id for record in store.chats()] == ["c2"] and store.search("Question 1") == []
    store.restore("c0").wait(5)
    assert [hit.chat_id for hit in store.search("Question 0")] == ["c0"]
    store.close()
    again = open_store()
    assert {record.id for record in again.chats()} == {"c0", "c2"}
    assert again._reader.execute("SELECT count(*) FROM messages").fetchone()[0] == 4
    again.restore("c1").wait(5)
    assert len(again.chats()) == 2, "what was purged is gone"


def test_one_bad_change_does_not_hold_up_the_others(open_store: Callable[[], ChatStore]) -> None:
    store = open_store()
    store.put_message(MessageRecord("x", "no such chat", None, "user", "lost"))
    fill(store, 1)
    assert len(store.messages("c0")) == 2


def test_trouble_with_the_disk_is_told_and_over_when_it_is_over(
    open_store: Callable[[], ChatStore], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.storage.connection.BUSY_SECONDS", 0.05)
    monkeypatch.setattr("app.storage.writer.RETRY", 0.05)
    store = open_store()
    fill(store, 1)
    told: list[str] = []
    store._writer._giving_up.clear()  # type: ignore[union-attr]
    other = sqlite3.connect(folder / database.FILE_NAME, isolation_level=None)
    # A new connection has the short patience.
    store.watch(told.append)
    other.execute("BEGIN IMMEDIATE")
    monkeypatch.setattr(ChatStore, "_purge", lambda self: None)
    second = ChatStore(folder)
    second.watch(told.append)
    ticket = second.put_chat(ChatRecord("late", "Late"))
    begun = time.monotonic()
    while not told:
        assert time.monotonic() - begun < 10
        time.sleep(0.01)
    assert "locked" in told[0] and not ticket.done
    other.execute("COMMIT")
    other.close()
    assert ticket.wait(10) and "late" in {record.id for record in second.chats()}
    second.close()
    assert told[-1] == ""


# --------------------------------------------------------------------------- versions and damage


def test_migrations_keep_what_is_there_and_make_a_backup(folder: Path, open_store: Callable[[], ChatStore]) -> None:
    path = folder / database.FILE_NAME
    with sqlite3.connect(path) as old:
        old.executescript(schema.MIGRATIONS[0] + ";PRAGMA user_version = 1;")
        old.execute("INSERT INTO chats(id, title, created, updated) VALUES('old', 'Old', 1, 1)")
    old.close()
    store = open_store()
    assert store.chats()[0].title == "Old" and store.presets() == []
    with sqlite3.connect(folder / database.BACKUP_NAME) as backup:
        assert schema.version_of(backup) == 1
    backup.close()


def test_a_newer_database_is_read_and_never_written(folder: Path, open_store: Callable[[], ChatStore]) -> None:
    store = open_store()
    fill(store)
    store._do(lambda db: db.execute("PRAGMA user_version = 99") and None).wait(5)
    store.close()
    before = (folder / database.FILE_NAME).read_bytes()
    again = open_store()
    assert again.read_only and "newer version" in again.problem and len(again.chats()) == 3
    again.put_chat(ChatRecord("new", "New"))
    again.close()
    assert (folder / database.FILE_NAME).read_bytes() == before


@pytest.mark.parametrize("damage", ["front", "middle", "cut", "empty text"])
def test_a_damaged_database_is_set_aside_and_saved_as_far_as_possible(
    folder: Path, open_store: Callable[[], ChatStore], damage: str
) -> None:
    store = open_store()
    fill(store, 400)
    store.close()
    path = folder / database.FILE_NAME
    (folder / database.MARK_NAME).touch()
    content = bytearray(path.read_bytes())
    if damage == "front":
        content[:100] = b"\0" * 100
    elif damage == "middle":
        for begin in range(len(content) // 3, len(content) // 2, 4096):
            content[begin : begin + 4096] = b"\xff" * 4096
    elif damage == "cut":
        del content[len(content) // 2 :]
    else:
        content = bytearray(b"this was a database once")
    path.write_bytes(content)
    store = open_store()
    aside = list(folder.glob("chats.damaged-*.db"))
    assert len(aside) == 1 and aside[0].read_bytes() == bytes(content), "the damaged file is kept as it was"
    assert "damaged" in store.problem and aside[0].name in store.problem
    assert schema.version_of(store._reader) == schema.VERSION
    if damage in ("middle", "cut"):
        saved = store.chats()
        assert len(saved) > 50, "what can be read is saved"
        assert store.search(f"{saved[0].title}"), "and found"
    fill(store, 1)
    store.close()
    assert open_store().problem == "", "it is told once"


def test_a_chat_that_cannot_be_read_is_told_and_checked_at_the_next_start(
    open_store: Callable[[], ChatStore], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store()
    fill(store, 2)
    told: list[str] = []
    store.watch(told.append)

    def fails(chat_id: str) -> list[MessageRecord]:
        raise sqlite3.DatabaseError("database disk image is malformed")

    monkeypatch.setattr(store, "messages", fails)
    chat = Keeper(store).chats()[0]
    assert chat.messages == [] and "“Chat 1” cannot be read" in told[0]
    store.close()
    assert (folder / database.MARK_NAME).exists()


def test_the_backup_fills_what_damage_has_taken(folder: Path, open_store: Callable[[], ChatStore]) -> None:
    store = open_store()
    fill(store, 5)
    store.close()
    database.back_up_if_old(folder / database.FILE_NAME)
    (folder / database.FILE_NAME).write_bytes(b"\0" * 5000)
    assert len(open_store().chats()) == 5


def test_a_backup_is_made_meanwhile_and_given_up_at_the_end(
    folder: Path, open_store: Callable[[], ChatStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.storage.writer.BACKUP_AFTER", 0.0)
    store = open_store()
    fill(store, 5)
    begun = time.monotonic()
    while not (folder / database.BACKUP_NAME).exists():
        assert time.monotonic() - begun < 10
        time.sleep(0.01)
    path = folder / database.FILE_NAME
    before = (folder / database.BACKUP_NAME).read_bytes()
    with sqlite3.connect(path) as connection, pytest.raises(database.Interrupted):
        database.back_up(connection, path, lambda: True)
    connection.close()
    assert (folder / database.BACKUP_NAME).read_bytes() == before
    assert not list(folder.glob("*.new"))


# --------------------------------------------------------------------------- search


def test_the_search_finds_titles_and_contents(open_store: Callable[[], ChatStore]) -> None:
    store = open_store()
    rows = (
        ("fox", "About foxes", "Where do they live?", "In the <b>forest</b>, near Café Größe."),
        ("sky", "Sky", "Why is it blue?", "Sunlight is scattered."),
        ("odd", "100 % 🦊", "What is NEAR(a, b)?", "It’s “so”: a -> b; 🦊🏽 or \\d+_%."),
        ("lima", "日本の首都", "首都はどこですか", "東京都です。"),
    )
    for name, title, prompt, reply in rows:
        store.put_chat(ChatRecord(name, title, updated=1))
        store.put_message(MessageRecord(f"{name}1", name, None, "user", prompt))
        store.put_message(MessageRecord(f"{name}2", name, f"{name}1", "assistant", reply))
    assert store.flush(5)

    def found(query: str) -> list[str]:
        return [hit.chat_id for hit in store.search(query)]

    assert found("fox") == ["fox"] and found("FORE") == ["fox"] and found("cafe grosse") == []
    assert found("cafe große") == ["fox"] and found("live where") == ["fox"]
    assert found("京都") == ["lima"] and found("首都") == ["lima"] and found("都京") == []
    assert found('"') == found("") == found("*") == found("' OR 1=1 --") == [] and found("blue OR fox") == []
    assert found("🦊") == found("->") == found("%") == found("NEAR(a") == found("“so") == ["odd"], "signs, too"
    assert [store.search("🦊")[0].snippet.text[a:b] for a, b in store.search("🦊")[0].snippet.hits] == ["🦊"]
    hit = store.search("forest")[0]
    assert hit.message_id == "fox2"
    assert [hit.snippet.text[start:end] for start, end in hit.snippet.hits] == ["forest"]
    store.put_message(MessageRecord("fox2", "fox", "fox1", "assistant", "In holes."))
    store.put_chat(ChatRecord("fox", "Den", updated=1))
    assert store.flush(5)
    assert found("forest") == found("foxes") == [] and found("hole") == found("den") == ["fox"]


def test_hits_are_marked_where_they_are() -> None:
    text = "İstanbul Straße, die Straßen; strasse STRASSE"
    assert [text[start:end] for start, end in hits(text, "straß")] == ["Straß", "Straß"]
    foxes = "🦊 Fox fox foxes afox"
    assert [foxes[start:end] for start, end in hits(foxes, "FOX")] == ["Fox", "fox", "fox"]
    found = snippet("word " * 400 + "the needle here " + "word " * 400, "needle")
    assert len(found.text) < 100 and [found.text[a:b] for a, b in found.hits] == ["needle"]
    assert found.text.startswith("…") and found.text.endswith("…")
