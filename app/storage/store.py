"""The chats' database as the application uses it.

Writing only queues (:class:`app.storage.writer.Writer`); reading is done by the
caller's thread over a connection of its own, which in WAL mode waits for nobody. All
calls come from one thread.
"""

from __future__ import annotations

import json
import logging
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from app.storage import comparisons, records, steps
from app.storage.archive import put_table, read_archive, write_archive
from app.storage.comparisons import ComparisonRecord
from app.storage.database import connect, leave_open, open_database
from app.storage.records import CHAT_COLUMNS, MESSAGE_COLUMNS, ChatRecord, MessageRecord
from app.storage.search import Hit, Search
from app.storage.writer import Ticket, Writer
from engine.protocol import Step

log = logging.getLogger(__name__)

CLOSE_SECONDS = 1.0
FLUSH_SECONDS = 20.0
"""Longest wait for the disk where the user asked for a file."""


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
        self._distrusted = False
        self._on_trouble: Callable[[str], None] = lambda text: None
        self._reader = connect(self.path, writing=False)
        self._writer = None if opened.read_only else Writer(self.path)
        self._search = Search(self._reader)
        self._purge()

    def watch(self, on_trouble: Callable[[str], None]) -> None:
        """Have somebody told (in the writer's thread) what keeps chats from being saved."""
        self._on_trouble = on_trouble
        if self._writer is not None:
            self._writer.on_trouble = on_trouble
            if self._writer.trouble:
                on_trouble(self._writer.trouble)

    def distrust(self, text: str) -> None:
        """Something cannot be read: say it, and have the database checked at the next start."""
        self._distrusted = True
        self._on_trouble(text)

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
        rows = self._reader.execute(
            f"SELECT {CHAT_COLUMNS}, EXISTS(SELECT 1 FROM messages WHERE chat_id = chats.id) FROM chats "
            "WHERE deleted IS NULL ORDER BY updated DESC, key DESC"
        )
        return [records.chat_of(row) for row in rows]

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
        return self._search.find(query, limit)

    def note(self, name: str) -> str:
        """A value kept by :meth:`put_note`, or ""."""
        row = self._reader.execute("SELECT value FROM notes WHERE name = ?", (name,)).fetchone()
        return str(row[0]) if row else ""

    def presets(self) -> list[tuple[str, str, dict[str, object]]]:
        """``(name, system prompt, settings)`` by name."""
        rows = self._reader.execute("SELECT name, system_prompt, settings FROM presets ORDER BY name")
        return [(name, prompt, _table(settings)) for name, prompt, settings in rows]

    def comparisons(self, chat_id: str) -> list[ComparisonRecord]:
        """A chat's comparisons, newest first, without their contents."""
        return comparisons.listed(self._reader, chat_id)

    def comparison(self, comparison_id: str) -> str:
        """What one holds, or ""."""
        return comparisons.data_of(self._reader, comparison_id)

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

    def export(self, path: Path, chat_ids: Iterable[str] | None = None) -> int:
        """Write chats (all by default) as JSON, see :mod:`app.storage.archive`; returns how many.

        :raises OSError: the file cannot be written.
        """
        self.flush(FLUSH_SECONDS)
        ids = [record.id for record in self.chats()] if chat_ids is None else chat_ids
        return write_archive(path, self._reader, ids)

    def take_in(self, path: Path) -> list[ChatRecord]:
        """Store the chats of a JSON file and return them.

        :raises OSError: it cannot be read, or nothing can be stored now.
        :raises app.storage.archive.ArchiveError: it holds something else.
        """
        tables = read_archive(path)
        made: list[str] = []
        ticket = self._do(lambda db: made.extend([put_table(db, table) for table in tables]))
        if self.read_only or not ticket.wait(FLUSH_SECONDS):
            raise OSError("the chats cannot be stored now")
        taken = set(made)
        return [record for record in self.chats() if record.id in taken]

    def flush(self, seconds: float) -> bool:
        """Wait until everything queued so far is on disk; ``False`` when that took too long."""
        return self._do(lambda db: None).wait(seconds)

    def _purge(self) -> None:
        def act(db: sqlite3.Connection) -> None:
            for (chat_id,) in db.execute("SELECT id FROM chats WHERE deleted IS NOT NULL").fetchall():
                records.purge_chat(db, chat_id)
            comparisons.purge(db)

        self._do(act)


def void(_: object) -> None:
    """Takes a cursor and gives nothing: for lambdas."""


def _table(text: str) -> dict[str, object]:
    try:
        value = json.loads(text)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}
