"""Standard speculative decoding: a smaller model with the same vocabulary drafts.

Leviathan et al., arXiv 2211.17192, with trees beside chains. The small model is a whole
decoder with a cache of its own over the same sequence.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional

from engine.drafting.drafter import Drafter, Options, TreeLimits
from engine.drafting.method import DEPTH, NODES, Equipment, Method
from engine.drafting.nodes import Nodes
from engine.drafting.static_growth import DRAW, grow
from engine.drafting.tree_shapes import likely_tree
from engine.models.cache import KVCache
from engine.models.decoder import Decoder
from engine.sampling import Sampler
from engine.settings import MethodInfo, MethodSetting, Needs, SettingKind, Shape
from engine.tree import DraftTree, ancestor_mask

READ_ROWS = 128
"""Rows of one pass over known tokens."""


class ModelGrowth(Nodes):
    """A draft tree that grows on a small model. Nothing of it stays in the cache."""

    def __init__(self, decoder: Decoder, cache: KVCache, root: int, hidden: Tensor, vocabulary: int) -> None:
        """``hidden`` [1, hidden] is the last layer's output for the root, which is in the cache."""
        super().__init__(root)
        self._decoder = decoder
        self._cache = cache
        self._hidden = hidden
        self._vocabulary = vocabulary
        self._after = cache.length
        self._run: list[int] = []  # nodes that the model has seen, in the order of their rows
        self.beam = [0]

    def logits(self) -> Tensor:
        """Fitted to the target's vocabulary: tables of one tokenizer are padded to different sizes."""
        logits = self._known_logits().cpu()
        missing = self._vocabulary - logits.shape[1]
        return functional.pad(logits, (0, missing), value=-torch.inf) if missing else logits

    def _known_logits(self) -> Tensor:
        """Of the tokens that both models have, where the model computes. [beam, tokens]"""
        return self._decoder.logits(self._hidden)[:, : self._vocabulary].float()

    def top(self, count: int) -> tuple[list[list[int]], list[list[float]]]:
        logits = self._known_logits()  # only what is chosen leaves the device
        # A chain needs no order: the largest of a vocabulary is found in half the time of the top one.
        best = logits.max(-1, keepdim=True) if count == 1 else logits.topk(min(count, logits.shape[1]))
        values, ids = best
        return ids.tolist(), (values - logits.logsumexp(-1, True)).tolist()

    def advance(self, nodes: Sequence[int]) -> None:
        chain = [self.parents[node] for node in [*self._run, *nodes]] == [0, *self._run]
        if chain:  # the rows before stay in the cache; a tree's rows are run again each level
            rows, mask = list(nodes), None
        else:
            self._cache.truncate(self._after)
            rows = [*self._run, *nodes]
            place = {node: row for row, node in enumerate(rows)}
            mask = ancestor_mask([place.get(self.parents[node], -1) for node in rows])
        positions = torch.tensor([self._after - 1 + self.depths[node] for node in rows])
        tokens = torch.tensor([self.tokens[node] for node in rows])
        hidden, _ = self._decoder.forward(tokens, positions, self._cache, mask)
        if chain:
            self._cache.keep(1)
        self._hidden = hidden[-len(nodes) :]
        self._run += nodes
        self.beam = list(nodes)

    def close(self) -> None:
        self._cache.truncate(self._after)


class DraftModel(Drafter):
    def __init__(self, decoder: Decoder, context: int, vocabulary: int) -> None:
        self._decoder = decoder
        self._vocabulary = vocabulary
        self._cache = decoder.new_cache(context + 256)
        self._known: list[int] = []
        """Tokens that the cache holds."""
        self._width = 1
        self._sampler: Sampler | None = None

    def start(self, tokens: Sequence[int], options: Options, sampler: Sampler) -> None:
        self._width = int(options["branches"] or 1)
        self._sampler = sampler if options["draw"] and not sampler.greedy else None

    def propose(self, tokens: Sequence[int], limits: TreeLimits) -> DraftTree:
        room = self._cache.max_length - len(tokens)
        shape = likely_tree(min(limits.nodes, room), min(limits.depth, room), self._width)
        if room < 2 or max(tokens) >= self._decoder.config.vocab_size:
            return DraftTree.root_only(tokens[-1])  # beyond what the small model knows
        hidden = self._read(tokens)
        growth = ModelGrowth(self._decoder, self._cache, tokens[-1], hidden, self._vocabulary)
        form = Shape.CHAIN if self._width == 1 else Shape.TREE
        tree = grow(growth, shape, self._sampler, len(tokens) - 1, form)
        growth.close()
        return tree

    def _read(self, tokens: Sequence[int]) -> Tensor:
        """Bring the cache up to ``tokens``; the last one's hidden state [1, hidden]."""
        known = self._known
        common = 0
        for ours, theirs in zip(known, tokens[:-1], strict=False):
            if ours != theirs:
                break
            common += 1
        self._cache.truncate(common)
        hidden = None
        for begin in range(common, len(tokens), READ_ROWS):
            part = torch.tensor(tokens[begin : begin + READ_ROWS])
            positions = torch.arange(begin, begin + part.numel())
            hidden, _ = self._decoder.forward(part, positions, self._cache)
            self._cache.keep(part.numel())
        self._known = list(tokens)
        assert hidden is not None
        return hidden[-1:]


def _make(equipment: Equipment) -> Drafter:
    assert equipment.draft is not None
    return DraftModel(equipment.draft, equipment.context, equipment.decoder.config.vocab_size)


def _missing(equipment: Equipment) -> str:
    if equipment.draft is not None:
        return ""
    return equipment.draft_problem or "It needs a smaller model with the same vocabulary to draft with."


METHOD = Method(
    MethodInfo(
        id="draft-model",
        name="Draft model",
        about="A smaller model of the same family writes ahead, and the large one checks.",
        needs=Needs.DRAFT_MODEL,
        shape=Shape.CHAIN,
        settings=(
            MethodSetting(
                "branches",
                "Branches",
                "Guesses after each guess: 1 makes a chain, more a tree.",
                SettingKind.INTEGER,
                1,
                1,
                16,
            ),
            NODES,
            DEPTH,
            DRAW,
        ),
    ),
    make=_make,
    missing=_missing,
    rank=5,
)
