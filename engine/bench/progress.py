"""How far a long command is and how long it will take: one line on a terminal, now and then one in a log."""

from __future__ import annotations

import sys
from time import monotonic

_LOG_EVERY = 30.0  # seconds


class Progress:
    def __init__(self, total: int) -> None:
        self.total = total
        self._began = monotonic()
        self._told = self._began
        self._done = 0

    @property
    def left(self) -> int:
        return self.total - self._done

    def step(self, what: str) -> None:
        """One more of ``total`` is done."""
        self._done += 1
        now = monotonic()
        left = (now - self._began) / self._done * self.left
        span = f"{left:.0f} s" if left < 100 else f"{left / 60:.0f} min"
        line = f"{self._done}/{self.total} {what}, about {span} left"
        if sys.stderr.isatty():
            say(line)
        elif now - self._told > _LOG_EVERY:
            self._told = now
            print(line, file=sys.stderr, flush=True)


def say(message: str) -> None:
    """On the terminal's progress line, which the next one replaces; an empty one clears it."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\x1b[K{message}")
        sys.stderr.flush()
