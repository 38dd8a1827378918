"""Chats as JSON: everything that is stored of them, in a form that outlives the database.

One object: ``{"format": "eyrie-chats", "version": 1, "chats": [...]}``. Each chat has
its fields, ``messages`` and ``comparisons``, each with its fields; what SQLite keeps as compact
blobs (origins of the text, steps with their draft trees) is base64 of the same. A file that
was exported and imported gives equal rows.
"""

from __future__ import annotations

import base64
import binascii
import json
import sqlite3
import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, get_args, get_type_hints

from app.language import tr
from app.storage import comparisons, records
from app.storage.comparisons import ComparisonRecord
from app.storage.records import ChatRecord, MessageRecord
from app.whole_files import Progress, replacing, unwatched

FORMAT = "eyrie-chats"
VERSION = 1
LATEST = 1e12
"""No number of a chat is as large: seconds of some 30,000 years."""
HEAD = f'{{"format": "{FORMAT}", "version": {VERSION}, "chats": ['
"""First line of a file; a chat a line follows, and :data:`TAIL` as the last."""
TAIL = "]}"


class ArchiveError(ValueError):
    """The file holds no chats of ours; the text says why, for people."""


# --------------------------------------------------------------------------- out


def write_archive(
    path: Path, connection: sqlite3.Connection, chat_ids: Sequence[str], progress: Progress = unwatched
) -> int:
    """Write chats to a file, a little at a time, so that any number fits; returns how many.

    The file is complete or not there. Each chat is a line of it, which :func:`chats_in` uses.

    :raises OSError: it cannot be written, or there is nothing to write.
    :raises app.whole_files.Cancelled: ``progress`` raised it.
    """
    count, total = 0, len(chat_ids)
    with replacing(path) as file:

        def put(text: str) -> None:
            progress(min(count, total - 1), total)
            file.write(text.encode("utf-8", "replace"))

        file.write(f"{HEAD}\n".encode())
        for chat_id in chat_ids:
            pieces = chat_pieces(connection, chat_id)
            first = next(pieces, None)
            if first is not None:
                put((",\n" if count else "") + first)
                for piece in pieces:
                    put(piece)
                count += 1
        if chat_ids and not count:
            raise OSError(tr("Chats", "it has no messages yet"))
        file.write(f"\n{TAIL}\n".encode())
    return count


def chat_pieces(connection: sqlite3.Connection, chat_id: str) -> Iterator[str]:
    """A chat with everything that belongs to it as JSON, in pieces; nothing when there is none."""
    row = connection.execute(
        f"SELECT {records.CHAT_COLUMNS}, 0 FROM chats WHERE id = ?", (chat_id,)
    ).fetchone()
    if row is None:
        return
    table = records.chat_of(row)._asdict()
    for name in ("own_title", "pinned"):
        table[name] = bool(table[name])
    table["settings"] = json.loads(table["settings"])
    yield _left_open(table, "messages")
    rows = connection.execute(
        f"SELECT {records.MESSAGE_COLUMNS} FROM messages WHERE chat_id = ? ORDER BY key", (chat_id,)
    )
    for place, record in enumerate(map(records.message_of, rows)):
        message = asdict(record)
        del message["chat_id"]
        message["facts"] = json.loads(message["facts"])
        message["runs"] = _text(record.runs)
        yield (", " if place else "") + _left_open(message, "steps")
        steps = connection.execute("SELECT data FROM steps WHERE message_id = ? ORDER BY key", (record.id,))
        for number, (block,) in enumerate(steps):
            yield f'{", " if number else ""}"{_text(block)}"'
        yield "]}"
    compared = [comparisons.to_table(each) for each in comparisons.of_chat(connection, chat_id)]
    yield f'], "comparisons": {json.dumps(compared, ensure_ascii=False)}}}'


def _left_open(table: dict[str, Any], name: str) -> str:
    """A table as JSON up to the beginning of a list in it that is still to come."""
    return f'{json.dumps(table, ensure_ascii=False)[:-1]}, "{name}": ['


# --------------------------------------------------------------------------- in


def chats_in(path: Path, progress: Progress = unwatched) -> Iterator[dict[str, Any]]:
    """The chats of a file one after the other, checked; ``progress`` counts bytes.

    A file as we write it is read line by line: parsed as a whole, a large one would hold up every
    thread, and take many times its size in memory. Any other layout is parsed as a whole.

    :raises OSError: it cannot be read.
    :raises ArchiveError: it holds something else; perhaps only after some chats.
    """
    total, done, given = path.stat().st_size, 0, 0
    with path.open("rb") as file:
        line = file.readline(len(HEAD) + 3)
        if line.strip() == HEAD.encode():
            for line in file:
                progress(done, total)
                done += len(line)
                try:
                    chat = json.loads(line.strip().removesuffix(b","))
                except (ValueError, RecursionError):
                    break
                _check(chat)
                yield chat
                given += 1
            if line.strip() == TAIL.encode() and not file.read().strip():
                return
    for chat in _parsed(path)[given:]:
        progress(done, total)
        _check(chat)
        yield chat


def _parsed(path: Path) -> list[Any]:
    """The chats of a file in any layout. :raises ArchiveError: it holds something else."""
    try:
        whole = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        text = tr("Chats", "{file} is not a JSON file of chats ({error}).")
        raise ArchiveError(text.format(file=path.name, error=error)) from error
    if not isinstance(whole, dict) or whole.get("format") != FORMAT:
        raise ArchiveError(tr("Chats", "{file} does not hold chats of Eyrie.").format(file=path.name))
    if whole.get("version") != VERSION:
        text = tr("Chats", "{file} was written by a newer version of Eyrie. Update Eyrie to read it.")
        raise ArchiveError(text.format(file=path.name))
    chats = whole.get("chats")
    if not isinstance(chats, list):
        raise ArchiveError(tr("Chats", "{file} does not hold a list of chats.").format(file=path.name))
    return chats


def put_hidden(connection: sqlite3.Connection, table: dict[str, Any]) -> str:
    """Store a chat of an archive as a deleted one, until the whole archive is stored; returns its id.

    Ids stay when they are free. A chat that is there already comes in beside it, with new
    ids throughout: an import never changes what is stored.
    """
    chat, messages, compared = _check(table)
    taken = connection.execute("SELECT 1 FROM chats WHERE id = ?", (chat.id,)).fetchone() is not None
    names = {record.id for record, _ in messages}
    for name in names:
        taken = (
            taken or connection.execute("SELECT 1 FROM messages WHERE id = ?", (name,)).fetchone() is not None
        )
    known = {each.id for each in compared}
    rows = connection.execute("SELECT id FROM comparisons").fetchall() if known else ()
    taken = taken or any(name in known for (name,) in rows)
    new = {name: uuid.uuid4().hex if taken else name for name in names}
    if taken:
        chat = chat._replace(id=uuid.uuid4().hex)
    records.put_chat(connection, chat)
    connection.execute("UPDATE chats SET deleted = ? WHERE id = ?", (time.time(), chat.id))
    for record, steps in messages:
        parent = new[record.parent_id] if record.parent_id is not None else None
        placed = replace(record, id=new[record.id], chat_id=chat.id, parent_id=parent, state="done")
        records.put_message(connection, placed)
        connection.executemany(
            "INSERT INTO steps(message_id, data) VALUES(?, ?)", [(placed.id, block) for block in steps]
        )
    for each in compared:
        name = uuid.uuid4().hex if taken else each.id
        comparisons.put(connection, each._replace(id=name, chat_id=chat.id))
    return chat.id


_Messages = list[tuple[MessageRecord, list[bytes]]]


def _check(table: object) -> tuple[ChatRecord, _Messages, list[ComparisonRecord]]:
    """A chat, its messages and its comparisons as records. :raises ArchiveError: something does not fit."""
    try:
        assert isinstance(table, dict)
        values = dict(table)
        raw = values.pop("messages")
        values["settings"] = json.dumps(values.get("settings", {}))
        chat = ChatRecord(**_known(values, ChatRecord))
        messages = [_message(each, chat.id) for each in raw]
        compared = [comparisons.from_table(each, chat.id) for each in values.get("comparisons") or []]
    except (AssertionError, TypeError, KeyError, ValueError, AttributeError, binascii.Error) as error:
        text = tr("Chats", "A chat in this file is not complete: {error!r}.")
        raise ArchiveError(text.format(error=error)) from error
    _fits(chat)
    seen: set[str] = set()
    for record, _ in messages:
        _fits(record)
        if record.id in seen or (record.parent_id is not None and record.parent_id not in seen):
            raise ArchiveError(tr("Chats", "The messages of a chat in this file do not make a tree."))
        seen.add(record.id)
    if len({each.id for each in compared}) < len(compared):
        raise ArchiveError(tr("Chats", "A comparison of a chat in this file comes twice."))
    return chat, messages, compared


def _message(values: dict[str, Any], chat_id: str) -> tuple[MessageRecord, list[bytes]]:
    values = dict(values, chat_id=chat_id)
    steps = [base64.b64decode(block, validate=True) for block in values.pop("steps", [])]
    values["facts"] = json.dumps(values.get("facts", {}))
    runs = values.get("runs")
    values["runs"] = base64.b64decode(runs, validate=True) if runs else None
    return MessageRecord(**_known(values, MessageRecord)), steps


def _known(values: dict[str, Any], kind: type) -> dict[str, Any]:
    """What a record has fields for; a newer Eyrie may have written more."""
    names = get_type_hints(kind)
    return {name: value for name, value in values.items() if name in names}


def _fits(record: ChatRecord | MessageRecord) -> None:
    """:raises ArchiveError: a field is of another kind than the database wants."""
    for name, kinds in _kinds(record):
        value = getattr(record, name)
        endless = isinstance(value, int | float) and not -LATEST < value < LATEST  # as what is no number at all
        if endless or not isinstance(value, kinds):
            text = tr("Chats", "“{field}” of a chat or message in this file is not what it should be.")
            raise ArchiveError(text.format(field=name))


def _kinds(record: ChatRecord | MessageRecord) -> Iterator[tuple[str, tuple[type, ...]]]:
    for name, hint in get_type_hints(type(record)).items():
        allowed = get_args(hint) or (hint,)
        if float in allowed or bool in allowed:
            allowed = (*allowed, int)
        yield name, allowed


def _text(blob: bytes | None) -> str | None:
    return None if blob is None else base64.b64encode(blob).decode("ascii")
