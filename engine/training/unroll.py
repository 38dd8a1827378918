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

import torch
from torch import Tensor

from engine.heads.eagle3 import Eagle3Head
from engine.training.batches import Batch, Prefix


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
    """Step-0 keys and values, and where each sequence's rows stand in a padded layout."""

    prefix_keys: Tensor
    prefix_values: Tensor
    keys: Tensor
    """``[sequences, kv, dim, width]``, padded."""
    values: Tensor
    """``[sequences, kv, width, dim]``."""
    start: Tensor
    """``[sequences]`` first row of each."""


def unroll(
    head: Eagle3Head, prefix: Prefix, batch: Batch, embedding: Tensor, fractions: Sequence[float], draw: Tensor
) -> Iterator[Level]:
    """Yield one :class:`Level` per entry of ``fractions``, the share of rows each step keeps.

    ``embedding [vocab, hidden]`` is the target's frozen table, ``draw [rows]``
    uniform numbers which decide the rows that are kept: a row is kept while its
    number is below the fraction, so deeper steps use subsets.
    """
    own = head.project(head.fuse(batch.states), embedding[batch.tokens], batch.positions)
    shared = head.project(
        head.fuse(prefix.states.to(batch.states.dtype)), embedding[prefix.tokens], torch.arange(len(prefix.tokens))
    )
    rows = ((batch.left > 0) & (draw < fractions[0])).nonzero()[:, 0]
    context = _context(batch, own[1], own[2], shared[1], shared[2])
    query, residual = own[0][rows], own[3][rows]
    extra_keys: list[Tensor] = []
    extra_values: list[Tensor] = []
    for depth, fraction in enumerate(fractions):
        if depth:
            keep = (batch.left[rows] > depth) & (draw[rows] < fraction)
            rows, state = rows[keep], head.recur(out[keep])  # noqa: F821 - bound by the step before
            extra_keys = [key[keep] for key in extra_keys]
            extra_values = [value[keep] for value in extra_values]
            at = rows + depth
            query, key, value, residual = head.project(state, embedding[batch.tokens[at]], batch.positions[at])
            extra_keys.append(key)
            extra_values.append(value)
        if not len(rows):
            return
        attended = _attend(query, rows, batch.sequence[rows], context, extra_keys, extra_values)
        out = head.finish(residual, attended)
        yield Level(depth, rows, out)


def _context(batch: Batch, keys: Tensor, values: Tensor, prefix_keys: Tensor, prefix_values: Tensor) -> _Context:
    counts = torch.bincount(batch.sequence)
    start = counts.cumsum(0) - counts
    index = start[:, None] + torch.arange(int(counts.max()))
    index = index.clamp_max(len(batch.sequence) - 1)  # padding repeats foreign rows; the mask hides them
    padded_keys = _take(keys, index).permute(0, 2, 3, 1).contiguous()
    padded_values = _take(values, index).permute(0, 2, 1, 3).contiguous()
    return _Context(prefix_keys, prefix_values, padded_keys, padded_values, start)


def _take(x: Tensor, index: Tensor) -> Tensor:
    """``x [rows, ...]`` at ``index [a, b]``; index_select has a fast backward on CPUs, indexing has not."""
    return x.index_select(0, index.flatten()).unflatten(0, index.shape)


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
    kv = context.prefix_keys.shape[1]
    share = heads // kv
    query = (query * dim**-0.5).view(n, kv, share, dim)
    # Padded layout [sequences, slots]: the i-th query of a sequence stands in its slot i.
    counts = torch.bincount(sequence, minlength=len(context.start))
    slot = torch.arange(n) - (counts.cumsum(0) - counts)[sequence]
    width = int(counts.max())
    place = sequence * width + slot
    padded = query.new_zeros(len(counts) * width, kv, share, dim).index_copy(0, place, query)
    grouped = padded.view(len(counts), width, kv, share, dim).permute(0, 2, 1, 3, 4).flatten(2, 3)
    own = grouped @ context.keys  # [sequences, kv, width * share, keys]
    own = own.unflatten(2, (width, share)).permute(0, 2, 1, 3, 4).flatten(0, 1).index_select(0, place)
    visible = torch.arange(own.shape[-1]) <= (rows - context.start[sequence])[:, None]
    own = own.masked_fill(~visible[:, None, None], float("-inf"))
    flat = query.transpose(0, 1).reshape(kv, n * share, dim)
    shared = (flat @ context.prefix_keys.permute(1, 2, 0)).view(kv, n, share, -1).transpose(0, 1)
    diagonal = [(query * key[:, :, None]).sum(-1, keepdim=True) for key in extra_keys]
    weights = torch.cat([shared, own, *diagonal], -1).softmax(-1, dtype=torch.float32).to(query.dtype)
    past, length = shared.shape[-1], own.shape[-1]
    on_prefix, on_own, on_drafts = weights.split([past, length, len(diagonal)], -1)
    flat = on_prefix.transpose(0, 1).reshape(kv, n * share, past)
    result = (flat @ context.prefix_values.transpose(0, 1)).view(kv, n, share, dim).transpose(0, 1)
    padded = on_own.new_zeros(len(counts) * width, kv, share, length).index_copy(0, place, on_own)
    grouped = padded.view(len(counts), width, kv, share, length).permute(0, 2, 1, 3, 4).flatten(2, 3)
    own = (grouped @ context.values).unflatten(2, (width, share))
    result = result + own.permute(0, 2, 1, 3, 4).flatten(0, 1).index_select(0, place)
    for index, value in enumerate(extra_values):
        result = result + on_drafts[..., index : index + 1] * value[:, :, None]
    return result.reshape(n, heads, dim)
