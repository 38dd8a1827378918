"""Sets of byte ranges: what of a file is kept, and what is still to come."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator

Range = tuple[int, int]
"""Bytes from the first up to, not including, the second."""


class Intervals:
    """Disjoint ranges in order; ranges that touch are one."""

    def __init__(self, ranges: Iterable[Range] = ()) -> None:
        self._ranges: list[Range] = []
        for start, end in ranges:
            self.add(start, end)

    def __iter__(self) -> Iterator[Range]:
        return iter(tuple(self._ranges))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Intervals) and self._ranges == other._ranges

    def __repr__(self) -> str:
        return f"Intervals({self._ranges})"

    @property
    def total(self) -> int:
        return sum(end - start for start, end in self._ranges)

    @property
    def front(self) -> int:
        """Bytes from 0 on without a gap."""
        return self._ranges[0][1] if self._ranges and self._ranges[0][0] == 0 else 0

    def add(self, start: int, end: int) -> None:
        if start >= end:
            return
        first = bisect_left(self._ranges, (start, start))
        if first and self._ranges[first - 1][1] >= start:
            first -= 1
        last = first
        while last < len(self._ranges) and self._ranges[last][0] <= end:
            start = min(start, self._ranges[last][0])
            end = max(end, self._ranges[last][1])
            last += 1
        self._ranges[first:last] = [(start, end)]

    def remove(self, start: int, end: int) -> None:
        kept: list[Range] = []
        for low, high in self._ranges:
            kept.extend(
                part for part in ((low, min(high, start)), (max(low, end), high)) if part[0] < part[1]
            )
        self._ranges = kept

    def missing(self, size: int) -> Iterator[Range]:
        """The gaps between 0 and ``size``, in order."""
        at = 0
        for start, end in tuple(self._ranges):
            if at < start:
                yield at, min(start, size)
            at = end
        if at < size:
            yield at, size

    def covered(self, start: int, end: int) -> int:
        """How many of the bytes from ``start`` to ``end`` are in the set."""
        return sum(max(0, min(high, end) - max(low, start)) for low, high in self._ranges)
