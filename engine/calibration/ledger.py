"""What drafting costs a chat beyond plain decoding, and how much it may: all in plain steps.

Two accounts. The *total* is everything lost and saved since the session began; what may be
lost in total is a fixed sum and a small share of what was written, so that a chat of some
length is never slower than plain decoding by more than a few per cent, whatever is tried.
The *balance* is that of the present attempt, never above a cap, so that a good past
does not pay for a bad present: it tells when to stop.
"""

from __future__ import annotations

import math

FIRST, PROMISED = 2.0, 1.0
"""May be lost at first; more, though not at once, where measuring at load promised a gain."""
SHARE = 0.02
"""Of every token written, may be lost in the long run."""
CAP, RETRY = 4.0, 1.5
"""The balance's cap, and what an attempt after a pause begins with."""


class Ledger:
    def __init__(self, promised: bool = False) -> None:
        self._base = FIRST + (PROMISED if promised else 0.0)
        self.lost = 0.0
        """In total; negative when drafting has saved time."""
        self.lent = 0.0
        """Part of it that the present attempt is believed to bring in again: reading the prompt."""
        self.tokens = 0
        """Written so far, however."""
        self.balance = FIRST

    @property
    def room(self) -> float:
        """What may still be lost."""
        return self._base + SHARE * self.tokens - self.lost + self.lent

    def book(self, emitted: int, cost: float) -> None:
        """A step with drafting on: its tokens, each of which plain decoding would have taken one step for."""
        self.lost += cost - emitted
        self.lent = max(0.0, self.lent - max(0.0, emitted - cost))
        self.balance = min(CAP, self.balance + emitted - cost)

    def charge(self, cost: float) -> None:
        """What brings nothing by itself, such as choosing sizes."""
        self.lost += cost

    def lend(self, cost: float) -> None:
        """What brings nothing at once, such as reading the prompt."""
        self.lost += cost
        self.lent += cost

    def close(self) -> None:
        """The attempt is over: what it has not brought in is lost."""
        self.lent = 0.0

    def begin_again(self, reserved: float) -> None:
        """After a pause; ``reserved`` of the room is spoken for."""
        self.balance = max(0.0, min(RETRY, self.room - reserved))

    def wait_for(self, cost: float, per_token: float) -> int | None:
        """Tokens until an attempt may cost ``cost`` and ``per_token`` for each token until then;
        None if that time does not come."""
        missing = cost - self.room
        if missing <= 0:
            return 0
        return math.ceil(missing / (SHARE - per_token)) if per_token < SHARE / 2 else None
