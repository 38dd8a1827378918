"""How the test hub misbehaves: one :class:`Fault` for one answer, chosen by a script or by chance."""

from __future__ import annotations

import random
import threading
from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    CUT = "cut"
    """The connection ends after ``after`` bytes of the body."""
    STALL = "stall"
    """Nothing more comes after ``after`` bytes, for ``seconds``; then the connection ends."""
    SHORT = "short"
    """The length is told too small, and the body is that short."""
    LONG = "long"
    """The length is told too large; the connection ends where the file does."""
    WRONG_BYTES = "wrong bytes"
    """One byte of the body is another."""
    NEW_ETAG = "new etag"
    """The file has another ETag than before."""
    STATUS = "status"
    """The answer is ``status``, with Retry-After where ``seconds`` is set."""
    SLOW = "slow"
    """64 KiB, then ``seconds`` of nothing, and so on."""
    NO_RANGE = "no range"
    """The range asked for is ignored: the whole file comes, with 200."""
    OTHER_RANGE = "other range"
    """A range comes, but it begins one byte later than asked for."""
    REDIRECT = "redirect"
    """Sent once more to another host, where the file then comes from."""
    DROP = "drop"
    """The connection is closed without an answer."""


@dataclass(frozen=True)
class Fault:
    kind: Kind
    after: int = 0
    seconds: float = 0.0
    status: int = 503


class Faults:
    """Decides for every request of file content. By default nothing goes wrong.

    ``script`` maps a file's path to the faults of its next requests, in order; with
    ``rate`` every other request goes wrong by that chance, until ``most`` have.
    """

    def __init__(
        self,
        script: dict[str, list[Fault]] | None = None,
        rate: float = 0.0,
        seed: int = 0,
        most: int = 12,
        kinds: tuple[Kind, ...] = tuple(Kind),
        patience: float = 0.3,
    ) -> None:
        self._script = {path: list(faults) for path, faults in (script or {}).items()}
        self._rate = rate
        self._random = random.Random(seed)
        self._left = most
        self._kinds = kinds
        self._patience = patience
        """Seconds the client waits for data: stalls last longer."""
        self._lock = threading.Lock()
        self.given: list[tuple[str, Fault]] = []

    def next(self, path: str, length: int) -> Fault | None:
        """The fault of the answer that carries ``length`` bytes of ``path``, if any."""
        with self._lock:
            waiting = self._script.get(path)
            if waiting:
                fault = waiting.pop(0)
            elif self._left > 0 and self._random.random() < self._rate:
                self._left -= 1
                fault = self._by_chance(length)
            else:
                return None
            self.given.append((path, fault))
            return fault

    def _by_chance(self, length: int) -> Fault:
        kind = self._random.choice(self._kinds)
        after = self._random.randrange(max(1, length))
        seconds = {Kind.STALL: self._patience * 4, Kind.SLOW: 0.02}.get(kind, 0.0)
        status = self._random.choice((429, 500, 502, 503, 504, 408))
        if kind is Kind.STATUS and self._random.random() < 0.5:
            seconds = self._random.choice((0.05, 0.2))
        return Fault(kind, after, seconds, status)
