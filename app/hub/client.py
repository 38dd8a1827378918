"""The bridge between the picker and the hub's process, as :mod:`app.client` is to the engine.

The process is started by the first command and again after it died; a download that
ran then goes on by itself. Every event is emitted as the signal of its type. What the process
was asked and had not answered when it died is answered here, by a failure of its own: nobody
waits for ever.
"""

from __future__ import annotations

import logging
import queue
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from PySide6.QtCore import QObject, QTimer, Signal, SignalInstance, Slot

from app.language import mark
from app.transport import Ended, Link, ProcessTransport, Transport
from engine.protocol import Ready
from engine.protocol.hub import Problem
from engine.protocol.hub_messages import (
    Account,
    Browse,
    Catalogue,
    Details,
    Found,
    Heads,
    HubCommand,
    HubFailed,
    Imported,
    Local,
    Queue,
)

log = logging.getLogger(__name__)

POLL_MS = 40
IDLE_MS = 200
EVENTS_PER_POLL = 64
CLOSE_GRACE = 2.5
LIVED = 20.0
"""Seconds. A process that dies sooner is not started anew by itself: it would only die again."""
DIED = Problem(
    "hub-process",
    mark("engine", "The part of Eyrie that talks to the hub stopped unexpectedly."),
    mark("engine", "Downloads keep what has arrived and go on once it is asked something again."),
)


def hub_transport(data_folder: Path) -> ProcessTransport:
    """The hub's process, which keeps the queue of downloads in the application's own folder."""
    command = [sys.executable, "-m", "engine", "hub-worker", "--data-dir", str(data_folder)]
    return ProcessTransport(command, data_folder / "logs" / "hub.log")


class HubClient(QObject):
    started = Signal()
    """The process is there, for the first time or anew: it knows nothing of what was asked before."""
    catalogue = Signal(object)
    found = Signal(object)
    details = Signal(object)
    heads = Signal(object)
    queue = Signal(object)
    local = Signal(object)
    imported = Signal(object)
    account = Signal(object)
    failed = Signal(object)

    def __init__(self, make_transport: Callable[[], Transport], parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._make_transport = make_transport
        self._link: Link | None = None
        self._last_id = 0
        self._open: dict[tuple[type, str], int] = {}
        """The latest request of a kind and asker, until it is answered."""
        self._browse: Browse | None = None
        self._begun = 0.0
        self._downloads = False
        self.endpoint = "https://huggingface.co"
        """The hub's address, for people: where the models' pages are."""
        self._timer = QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.timeout.connect(self._poll)
        self._signals: dict[type, SignalInstance] = {
            Catalogue: self.catalogue,
            Found: self.found,
            Details: self.details,
            Heads: self.heads,
            Queue: self.queue,
            Local: self.local,
            Imported: self.imported,
            Account: self.account,
            HubFailed: self.failed,
        }

    @property
    def is_running(self) -> bool:
        return self._link is not None

    def next_id(self) -> int:
        """A number for a request, larger than all before it."""
        self._last_id += 1
        return self._last_id

    def send(self, command: HubCommand) -> None:
        """Queue a command and return at once; the process is started where there is none."""
        if self._link is None:
            self._link = Link(self._make_transport())
            self._link.start()
            self._begun = time.monotonic()
        if request_id := getattr(command, "request_id", 0):
            self._open[type(command), getattr(command, "asker", "")] = request_id
        if isinstance(command, Browse):
            self._browse = command
        self._link.send(command)  # type: ignore[arg-type]
        self._timer.start(POLL_MS)

    def take_over(self, other: HubClient) -> None:
        """Go on with the process of ``other``, with its token and its downloads; ``other`` has none then."""
        self._link, other._link = other._link, None
        other._timer.stop()
        self._last_id, self._browse, self._begun = other._last_id, other._browse, other._begun
        self._downloads, self.endpoint = other._downloads, other.endpoint
        if self._link is not None:
            self._timer.start(POLL_MS)

    def close(self) -> None:
        """End the process without blocking: downloads stop where they are."""
        link, self._link = self._link, None
        self._timer.stop()
        if link is not None:
            threading.Thread(target=link.close, args=(CLOSE_GRACE,), name="eyrie-hub-close").start()

    @Slot()
    def _poll(self) -> None:
        link, taken = self._link, 0
        while link is not None and link is self._link and taken < EVENTS_PER_POLL:
            try:
                event: Any = link.inbox.get_nowait()
            except queue.Empty:
                break
            taken += 1
            if isinstance(event, Ended):
                log.error("the hub's process ended: %s", event.detail)
                self._on_died()
                return
            self._answered(event)
            if isinstance(event, Ready):
                self.endpoint = event.device
                self.started.emit()
            signal = self._signals.get(type(event))
            if signal is not None:
                signal.emit(event)
        if self._link is not None:
            self._timer.start(POLL_MS if taken else IDLE_MS)

    def _answered(self, event: Any) -> None:
        if isinstance(event, Queue):
            self._downloads = any(each.phase.is_active for each in event.downloads)
        more = (isinstance(event, Found) and event.unchecked) or (
            isinstance(event, Heads) and not event.is_complete
        )
        if not more and (request_id := getattr(event, "request_id", 0)):
            self._open = {kind: number for kind, number in self._open.items() if number != request_id}

    def _on_died(self) -> None:
        """Answer what was open; start the process anew where downloads ran, so that they go on by night."""
        self._link = None
        unanswered, self._open = self._open, {}
        for request_id in unanswered.values():
            self.failed.emit(HubFailed(request_id, DIED))
        self.failed.emit(HubFailed(0, DIED))
        if self._downloads and self._browse is not None and time.monotonic() - self._begun > LIVED:
            self._downloads = False
            self.send(self._browse)
