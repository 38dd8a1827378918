"""Keeps Python's collector of reference cycles from stopping the window.

A full collection looks at every object there is: after a reply of 20,000 tokens that takes
half a second. So while a reply is written, what has come is set aside now and then, which
costs nothing (``gc.freeze``), and the full collection is made up for when nothing has
happened for a while.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from PySide6.QtCore import QEvent, QObject, QTimer

ASIDE_MS = 1000
"""Time between two looks at what has come."""
IDLE_LOOKS = 30
"""Looks without a reply or a key before everything is collected."""
_INPUT = (QEvent.Type.KeyPress, QEvent.Type.MouseButtonPress, QEvent.Type.Wheel, QEvent.Type.MouseMove)


@contextmanager
def held() -> Iterator[None]:
    """Nothing is collected within: Qt goes through a list of widgets, of which none may be deleted under it."""
    running = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if running:
            gc.enable()


class CalmGarbage(QObject):
    """``busy`` tells whether a reply is being written.

    Watches ``application`` for keys and the mouse while a collection is owed and nothing is written: a
    filter in Python takes part in every event of the window, of which a reply brings thousands a second.
    """

    def __init__(self, application: QObject, busy: Callable[[], bool]) -> None:
        super().__init__(application)
        self._application = application
        self._busy = busy
        self._quiet = 0
        self._owed = True
        self._watching = False
        self._timer = QTimer(self)
        self._timer.timeout.connect(self.look)
        self._timer.start(ASIDE_MS)

    @property
    def is_watching(self) -> bool:
        return self._watching

    def look(self) -> None:
        """What the timer does."""
        busy = self._busy()
        self._owed = self._owed or busy
        self._watch(self._owed and not busy)
        if busy:
            self._quiet = 0
            gc.freeze()
            return
        self._quiet += 1
        if self._owed and self._quiet >= IDLE_LOOKS:
            self._owed = False
            self._watch(False)
            gc.unfreeze()
            gc.collect()
            gc.freeze()

    def _watch(self, on: bool) -> None:
        if on != self._watching:
            self._watching = on
            if on:
                self._application.installEventFilter(self)
            else:
                self._application.removeEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() in _INPUT:
            self._quiet = 0
        return False
