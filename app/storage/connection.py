"""Connections to a database, and what its errors mean."""

from __future__ import annotations

import sqlite3
from pathlib import Path

BUSY_SECONDS = 5.0
NO_WRITING = (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM, sqlite3.SQLITE_IOERR)
"""Codes of a file that can perhaps be read where it cannot be written."""
WRONG_INSIDE = (sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
"""Codes of what is wrong with a file's content; the others (full disk, no permission, locked) tell of its place."""


def connect(path: Path, writing: bool = True) -> sqlite3.Connection:
    """A connection in autocommit mode; transactions are begun by hand.

    :raises sqlite3.Error: the file cannot be opened or is no database.
    """
    connection = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None)
    if not writing:
        try:
            connection.execute("SELECT count(*) FROM sqlite_master")
        except sqlite3.OperationalError as error:
            # Even a reader of a write-ahead log writes beside it, unless it is told that nobody else will.
            connection.close()
            if code_of(error) not in NO_WRITING:
                raise
            address = f"{path.absolute().as_uri()}?immutable=1"
            connection = sqlite3.connect(address, uri=True, timeout=BUSY_SECONDS, isolation_level=None)
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


def is_damage(error: sqlite3.Error) -> bool:
    """Whether something is wrong with what a database holds, which only a repair can mend."""
    if isinstance(error, sqlite3.IntegrityError | sqlite3.ProgrammingError | sqlite3.DataError):
        return False
    code = code_of(error)  # none where Python cannot decode a text
    return isinstance(error, sqlite3.DatabaseError) and (code is None or code in WRONG_INSIDE)


def code_of(error: sqlite3.Error) -> int | None:
    """SQLite's primary code, if the error is one of SQLite's."""
    code = getattr(error, "sqlite_errorcode", None)
    return None if code is None else int(code) & 0xFF
