"""Packs replies into batches: all rows of all sequences behind one another, without padding.

A sequence is a prompt and one reply behind the shared few-shot prefix. Row ``i``
holds the hidden states of one token and the id of the next (the head's pairing).
Only reply rows carry a loss, but prompt and prefix rows stand in the attention,
as they will when the head is used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from engine.training.features import FeatureStore, Prompt, Reply


@dataclass(frozen=True)
class Batch:
    """Sequences one after the other; ``rows`` counts prompt and reply rows of all of them."""

    states: Tensor
    """``[rows, taps * hidden]``, as the head in training reads them."""
    tokens: Tensor
    """``[rows]``: the token whose embedding stands beside the state."""
    next: Tensor
    """``[rows]``: the token that really followed; 0 on prompt rows."""
    positions: Tensor
    """``[rows]``: position of the pair, the first pair of the prefix being 0."""
    sequence: Tensor
    """``[rows]``: number of the sequence."""
    left: Tensor
    """``[rows]``: rows from here to the end of the sequence, this one included; 0 on prompt rows."""
    ids: Tensor
    """``[rows, k]``: draft ids of the target's most likely tokens after ``tokens``."""
    probabilities: Tensor
    """``[rows, k]``: their probabilities, renormalised over the draft vocabulary."""
    usable: Tensor
    """``[rows]``: the target's first choice can be drafted; other rows carry no loss."""
    greedy: Tensor
    """``[rows]``: row of a greedy reply."""


@dataclass(frozen=True)
class Prefix:
    """The pairs within the shared prefix: ``states [pairs, taps * hidden]``, ``tokens [pairs]``."""

    states: Tensor
    tokens: Tensor


class BatchMaker:
    """Turns replies of a store into batches for one draft vocabulary."""

    def __init__(self, store: FeatureStore, to_draft: Tensor, prepare: Callable[[Tensor], Tensor]) -> None:
        """``to_draft [vocab]`` as of DraftVocabulary; ``prepare`` makes of stored states
        ``[rows, taps * hidden]`` in float32 what the head reads, row by row."""
        self._store, self._to_draft, self._prepare = store, to_draft, prepare
        self._last = prepare(store.prefix_states[-1:].float())
        self.prefix = Prefix(prepare(store.prefix_states[:-1].float()), store.prefix_tokens[1:])

    def make(self, keys: Sequence[tuple[int, int]]) -> Batch:
        parts = [self._sequence(number, *self._store.get(key)) for number, key in enumerate(keys)]
        return Batch(*(torch.cat(column) for column in zip(*parts, strict=True)))

    def _sequence(self, number: int, prompt: Prompt, reply: Reply) -> tuple[Tensor, ...]:
        asked, said = len(prompt.tokens), len(reply.tokens)
        rows = asked + said
        stored = torch.cat([prompt.states, reply.states[:-1]])
        states = torch.cat([self._last, self._prepare(self._store.pick(stored).float())]).bfloat16()
        tokens = torch.cat([prompt.tokens, reply.tokens]).long()
        left = torch.cat([torch.zeros(asked, dtype=torch.long), torch.arange(said, 0, -1)])
        following, ids = torch.zeros(rows, dtype=torch.long), torch.zeros(rows, reply.top_ids.shape[1]).long()
        following[asked:] = reply.next.long()
        probabilities = torch.zeros(rows, reply.top_ids.shape[1])
        usable = torch.zeros(rows, dtype=torch.bool)
        drafts = self._to_draft[reply.top_ids.long()]
        weight = reply.top_logprobs.float().exp().masked_fill(drafts < 0, 0.0)
        usable[asked:] = drafts[:, 0] >= 0
        ids[asked:] = drafts.clamp_min(0)
        probabilities[asked:] = weight / weight.sum(-1, keepdim=True).clamp_min(1e-9)
        positions = len(self.prefix.tokens) + torch.arange(rows)
        return (
            states,
            tokens,
            following,
            positions,
            torch.full((rows,), number),
            left,
            ids,
            probabilities,
            usable,
            torch.full((rows,), reply.temperature == 0),
        )


def groups(
    store: FeatureStore, keys: Sequence[tuple[int, int]], rows: int, seed: int
) -> Iterator[list[tuple[int, int]]]:
    """Shuffle ``keys`` by ``seed`` and cut them into batches of about ``rows`` reply rows.

    Deterministic, so that a resumed run can skip what it has seen. Replies of
    like length go together within a window, which keeps attention padding low.
    """
    lengths = [shard.lengths().tolist() for shard in store.shards]
    generator = torch.Generator().manual_seed(seed)
    order = [keys[i] for i in torch.randperm(len(keys), generator=generator).tolist()]
    window = 2048
    batches: list[list[tuple[int, int]]] = []
    for start in range(0, len(order), window):
        part = sorted(order[start : start + window], key=lambda key: lengths[key[0]][key[1]])
        current: list[tuple[int, int]] = []
        count = 0
        for key in part:
            current.append(key)
            count += lengths[key[0]][key[1]]
            if count >= rows:
                batches.append(current)
                current, count = [], 0
        if current:
            batches.append(current)
    for i in torch.randperm(len(batches), generator=generator).tolist():
        yield batches[i]


def state_scale(store: FeatureStore) -> Tensor:
    """Root mean square of every column of the chosen states, ``[taps * hidden]``, from the first shard.

    Gemma's residual stream has a few columns hundreds of times larger than the
    rest; without this an optimiser sees only those. The scale is folded into
    ``fc`` when a head is exported.
    """
    shard = store.shards[0]
    states = torch.cat([store.pick(shard.reply(index).states) for index in range(min(shard.replies, 96))])
    return states.float().square().mean(0).sqrt().clamp_min(1e-3)
