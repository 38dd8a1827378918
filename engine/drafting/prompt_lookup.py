"""Prompt lookup: what followed the last tokens when they stood here before.

No model at all (Apoorv Saxena's prompt-lookup-decoding; the same as
``prompt_lookup_num_tokens`` of transformers): the longest n-gram at the end of the
sequence that occurred earlier, and what came after it. It shines where a reply repeats
its prompt: summaries, edits of code, quotations.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from engine.drafting.drafter import Drafter, Options, TreeLimits
from engine.drafting.method import DEPTH, NODES, Method
from engine.drafting.trie import tree_of
from engine.sampling import Sampler
from engine.settings import MethodInfo, MethodSetting, Needs, SettingKind, Shape
from engine.tree import DraftTree

CHAIN_DEPTH = 10
"""Guesses of a chain where none are asked for, as in transformers' examples."""


class Occurrences:
    """Where each n-gram of a growing sequence ended, for n from 1 to ``longest``."""

    def __init__(self, longest: int) -> None:
        self.longest = longest
        self._tokens: list[int] = []
        self._ends: dict[tuple[int, ...], list[int]] = {}

    def extend(self, tokens: Sequence[int]) -> None:
        """Take in ``tokens``, the whole sequence; starts over when it is no continuation."""
        known = len(self._tokens)
        if self._tokens != tokens[:known]:
            self._tokens, self._ends, known = [], {}, 0
        self._tokens.extend(tokens[known:])
        for end in range(known + 1, len(tokens) + 1):
            for size in range(1, min(self.longest, end) + 1):
                self._ends.setdefault(tuple(self._tokens[end - size : end]), []).append(end)

    def before(self, least: int, most: int) -> list[int]:
        """Earlier ends of the longest n-gram (``least`` to ``most`` tokens) that the sequence
        ends with, newest first. Empty when it is new."""
        length = len(self._tokens)
        for size in range(min(most, length - 1), least - 1, -1):
            found = self._ends.get(tuple(self._tokens[length - size :]), [])
            if len(found) > 1:  # the last one is the end of the sequence itself
                return found[-2::-1]
        return []


class PromptLookup(Drafter):
    def __init__(self) -> None:
        self._occurrences = Occurrences(1)
        self._least = self._most = self._branches = 1

    def start(self, tokens: Sequence[int], options: Options, sampler: Sampler) -> None:
        self._most = int(options["longest"] or 1)
        self._least = min(int(options["shortest"] or 1), self._most)
        self._branches = int(options["branches"] or 1)
        if self._occurrences.longest != self._most:
            self._occurrences = Occurrences(self._most)
        self._occurrences.extend(tokens)

    def propose(self, tokens: Sequence[int], limits: TreeLimits) -> DraftTree:
        self._occurrences.extend(tokens)
        ends = self._occurrences.before(self._least, self._most)
        distinct: dict[tuple[int, ...], int] = {}
        for end in ends:
            continuation = tuple(tokens[end : end + limits.depth])
            distinct[continuation] = distinct.get(continuation, 0) + 1
            if len(distinct) == self._branches:
                break
        shape = Shape.CHAIN if self._branches == 1 else Shape.TREE
        tree = tree_of(tokens[-1], list(distinct), limits.nodes, limits.depth, shape)
        return replace(tree, match=(ends[0], self._repeated(tokens, ends[0]))) if ends else tree

    def _repeated(self, tokens: Sequence[int], end: int) -> int:
        """How many tokens before ``end`` are the sequence's last ones again, as far as is looked."""
        count = 0
        while count < min(self._most, end) and tokens[end - 1 - count] == tokens[-1 - count]:
            count += 1
        return count


def _make(_equipment: object) -> Drafter:
    return PromptLookup()


METHOD = Method(
    MethodInfo(
        id="prompt-lookup",
        name="Prompt lookup",
        about="Guesses that the text goes on as it did when its last words stood here before. Needs no "
        "second model, and helps where a reply repeats its prompt.",
        needs=Needs.NOTHING,
        shape=Shape.CHAIN,
        settings=(
            MethodSetting(
                "longest",
                "Longest match",
                "The most tokens at the end of the text that are looked for earlier in it.",
                SettingKind.INTEGER,
                3,
                1,
                16,
            ),
            MethodSetting(
                "shortest",
                "Shortest match",
                "Matches of fewer tokens are not used.",
                SettingKind.INTEGER,
                1,
                1,
                16,
            ),
            MethodSetting(
                "branches",
                "Branches",
                "How many different continuations are tried at once, the newest first.",
                SettingKind.INTEGER,
                1,
                1,
                16,
            ),
            NODES,
            DEPTH,
        ),
    ),
    make=_make,
    rank=-1,
)
