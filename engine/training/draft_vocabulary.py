"""Which tokens a head can draft: the most frequent ones of the target's own replies."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from engine.errors import EngineError


@dataclass(frozen=True)
class DraftVocabulary:
    """``ids [size]`` are target tokens, increasing; ``coverage`` is the share of counted text they make up."""

    ids: Tensor
    coverage: float
    vocab_size: int

    def to_draft(self) -> Tensor:
        """Draft id of every target token, ``[vocab]``; -1 where the head cannot draft it."""
        table = torch.full((self.vocab_size,), -1, dtype=torch.long)
        table[self.ids] = torch.arange(len(self.ids))
        return table


def choose(tokens: Iterable[Tensor], size: int, vocab_size: int, always: Iterable[int] = ()) -> DraftVocabulary:
    """Count ``tokens`` and keep the ``size`` most frequent, ties to the lower id.

    ``always`` (the end token, say) is kept whatever its count. Tokens that never
    occur are taken last, in order of their id, so the size is exactly as asked.
    Raises EngineError when ``size`` exceeds the vocabulary.
    """
    if not 0 < size <= vocab_size:
        raise EngineError(
            f"A draft vocabulary of {size} tokens does not fit a vocabulary of {vocab_size}.", "Choose fewer tokens."
        )
    counts = torch.zeros(vocab_size, dtype=torch.long)
    for part in tokens:
        counts += torch.bincount(part.long().flatten(), minlength=vocab_size)
    total = int(counts.sum())
    rank = counts.clone()
    rank[list(always)] = total + 1
    ids = torch.argsort(rank, descending=True, stable=True)[:size].sort().values
    return DraftVocabulary(ids, int(counts[ids].sum()) / max(total, 1), vocab_size)
