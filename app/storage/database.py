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
import sqlite3
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from app.language import mark, tr
from app.storage import records
from app.storage.connection import NO_WRITING, code_of, connect, is_damage
from app.storage.repair import SALVAGED, recover
from app.storage.schema import VERSION, lacking, migrate, version_of

log = logging.getLogger(__name__)

FILE_NAME = "chats.db"
BACKUP_NAME = "chats.backup.db"
MARK_NAME = "chats.open"
LEAST = 512
"""Bytes of a database that holds anything: SQLite takes a shorter file for a new one."""
BACKUP_SECONDS = 24 * 3600.0
READ_ONLY = mark(
    "Chats",
    "The chats were written by a newer version of Eyrie. They can be read here, but nothing new is kept. "
    "Update Eyrie, or choose another data folder with --data-dir.",
)
NOT_WRITABLE = mark(
    "Chats",
    "The chats' database cannot be written ({error}): the chats can be read, but nothing new is kept. See that "
    "{file} and its folder can be written, or choose another data folder with --data-dir.",
)
NEWER = mark(
    "Chats",
    "they were written by a newer version of Eyrie, which keeps them differently. Update Eyrie, or choose another "
    "data folder with --data-dir",
)


@dataclass(frozen=True, slots=True)
class Opened:
    """What there is to work with."""

    path: Path
    problem: str = ""
    """What went wrong and was done about it, for people; empty when nothing did."""
    read_only: bool = False


def open_database(folder: Path) -> Opened:
    """Make the database ready: checked, migrated, and recovered when it was damaged.

    :raises OSError: the folder cannot be written, or the file is of a version that cannot even be read.
    """
    path, mark = folder / FILE_NAME, folder / MARK_NAME
    unclean = mark.exists()
    try:
        newer = _prepare(path, check=unclean)
    except sqlite3.DatabaseError as error:
        if not is_damage(error):
            if code_of(error) in NO_WRITING and _can_be_read(path):
                text = tr("Chats", NOT_WRITABLE).format(error=error, file=path.name)
                return Opened(path, text, read_only=True)
            raise OSError(f"the chats' database cannot be opened: {error}") from error
        log.error("the chats' database is damaged: %s", error)
        problem = recover(path, path.with_name(BACKUP_NAME))
        mark.touch()
        return Opened(path, problem)
    if newer:
        return Opened(path, READ_ONLY, read_only=True)
    mark.touch()
    return Opened(path)


def _can_be_read(path: Path) -> bool:
    try:
        with contextlib.closing(connect(path, writing=False)) as connection:
            records.check_list(connection)
    except (sqlite3.Error, OSError):
        return False
    return True


def closed_properly(path: Path) -> None:
    """Take the mark of an open session away."""
    with contextlib.suppress(OSError):  # the worst that comes of it is a check at the next start
        path.with_name(MARK_NAME).unlink(missing_ok=True)


def leave_open(path: Path) -> None:
    """Have the whole database checked at the next start."""
    path.with_name(MARK_NAME).touch()


def _prepare(path: Path, check: bool) -> bool:
    """Check and migrate; ``True`` when the file is of a newer version.

    :raises sqlite3.DatabaseError: it is damaged, or cannot be opened; see :func:`is_damage`.
    :raises OSError: it is of a newer version that cannot be read.
    """
    fresh = not path.exists()
    if not fresh and path.is_file() and path.stat().st_size < LEAST and path.with_name(BACKUP_NAME).exists():
        raise sqlite3.DatabaseError("it is empty")
    with contextlib.closing(connect(path)) as connection:
        version = version_of(connection)
        if version > VERSION:
            try:
                records.check_list(connection)
            except sqlite3.OperationalError as error:
                log.error("a newer database cannot be read: %s", error)
                raise OSError(tr("Chats", NEWER)) from error
            return True
        if check and not fresh:
            found = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
            if found != "ok":
                raise sqlite3.DatabaseError(found)
            if not lacking(connection) and not records.is_index_sound(connection):
                log.error("the index of the search is damaged, and made anew")
                records.rebuild_index(connection)
        if not fresh and 0 < version < VERSION:
            back_up(connection, path)
        migrate(connection)
        if lost := lacking(connection):
            raise sqlite3.DatabaseError(f"it has no {', '.join(lost)}")
        # Reading a little of each table finds what the header does not show; the list is shown at once.
        for table in SALVAGED:
            connection.execute(f"SELECT count(*) FROM (SELECT 1 FROM {table} LIMIT 1)").fetchone()
        records.check_list(connection)
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
