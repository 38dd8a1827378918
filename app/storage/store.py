"""The chats' database as the application uses it.

Writing only queues (:class:`app.storage.writer.Writer`); reading is done by the
caller's thread over a connection of its own, which in WAL mode waits for nobody. All
calls come from one thread, but for those that read and write whole files.
"""

from __future__ import annotations

import contextlib
import json
import logging
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from app.language import mark, tr
from app.storage import comparisons, records, steps
from app.storage.archive import chats_in, put_hidden, write_archive
from app.storage.comparisons import ComparisonRecord
from app.storage.connection import connect
from app.storage.database import leave_open, open_database
from app.storage.records import MESSAGE_COLUMNS, ChatRecord, MessageRecord
from app.storage.search import Hit, Search
from app.storage.writer import Ticket, Writer
from app.whole_files import Progress, unwatched
from engine.protocol import Step

log = logging.getLogger(__name__)

CLOSE_SECONDS = 1.0
FLUSH_SECONDS = 20.0
"""Longest wait for the disk where the user asked for a file."""
AT_ONCE = 200
"""Messages and blocks of steps that an import writes before it lets others write."""
CANNOT_STORE = mark("Chats", "the chats cannot be saved now")


class ChatStore:
    """Opened by :meth:`__init__`, ended by :meth:`close`.

    :raises OSError: the database can neither be opened nor made.
    """

    def __init__(self, folder: Path) -> None:
        opened = open_database(folder)
        self.path = opened.path
        self.problem = opened.problem
        """What was wrong with the database at the start, for people."""
        self.read_only = opened.read_only
        self._distrusted = ""
        """What could not be read, for people."""
        self._on_trouble: Callable[[str], None] = lambda text: None
        self._reader = connect(self.path, writing=False)
        self._writer = None if opened.read_only else Writer(self.path)
        self._search = Search(self._reader)
        self._purge()

    @property
    def keeps(self) -> bool:
        """Whether what is written comes onto the disk."""
        return self._writer is not None and not self._writer.trouble

    def watch(self, on_trouble: Callable[[str], None]) -> None:
        """Have somebody told (in the writer's thread) what keeps chats from being saved."""
        self._on_trouble = on_trouble
        if self._writer is not None:
            self._writer.on_trouble = on_trouble
        if words := self._distrusted or (self._writer.trouble if self._writer is not None else ""):
            on_trouble(words)

    def distrust(self, text: str) -> None:
        """Something cannot be read: say it, and have the database checked at the next start."""
        self._distrusted = text
        self._on_trouble(text)

    @contextlib.contextmanager
    def _reading(self) -> Iterator[None]:
        """What cannot be read is left out and told: a damaged place must not end more than itself."""
        try:
            yield
        except sqlite3.Error as error:
            log.error("something of the chats cannot be read: %s", error)
            words = tr("Chats", "A part of the chats cannot be read ({error}). Start Eyrie again to have it checked.")
            self.distrust(words.format(error=error))

    def close(self, seconds: float = CLOSE_SECONDS) -> None:
        """Write what is queued; takes ``seconds`` at most."""
        if self._writer is not None:
            self._purge()
            if not self._writer.close(seconds):
                log.error("the last changes of the chats may not be saved")
            self._writer = None
        self._reader.close()
        if self._distrusted and not self.read_only:
            leave_open(self.path)

    # ------------------------------------------------------------------ reading

    def chats(self) -> list[ChatRecord]:
        """All chats that are not deleted, the one used last first."""
        return _listed(self._reader)

    def messages(self, chat_id: str) -> list[MessageRecord]:
        """A chat's messages in all branches, parents before children."""
        rows = self._reader.execute(
            f"SELECT {MESSAGE_COLUMNS} FROM messages WHERE chat_id = ? ORDER BY key", (chat_id,)
        )
        return [records.message_of(row) for row in rows]

    def interrupted(self) -> list[tuple[MessageRecord, list[Step]]]:
        """Replies that were being written when a session ended, with the steps that came since they began."""
        rows = self._reader.execute(f"SELECT {MESSAGE_COLUMNS} FROM messages WHERE state = 'writing'")
        found = []
        for record in [records.message_of(row) for row in rows.fetchall()]:
            grown: list[Step] = []
            for (block,) in self._reader.execute(
                "SELECT steps FROM growth WHERE message_id = ? ORDER BY key", (record.id,)
            ):
                try:
                    grown.extend(steps.unpack(block, record.request_id))
                except ValueError as error:
                    log.error("%s", error)
            found.append((record, grown))
        return found

    def steps(self, message_id: str, request_id: str) -> Iterator[list[Step]]:
        """A finished reply's steps, some at a time; a damaged block ends them."""
        with self._reading():
            keys = self._reader.execute(
                "SELECT key FROM steps WHERE message_id = ? ORDER BY key", (message_id,)
            ).fetchall()
            for (key,) in keys:
                row = self._reader.execute("SELECT data FROM steps WHERE key = ?", (key,)).fetchone()
                if row is None:
                    return
                try:
                    yield steps.unpack(row[0], request_id)
                except ValueError as error:
                    log.error("%s", error)
                    return

    def search(self, query: str, limit: int = 100) -> list[Hit]:
        """See :meth:`app.storage.search.Search.find`."""
        with self._reading():
            return self._search.find(query, limit)
        return []

    def note(self, name: str) -> str:
        """A value kept by :meth:`put_note`, or ""."""
        with self._reading():
            row = self._reader.execute("SELECT value FROM notes WHERE name = ?", (name,)).fetchone()
            return str(row[0]) if row else ""
        return ""

    def presets(self) -> list[tuple[str, str, dict[str, object]]]:
        """``(name, system prompt, settings)`` by name."""
        with self._reading():
            rows = self._reader.execute("SELECT name, system_prompt, settings FROM presets ORDER BY name")
            return [(name, prompt, _table(settings)) for name, prompt, settings in rows]
        return []

    def comparisons(self, chat_id: str) -> list[ComparisonRecord]:
        """A chat's comparisons, newest first, without their contents."""
        with self._reading():
            return comparisons.listed(self._reader, chat_id)
        return []

    def comparison(self, comparison_id: str) -> str:
        """What one holds, or ""."""
        with self._reading():
            return comparisons.data_of(self._reader, comparison_id)
        return ""

    # ------------------------------------------------------------------ writing

    def _do(
        self, act: Callable[[sqlite3.Connection], None], key: object = None, urgent: bool = True
    ) -> Ticket:
        if self._writer is None:
            ticket = Ticket()
            ticket.settle()
            return ticket
        return self._writer.do(act, key, urgent)

    def put_chat(self, record: ChatRecord, urgent: bool = True) -> Ticket:
        # Only drafts replace each other: messages need the row of their chat to be there before.
        key = None if urgent else ("draft", record.id)
        return self._do(lambda db: records.put_chat(db, record), key, urgent)

    def put_message(self, record: MessageRecord) -> Ticket:
        return self._do(lambda db: records.put_message(db, record))

    def choose(self, chat_id: str, parent_id: str | None, message_id: str) -> Ticket:
        """Make a message the one shown among those with its parent."""

        def act(db: sqlite3.Connection) -> None:
            db.execute(
                "UPDATE messages SET chosen = (id = ?) WHERE chat_id = ? AND parent_id IS ?",
                (message_id, chat_id, parent_id),
            )

        return self._do(act)

    def grow(self, message_id: str, step: Step) -> None:
        """Keep one more step of a reply that is being written."""
        if self._writer is not None:
            self._writer.grow(message_id, step)

    def finish(self, record: MessageRecord, runs: Callable[[], bytes] | None = None) -> Ticket:
        """Keep a reply that has ended; its steps stay beside it.

        ``runs()`` makes :attr:`MessageRecord.runs` in the thread that writes: of a long reply it
        takes longer than the window may stand still.
        """

        def act(db: sqlite3.Connection) -> None:
            records.put_message(db, replace(record, runs=runs()) if runs is not None else record)
            blocks = db.execute(
                "SELECT steps FROM growth WHERE message_id = ? ORDER BY key", (record.id,)
            ).fetchall()
            db.executemany(
                "INSERT INTO steps(message_id, data) VALUES(?, ?)",
                [(record.id, block) for block in steps.join([block for (block,) in blocks])],
            )
            db.execute("DELETE FROM growth WHERE message_id = ?", (record.id,))

        return self._do(act)

    def delete(self, chat_id: str) -> Ticket:
        """Take a chat out of list and search; :meth:`restore` brings it back until the session ends."""
        return self._do(
            lambda db: void(db.execute("UPDATE chats SET deleted = ? WHERE id = ?", (time.time(), chat_id)))
        )

    def restore(self, chat_id: str) -> Ticket:
        return self._do(
            lambda db: void(db.execute("UPDATE chats SET deleted = NULL WHERE id = ?", (chat_id,)))
        )

    def put_note(self, name: str, value: str) -> Ticket:
        return self._do(
            lambda db: void(db.execute("INSERT OR REPLACE INTO notes VALUES(?, ?)", (name, value))),
            ("note", name),
            urgent=False,
        )

    def put_preset(self, name: str, system_prompt: str, settings: dict[str, object]) -> Ticket:
        values = (name, system_prompt, json.dumps(settings))
        return self._do(lambda db: void(db.execute("INSERT OR REPLACE INTO presets VALUES(?, ?, ?)", values)))

    def delete_preset(self, name: str) -> Ticket:
        return self._do(lambda db: void(db.execute("DELETE FROM presets WHERE name = ?", (name,))))

    def put_comparison(self, record: ComparisonRecord) -> Ticket:
        """Keep a comparison; its chat must be stored before."""
        return self._do(lambda db: comparisons.put(db, record))

    def delete_comparison(self, comparison_id: str) -> Ticket:
        """Take one out of the list; :meth:`restore_comparison` brings it back until the session ends."""
        return self._do(lambda db: comparisons.mark_deleted(db, comparison_id, time.time()))

    def restore_comparison(self, comparison_id: str) -> Ticket:
        return self._do(lambda db: comparisons.mark_deleted(db, comparison_id, None))

    # ------------------------------------------------------------------ files

    def export(
        self, path: Path, chat_ids: Sequence[str] | None = None, progress: Progress = unwatched
    ) -> int:
        """Write chats (all by default) as JSON, see :mod:`app.storage.archive`; returns how many.

        Called from any thread.

        :raises OSError: the file cannot be written.
        :raises app.whole_files.Cancelled: ``progress`` raised it; nothing was written.
        """
        self._wait([self._do(lambda db: None)], progress)
        with contextlib.closing(connect(self.path, writing=False)) as reader:
            reader.execute("BEGIN")  # as it is now, whatever is written meanwhile
            ids = [record.id for record in _listed(reader)] if chat_ids is None else chat_ids
            return write_archive(path, reader, ids, progress)

    def take_in(self, path: Path, progress: Progress = unwatched) -> list[ChatRecord]:
        """Store the chats of a JSON file and return them. Called from any thread.

        They come in some at a time, so that a reply that is being written is saved in between, and
        stay hidden until all are there. What is broken off is taken out again, at the next
        start if not now.

        :raises OSError: it cannot be read, or nothing can be stored now.
        :raises app.storage.archive.ArchiveError: it holds something else; nothing was added.
        :raises app.whole_files.Cancelled: ``progress`` raised it; nothing was added.
        """
        if self.read_only:
            raise OSError(tr("Chats", CANNOT_STORE))
        made: dict[int, str] = {}
        """By the chat's place in the file: what fails for the moment is tried again."""
        waiting: list[Ticket] = []
        count = weight = 0
        try:
            for count, table in enumerate(chats_in(path, progress), 1):
                waiting.append(self._do(partial(_put_hidden, made, count, table)))
                weight += 1 + sum(1 + len(message.get("steps", ())) for message in table["messages"])
                if weight > AT_ONCE:
                    self._wait(waiting, progress)
                    waiting.clear()
                    weight = 0
            waiting.append(self._do(partial(_show, made)))
            self._wait(waiting, progress)
            if len(made) < count:
                raise OSError(tr("Chats", CANNOT_STORE))
        except BaseException:
            self._do(partial(_take_out, made))
            raise
        with contextlib.closing(connect(self.path, writing=False)) as reader:
            taken = set(made.values())
            return [record for record in _listed(reader) if record.id in taken]

    @staticmethod
    def _wait(tickets: Iterable[Ticket], progress: Progress) -> None:
        """Until all is on disk. :raises OSError: that took too long."""
        end = time.monotonic() + FLUSH_SECONDS
        for ticket in tickets:
            while not ticket.wait(0.05):
                progress(0, 0)
                if time.monotonic() > end:
                    raise OSError(tr("Chats", CANNOT_STORE))

    def flush(self, seconds: float) -> bool:
        """Wait until everything queued so far is on disk; ``False`` when that took too long."""
        return self._do(lambda db: None).wait(seconds)

    def _purge(self) -> None:
        def act(db: sqlite3.Connection) -> None:
            for (chat_id,) in db.execute("SELECT id FROM chats WHERE deleted IS NOT NULL").fetchall():
                records.purge_chat(db, chat_id)
            comparisons.purge(db)

        self._do(act)


def _listed(reader: sqlite3.Connection) -> list[ChatRecord]:
    return [records.chat_of(row) for row in reader.execute(records.LIST)]


# What an import does in the writer's thread.


def _put_hidden(made: dict[int, str], place: int, table: dict[str, Any], db: sqlite3.Connection) -> None:
    made[place] = put_hidden(db, table)


def _show(made: dict[int, str], db: sqlite3.Connection) -> None:
    db.executemany("UPDATE chats SET deleted = NULL WHERE id = ?", [(each,) for each in made.values()])


def _take_out(made: dict[int, str], db: sqlite3.Connection) -> None:
    for each in made.values():
        records.purge_chat(db, each)


def void(_: object) -> None:
    """Takes a cursor and gives nothing: for lambdas."""


def _table(text: str) -> dict[str, object]:
    try:
        value = json.loads(text)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}
