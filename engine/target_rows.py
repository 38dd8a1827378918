"""The target's word on a tree that it has just seen: what verification asks of the loop."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from engine.models.decoder import Decoder
from engine.sampling import Purpose, Sampler
from engine.tree import DraftTree


class TargetRows:
    """Satisfies :class:`engine.verification.Target` for the rows of one pass."""

    def __init__(
        self, decoder: Decoder, sampler: Sampler, tokens: Sequence[int], tree: DraftTree, hidden: Tensor
    ) -> None:
        """``tokens`` are all known tokens, the root last; ``hidden`` [rows, hidden] the last layer's
        output for the tree's rows."""
        self._sampler = sampler
        self._tokens = tokens
        self._tree = tree
        self._best: list[int] | None = None
        self._logits: Tensor | None = None
        if sampler.plain_greedy:
            # Never holds all logits: half the time of a pass over a large vocabulary.
            self._best = decoder.argmax(hidden).tolist()
        else:
            self._logits = decoder.logits(hidden)

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

    def _row(self, node: int) -> Tensor:
        if self._logits is None:
            raise ValueError("only the most likely tokens of this pass were kept")
        return self._logits[node].float().cpu()  # small operations one by one: no work for a GPU

    def _path(self, node: int) -> list[int]:
        return [self._tree.tokens[step] for step in self._tree.path(node)[1:]]
