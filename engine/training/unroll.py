"""Training-time test: the head learns from its own outputs (EAGLE-3, section 3.2).

When a head drafts, only its first level sees true hidden states; deeper levels
see what the head itself produced. So training unrolls the draft. At step 0 row
``r`` reads the true pair (state, token ``r``). At step ``k`` it reads its own output of
step ``k - 1`` with token ``r + k`` and predicts token ``r + k + 1``.

Row ``r`` at step ``k`` attends to

* the step-0 keys of rows up to ``r``, prompt and prefix included, and
* its own keys of steps 1 to ``k``, one score each: the diagonal terms.

A row's draft touches no other row's draft, so any subset of rows can be unrolled;
deeper steps, which weigh less, use fewer rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor
from torch.nn import functional

from engine.training.batches import Batch, Prefix


class Unrollable(Protocol):
    """The parts of an EAGLE head's pass, as of :class:`engine.heads.eagle3.Eagle3Head`."""

    def fuse(self, states: Tensor, /) -> Tensor: ...

    def mix(self, state: Tensor, embedding: Tensor) -> Tensor: ...

    def queries(self, mixed: Tensor, positions: Tensor) -> Tensor: ...

    def keys_values(self, mixed: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]: ...

    def finish(self, state: Tensor, mixed: Tensor, attended: Tensor) -> Tensor: ...

    def recur(self, out: Tensor) -> Tensor: ...


@dataclass(frozen=True)
class Level:
    """What the head gave at one unrolled step."""

    depth: int
    rows: Tensor
    """``[n]`` rows of the batch where these drafts began; their targets are at ``rows + depth``."""
    out: Tensor
    """``[n, hidden]`` raw output of the layer."""

    @property
    def targets(self) -> Tensor:
        """``[n]`` rows of the batch whose distribution is predicted."""
        return self.rows + self.depth


@dataclass(frozen=True)
class _Context:
    """Step-0 keys and values of every sequence, the shared prefix first, then its own rows, then room for drafts."""

    keys: Tensor
    """``[sequences, kv, dim, width]``; zero in the columns that are kept for drafts."""
    values: Tensor
    """``[sequences, kv, width, dim]``."""
    start: Tensor
    """``[sequences]`` first row of each."""
    past: int
    """Columns of the prefix."""
    drafts: int
    """First of the columns kept for drafts."""


def unroll(
    head: Unrollable, prefix: Prefix, batch: Batch, embedding: Tensor, fractions: Sequence[float], draw: Tensor
) -> Iterator[Level]:
    """Yield one :class:`Level` per entry of ``fractions``, the share of rows each step keeps.

    ``embedding [vocab, hidden]`` is the target's frozen table, ``draw [rows]``
    uniform numbers which decide the rows that are kept: a row is kept while its
    number is below the fraction, so deeper steps use subsets.
    """
    fused = head.fuse(torch.cat([prefix.states.to(batch.states.dtype), batch.states]))
    tokens = torch.cat([prefix.tokens, batch.tokens])
    past = len(prefix.tokens)
    mixed = head.mix(fused, embedding[tokens])
    keys, values = head.keys_values(mixed, torch.cat([torch.arange(past), batch.positions]))
    context = _context(batch, keys, values, past, len(fractions) - 1)
    rows = ((batch.left > 0) & (draw < fractions[0])).nonzero()[:, 0]
    state, mixed = fused.index_select(0, past + rows), mixed.index_select(0, past + rows)
    extra_keys: list[Tensor] = []
    extra_values: list[Tensor] = []
    for depth, fraction in enumerate(fractions):
        if depth:
            keep = ((batch.left[rows] > depth) & (draw[rows] < fraction)).nonzero()[:, 0]
            rows, state = rows[keep], head.recur(state.index_select(0, keep))
            at = rows + depth
            mixed = head.mix(state, embedding[batch.tokens[at]])
            key, value = head.keys_values(mixed, batch.positions[at])
            extra_keys = [*(earlier.index_select(0, keep) for earlier in extra_keys), key]
            extra_values = [*(earlier.index_select(0, keep) for earlier in extra_values), value]
        if not len(rows):
            return
        query = head.queries(mixed, batch.positions[rows + depth])
        attended = _attend(query, rows, batch.sequence[rows], context, extra_keys, extra_values)
        state = head.finish(state, mixed, attended)
        yield Level(depth, rows, state)


def _context(batch: Batch, keys: Tensor, values: Tensor, past: int, drafts: int) -> _Context:
    counts = torch.bincount(batch.sequence)
    start = counts.cumsum(0) - counts
    own = start[:, None] + torch.arange(int(counts.max()))
    # Padding repeats foreign rows, which the mask hides.
    own = past + own.clamp_max(len(batch.sequence) - 1)
    index = torch.cat([torch.arange(past).expand(len(start), -1), own], 1)
    # index_select has a fast backward on CPUs, plain indexing has not.
    padded_keys = keys.index_select(0, index.flatten()).view(*index.shape, *keys.shape[1:])
    padded_values = values.index_select(0, index.flatten()).view(*index.shape, *values.shape[1:])
    room = (0, drafts)
    return _Context(
        keys=functional.pad(padded_keys.permute(0, 2, 3, 1), room),
        values=functional.pad(padded_values.permute(0, 2, 1, 3), (0, 0, *room)),
        start=start,
        past=past,
        drafts=index.shape[1],
    )


def _attend(
    query: Tensor,
    rows: Tensor,
    sequence: Tensor,
    context: _Context,
    extra_keys: Sequence[Tensor],
    extra_values: Sequence[Tensor],
) -> Tensor:
    """Attention of ``query [n, heads, dim]`` over prefix, own sequence up to ``rows``, and own drafts."""
    n, heads, dim = query.shape
    kv = context.keys.shape[1]
    share = heads // kv
    query = (query * dim**-0.5).view(n, kv, share, dim)
    # Padded layout [sequences, slots]: the i-th query of a sequence stands in its slot i.
    counts = torch.bincount(sequence, minlength=len(context.start))
    slot = torch.arange(n) - (counts.cumsum(0) - counts)[sequence]
    shape = (len(counts), int(counts.max()))
    place = sequence * shape[1] + slot
    scores = _pad(query, place, shape) @ context.keys  # [sequences, kv, slots * share, width]
    scores = scores.view(shape[0], kv, shape[1], share, -1)
    row = rows.new_zeros(shape[0] * shape[1]).index_copy(0, place, rows - context.start[sequence])
    column = torch.arange(scores.shape[-1]) - context.past
    visible = column <= row.view(*shape, 1)
    visible[..., context.drafts :] = torch.arange(scores.shape[-1] - context.drafts) < len(extra_keys)
    if extra_keys:
        diagonal = torch.stack([(query * key[:, :, None]).sum(-1) for key in extra_keys], -1)
        width = context.drafts + len(extra_keys)
        own = _pad(diagonal, place, shape).view(shape[0], kv, shape[1], share, -1)
        scores = scores.slice_scatter(own.to(scores.dtype), -1, context.drafts, width)
    hidden = torch.zeros(visible.shape, dtype=scores.dtype).masked_fill_(~visible, float("-inf"))
    weights = (scores + hidden[:, None, :, None]).softmax(-1)
    result = _unpad(weights.flatten(2, 3) @ context.values, place, shape, share)
    if extra_keys:
        drawn = _unpad(weights[..., context.drafts : width].flatten(2, 3), place, shape, share)
        for index, value in enumerate(extra_values):
            result = result + drawn[..., index : index + 1] * value[:, :, None]
    return result.reshape(n, heads, dim)


def _pad(x: Tensor, place: Tensor, shape: tuple[int, int]) -> Tensor:
    """``x [n, kv, share, d]`` into ``[sequences, kv, slots * share, d]``."""
    padded = x.new_zeros(shape[0] * shape[1], *x.shape[1:]).index_copy(0, place, x)
    return padded.view(*shape, *x.shape[1:]).permute(0, 2, 1, 3, 4).flatten(2, 3)


def _unpad(x: Tensor, place: Tensor, shape: tuple[int, int], share: int) -> Tensor:
    """The inverse of :func:`_pad`."""
    x = x.reshape(shape[0], x.shape[1], shape[1], share, -1).permute(0, 2, 1, 3, 4).flatten(0, 1)
    return x.index_select(0, place)
