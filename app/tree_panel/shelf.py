"""The replies whose steps can still be looked at. No Qt."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator

from app.tree_panel.history import ReplyHistory
from engine.protocol import Step

REPLIES_KEPT = 6
"""The oldest is forgotten beyond this number."""
TREE_BYTES = 32 * 2**20
"""Bound of the trees kept of one reply."""


class ReplyShelf:
    """Histories by request id, the newest last; one of them may still be read from the disk."""

    def __init__(self) -> None:
        self._histories: OrderedDict[str, ReplyHistory] = OrderedDict()
        self._reading: tuple[ReplyHistory, Iterator[list[Step]]] | None = None

    def get(self, request_id: str) -> ReplyHistory | None:
        return self._histories.get(request_id)

    def clear(self) -> None:
        self._histories.clear()

    def begin(self, request_id: str, goes_on: bool = False) -> ReplyHistory:
        """A history for a reply that begins; ``goes_on`` takes its earlier one if it is still here."""
        known = self._histories.pop(request_id, None)
        if goes_on and known is not None and len(known):
            known.finished = None
        else:
            known = ReplyHistory(request_id, TREE_BYTES)
        return self._put(known)

    def _put(self, history: ReplyHistory) -> ReplyHistory:
        while len(self._histories) >= REPLIES_KEPT:
            self._histories.popitem(last=False)
        self._histories[history.request_id] = history
        return history

    # ------------------------------------------------------------------ stored replies

    def recall(self, request_id: str, steps: Iterator[list[Step]]) -> bool:
        """Take in the first steps of a stored reply; whether there are any."""
        first = next(steps, None)
        if not first:
            return False
        history = ReplyHistory(request_id, TREE_BYTES)
        for step in first:
            history.add(step)
        self._reading = (self._put(history), steps)
        return True

    @property
    def reading(self) -> ReplyHistory | None:
        """The reply that is being read."""
        return self._reading[0] if self._reading is not None else None

    def read_more(self) -> bool:
        """Take in some more steps; false when there are no more, or they are not wanted any more."""
        if self._reading is None:
            return False
        history, steps = self._reading
        more = next(steps, None) if self._histories.get(history.request_id) is history else None
        if more is None:
            self._reading = None
            return False
        for step in more:
            history.add(step)
        return True
