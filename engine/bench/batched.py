"""The target's pass over several sequences at once: every product serves the rows of all of them.

The chat decodes one sequence, so :class:`engine.models.decoder.Decoder` does. A server decodes
many, and what a draft saves shrinks with each one that comes along, since the rows of
others fill the pass as well. To measure that, this runs the same layers over the rows of all
sequences, each with its own keys, length and tree; attention is one padded product.
Results are those of the single sequences, on the exact path bit for bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from engine.errors import ModelError
from engine.models.attention import Visibility
from engine.models.cache import KVCache
from engine.models.decoder import Decoder, LayerWeights
from engine.tree import DraftTree


class BatchCache:
    """Keys and values of several sequences, ``[layers, sequences, kv_heads, capacity, head_dim]`` each."""

    def __init__(self, decoder: Decoder, sequences: int, capacity: int) -> None:
        config = decoder.config
        shape = (config.num_layers, sequences, config.num_kv_heads, capacity, config.head_dim)
        dtype = torch.float32 if decoder.device.type == "cpu" else decoder.weights.cache_dtype
        self.keys = torch.zeros(shape, dtype=dtype, device=decoder.device)
        self.values = torch.zeros(shape, dtype=dtype, device=decoder.device)
        self.lengths = [0] * sequences
        """Verified slots of each sequence; slot i holds position i."""

    def load(self, sequence: int, keys: Tensor, values: Tensor) -> None:
        """Begin a sequence with the ``[layers, kv_heads, length, head_dim]`` of a prompt."""
        length = keys.shape[2]
        self.keys[:, sequence, :, :length] = keys
        self.values[:, sequence, :, :length] = values
        self.lengths[sequence] = length

    def keep(self, sequence: int, rows: Sequence[int]) -> None:
        """Accept ``rows``, ascending, of the pass just run; see :meth:`KVCache.keep`."""
        start = self.lengths[sequence]
        end = start + len(rows)
        if rows[-1] != len(rows) - 1:
            slots = torch.tensor([start + row for row in rows], device=self.keys.device)
            for table in (self.keys, self.values):
                table[:, sequence, :, start:end] = table[:, sequence].index_select(2, slots)
        self.lengths[sequence] = end


@dataclass(frozen=True)
class _Pass:
    """Where the rows of one pass belong."""

    cache: BatchCache
    sequence: Tensor  # [rows]
    place: Tensor  # [rows], a row's number in its own sequence
    slot: Tensor  # [rows]
    widest: int
    even: bool
    """All sequences have the same number of rows, so that nothing needs padding."""


class BatchDecoder(Decoder):
    """A decoder over the weights of another one, for several sequences a pass."""

    def __init__(self, decoder: Decoder) -> None:
        """Raises ModelError for a family whose integer attention keeps lengths beside its keys."""
        super().__init__(decoder.config, decoder.weights)
        if self._sized:
            raise ModelError(
                "Batches are not measured for this model in int8: its attention has no norm on queries and keys.",
                "Load it with --format float32.",
            )
        self._pass: _Pass | None = None

    def run(
        self, trees: Sequence[DraftTree], cache: BatchCache, taps: Sequence[int] = ()
    ) -> tuple[Tensor, list[Tensor]]:
        """One tree for each sequence of ``cache``, whose verified slots are all they see beside themselves.

        Returns the last layer's output and the tapped states, ``[rows, hidden]`` each, the
        sequences' rows one after another. See :meth:`Decoder.forward`.
        """
        counts = [len(tree) for tree in trees]
        lengths = torch.tensor(cache.lengths)
        sequence = torch.repeat_interleave(torch.arange(len(trees)), torch.tensor(counts))
        place = torch.cat([torch.arange(count) for count in counts])
        positions = torch.cat(
            [tree.positions(length) for tree, length in zip(trees, cache.lengths, strict=True)]
        )
        widest = max(counts)
        self._pass = _Pass(cache, sequence, place, lengths[sequence] + place, widest, min(counts) == widest)
        seen, key_positions = self._seen(trees, lengths, sequence, place, positions, widest)
        full = self._sight(seen)
        sliding = full
        window = self.config.sliding_window
        if window:
            own = torch.zeros(len(trees), widest, dtype=torch.long)
            own[sequence, place] = positions
            sliding = self._sight(seen & (own[:, :, None] - key_positions[:, None, :] < window))
        limit = cache.keys.shape[3]
        rope_full, rope_sliding = self._rope(positions, limit)
        unused = KVCache(0, 0, 0, 0)
        hidden = self._embed(torch.cat([torch.tensor(tree.tokens) for tree in trees]))
        tapped: dict[int, Tensor] = {}
        for index, layer in enumerate(self.weights.layers):
            if index in taps:
                tapped[index] = hidden
            slides = self.config.layer_is_sliding[index]
            sight, rope = (sliding, rope_sliding) if slides else (full, rope_full)
            hidden = self._layer(layer, index, hidden, unused, sight, rope)
        tapped[self.config.num_layers] = hidden
        return hidden, [tapped[tap] for tap in taps]

    @staticmethod
    def _seen(
        trees: Sequence[DraftTree],
        lengths: Tensor,
        sequence: Tensor,
        place: Tensor,
        positions: Tensor,
        widest: int,
    ) -> tuple[Tensor, Tensor]:
        """What each row may see [sequences, widest, slots], and the slots' positions [sequences, slots]."""
        used = int((lengths[sequence] + place).max()) + 1
        slots = torch.arange(used)
        seen = (slots < lengths[:, None])[:, None].repeat(1, widest, 1)
        key_positions = slots.repeat(len(trees), 1)
        key_positions[sequence, lengths[sequence] + place] = positions
        for number, (tree, length) in enumerate(zip(trees, lengths.tolist(), strict=True)):
            count = len(tree)
            seen[number, :count, length : length + count] = tree.mask()
        return seen, key_positions

    def _sight(self, seen: Tensor) -> Visibility:
        """``seen`` [sequences, widest, slots] as a bias [sequences · kv_heads, widest · group, slots]."""
        kv_heads, group = self.config.num_kv_heads, self.config.num_heads // self.config.num_kv_heads
        # Finite, since a row that only pads may see nothing at all; exp of it is 0 all the same.
        bias = torch.zeros(seen.shape).masked_fill_(~seen, torch.finfo(torch.float32).min / 2)
        bias = bias.repeat_interleave(group, 1).repeat_interleave(kv_heads, 0)
        return Visibility(0, seen.shape[2], bias.to(self.device))

    def _attention(
        self, layer: LayerWeights, index: int, qkv: Tensor, cache: KVCache, sight: Visibility, rope: Tensor
    ) -> Tensor:
        config, now = self.config, self._pass
        assert now is not None
        heads, kv_heads, width = config.num_heads, config.num_kv_heads, config.head_dim
        group, sequences = heads // kv_heads, len(now.cache.lengths)
        both, value, _ = self._turned(layer, qkv, rope)
        keys, values = now.cache.keys[index], now.cache.values[index]
        keys[now.sequence, :, now.slot] = both[:, heads:].to(keys.dtype)
        values[now.sequence, :, now.slot] = value.to(values.dtype)
        query = both[:, :heads].to(keys.dtype)
        if not now.even:
            padded = query.new_zeros(sequences, now.widest, heads, width)
            padded[now.sequence, now.place] = query
            query = padded
        query = query.reshape(sequences, now.widest, kv_heads, group, width).transpose(1, 2)
        flat = (sequences * kv_heads, -1, width)
        mixed: Tensor = self._attend(
            query.reshape(flat),
            keys[:, :, : sight.end].reshape(flat),
            values[:, :, : sight.end].reshape(flat),
            layer.score_scale,
            sight.bias,
        )
        mixed = mixed.view(sequences, kv_heads, now.widest, group * width).transpose(1, 2)
        mixed = mixed.reshape(sequences, now.widest, heads * width)
        return mixed.flatten(0, 1) if now.even else mixed[now.sequence, now.place]
