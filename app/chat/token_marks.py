"""Which step wrote which stretch of a message, to be asked by place and by step. No Qt here."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence

from app.chat.conversation import Run


class TokenMarks:
    """The runs of one message in ascending order, shared by all the pieces that show it."""

    def __init__(self) -> None:
        self._runs: list[Run] = []
        self._starts: list[int] = []

    @property
    def runs(self) -> tuple[Run, ...]:
        return tuple(self._runs)

    def follow(self, runs: Sequence[Run], shown: int) -> None:
        """Take over the runs from number ``shown`` on; the last one shown may have grown."""
        keep = max(0, shown - 1)
        del self._runs[keep:], self._starts[keep:]
        self._runs.extend(runs[keep:])
        self._starts.extend(run.start for run in runs[keep:])

    def at(self, position: int) -> Run | None:
        place = bisect_right(self._starts, position) - 1
        if place >= 0 and position < self._runs[place].end:
            return self._runs[place]
        return None

    def between(self, start: int, end: int) -> Iterator[Run]:
        """The runs that reach into ``start`` to ``end``."""
        place = max(0, bisect_right(self._starts, start) - 1)
        while place < len(self._runs) and self._starts[place] < end:
            if self._runs[place].end > start:
                yield self._runs[place]
            place += 1

    def stretch(self, step: int | None) -> tuple[int, int] | None:
        """The text of a step: its start and end."""
        if step is None:
            return None
        first = bisect_left(self._runs, step, key=lambda run: run.step)
        last = bisect_right(self._runs, step, key=lambda run: run.step)
        return (self._runs[first].start, self._runs[last - 1].end) if last > first else None
