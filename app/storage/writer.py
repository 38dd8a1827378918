"""Writes to the chats' database in a thread of its own, so that the window never waits for a disk.

Jobs are done in the order they were given, several in one transaction: what comes
all the time (the text of a growing reply, drafts) waits :data:`GATHER` seconds for
more of its kind, everything else is written at once. A job given with a key
replaces the waiting ones with the same key. When a transaction fails (the disk is
full, another program holds the file) it is tried again until it succeeds: jobs are
never dropped while the program runs.
"""

from __future__ import annotations

import contextlib
import logging
import queue
import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from app.language import tr
from app.storage.connection import connect, is_damage
from app.storage.database import back_up_if_old, closed_properly
from app.storage.records import clean
from app.storage.steps import pack
from engine.protocol import Step

log = logging.getLogger(__name__)

GATHER = 0.1
"""Seconds that what comes all the time waits for more."""
RETRY = 1.0
BACKUP_AFTER = 20.0
"""Seconds after the start at which the daily copy is made."""

PASSING = (sqlite3.OperationalError, OSError)
"""Errors that may be over in a moment: the disk is full, the file is locked."""

Act = Callable[[sqlite3.Connection], None]


class Ticket:
    """Tells when a job is on disk."""

    def __init__(self) -> None:
        self._done = threading.Event()

    @property
    def done(self) -> bool:
        return self._done.is_set()

    def wait(self, seconds: float) -> bool:
        return self._done.wait(seconds)

    def settle(self) -> None:
        self._done.set()


@dataclass(slots=True)
class _Job:
    act: Act | None = None
    key: object = None
    urgent: bool = True
    ticket: Ticket | None = None
    grows: str = ""
    """Id of the message that grows by ``steps``."""
    steps: list[Step] = field(default_factory=list)
    last: bool = False


class Writer:
    """Takes jobs from any thread. ``on_trouble`` is called from the writer's own one."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._jobs: queue.SimpleQueue[_Job] = queue.SimpleQueue()
        self.on_trouble: Callable[[str], None] = lambda text: None
        """Told what keeps the chats from being saved, and ``""`` when it is over."""
        self._trouble = ""
        self._giving_up = threading.Event()
        self._backup: threading.Thread | None = None
        self._thread = threading.Thread(target=self._run, name="eyrie-chats", daemon=True)
        self._thread.start()

    @property
    def trouble(self) -> str:
        return self._trouble

    def do(self, act: Act, key: object = None, urgent: bool = True) -> Ticket:
        """Queue a change; the ticket is settled once it is on disk."""
        ticket = Ticket()
        self._jobs.put(_Job(act, key, urgent, ticket))
        return ticket

    def grow(self, message_id: str, step: Step) -> None:
        """Queue one more step of a reply that is being written."""
        self._jobs.put(_Job(urgent=False, grows=message_id, steps=[step]))

    def close(self, seconds: float) -> bool:
        """Write what is left and end; ``False`` when that takes longer than ``seconds``."""
        self._jobs.put(_Job(last=True))
        self._thread.join(seconds)
        self._giving_up.set()
        if self._backup is not None:
            self._backup.join(0.2)
        return not self._thread.is_alive()

    # ------------------------------------------------------------------ the thread

    def _run(self) -> None:
        connection: sqlite3.Connection | None = None
        backup_at: float | None = time.monotonic() + BACKUP_AFTER
        ended = False
        while not ended:
            timeout = max(0.0, backup_at - time.monotonic()) if backup_at is not None else None
            try:
                jobs = self._gather(timeout)
            except queue.Empty:
                backup_at = None
                # Apart, so that a growing reply does not wait for the copy.
                self._backup = threading.Thread(target=self._back_up, name="eyrie-backup", daemon=True)
                self._backup.start()
                continue
            ended = any(job.last for job in jobs)
            while True:
                try:
                    if connection is None:
                        connection = connect(self._path)
                    self._write(connection, jobs)
                    self._say("")
                    break
                except Exception as error:
                    damaged = isinstance(error, sqlite3.Error) and is_damage(error)
                    if damaged or isinstance(error, PASSING):
                        # Damage does not pass, but nothing is dropped in silence: the mark of this session
                        # stays, and the next start repairs the file.
                        self._fail(connection, error, damaged)
                        connection = None
                        if self._giving_up.wait(RETRY):
                            return
                        continue
                    # A change that can never be written must not hold up the others.
                    log.exception("a change of the chats cannot be written")
                    assert connection is not None
                    self._write_singly(connection, jobs)
                    break
        if connection is not None:
            with contextlib.suppress(sqlite3.Error):
                connection.execute("PRAGMA optimize")
            with contextlib.suppress(sqlite3.Error):
                connection.close()
        closed_properly(self._path)

    def _fail(self, connection: sqlite3.Connection | None, error: Exception, damaged: bool) -> None:
        if connection is not None:
            with contextlib.suppress(sqlite3.Error):
                connection.close()
        log.error("the chats could not be saved: %s", error)
        self._say(str(error), damaged)

    def _gather(self, timeout: float | None) -> list[_Job]:
        """At least one job, and those that came with it. :raises queue.Empty: none came in time."""
        jobs = [self._jobs.get(timeout=timeout)]
        until = time.monotonic() + GATHER
        while True:
            hurry = jobs[-1].urgent or jobs[-1].last
            try:
                left = until - time.monotonic()
                jobs.append(self._jobs.get_nowait() if hurry or left <= 0 else self._jobs.get(timeout=left))
            except queue.Empty:
                return jobs

    def _write(self, connection: sqlite3.Connection, jobs: Sequence[_Job]) -> None:
        newest = {job.key: place for place, job in enumerate(jobs) if job.key is not None}
        connection.execute("BEGIN IMMEDIATE")
        try:
            grown: _Job | None = None
            for place, job in enumerate(jobs):
                if job.grows:
                    if grown is not None and grown.grows == job.grows:
                        grown.steps.extend(job.steps)
                    else:
                        self._put_growth(connection, grown)
                        grown = _Job(grows=job.grows, steps=list(job.steps))
                elif job.act is not None and newest.get(job.key, place) == place:
                    self._put_growth(connection, grown)
                    grown = None
                    job.act(connection)
            self._put_growth(connection, grown)
            connection.execute("COMMIT")
        except BaseException:
            with contextlib.suppress(sqlite3.Error):
                connection.execute("ROLLBACK")
            raise
        for job in jobs:
            if job.ticket is not None:
                job.ticket.settle()

    def _write_singly(self, connection: sqlite3.Connection, jobs: Sequence[_Job]) -> None:
        for job in jobs:
            try:
                self._write(connection, [job])
            except PASSING as error:
                log.error("a change of the chats was not saved: %s", error)
            except Exception:
                log.exception("this change of the chats is left out")
            if job.ticket is not None:
                job.ticket.settle()

    @staticmethod
    def _put_growth(connection: sqlite3.Connection, grown: _Job | None) -> None:
        if grown is not None:
            connection.execute(
                "INSERT INTO growth(message_id, text, steps) VALUES(?, ?, ?)",
                (grown.grows, clean("".join(step.text for step in grown.steps)), pack(grown.steps)),
            )

    def _back_up(self) -> None:
        try:
            back_up_if_old(self._path, self._giving_up.is_set)
        except (sqlite3.Error, OSError) as error:
            log.warning("no backup of the chats: %s", error)

    def _say(self, error: str, damaged: bool = False) -> None:
        text = ""
        if damaged:
            text = tr(
                "Chats",
                "The chats' database is damaged ({error}), so what is written now is not saved. Copy what you need "
                "and start Eyrie again: it repairs the database.",
            ).format(error=error)
        elif error:
            text = tr(
                "Chats",
                "The chats cannot be saved: {error}. They are kept in memory and saved as soon as it works.",
            ).format(error=error)
        if text != self._trouble:
            self._trouble = text
            self.on_trouble(text)
