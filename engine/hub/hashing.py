"""The checksum of a file that is still arriving, taken along: from memory where it can, else from the disk.

What a stream has just written is handed over while it is in memory, if the checksum is
about to need it. Whatever was not handed over (what an earlier run left, what arrived far
ahead, what came while the checksum lagged) is read from the file again.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable

from engine.hub.part import Part, disk_errors

READ = 1 << 20
"""Bytes read back from the file at once: few enough to stay in a core's own cache."""
AHEAD = 32 << 20
"""Bytes that are kept in memory at most, counted from where the checksum stands."""
PAUSE = 0.005
"""Seconds; in so long a fast stream brings less than :data:`AHEAD`."""


class Hashing:
    """``run`` belongs to one thread; ``offer`` may be called by several."""

    def __init__(self, digest: hashlib._Hash, part: Part) -> None:
        self._digest = digest
        self._part = part
        self._at = 0
        self._offered: dict[int, bytes] = {}
        self._lock = threading.Lock()

    def offer(self, at: int, data: bytes) -> None:
        """Bytes of the file that have been written and kept."""
        with self._lock:
            if self._at <= at < self._at + AHEAD:
                self._offered[at] = data

    def run(self, is_over: Callable[[], bool], wait: Callable[[float], object]) -> None:
        """Hash the bytes from the front as far as they are here, until all are or ``is_over`` says so.

        :raises DiskFull: the file cannot be read.
        """
        size = self._part.size
        block = bytearray(min(READ, max(1, size)))
        view = memoryview(block)
        with disk_errors(self._part.path.parent), self._part.path.open("rb", buffering=0) as file:
            while self._at < size and not is_over():
                data, stop = self._next()
                if data is not None:
                    self._digest.update(data)
                    self._advance(len(data))
                    continue
                ready = min(self._part.front, stop)
                if ready - self._at < min(READ, stop - self._at) and ready < stop:
                    wait(PAUSE)
                    continue
                file.seek(self._at)
                count = file.readinto(view[: min(len(block), ready - self._at)])
                if not count:
                    raise OSError("the file became shorter while it was read")
                self._digest.update(view[:count])
                self._advance(count)

    def _next(self) -> tuple[bytes | None, int]:
        """What was offered for this very place; else None, and where something offered begins again."""
        with self._lock:
            data = self._offered.pop(self._at, None)
            return data, min(self._offered, default=self._part.size)

    def _advance(self, count: int) -> None:
        with self._lock:
            self._at += count
            # Those that came while the same bytes were read from the file.
            for late in [at for at in self._offered if at < self._at]:
                del self._offered[late]
