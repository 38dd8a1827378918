"""Which tokens a head can draft: those that the target says most often.

Replies alone are a small sample: rare words of the next user's topic are missing
from it. The target's own probabilities at every row know many more words than were
said, so they are counted too.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from engine.errors import EngineError
from engine.training.features import Shard


@dataclass(frozen=True)
class DraftVocabulary:
    """``ids [size]`` are target tokens, increasing; ``coverage`` is their share of everything counted."""

    ids: Tensor
    coverage: float
    vocab_size: int

    def to_draft(self) -> Tensor:
        """Draft id of every target token, ``[vocab]``; -1 where the head cannot draft it."""
        table = torch.full((self.vocab_size,), -1, dtype=torch.long)
        table[self.ids] = torch.arange(len(self.ids))
        return table


def count(shards: Iterable[Shard], vocab_size: int) -> Tensor:
    """How often each token was said, was likely, or was asked about: ``[vocab]`` float64."""
    total = torch.zeros(vocab_size, dtype=torch.float64)
    for shard in shards:
        total += torch.bincount(shard.tokens().long(), minlength=vocab_size)
        total += 0.5 * torch.bincount(shard.prompt_tokens().long(), minlength=vocab_size)
        ids, logprobs = shard.likely()
        total.index_add_(0, ids.long().flatten(), logprobs.double().exp().flatten())
    return total


def choose(counts: Tensor, size: int, always: Iterable[int] = ()) -> DraftVocabulary:
    """Keep the ``size`` tokens with the highest ``counts [vocab]``, ties to the lower id.

    ``always`` (the end token, say) is kept whatever its count. Raises EngineError
    when ``size`` does not fit the vocabulary.
    """
    vocab_size = len(counts)
    if not 0 < size <= vocab_size:
        raise EngineError(
            f"A draft vocabulary of {size} tokens does not fit a vocabulary of {vocab_size}.", "Choose fewer tokens."
        )
    rank = counts.clone()
    rank[list(always)] = torch.inf
    ids = torch.argsort(rank, descending=True, stable=True)[:size].sort().values
    total = float(counts.sum())
    return DraftVocabulary(ids, float(counts[ids].sum()) / total if total else 0.0, vocab_size)
