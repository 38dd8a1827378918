"""The target's word on a tree that it has just seen: what verification asks of the loop."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from engine.models.decoder import Decoder
from engine.models.output_head import RowLogits
from engine.sampling import Purpose, Sampler
from engine.tree import DraftTree

RANKED = 1e-4
"""Share from which on a token has a rank."""


@dataclass(frozen=True, slots=True)
class Opinion:
    """What the target itself, processors left out, gives a token after the ones before it."""

    probability: float
    rank: int | None
    """1 for its likeliest token; None for those that it all but rules out."""


class TargetRows:
    """Satisfies :class:`engine.verification.Target` for the rows of one pass."""

    def __init__(
        self, decoder: Decoder, sampler: Sampler, tokens: Sequence[int], tree: DraftTree, hidden: Tensor,
        explain: bool = False,
    ) -> None:
        """``tokens`` are all known tokens, the root last; ``hidden`` [rows, hidden] the last layer's
        output for the tree's rows. ``explain``: :meth:`opinions` will be asked for."""
        self._sampler = sampler
        self._tokens = tokens
        self._tree = tree
        self._best: list[int] | None = None
        self._logits: Tensor | None = None
        self._row_logits: RowLogits | None = None
        if sampler.plain_greedy:
            # Never holds all logits: half the time of a pass over a large vocabulary.
            best, self._row_logits = decoder.argmax_and_rows(hidden) if explain else (decoder.argmax(hidden), None)
            self._best = best.tolist()
        else:
            self._logits = logits = decoder.logits(hidden)
            self._row_logits = lambda row: logits[row]

    def best(self, row: int) -> int:
        """The largest logit's token after any row, processors left out."""
        if self._best is None:
            assert self._logits is not None
            self._best = self._logits.argmax(-1).tolist()
        return self._best[row]

    def choose(self, node: int) -> int:
        if self._sampler.plain_greedy:
            return self.best(node)
        return self._sampler.choose(self._row(node), self._tokens, self._path(node))

    def probabilities(self, node: int) -> Tensor:
        return self._sampler.probabilities(self._row(node), self._tokens, self._path(node))

    def uniform(self, node: int, purpose: Purpose, index: int = 0) -> float:
        position = len(self._tokens) + self._tree.depths[node]
        return self._sampler.noise.uniform(position, purpose, index)

    def opinions(self, path: Sequence[int], bonus: int) -> tuple[dict[int, Opinion], Opinion | None]:
        """By node, for the guesses after the root and the nodes of ``path``; and for the bonus token.

        Nothing where the logits of this pass were not held."""
        found: dict[int, Opinion] = {}
        last: Opinion | None = None
        if self._row_logits is not None:
            for node in (0, *path):
                children = self._tree.children[node]
                judged = judge(self._row_logits(node), [*children, bonus])
                found.update(zip(children.values(), judged, strict=False))
                last = judged[-1]
        return found, last

    def _row(self, node: int) -> Tensor:
        if self._logits is None:
            raise ValueError("only the most likely tokens of this pass were kept")
        return self._logits[node].float().cpu()  # small operations one by one: no work for a GPU

    def _path(self, node: int) -> list[int]:
        return [self._tree.tokens[step] for step in self._tree.path(node)[1:]]


def judge(logits: Tensor, tokens: Sequence[int]) -> list[Opinion]:
    """What a distribution, given by its ``logits`` [vocab], gives each of ``tokens``."""
    logits = logits.float()
    values = logits[torch.tensor(tokens, device=logits.device)]
    shares = (values - logits.logsumexp(-1)).exp().tolist()
    ranked = [place for place, share in enumerate(shares) if share >= RANKED]
    ranks = dict(zip(ranked, (1 + count for count in _likelier(logits, values[ranked])), strict=True))
    return [Opinion(share, ranks.get(place)) for place, share in enumerate(shares)]


def _likelier(logits: Tensor, values: Tensor) -> list[int]:
    """How many of the ``logits`` [vocab] lie above each of ``values``."""
    if logits.device.type == "cpu":  # fifty times as quick as with tensors, which count in 64 bits
        row = logits.numpy()
        return [int(np.count_nonzero(row > value)) for value in values.numpy()]
    counts: list[int] = (logits > values[:, None]).sum(-1).tolist()
    return counts
