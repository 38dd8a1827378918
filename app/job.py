"""One piece of work in a thread of its own, which tells how far it is and can be given up."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from PySide6.QtCore import QObject, Signal

from app.whole_files import Cancelled, Progress

log = logging.getLogger(__name__)

JOIN_SECONDS = 0.8
"""How long the end of the application waits for work that is given up."""
TELL_SECONDS = 0.03
"""Shortest time between two words about progress: a window shows no more."""


class Job(QObject):
    """Calls ``act(progress)`` once; ``progress`` raises when the job is cancelled."""

    advanced = Signal(int, int)
    """Done and total."""
    ended = Signal(object)
    """What ``act`` returned, the exception it raised, or None when it was cancelled."""

    def __init__(self, act: Callable[[Progress], object], parent: QObject) -> None:
        super().__init__(parent)
        self._act = act
        self._stop = threading.Event()
        self._told = 0.0
        self._thread = threading.Thread(target=self._run, name="eyrie-job", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def cancel(self) -> None:
        self._stop.set()

    def join(self) -> None:
        """Wait a little for the thread; what it has not finished is not left behind."""
        if self._thread.is_alive():
            self._thread.join(JOIN_SECONDS)

    def _progress(self, done: int, total: int) -> None:
        if self._stop.is_set():
            raise Cancelled
        now = time.monotonic()
        if done == total or now - self._told >= TELL_SECONDS:
            self._told = now
            self.advanced.emit(done, total)

    def _run(self) -> None:
        try:
            outcome = self._act(self._progress)
        except Cancelled:
            outcome = None
        except Exception as error:  # whoever asked for it must hear of it, whatever it was
            log.warning("not done: %s", error, exc_info=not isinstance(error, OSError))
            outcome = error
        self.ended.emit(outcome)
