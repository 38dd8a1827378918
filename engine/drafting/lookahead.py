"""Lookahead decoding: n-grams that the target itself makes on the side, by Jacobi iteration.

Fu et al., arXiv 2402.02057. Beside the guesses, every pass of the target carries a
*window*: ``window`` positions ahead, ``ngram - 1`` deep in past iterations. Level 0 is a
chain under the root, and under column c of a level hangs column c of the next, so the
whole window is a tree: a row sees level 0 up to its own column and the levels above
itself, at its true position. The target's tokens after the deepest level complete one
n-gram a column; they go to a pool and, when their first token becomes the root, come
back as guesses, which are verified like any other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from engine.drafting.drafter import Drafter, Options, TreeLimits
from engine.drafting.method import Method
from engine.drafting.trie import tree_of
from engine.sampling import Purpose, Sampler
from engine.settings import MethodInfo, MethodSetting, Needs, SettingKind, Shape
from engine.tree import DraftTree

TUNINGS = (
    {"window": 3, "ngram": 3, "guesses": 3},
    {"window": 5, "ngram": 4, "guesses": 5},
    {"window": 7, "ngram": 5, "guesses": 7},
    {"window": 15, "ngram": 5, "guesses": 15},
)
"""From what a processor may bear to what was published for large GPUs."""


class Pool:
    """n-grams by their first token, the newest first, at most ``most`` of each."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._grams: dict[int, dict[tuple[int, ...], None]] = {}

    def add(self, gram: Sequence[int]) -> None:
        known = self._grams.setdefault(gram[0], {})
        rest = tuple(gram[1:])
        known.pop(rest, None)
        known[rest] = None
        if len(known) > self.most:
            del known[next(iter(known))]

    def after(self, token: int) -> list[tuple[int, ...]]:
        return list(self._grams.get(token, {}))[::-1]


class Lookahead(Drafter):
    """State of one sequence: the window's levels and the pool of n-grams."""

    def __init__(self) -> None:
        self._window = self._size = 0
        self._levels: list[list[int]] = []
        """``[level][column]`` is a guess for the position 1 + level + column after the root."""
        self._pool = Pool(1)
        self._filler: list[int] = []
        """Tokens for columns that nothing is known about."""
        self._taken = 0
        """Ends of the sequence's own n-grams below this are in the pool."""

    def start(self, tokens: Sequence[int], options: Options, sampler: Sampler) -> None:
        window, size, guesses = (
            int(options[name] or TUNINGS[0][name]) for name in ("window", "ngram", "guesses")
        )
        if (window, size, guesses) != (self._window, self._size, self._pool.most):
            self._pool = Pool(guesses)
        self._window, self._size = window, size
        # Any tokens do for the first window; the text's own are likelier to lead somewhere.
        self._filler = [
            tokens[int(sampler.noise.uniform(len(tokens), Purpose.DRAFT, column) * len(tokens))]
            for column in range(window)
        ]
        self._levels = [list(self._filler)]
        self._taken = 0  # the sequence may be another one now
        self._take(tokens)

    def propose(self, tokens: Sequence[int], limits: TreeLimits) -> DraftTree:
        self._take(tokens)
        tree = tree_of(tokens[-1], self._pool.after(tokens[-1]), limits.nodes, limits.depth, Shape.WINDOW)
        columns = min(self._window, limits.room - 1 - len(self._levels))
        if columns < self._window or len(tree) + self._window * len(self._levels) > limits.room:
            return tree  # the context ends here: the window is of no more use
        rows, parents = list(tree.tokens), list(tree.parents)
        above: list[int] = []
        for level in self._levels:
            here = []
            for column, token in enumerate(level):
                here.append(len(rows))
                parents.append(above[column] if above else here[column - 1] if column else 0)
                rows.append(token)
            above = here
        extra = (1.0,) * (len(rows) - len(tree))
        return replace(
            tree,
            tokens=tuple(rows),
            parents=tuple(parents),
            probabilities=tree.probabilities + extra,
            path_probabilities=tree.path_probabilities + extra,
            window=len(extra),
        )

    def learn(self, tree: DraftTree, path: Sequence[int], best: Callable[[int], int]) -> None:
        if not tree.window:
            return
        last = len(tree) - self._window  # rows of the deepest level
        fresh = [best(last + column) for column in range(self._window)]
        levels = self._levels
        if len(levels) < self._size - 1:
            levels.append(fresh)
        else:
            for column in range(self._window):
                self._pool.add([*(level[column] for level in levels), fresh[column]])
            levels.append(fresh)
            del levels[0]
            # Level 0 has moved on by one position, as has the root; further tokens shift it too.
            for level in levels:
                del level[: len(path)]
                level.extend(self._filler[: self._window - len(level)])

    def _take(self, tokens: Sequence[int]) -> None:
        """The sequence's own n-grams go to the pool as well."""
        for end in range(max(self._taken, self._size), len(tokens) + 1):
            self._pool.add(tokens[end - self._size : end])
        self._taken = len(tokens) + 1


def _make(_equipment: object) -> Drafter:
    return Lookahead()


METHOD = Method(
    MethodInfo(
        id="lookahead",
        name="Lookahead",
        about="The model fills a window of future positions beside its own next token and keeps the n-grams "
        "that come up. Needs no second model, but many rows a pass.",
        needs=Needs.NOTHING,
        shape=Shape.WINDOW,
        settings=(
            MethodSetting(
                "window", "Window", "Future positions that each pass fills.", SettingKind.INTEGER, None, 1, 32
            ),
            MethodSetting(
                "ngram",
                "N-gram",
                "Length of the n-grams that are collected and tried; the window is one less deep.",
                SettingKind.INTEGER,
                None,
                2,
                8,
            ),
            MethodSetting(
                "guesses",
                "Guesses",
                "N-grams tried in one pass.",
                SettingKind.INTEGER,
                None,
                1,
                32,
            ),
        ),
    ),
    make=_make,
    rank=-1,
    tunings=TUNINGS,
)
