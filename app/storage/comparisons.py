"""Saved comparisons: rows beside the chats they belong to.

What a comparison holds is :mod:`app.compare.record`'s affair; here it is a text with a date and a
title, as the list shows them.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from typing import Any, NamedTuple

from app.storage.records import clean


class ComparisonRecord(NamedTuple):
    id: str
    chat_id: str
    created: float
    """Seconds since the epoch."""
    title: str
    data: str = ""
    """JSON; see :mod:`app.compare.record`."""


COLUMNS = "id, chat_id, created, title, data"


def put(connection: sqlite3.Connection, record: ComparisonRecord) -> None:
    """Insert or change a comparison. :raises sqlite3.IntegrityError: its chat has no row."""
    values = (record.id, record.chat_id, record.created, clean(record.title), clean(record.data))
    connection.execute(
        f"INSERT INTO comparisons({COLUMNS}) VALUES(?, ?, ?, ?, ?) ON CONFLICT(id) DO UPDATE SET "
        "title = excluded.title, data = excluded.data",
        values,
    )


def of_chat(connection: sqlite3.Connection, chat_id: str) -> list[ComparisonRecord]:
    """Those that are not deleted, oldest first."""
    rows = connection.execute(
        f"SELECT {COLUMNS} FROM comparisons WHERE chat_id = ? AND deleted IS NULL ORDER BY created, id", (chat_id,)
    )
    return [ComparisonRecord._make(row) for row in rows.fetchall()]


def listed(connection: sqlite3.Connection, chat_id: str) -> list[ComparisonRecord]:
    """The same, newest first and without their contents."""
    rows = connection.execute(
        "SELECT id, chat_id, created, title, '' FROM comparisons "
        "WHERE chat_id = ? AND deleted IS NULL ORDER BY created DESC, id DESC",
        (chat_id,),
    )
    return [ComparisonRecord._make(row) for row in rows.fetchall()]


def data_of(connection: sqlite3.Connection, comparison_id: str) -> str:
    """The contents of one, or "" when there is none."""
    row = connection.execute("SELECT data FROM comparisons WHERE id = ?", (comparison_id,)).fetchone()
    return str(row[0]) if row else ""


def mark_deleted(connection: sqlite3.Connection, comparison_id: str, when: float | None) -> None:
    """Take one out of the list, or with ``None`` put it back; :func:`purge` ends it."""
    connection.execute("UPDATE comparisons SET deleted = ? WHERE id = ?", (when, comparison_id))


def purge(connection: sqlite3.Connection) -> None:
    connection.execute("DELETE FROM comparisons WHERE deleted IS NOT NULL")


# --------------------------------------------------------------------------- in files


def to_table(record: ComparisonRecord) -> dict[str, Any]:
    table = record._asdict()
    del table["chat_id"]
    return table


def from_table(table: Mapping[str, Any], chat_id: str) -> ComparisonRecord:
    """:raises ValueError: it is no comparison; KeyError where a part is missing."""
    made = ComparisonRecord(str(table["id"]), chat_id, table["created"], table["title"], table["data"])
    if not isinstance(made.created, int | float) or isinstance(made.created, bool):
        raise ValueError("the date of a comparison is no number")
    if not isinstance(made.title, str) or not isinstance(made.data, str):
        raise ValueError("a comparison is no text")
    return made
