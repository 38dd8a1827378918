"""Prompt lookup: what followed the last tokens when they stood here before.

No model at all (Apoorv Saxena's prompt-lookup-decoding; the same as
``prompt_lookup_num_tokens`` of transformers): the longest n-gram at the end of the
sequence that occurred earlier, and what came after it. It shines where a reply repeats
its prompt: summaries, edits of code, quotations.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from engine.drafting.drafter import Drafter, Options, TreeLimits
from engine.drafting.method import DEPTH, NODES, Method
from engine.drafting.trie import tree_of
from engine.sampling import Sampler
from engine.settings import MethodInfo, MethodSetting, Needs, SettingKind, Shape
from engine.tree import DraftTree

BELIEF = 4.0
"""Guesses that the first estimate of a match's worth counts for."""


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

    def length(self, end: int, most: int) -> int:
        """Tokens, up to ``most``, that the match which ended at ``end`` has in common with the sequence's end."""
        length = len(self._tokens)
        same = 0
        while same < min(most, end) and self._tokens[end - 1 - same] == self._tokens[length - 1 - same]:
            same += 1
        return same

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
    """What a guess claims is how often guesses after matches of that length have stood so far, so that
    short matches, which mislead more, can be told from long ones and left out where rows are dear."""

    weighs = True

    def __init__(self) -> None:
        self._occurrences = Occurrences(1)
        self._least = self._most = self._branches = 1
        self._stood: dict[int, tuple[int, int]] = {}
        """Length of a match → (guesses that stood, guesses that were judged) after such matches."""
        self._matched = 0

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
        if not ends:
            return DraftTree.root_only(tokens[-1])
        self._matched = self._occurrences.length(ends[0], self._most)
        chance = self._chance(self._matched)
        depth = limits.depth
        while depth and chance**depth <= limits.worth:
            depth -= 1
        distinct: dict[tuple[int, ...], None] = {}
        for end in ends:
            distinct[tuple(tokens[end : end + depth])] = None
            if len(distinct) == self._branches:
                break
        shape = Shape.CHAIN if self._branches == 1 else Shape.TREE
        tree = tree_of(tokens[-1], [each for each in distinct if each], limits.nodes, depth, shape)
        return replace(
            tree,
            probabilities=(1.0, *(own * chance for own in tree.probabilities[1:])),
            path_probabilities=tuple(
                path * chance**level for path, level in zip(tree.path_probabilities, tree.depths, strict=True)
            ),
            match=(ends[0], self._matched),
        )

    def learn(self, tree: DraftTree, path: Sequence[int], best: Callable[[int], int]) -> None:
        stood, judged = self._stood.get(self._matched, (0, 0))
        self._stood[self._matched] = stood + len(path), judged + min(len(path) + 1, tree.depth)

    def _chance(self, matched: int) -> float:
        """That the text goes on as it did after a match of this length: at first a plain guess."""
        stood, judged = self._stood.get(matched, (0, 0))
        return (stood + BELIEF * (1 - 0.5**matched)) / (judged + BELIEF)


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
