"""Opens the chats' database, whatever state it is in, and says what had to be done.

- A damaged file is never thrown away: it is set aside under a name with the date,
  and what can still be read of it, and of the last backup, goes into a new one.
- Before a migration, and once a day, the file is copied to ``chats.backup.db``.
- A database of a newer Eyrie is opened for reading only.

A file ``chats.open`` beside it marks a session that has not ended properly; only
then is the whole database checked at the start.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from app.language import mark, tr, tr_n
from app.storage import records
from app.storage.schema import VERSION, migrate, version_of

log = logging.getLogger(__name__)

FILE_NAME = "chats.db"
BACKUP_NAME = "chats.backup.db"
MARK_NAME = "chats.open"
BACKUP_SECONDS = 24 * 3600.0
BUSY_SECONDS = 5.0
SALVAGED = ("chats", "messages", "steps", "growth", "notes", "presets", "comparisons")

READ_ONLY = mark(
    "Chats",
    "The chats were written by a newer version of Eyrie. They can be read here, but nothing new is kept. "
    "Update Eyrie, or choose another data folder with --data-dir.",
)


@dataclass(frozen=True, slots=True)
class Opened:
    """What there is to work with."""

    path: Path
    problem: str = ""
    """What went wrong and was done about it, for people; empty when nothing did."""
    read_only: bool = False


def connect(path: Path, writing: bool = True) -> sqlite3.Connection:
    """A connection in autocommit mode; transactions are begun by hand.

    :raises sqlite3.Error: the file cannot be opened or is no database.
    """
    connection = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None)
    try:
        if writing:
            connection.execute("PRAGMA journal_mode = WAL")
            # With a write-ahead log this loses nothing when the program dies, and nothing but the
            # last moments, never the database, when the machine does.
            connection.execute("PRAGMA synchronous = NORMAL")
            connection.execute("PRAGMA foreign_keys = ON")
        else:
            connection.execute("PRAGMA query_only = ON")
    except BaseException:
        connection.close()
        raise
    return connection


def open_database(folder: Path) -> Opened:
    """Make the database ready: checked, migrated, and recovered when it was damaged.

    :raises OSError: the folder cannot be written.
    """
    path, mark = folder / FILE_NAME, folder / MARK_NAME
    unclean = mark.exists()
    try:
        newer = _prepare(path, check=unclean)
    except sqlite3.OperationalError as error:
        raise OSError(f"the chats' database cannot be opened: {error}") from error
    except sqlite3.DatabaseError as error:
        log.error("the chats' database is damaged: %s", error)
        problem = _recover(path)
        mark.touch()
        return Opened(path, problem)
    if newer:
        return Opened(path, READ_ONLY, read_only=True)
    mark.touch()
    return Opened(path)


def closed_properly(path: Path) -> None:
    """Take the mark of an open session away."""
    path.with_name(MARK_NAME).unlink(missing_ok=True)


def leave_open(path: Path) -> None:
    """Have the whole database checked at the next start."""
    path.with_name(MARK_NAME).touch()


def _prepare(path: Path, check: bool) -> bool:
    """Check and migrate; ``True`` when the file is of a newer version.

    :raises sqlite3.DatabaseError: it is damaged.
    """
    fresh = not path.exists()
    with contextlib.closing(connect(path)) as connection:
        version = version_of(connection)
        if version > VERSION:
            return True
        if check and not fresh:
            found = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
            if found != "ok":
                raise sqlite3.DatabaseError(found)
        if not fresh and 0 < version < VERSION:
            back_up(connection, path)
        migrate(connection)
        # Reading a little of each table finds what the header does not show.
        for table in SALVAGED:
            connection.execute(f"SELECT count(*) FROM (SELECT 1 FROM {table} LIMIT 1)").fetchone()
    return False


# --------------------------------------------------------------------------- backups


class Interrupted(OSError):
    """A backup was given up because the program ends."""


def back_up(connection: sqlite3.Connection, path: Path, given_up: Callable[[], bool] = lambda: False) -> None:
    """Copy the database to the backup, which is replaced only by a complete copy.

    :raises sqlite3.Error: the database cannot be read, or the disk is full.
    :raises OSError: the copy cannot be put in place, or ``given_up`` turned true.
    """

    def go_on(_status: int, _left: int, _whole: int) -> None:
        if given_up():
            raise Interrupted("the program ends")

    target = path.with_name(BACKUP_NAME)
    new = target.with_suffix(".new")
    new.unlink(missing_ok=True)
    try:
        with contextlib.closing(sqlite3.connect(new)) as copy:
            connection.backup(copy, pages=256, progress=go_on, sleep=0.0)
        os.replace(new, target)
    finally:
        new.unlink(missing_ok=True)


def back_up_if_old(path: Path, given_up: Callable[[], bool] = lambda: False) -> None:
    """Once a day; called in a thread that nobody waits for."""
    target = path.with_name(BACKUP_NAME)
    if target.exists() and time.time() - target.stat().st_mtime < BACKUP_SECONDS:
        return
    with contextlib.closing(connect(path, writing=False)) as connection:
        back_up(connection, path, given_up)


# --------------------------------------------------------------------------- damage


def _recover(path: Path) -> str:
    """Set a damaged database aside and save what can be read; what to tell the user."""
    aside = _set_aside(path)
    with contextlib.closing(connect(path)) as connection:
        migrate(connection)
        backup = path.with_name(BACKUP_NAME)
        _salvage(connection, backup)
        _salvage(connection, aside)
        chats = connection.execute("SELECT count(*) FROM chats WHERE deleted IS NULL").fetchone()[0]
        connection.execute("BEGIN IMMEDIATE")
        records.rebuild_index(connection)
        connection.execute("COMMIT")
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
            for table in SALVAGED:
                known = {row[1] for row in connection.execute(f"PRAGMA table_info({table})")}
                for order in ("ASC", "DESC"):
                    if _copy(connection, damaged, table, known, order):
                        break
    except (sqlite3.DatabaseError, OSError) as error:
        log.warning("%s: %s", source.name, error)
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
    connection: sqlite3.Connection, damaged: sqlite3.Connection, table: str, known: set[str], order: str
) -> bool:
    """Copy a table's rows; ``False`` when reading broke off."""
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
                    [row[place] for place in kept],
                )
    except sqlite3.DatabaseError as error:
        log.warning("%s of the damaged database: %s", table, error)
        return False
    return True
