"""Static draft trees as data: paths of ranks, whatever the tokens turn out to be.

The path (0, 2) is the third child of the first child of the root. The two published trees
share their name and nothing else.
"""

from __future__ import annotations

import heapq
import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property, lru_cache

from engine.errors import PromptError

Path = tuple[int, ...]

MOST_NODES = 256
_WIDEST = 64
_DEEPEST = 32


def likelihood(path: Path) -> float:
    """How likely a node of this path of ranks stands, roughly; only the order matters. Falls with depth
    and with rank, so that the best n nodes are always a tree."""
    worth = 1.0
    for rank in path:
        worth *= 0.6 * 0.4**rank if rank < 8 else 0.6 * 0.4**8 / (rank - 6)
    return worth


@dataclass(frozen=True)
class RankTree:
    """Paths of ranks, the root left out. With every path its parent is there, and its elder siblings."""

    paths: tuple[Path, ...]

    def __post_init__(self) -> None:
        known = {(), *self.paths}
        for path in self.paths:
            if not path or path[:-1] not in known or (path[-1] and (*path[:-1], path[-1] - 1) not in known):
                raise ValueError(f"{list(path)} has no parent or no elder sibling")

    def __len__(self) -> int:
        """Rows of a verify pass, root included."""
        return len(self.paths) + 1

    @cached_property
    def counts(self) -> dict[Path, int]:
        """Children of each path that has any; () is the root."""
        counts: dict[Path, int] = {}
        for path in self.paths:
            counts[path[:-1]] = max(counts.get(path[:-1], 0), path[-1] + 1)
        return counts

    def cut(self, nodes: int, depth: int) -> RankTree:
        """The likeliest part of it with at most ``nodes`` rows and ``depth`` levels."""
        return _cut(self, nodes, depth)


@lru_cache(maxsize=512)
def _cut(tree: RankTree, nodes: int, depth: int) -> RankTree:
    fitting = [path for path in tree.paths if len(path) <= depth]
    if len(fitting) == len(tree.paths) and len(tree) <= nodes:
        return tree
    return RankTree(tuple(sorted(fitting, key=lambda path: (-likelihood(path), path))[: nodes - 1]))


@lru_cache(maxsize=512)
def likely_tree(nodes: int, depth: int, width: int) -> RankTree:
    """The likeliest tree of ``nodes`` rows, at most ``depth`` levels and ``width`` children a node;
    a chain for ``width`` 1."""
    found: list[Path] = []
    heap: list[tuple[float, Path]] = [(-likelihood((0,)), (0,))]
    while heap and len(found) < nodes - 1:
        _, path = heapq.heappop(heap)
        found.append(path)
        if len(path) < depth:
            heapq.heappush(heap, (-likelihood((*path, 0)), (*path, 0)))
        sibling = (*path[:-1], path[-1] + 1)
        if sibling[-1] < width:
            heapq.heappush(heap, (-likelihood(sibling), sibling))
    return RankTree(tuple(found))


def _spelt(words: str) -> RankTree:
    """Paths of one digit a level, e.g. ``0 1 00 01``."""
    return RankTree(tuple(tuple(int(digit) for digit in word) for word in words.split()))


EAGLE_MC_SIM_7B_63 = _spelt(
    "0 1 2 3 00 01 02 10 11 20 21 30 000 001 002 010 011 020 021 100 0000 0001 0002 00000 00001"
)
"""EAGLE-1's tree: 26 rows, despite its name (eagle/model/choices.py of SafeAILab/EAGLE)."""

MEDUSA_MC_SIM_7B_63 = _spelt(
    "0 1 2 3 4 5 6 7 8 9 00 01 02 03 04 05 06 07 08 09 10 11 12 13 14 15 16 20 21 22 30 31 40 50 60 70 80 90 "
    "000 001 002 003 004 005 006 007 008 009 010 011 012 020 021 030 040 050 060 070 100 101 200 0000 0001"
)
"""Medusa's tree: 64 rows (medusa/model/medusa_choices.py of FasterDecoding/Medusa)."""


def parse_tree(text: str, named: dict[str, RankTree]) -> RankTree:
    """A named tree, or one written as JSON: ``[[0], [1], [0, 0]]``. :class:`PromptError` otherwise."""
    if text in named:
        return named[text]
    how = f"Name {' or '.join(named)}, or write paths of ranks such as [[0], [1], [0, 0]]."
    try:
        raw = json.loads(text)
        paths = tuple(sorted((_path(entry) for entry in raw), key=lambda path: (len(path), path)))
        if not 1 <= len(paths) < MOST_NODES or len(set(paths)) < len(paths):
            raise ValueError(f"it must hold 1 to {MOST_NODES - 1} paths, each once")
        return RankTree(paths)
    except (ValueError, TypeError) as error:
        raise PromptError(f"The tree “{text[:60]}” makes no sense: {error}.", how) from None


def _path(entry: Iterable[int]) -> Path:
    path = tuple(entry)
    if not 1 <= len(path) <= _DEEPEST or not all(type(rank) is int and 0 <= rank < _WIDEST for rank in path):
        raise ValueError(f"{list(path)} is no path of ranks")
    return path
