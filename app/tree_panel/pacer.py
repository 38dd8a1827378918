"""When the next frame is drawn: at most 60 times a second, and less often where frames are dear."""

from __future__ import annotations

import time
from collections.abc import Callable

from PySide6.QtCore import QObject, Qt, QTimer

FRAME_MS = 17
"""Shortest time between two frames: just under 60 a second."""
SLOWEST_FRAME_MS = 136
FRAME_BUDGET = 0.008
"""Seconds. A frame that takes longer doubles the time to the next."""


class FramePacer(QObject):
    """Calls ``draw`` once for any number of wishes: frames are skipped, never queued."""

    def __init__(self, draw: Callable[[], object], parent: QObject) -> None:
        super().__init__(parent)
        self._draw = draw
        self.interval = FRAME_MS
        """Milliseconds between two frames at present."""
        self._last = 0.0
        self._timer = QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.setTimerType(Qt.TimerType.PreciseTimer)
        self._timer.timeout.connect(draw)

    @property
    def waits(self) -> bool:
        """Whether a frame is due."""
        return self._timer.isActive()

    def stop(self) -> None:
        self._timer.stop()

    def now(self) -> None:
        """Draw at once."""
        self._timer.stop()
        self._draw()

    def soon(self, least_ms: int = 0) -> None:
        """Draw when it is time, no sooner than ``least_ms`` after the last frame."""
        since = (time.perf_counter() - self._last) * 1000
        due = max(0, round(max(self.interval, least_ms) - since))
        if not self._timer.isActive() or self._timer.remainingTime() > due:
            self._timer.start(due)

    def drew(self, seconds: float) -> None:
        """A frame was drawn and cost so much."""
        self._last = time.perf_counter()
        if seconds > FRAME_BUDGET:
            self.interval = min(self.interval * 2, SLOWEST_FRAME_MS)
        elif self.interval > FRAME_MS:
            self.interval = max(self.interval // 2, FRAME_MS)
