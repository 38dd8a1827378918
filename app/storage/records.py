"""Rows of the chats' database as plain data, and how they are read and written.

What has structure of its own (statistics, problems, settings) is kept as JSON text:
the database need not know it, and a newer Eyrie may add to it.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from typing import Any, NamedTuple, get_type_hints

from app.storage import words
from app.storage.connection import is_damage


class ChatRecord(NamedTuple):
    """A chat without its messages. A tuple, because ten thousand of them are made at a start."""

    id: str
    title: str
    own_title: bool = False
    created: float = 0.0
    """Seconds since the epoch."""
    updated: float = 0.0
    pinned: bool = False
    folder: str = ""
    draft: str = ""
    system_prompt: str = ""
    settings: str = "{}"
    """JSON: what this chat sets differently from the settings."""
    messages: int = 0
    """0 when there are none. Not written."""


@dataclass(frozen=True, slots=True)
class MessageRecord:
    """One message: a node of its chat's tree."""

    id: str
    chat_id: str
    parent_id: str | None
    role: str
    text: str
    created: float = 0.0
    chosen: bool = True
    """Whether it is the one shown among the messages with the same parent."""
    request_id: str = ""
    model: str = ""
    state: str = "done"
    """``"writing"`` until the reply has ended."""
    reason: str | None = None
    notice: str = ""
    facts: str = "{}"
    """JSON: statistics, problem, settings."""
    runs: bytes | None = None
    """Where its tokens came from; see :mod:`app.storage.steps`."""


CHAT_COLUMNS = "id, title, own_title, created, updated, pinned, folder, draft, system_prompt, settings"
MESSAGE_COLUMNS = "id, chat_id, parent_id, role, text, created, chosen, request_id, model, state, reason, notice, facts, runs"
LIST = (
    f"SELECT {CHAT_COLUMNS}, EXISTS(SELECT 1 FROM messages WHERE chat_id = chats.id) FROM chats "
    "WHERE deleted IS NULL ORDER BY updated DESC, key DESC"
)
"""All chats that are not deleted, the one used last first; for :func:`chat_of`."""
MESSAGE_TYPES = "TEXT TEXT TEXT TEXT TEXT REAL INTEGER TEXT TEXT TEXT TEXT TEXT TEXT BLOB"
MAY_BE_NULL = ("parent_id", "reason", "runs")


def chat_of(row: Any) -> ChatRecord:
    """A row of ``CHAT_COLUMNS`` and whether there are messages."""
    return ChatRecord._make(row)


def message_of(row: Any) -> MessageRecord:
    """A row of ``MESSAGE_COLUMNS``; what damage has made into something else is put right as far as it goes."""
    values = [
        value if value is None and name in MAY_BE_NULL else as_declared(value, declared)
        for value, name, declared in zip(row, MESSAGE_COLUMNS.split(", "), MESSAGE_TYPES.split(), strict=True)
    ]
    before, chosen, behind = values[:6], bool(values[6]), values[7:]
    return MessageRecord(*before, chosen, *behind)


# --------------------------------------------------------------------------- checking and mending


def check_list(connection: sqlite3.Connection) -> None:
    """Read what the list of chats is made of, all of it.

    :raises sqlite3.DatabaseError: some of it cannot be read, or is of another kind than it should be.
    """
    names = CHAT_COLUMNS.split(", ")
    kinds = {int: "'integer'", float: "'real', 'integer'", bool: "'integer'", str: "'text'"}
    hints = get_type_hints(ChatRecord)
    wrong = " OR ".join(f"typeof({name}) NOT IN ({kinds[hints[name]]})" for name in names)
    count = connection.execute(f"SELECT count(*) FROM chats WHERE {wrong}").fetchone()[0]
    if count:
        raise sqlite3.DatabaseError(f"{count} rows of the list hold other things than they should")
    for _ in connection.execute(LIST):
        pass


def as_declared(value: Any, declared: str) -> Any:
    """A value that may be damaged, as its column wants it; ``declared`` is the column's type."""
    if declared == "BLOB":
        return value if isinstance(value, bytes) else None
    if declared == "TEXT":
        if isinstance(value, bytes):
            return value.decode("utf-8", "replace")
        return value if isinstance(value, str) else "" if value is None else str(value)
    try:
        return int(value) if declared == "INTEGER" else float(value)
    except (TypeError, ValueError, OverflowError):
        return 0


def adopt_orphans(connection: sqlite3.Connection) -> None:
    """Make a chat for messages whose chat is lost, called by the first words of its first prompt."""
    connection.execute(
        "INSERT INTO chats(id, title, created, updated) "
        "SELECT chat_id, ifnull(nullif(trim(substr(replace(text, char(10), ' '), 1, 40)), ''), 'New chat'), created, "
        "(SELECT max(created) FROM messages AS newer WHERE newer.chat_id = messages.chat_id) FROM messages "
        "WHERE chat_id NOT IN (SELECT id FROM chats) "
        "AND key = (SELECT min(key) FROM messages AS first WHERE first.chat_id = messages.chat_id)"
    )


def clean(text: str) -> str:
    """The text without halves of surrogate pairs, which no database takes."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace").decode("utf-8")
    return text


# --------------------------------------------------------------------------- writing


def put_chat(connection: sqlite3.Connection, record: ChatRecord) -> None:
    """Insert or change a chat, and the index of its title."""
    values: tuple[Any, ...]
    old = connection.execute("SELECT key, title FROM chats WHERE id = ?", (record.id,)).fetchone()
    values = (
        record.id, clean(record.title), record.own_title, record.created, record.updated, record.pinned,
        clean(record.folder), clean(record.draft), clean(record.system_prompt), record.settings,
    )  # fmt: skip
    if old is None:
        places = ", ".join("?" * len(values))
        key = connection.execute(f"INSERT INTO chats({CHAT_COLUMNS}) VALUES({places})", values).lastrowid
        _index(connection, "found_titles", key, "", values[1])
    else:
        names = ", ".join(f"{name} = ?" for name in CHAT_COLUMNS.split(", ")[1:])
        connection.execute(f"UPDATE chats SET {names} WHERE id = ?", (*values[1:], record.id))
        _index(connection, "found_titles", old[0], old[1], values[1])


def put_message(connection: sqlite3.Connection, record: MessageRecord) -> None:
    """Insert or change a message, and the index of its text."""
    values: tuple[Any, ...]
    old = connection.execute("SELECT key, text FROM messages WHERE id = ?", (record.id,)).fetchone()
    values = (
        record.id, record.chat_id, record.parent_id, record.role, clean(record.text), record.created,
        record.chosen, record.request_id, clean(record.model), record.state, record.reason, clean(record.notice),
        record.facts, record.runs,
    )  # fmt: skip
    if old is None:
        places = ", ".join("?" * len(values))
        key = connection.execute(
            f"INSERT INTO messages({MESSAGE_COLUMNS}) VALUES({places})", values
        ).lastrowid
        _index(connection, "found_messages", key, "", values[4])
    else:
        names = ", ".join(f"{name} = ?" for name in MESSAGE_COLUMNS.split(", ")[1:])
        connection.execute(f"UPDATE messages SET {names} WHERE id = ?", (*values[1:], record.id))
        _index(connection, "found_messages", old[0], old[1], values[4])


def purge_chat(connection: sqlite3.Connection, chat_id: str) -> None:
    """Take a chat, its messages and their index out for good."""
    for key, text in connection.execute(
        "SELECT key, text FROM messages WHERE chat_id = ?", (chat_id,)
    ).fetchall():
        _index(connection, "found_messages", key, text, "")
    for key, title in connection.execute("SELECT key, title FROM chats WHERE id = ?", (chat_id,)).fetchall():
        _index(connection, "found_titles", key, title, "")
    connection.execute("DELETE FROM chats WHERE id = ?", (chat_id,))


INDEXED = (("found_messages", "messages", "text"), ("found_titles", "chats", "title"))
"""Full-text tables, and where their texts stand."""


def rebuild_index(connection: sqlite3.Connection) -> None:
    """Make both full-text tables anew from the texts, in a transaction."""
    connection.execute("BEGIN IMMEDIATE")
    for table, source, column in INDEXED:
        connection.execute(f"INSERT INTO {table}({table}) VALUES('delete-all')")
        rows = connection.execute(f"SELECT key, {column} FROM {source}")
        for key, text in rows:
            _index(connection, table, key, "", text)
    connection.execute("COMMIT")


def is_index_sound(connection: sqlite3.Connection) -> bool:
    """Whether both full-text tables can be read; ``quick_check`` knows nothing of what is in them."""
    try:
        for table, _, _ in INDEXED:
            connection.execute(f"INSERT INTO {table}({table}) VALUES('integrity-check')")
    except sqlite3.DatabaseError as error:
        return not is_damage(error)  # that the file is locked says nothing about it
    return True


def _index(connection: sqlite3.Connection, table: str, key: int | None, old: str, new: str) -> None:
    if old == new:
        return
    if old:
        connection.execute(
            f"INSERT INTO {table}({table}, rowid, text) VALUES('delete', ?, ?)", (key, words.spaced(old))
        )
    if new:
        connection.execute(f"INSERT INTO {table}(rowid, text) VALUES(?, ?)", (key, words.spaced(new)))
