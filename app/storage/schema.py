"""The tables of the chats' database, as numbered migrations.

``PRAGMA user_version`` is the number of the last migration applied. A migration
never changes once it was published: what is to be different comes as a new one.
The text of all tables fits into the file's first page, and should go on doing so: where it does not,
damage in the middle of a file can make the whole of it unreadable (hence a table without an index).
The full-text tables hold only the index (``content=''``): texts live once, in
``messages`` and ``chats``, and whoever changes them changes the index with them.
"""

from __future__ import annotations

import contextlib
import sqlite3
from functools import lru_cache

MIGRATIONS = (
    """
    CREATE TABLE chats(
        key INTEGER PRIMARY KEY,
        id TEXT NOT NULL UNIQUE,
        title TEXT NOT NULL,
        own_title INTEGER NOT NULL DEFAULT 0,
        created REAL NOT NULL,
        updated REAL NOT NULL,
        pinned INTEGER NOT NULL DEFAULT 0,
        folder TEXT NOT NULL DEFAULT '',
        draft TEXT NOT NULL DEFAULT '',
        system_prompt TEXT NOT NULL DEFAULT '',
        settings TEXT NOT NULL DEFAULT '{}',
        deleted REAL
    );
    CREATE TABLE messages(
        key INTEGER PRIMARY KEY,
        id TEXT NOT NULL UNIQUE,
        chat_id TEXT NOT NULL REFERENCES chats(id) ON DELETE CASCADE,
        parent_id TEXT,
        role TEXT NOT NULL,
        text TEXT NOT NULL,
        created REAL NOT NULL,
        chosen INTEGER NOT NULL DEFAULT 1,
        request_id TEXT NOT NULL DEFAULT '',
        model TEXT NOT NULL DEFAULT '',
        state TEXT NOT NULL DEFAULT 'done',
        reason TEXT,
        notice TEXT NOT NULL DEFAULT '',
        facts TEXT NOT NULL DEFAULT '{}',
        runs BLOB
    );
    CREATE INDEX messages_of_chat ON messages(chat_id, key);
    CREATE INDEX messages_being_written ON messages(key) WHERE state = 'writing';
    CREATE TABLE growth(
        key INTEGER PRIMARY KEY,
        message_id TEXT NOT NULL REFERENCES messages(id) ON DELETE CASCADE,
        text TEXT NOT NULL,
        steps BLOB NOT NULL
    );
    CREATE INDEX growth_of_message ON growth(message_id, key);
    CREATE TABLE steps(
        key INTEGER PRIMARY KEY,
        message_id TEXT NOT NULL REFERENCES messages(id) ON DELETE CASCADE,
        data BLOB NOT NULL
    );
    CREATE INDEX steps_of_message ON steps(message_id, key);
    CREATE TABLE notes(name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
    CREATE VIRTUAL TABLE found_messages USING fts5(
        text, content='', tokenize='unicode61 remove_diacritics 2', prefix='1 2 3');
    CREATE VIRTUAL TABLE found_titles USING fts5(
        text, content='', tokenize='unicode61 remove_diacritics 2', prefix='1 2 3');
    """,
    """
    CREATE TABLE presets(
        name TEXT PRIMARY KEY,
        system_prompt TEXT NOT NULL DEFAULT '',
        settings TEXT NOT NULL DEFAULT '{}'
    ) WITHOUT ROWID;
    """,
    """
    CREATE TABLE comparisons(id TEXT PRIMARY KEY, chat_id TEXT REFERENCES chats(id) ON DELETE CASCADE,
    created REAL, title TEXT, deleted REAL, data TEXT) WITHOUT ROWID;
    """,
)
"""``MIGRATIONS[n]`` leads from version n to n + 1."""

VERSION = len(MIGRATIONS)


def version_of(connection: sqlite3.Connection) -> int:
    """:raises sqlite3.DatabaseError: the file is no database."""
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def lacking(connection: sqlite3.Connection) -> list[str]:
    """What a database of :data:`VERSION` should have and this one has not, as ``table.column``.

    :raises sqlite3.DatabaseError: the file is damaged.
    """
    there = _columns(connection)
    return [f"{table}.{column}" for table, column in sorted(_wanted() - there)]


@lru_cache(maxsize=1)
def _wanted() -> frozenset[tuple[str, str]]:
    with contextlib.closing(sqlite3.connect(":memory:", isolation_level=None)) as fresh:
        migrate(fresh)
        return _columns(fresh)


def _columns(connection: sqlite3.Connection) -> frozenset[tuple[str, str]]:
    """(table, column) of all."""
    rows = connection.execute(
        "SELECT tables.name, columns.name FROM sqlite_master AS tables, pragma_table_info(tables.name) AS columns "
        "WHERE tables.type = 'table'"
    )
    return frozenset(rows.fetchall())


def migrate(connection: sqlite3.Connection) -> int:
    """Bring the database up to :data:`VERSION`, one transaction a step; returns where it began.

    :raises sqlite3.DatabaseError: what is there is not what its version says.
    """
    begun = version = version_of(connection)
    if version < 0:
        raise sqlite3.DatabaseError(f"there is no version {version}")
    while version < VERSION:
        # ``executescript`` commits what is open first, so the transaction is part of the script.
        connection.executescript(
            f"BEGIN IMMEDIATE;{MIGRATIONS[version]};PRAGMA user_version = {version + 1};COMMIT;"
        )
        version += 1
    return begun
