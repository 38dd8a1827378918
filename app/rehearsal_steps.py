"""Steps of a written reply, as if it had been drafted: a tree, a chain or n-grams beside their window.

Drawn from a seeded generator; every step obeys the protocol's invariants (parents before children,
accepted path, pieces that join to the text).
"""

from __future__ import annotations

import random
import re
import zlib
from collections.abc import Sequence

from engine.protocol import Bonus, Match, Mode, Origin, Piece, Shape, Step, StepTimes, TreeNode, Verdict

DECOYS = (" the", " a", " of", " and", " to", ",", " is", " in", " that", " for", " it", ".", " with", " as")
NO_TIMES = StepTimes(0.0, 0.0, 0.0, 0.0)
CHAIN = 5
"""Tokens that are copied from earlier text at most."""
COLUMNS, LEVELS = 6, 3
"""Of the window."""
GRAMS = 3
"""N-grams tried at most."""


def tokenise(text: str) -> list[str]:
    """Cut a text into pieces about the size of a model's tokens; they join to the text."""
    return re.findall(r"\n|[ ]?[^\W\d_]{1,7}|[ ]?\d|[ ]?[^\w\s]|\s|_", text)


def token_id(text: str) -> int:
    return zlib.crc32(text.encode()) % 262144


class StepMaker:
    """Makes the steps of one reply; ``tokens[at - 1]`` is a step's root, ``tokens[at]`` the first it may emit."""

    def __init__(self, chance: random.Random, request_id: str) -> None:
        self._chance = chance
        self._request_id = request_id

    def make(self, method: str, index: int, tokens: Sequence[str], at: int) -> Step:
        """A step of ``method``; what is neither copied nor collected is drafted as a tree."""
        if method == "prompt-lookup":
            return self._chain(index, tokens, at)
        if method == "lookahead":
            return self._window(index, tokens, at)
        return self._tree(index, tokens, at)

    def _step(
        self, index: int, tokens: Sequence[str], at: int, nodes: Sequence[TreeNode], path: Sequence[int],
        method: str = "", shape: Shape = Shape.TREE, window: Sequence[TreeNode] = (), match: Match | None = None,
    ) -> Step:  # fmt: skip
        emitted = tokens[at : at + len(path) + 1]
        pieces = tuple(
            Piece(token_id(text), text, Origin.DRAFT if place < len(path) else Origin.TARGET)
            for place, text in enumerate(emitted)
        )
        last = path[-1] if path else 0
        bonus = Bonus(token_id(emitted[-1]), emitted[-1], last, self._chance.uniform(0.4, 0.98))
        return Step(
            self._request_id, index, pieces, NO_TIMES, tuple(nodes), tuple(path), bonus, Mode.EAGLE, method, shape,
            tuple(window), "", match,
        )  # fmt: skip

    @staticmethod
    def _root(tokens: Sequence[str], at: int) -> TreeNode:
        root = tokens[at - 1]
        return TreeNode(token_id(root), root, -1, 0, 1.0, 1.0, Verdict.ROOT)

    # ------------------------------------------------------------------ a tree

    def _tree(self, index: int, tokens: Sequence[str], at: int) -> Step:
        chance = self._chance
        accepted_count = min(chance.choice((0, 1, 1, 2, 2, 3, 3, 4)), len(tokens) - at - 1)
        depth = min(5, accepted_count + chance.choice((1, 1, 2)))
        nodes = [self._root(tokens, at)]
        path: list[int] = []
        spine = 0
        for level in range(1, depth + 1):
            right = tokens[at + level - 1] if level <= accepted_count else None
            probability = chance.uniform(0.45, 0.95)
            chosen = -1
            for place, text in enumerate(self._siblings(right, tokens, at + level - 1)):
                share = probability if place == 0 else (1 - probability) * 0.5**place
                verdict = Verdict.ACCEPTED if text == right else Verdict.REJECTED
                parent = nodes[spine]
                nodes.append(
                    TreeNode(
                        token_id(text), text, spine, level, share, parent.path_probability * share, verdict,
                        min(0.999, share * chance.uniform(0.6, 1.2)) if level <= accepted_count + 1 else None,
                    )
                )  # fmt: skip
                if chosen < 0:
                    chosen = len(nodes) - 1
            if right is not None:
                path.append(chosen)
            spine = chosen
        return self._step(index, tokens, at, nodes, path)

    def _siblings(self, right: str | None, tokens: Sequence[str], place: int) -> list[str]:
        """Children of one parent: the right one first if it is drafted, never the right one twice."""
        true = tokens[place] if place < len(tokens) else None
        pool = [text for text in self._chance.sample(DECOYS, 5) if text not in (right, true)]
        count = self._chance.choice((1, 2, 2, 3))
        return ([right] if right is not None else []) + pool[: count if right is None else count - 1]

    # ------------------------------------------------------------------ a chain

    def _chain(self, index: int, tokens: Sequence[str], at: int) -> Step:
        """What followed the last tokens where they stood before."""
        nodes = [self._root(tokens, at)]
        path: list[int] = []
        for words in (3, 2, 1):
            last = list(tokens[max(0, at - words) : at])
            found = [place for place in range(words, at) if list(tokens[place - words : place]) == last]
            if len(last) == words and found:
                break
        else:
            return self._step(index, tokens, at, nodes, path, "prompt-lookup", Shape.CHAIN)
        begin = found[-1]
        for depth, text in enumerate(tokens[begin : min(begin + CHAIN, at)], 1):
            self._follow(nodes, path, len(nodes) - 1, depth, text, tokens, at)
        match = Match("".join(last), words, at - begin)
        return self._step(index, tokens, at, nodes, path, "prompt-lookup", Shape.CHAIN, match=match)

    def _follow(
        self, nodes: list[TreeNode], path: list[int], parent: int, depth: int, text: str, tokens: Sequence[str], at: int
    ) -> None:
        """Put a guess behind a node, and on the path if it is the reply's next token; one token stays the bonus."""
        place = at + depth - 1
        right = place < len(tokens) - 1 and len(path) == depth - 1 and tokens[place] == text
        right = right and parent == (path[-1] if path else 0)
        verdict = Verdict.ACCEPTED if right else Verdict.REJECTED
        looked_at = parent == (path[-1] if path else 0)
        target = self._chance.uniform(0.5, 0.98) if right else self._chance.uniform(0.001, 0.2)
        nodes.append(
            TreeNode(token_id(text), text, parent, depth, 1.0, 1.0, verdict, target if looked_at else None)
        )
        if right:
            path.append(len(nodes) - 1)

    # ------------------------------------------------------------------ n-grams and their window

    def _window(self, index: int, tokens: Sequence[str], at: int) -> Step:
        """What followed the root before, and rows that look ahead, wrongly for the most part."""
        nodes = [self._root(tokens, at)]
        path: list[int] = []
        grams: list[tuple[str, ...]] = []
        for place in range(at - 1, 0, -1):
            gram = tuple(tokens[place : min(place + LEVELS, at)])
            if tokens[place - 1] == tokens[at - 1] and gram and gram[0] not in [other[0] for other in grams]:
                grams.append(gram)
        for gram in grams[:GRAMS]:
            parent = 0
            for depth, text in enumerate(gram, 1):
                self._follow(nodes, path, parent, depth, text, tokens, at)
                parent = len(nodes) - 1
        window: list[TreeNode] = []
        for level in range(LEVELS):
            for column in range(COLUMNS):
                before = (level - 1) * COLUMNS + column if level else column - 1
                parent = len(nodes) + before if level or column else 0
                ahead = at + column + level
                knows = ahead < len(tokens) and self._chance.random() < 0.4 + 0.2 * level
                text = tokens[ahead] if knows else self._chance.choice(DECOYS)
                window.append(
                    TreeNode(token_id(text), text, parent, 1 + level + column, 1.0, 1.0, Verdict.WINDOW)
                )
        return self._step(index, tokens, at, nodes, path, "lookahead", Shape.WINDOW, window)
