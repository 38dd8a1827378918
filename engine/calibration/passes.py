"""What a pass of the target costs by its rows, measured so that a disturbed moment does not pass for the machine.

Another program, a page that has to be fetched, a processor that slows down: all of it only ever
adds time. So the least time counts, in rounds over all counts of rows, so that whatever
happens meets each of them alike; and it counts only once it was met several times. One quick
round in a slow second is told by that from a quick machine, and more rounds are run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from engine.models.cache import KVCache
from engine.models.decoder import Decoder
from engine.tree import DraftTree

ROWS = (1, 8, 16, 4, 32, 2, 12, 64)
"""Counts of rows in the order of their use."""
TOO_DEAR = 2.5
"""Where a pass costs this many plain steps, larger counts are not looked at: no tree brings so much."""
ROWS_SECONDS = 0.9
LONGEST = 3.0
"""How much longer than that is gone on where the least times were not met again."""
LEAST_ROUNDS, MOST_ROUNDS = 2, 12
AGREE, MET = 1.2, 2
"""Times that lie so near the least one agree with it, and so many of them make it believed."""
EVEN = 1.25
"""A plain pass that takes this many times the least one runs on a disturbed machine; where it takes less
than the inverse of that, the least one did."""


@dataclass(frozen=True, slots=True)
class Passes:
    """What :func:`time_passes` found."""

    rows: tuple[tuple[int, float], ...]
    """(rows, seconds), fewest rows first."""
    steady: bool
    """Whether the least time of every count was met again."""


def time_passes(decoder: Decoder, cache: KVCache, token: int, clock: Callable[[], float]) -> Passes:
    """Least seconds of a pass over a bushy tree of so many rows, for the counts that may pay."""
    times: dict[int, list[float]] = {}
    most = 32
    run_pass(decoder, cache, token, 1)  # warms caches
    began = clock()
    for turn in range(round(MOST_ROUNDS * LONGEST)):
        for rows in ROWS:
            if rows <= most:
                times.setdefault(rows, []).append(_timed(decoder, cache, token, rows, clock))
        counted = {rows: found for rows, found in times.items() if rows <= most}
        if turn + 1 < LEAST_ROUNDS:  # one round alone may have met hiccups
            continue
        steady = all(settled(found) for found in counted.values())
        spent = clock() - began
        if spent > ROWS_SECONDS * (1 if steady else LONGEST) or (steady and turn + 1 >= MOST_ROUNDS):
            break
        dear = (rows for rows in sorted(times) if rows > 8 and min(times[rows]) > TOO_DEAR * min(times[1]))
        most = next(dear, max(ROWS))
    # Fewer rows never cost more, and hiccups only ever add: what more rows took bounds them.
    table: list[tuple[int, float]] = []
    least = float("inf")
    for rows in sorted(times, reverse=True):
        least = min(least, *times[rows])
        table.append((rows, least))
    return Passes(tuple(table[::-1]), steady)


def pace(decoder: Decoder, cache: KVCache, token: int, plain: float, clock: Callable[[], float]) -> float:
    """How many times ``plain`` seconds a plain pass takes now: the better of two."""
    return min(_timed(decoder, cache, token, 1, clock) for _ in range(2)) / plain


def run_pass(decoder: Decoder, cache: KVCache, token: int, rows: int) -> None:
    """A pass over a binary tree of ``rows`` rows, down to the chosen tokens; nothing is kept."""
    parents = (-1, *((row - 1) // 2 for row in range(1, rows)))
    ones = (1.0,) * rows
    tree = DraftTree((token,) * rows, parents, ones, ones, window=rows - 1)  # the same token may repeat
    mask = tree.mask() if rows > 1 else None
    hidden, _ = decoder.forward(torch.tensor(tree.tokens), tree.positions(cache.length), cache, mask)
    decoder.argmax(hidden).tolist()


def _timed(decoder: Decoder, cache: KVCache, token: int, rows: int, clock: Callable[[], float]) -> float:
    began = clock()
    run_pass(decoder, cache, token, rows)
    return clock() - began


def settled(times: Sequence[float]) -> bool:
    """Whether the least of these seconds was met often enough to be believed."""
    return sum(seconds <= AGREE * min(times) for seconds in times) >= MET
