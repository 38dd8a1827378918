"""Saves what can be read of a damaged database into a new one."""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import sqlite3
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from app.language import tr, tr_n
from app.storage import records
from app.storage.connection import connect
from app.storage.schema import migrate

log = logging.getLogger(__name__)

SALVAGED = ("chats", "messages", "steps", "growth", "notes", "presets", "comparisons")


def recover(path: Path, backup: Path) -> str:
    """Set a damaged database aside and save what can be read of it and of the backup; what to tell the user."""
    aside = _set_aside(path)
    with contextlib.closing(connect(path)) as connection:
        migrate(connection)
        _salvage(connection, backup)
        _salvage(connection, aside)
        chats = connection.execute("SELECT count(*) FROM chats WHERE deleted IS NULL").fetchone()[0]
        records.rebuild_index(connection)
    if chats:
        saved = tr_n(
            "Chats", "%n chat could be saved from it.", "%n chats could be saved from it.", int(chats)
        )
    else:
        saved = tr("Chats", "No chat could be read from it.")
    return tr(
        "Chats",
        "The chats' database was damaged. {saved} The damaged file is kept as {file} in the data "
        "folder; if chats are missing, keep it for a repair.",
    ).format(saved=saved, file=aside.name)


def _set_aside(path: Path) -> Path:
    stamp = time.strftime("%Y%m%d-%H%M%S")
    aside = path.with_name(f"chats.damaged-{stamp}.db")
    number = 1
    while aside.exists():
        number += 1
        aside = path.with_name(f"chats.damaged-{stamp}-{number}.db")
    for ending in ("", "-wal", "-shm"):
        part = path.with_name(path.name + ending)
        if part.exists():
            os.replace(part, aside.with_name(aside.name + ending))
    return aside


def _salvage(connection: sqlite3.Connection, source: Path) -> None:
    """Copy every row that can be read, from the front and from the back of each table."""
    if not source.exists():
        return
    connection.execute("PRAGMA foreign_keys = OFF")
    connection.execute("BEGIN IMMEDIATE")
    try:
        with _whole_copy(source) as copy, contextlib.closing(sqlite3.connect(copy)) as damaged:
            damaged.text_factory = lambda raw: raw.decode("utf-8", "replace")
            for table in SALVAGED:
                known = {row[1]: row[2] for row in connection.execute(f"PRAGMA table_info({table})")}
                for order in ("ASC", "DESC"):
                    if _copy(connection, damaged, table, known, order):
                        break
    except (sqlite3.DatabaseError, OSError) as error:
        log.warning("%s: %s", source.name, error)
    records.adopt_orphans(connection)
    for table in ("messages", "comparisons"):
        connection.execute(f"DELETE FROM {table} WHERE chat_id NOT IN (SELECT id FROM chats)")
    for table in ("steps", "growth"):
        connection.execute(f"DELETE FROM {table} WHERE message_id NOT IN (SELECT id FROM messages)")
    connection.execute("COMMIT")
    connection.execute("PRAGMA foreign_keys = ON")


@contextlib.contextmanager
def _whole_copy(source: Path) -> Iterator[Path]:
    """A copy to read from, so that the file itself stays as it is; one that was cut is filled with zeros.

    SQLite reads nothing of a file that is shorter than its header says.
    """
    with tempfile.TemporaryDirectory(prefix="eyrie-salvage-", dir=source.parent) as folder:
        copy = Path(folder) / "copy.db"
        shutil.copyfile(source, copy)
        wal = source.with_name(source.name + "-wal")
        if wal.exists():
            shutil.copyfile(wal, copy.with_name("copy.db-wal"))
        with open(copy, "r+b") as file:
            header = file.read(32)
            if len(header) == 32:
                page = int.from_bytes(header[16:18], "big")
                size = (65536 if page == 1 else page) * int.from_bytes(header[28:32], "big")
                if copy.stat().st_size < size < 100 * max(1, copy.stat().st_size):
                    file.truncate(size)
        yield copy


def _copy(
    connection: sqlite3.Connection, damaged: sqlite3.Connection, table: str, known: dict[str, str], order: str
) -> bool:
    """Copy a table's rows; ``False`` when reading broke off. ``known``: columns and their types."""
    try:
        key = {"notes": "name", "presets": "name", "comparisons": "id"}.get(table, "key")
        rows = damaged.execute(f"SELECT * FROM {table} ORDER BY {key} {order}")
        names = [column[0] for column in rows.description]
        kept = [place for place, name in enumerate(names) if name in known]
        columns = ", ".join(names[place] for place in kept)
        places = ", ".join("?" * len(kept))
        for row in rows:
            with contextlib.suppress(sqlite3.IntegrityError):
                connection.execute(
                    f"INSERT OR REPLACE INTO {table}({columns}) VALUES({places})",
                    [
                        None if row[place] is None else records.as_declared(row[place], known[names[place]])
                        for place in kept
                    ],
                )
    except sqlite3.DatabaseError as error:
        log.warning("%s of the damaged database: %s", table, error)
        return False
    return True
