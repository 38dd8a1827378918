"""The target's forward pass: a few rows of one sequence, a tree among them, over a cache.

Written flat, in plain torch operations, because on a CPU the small operations are
the price of a step: queries, keys and values come out of one product, gate and up
out of another, RoPE is one complex multiplication, and a norm's row factor is
handed to the linear after it instead of being multiplied in.

One forward pass for all families of :mod:`engine.models.families`; what they differ in are
fields of :class:`DecoderConfig` and weights that are there or not. Layer order and norms
follow transformers (``modeling_llama.py``, ``modeling_gemma3.py`` and their kin).

Tokens, positions and masks come from the CPU and are moved to the weights' device here, so
that nothing in a pass waits for a GPU.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from engine.models.attention import (
    QUERY_KEY_LENGTH,
    VALUE_LEVELS,
    Visibility,
    capped_attention,
    exact_attention,
    exact_attention_sized,
    float_attention,
    fused_attention,
    visibility,
)
from engine.models.cache import KVCache
from engine.models.config import DecoderConfig
from engine.models.experts import Experts
from engine.models.linear import Linear
from engine.models.output_head import OutputHead, RowLogits

Attend = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor | None], Tensor]
"""(query, keys, values, scale, bias) → mixed values; see :func:`float_attention`."""


@dataclass(frozen=True, slots=True)
class LayerWeights:
    """One layer, norms as plain factors (Gemma's 1 + w is added when loading)."""

    attention_norm: Tensor  # [hidden]
    qkv: Linear  # hidden -> (heads + 2 * kv_heads) * head_dim, RoPE pairs interleaved
    qk_norm: Tensor | None  # [heads + kv_heads, head_dim], RoPE pairs interleaved
    score_scale: Tensor  # no dimensions
    out: Linear
    post_attention_norm: Tensor | None  # [hidden]
    mlp_norm: Tensor  # [hidden]
    gate_up: Linear | None  # hidden -> 2 * intermediate; None where experts are
    down: Linear | None
    post_mlp_norm: Tensor | None  # [hidden]
    experts: Experts | None = None


@dataclass(frozen=True, slots=True)
class DecoderWeights:
    embedding: Tensor  # [vocab, hidden], memory-mapped where it comes from a file; may stay on the CPU
    layers: tuple[LayerWeights, ...]
    final_norm: Tensor  # [hidden]
    head: OutputHead
    exact: bool
    """Integer attention (see :mod:`engine.models.attention`): qk_norm and qkv carry the grid."""
    cache_dtype: torch.dtype = torch.float32
    """Of keys and values on a GPU."""


def interleave(head_dim: int, turned: int | None = None) -> Tensor:
    """Order of channels that puts RoPE's pairs (i, i + d/2) side by side. [head_dim]

    ``turned`` is d, where only the first d channels are turned.
    """
    dim = head_dim if turned is None else turned
    pairs = torch.arange(dim).view(2, dim // 2).T.reshape(-1)
    return pairs if dim == head_dim else torch.cat((pairs, torch.arange(dim, head_dim)))


class Decoder:
    """A target. Holds weights, no sequence: every call names its cache."""

    def __init__(self, config: DecoderConfig, weights: DecoderWeights) -> None:
        self.config = config
        self.weights = weights
        self.device = weights.final_norm.device
        self._cpu = self.device.type == "cpu"
        self._tables: dict[bool, tuple[Tensor, Tensor]] = {}
        self._embedding_scale = torch.tensor(config.embedding_scale) if config.embedding_scale != 1 else None
        self._cap = torch.tensor(config.attention_softcap) if config.attention_softcap else None
        self._logit_cap = torch.tensor(config.logit_softcap) if config.logit_softcap else None
        self._sized = weights.exact and not config.qk_norm
        grid = QUERY_KEY_LENGTH / (config.head_dim**0.5 * config.rope.magnitude)
        self._grid = torch.tensor(grid)
        self._gelu = config.activation == "gelu_tanh"
        self._attend = self._attention_of(config, weights)

    def _attention_of(self, config: DecoderConfig, weights: DecoderWeights) -> Attend:
        if weights.exact:
            return exact_attention
        if self._cap is not None:
            return functools.partial(capped_attention, cap=self._cap.to(self.device))
        if not self._cpu:
            scale = config.attention_scale
            return lambda query, keys, values, _scale, bias: fused_attention(query, keys, values, scale, bias)
        return float_attention

    def new_cache(self, max_length: int | None = None) -> KVCache:
        """An empty sequence of at most ``max_length`` tokens, on the weights' device and in their type.

        A limit beyond longrope's original length picks its divisors for long texts, from the
        first token on.
        """
        config = self.config
        limit = min(max_length or config.max_positions, config.max_positions)
        return KVCache(
            config.num_layers,
            config.num_kv_heads,
            config.head_dim,
            limit,
            dtype=torch.float32 if self._cpu else self.weights.cache_dtype,
            device=self.device,
            sized=self._sized,
        )

    def memory_bytes(self) -> int:
        weights = self.weights
        body = sum(
            part.memory_bytes()
            for layer in weights.layers
            for part in (layer.qkv, layer.out, layer.gate_up, layer.down, layer.experts)
            if part is not None
        )
        embedding = weights.embedding.numel() * weights.embedding.element_size()
        return body + weights.head.memory_bytes() + embedding

    def forward(
        self,
        tokens: Tensor,
        positions: Tensor,
        cache: KVCache,
        tree_mask: Tensor | None = None,
        taps: Sequence[int] = (),
    ) -> tuple[Tensor, list[Tensor]]:
        """Run ``tokens`` [rows] at ``positions`` [rows] over ``cache``.

        Writes the rows' keys and values behind the cache's verified slots without
        accepting them (see :meth:`KVCache.keep`). ``tree_mask`` [rows, rows]: see
        :func:`visibility`. ``taps`` are layer indices whose *input* is wanted, as
        ``hidden_states[i]`` of transformers; ``num_layers`` names the last output.

        Returns the last layer's output before the final norm [rows, hidden] and the
        tapped states [rows, hidden] in the order of ``taps``.
        """
        return self.advance(self._embed(tokens), positions, cache, tree_mask, taps)

    def advance(
        self,
        hidden: Tensor,
        positions: Tensor,
        cache: KVCache,
        tree_mask: Tensor | None = None,
        taps: Sequence[int] = (),
    ) -> tuple[Tensor, list[Tensor]]:
        """As :meth:`forward` from the first layer's input [rows, hidden] on."""
        config, weights = self.config, self.weights
        cache.reserve(positions.numel())
        group = config.num_heads // config.num_kv_heads
        device = None if self._cpu else self.device
        full = visibility(cache.length, positions, tree_mask, 0, group, device)
        sliding = full
        if config.sliding_window:
            sliding = visibility(cache.length, positions, tree_mask, config.sliding_window, group, device)
        rope_full, rope_sliding = self._rope(positions, cache.max_length)

        tapped: dict[int, Tensor] = {}
        for index, layer in enumerate(weights.layers):
            if index in taps:
                tapped[index] = hidden
            if config.layer_is_sliding[index]:
                hidden = self._layer(layer, index, hidden, cache, sliding, rope_sliding)
            else:
                hidden = self._layer(layer, index, hidden, cache, full, rope_full)
        tapped[config.num_layers] = hidden
        return hidden, [tapped[tap] for tap in taps]

    def _embed(self, tokens: Tensor) -> Tensor:
        table = self.weights.embedding
        if not self._cpu:
            tokens = tokens.to(table.device)
        hidden = table.index_select(0, tokens).float()
        if not self._cpu:
            hidden = hidden.to(self.device)
        return hidden if self._embedding_scale is None else hidden.mul_(self._embedding_scale)

    def normed(self, hidden: Tensor) -> tuple[Tensor, Tensor]:
        """The final norm as (input, row factor) of the output head: their product is the
        state transformers calls ``last_hidden_state``. [rows, hidden], [rows, 1]"""
        return hidden * self.weights.final_norm, rms_factor(hidden, self.config.norm_eps)

    def logits(self, hidden: Tensor) -> Tensor:
        """Logits [rows, vocab] of states before the final norm [rows, hidden]."""
        return self._capped(self.weights.head.logits(*self.normed(hidden)))

    def _capped(self, logits: Tensor) -> Tensor:
        if self._logit_cap is not None:
            logits = logits.div_(self._logit_cap).tanh_().mul_(self._logit_cap)
        return logits

    def argmax(self, hidden: Tensor) -> Tensor:
        """The most likely token of each row [rows], without keeping all logits.

        A cap on the logits does not move the largest."""
        return self.weights.head.argmax(*self.normed(hidden))

    def argmax_and_rows(self, hidden: Tensor) -> tuple[Tensor, RowLogits | None]:
        """The same, and what gives the logits [vocab] of a row, where they are at hand: for a few rows only."""
        ids, row = self.weights.head.argmax_and_rows(*self.normed(hidden))
        if row is None or self._logit_cap is None:
            return ids, row
        return ids, lambda number: self._capped(row(number).clone())

    def _layer(
        self, layer: LayerWeights, index: int, hidden: Tensor, cache: KVCache, sight: Visibility, rope: Tensor
    ) -> Tensor:
        eps = self.config.norm_eps
        x = self._normed_linear(layer.qkv, hidden, layer.attention_norm)
        x = layer.out(self._attention(layer, index, x, cache, sight, rope))
        if layer.post_attention_norm is None:
            hidden = x.add_(hidden)
        else:
            hidden = (x * layer.post_attention_norm).mul_(rms_factor(x, eps)).add_(hidden)
        if layer.gate_up is None or layer.down is None:
            assert layer.experts is not None
            x = (hidden * layer.mlp_norm).mul_(rms_factor(hidden, eps))
            x = layer.experts(x)
        else:
            x = self._normed_linear(layer.gate_up, hidden, layer.mlp_norm)
            width = self.config.intermediate_size
            if self._gelu:
                x = layer.down(functional.gelu(x[:, :width], approximate="tanh") * x[:, width:])
            else:
                x = layer.down(functional.silu(x[:, :width]) * x[:, width:])
        if layer.post_mlp_norm is None:
            return x.add_(hidden)
        return (x * layer.post_mlp_norm).mul_(rms_factor(x, eps)).add_(hidden)

    def _normed_linear(self, linear: Linear, hidden: Tensor, norm: Tensor) -> Tensor:
        if self._cpu:
            return linear(hidden * norm, rms_factor(hidden, self.config.norm_eps))
        # One kernel instead of six: on a GPU launching them is what costs.
        return linear(functional.rms_norm(hidden, norm.shape, norm, self.config.norm_eps))

    def _attention(
        self, layer: LayerWeights, index: int, qkv: Tensor, cache: KVCache, sight: Visibility, rope: Tensor
    ) -> Tensor:
        config = self.config
        rows = qkv.shape[0]
        heads, kv_heads, width = config.num_heads, config.num_kv_heads, config.head_dim
        both, value, sizes = self._turned(layer, qkv, rope)
        begin = cache.length
        keys, values = cache.keys[index], cache.values[index]
        keys[:, begin : begin + rows] = both[:, heads:].transpose(0, 1)
        values[:, begin : begin + rows] = value.transpose(0, 1)
        keys = keys[:, sight.start : sight.end]
        values = values[:, sight.start : sight.end]
        if sizes is not None:
            return self._sized_attention(layer, index, both, sizes, keys, values, cache, sight)
        if not self._cpu:
            both = both.to(keys.dtype)
        if kv_heads == 1:
            query = both[:, :heads].reshape(rows * heads, width)
            alone: Tensor = self._attend(query, keys[0], values[0], layer.score_scale, sight.bias)
            return alone.view(rows, heads * width)
        group = heads // kv_heads
        query = both[:, :heads].view(rows, kv_heads, group, width).transpose(0, 1)
        query = query.reshape(kv_heads, rows * group, width)
        mixed: Tensor = self._attend(query, keys, values, layer.score_scale, sight.bias)
        return mixed.view(kv_heads, rows, group * width).transpose(0, 1).reshape(rows, heads * width)

    def _turned(self, layer: LayerWeights, qkv: Tensor, rope: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        """Queries and keys, normed and turned [rows, heads + kv_heads, head_dim], values [rows, kv_heads,
        head_dim], all on the grid where attention is exact, and there what the grid took from their lengths."""
        config, exact = self.config, self.weights.exact
        rows = qkv.shape[0]
        heads, kv_heads, width = config.num_heads, config.num_kv_heads, config.head_dim
        both = qkv[:, : (heads + kv_heads) * width].view(rows, heads + kv_heads, width)
        sizes: Tensor | None = None
        if layer.qk_norm is not None:
            both = (both * layer.qk_norm).mul_(rms_factor(both, config.norm_eps))
        elif exact:
            factor = rms_factor(both, 1e-12).mul_(self._grid)
            both = both * factor
            sizes = factor.reciprocal_()
        pairs = torch.view_as_complex(both.reshape(rows, heads + kv_heads, width // 2, 2)) * rope
        both = torch.view_as_real(pairs).view(rows, heads + kv_heads, width)
        value = qkv[:, (heads + kv_heads) * width :].view(rows, kv_heads, width)
        if exact:
            both = both.round_()
            value = value.round().clamp_(-VALUE_LEVELS, VALUE_LEVELS)
        return both, value, sizes

    def _sized_attention(
        self,
        layer: LayerWeights,
        index: int,
        both: Tensor,
        sizes: Tensor,
        keys: Tensor,
        values: Tensor,
        cache: KVCache,
        sight: Visibility,
    ) -> Tensor:
        """Exact attention where the grid's vectors lost their lengths: ``sizes`` [rows, heads + kv_heads, 1]."""
        config = self.config
        rows, heads, kv_heads, width = both.shape[0], config.num_heads, config.num_kv_heads, config.head_dim
        group = heads // kv_heads
        key_sizes = cache.sizes[index]
        key_sizes[:, 0, cache.length : cache.length + rows] = sizes[:, heads:, 0].T
        query = both[:, :heads].view(rows, kv_heads, group, width).transpose(0, 1)
        query_size = (sizes[:, :heads] * layer.score_scale).view(rows, kv_heads, group, 1).transpose(0, 1)
        mixed = exact_attention_sized(
            query.reshape(kv_heads, rows * group, width),
            keys,
            values,
            query_size.reshape(kv_heads, rows * group, 1),
            key_sizes[:, :, sight.start : sight.end],
            sight.bias,
            self._cap,
        )
        return mixed.view(kv_heads, rows, group * width).transpose(0, 1).reshape(rows, heads * width)

    def _rope(self, positions: Tensor, limit: int) -> tuple[Tensor, Tensor]:
        """Rotations [rows, 1, head_dim / 2] complex, for full and sliding layers."""
        config = self.config
        long = config.rope.kind == "longrope" and limit > config.rope.original_positions
        tables = self._tables.get(long)
        needed = int(positions.max()) + 1
        if tables is None or needed > tables[0].shape[0]:
            known = 0 if tables is None else tables[0].shape[0]
            length = min(max(needed, 2 * known, 2048), max(config.max_positions, needed))
            full = config.rope.rotations(length, config.head_dim, long).to(self.device)
            sliding = full
            if config.rope_sliding != config.rope:
                sliding = config.rope_sliding.rotations(length, config.head_dim, long).to(self.device)
            tables = self._tables[long] = full, sliding
        if not self._cpu:
            positions = positions.to(self.device)
        full, sliding = tables
        turned = full[positions].unsqueeze(1)
        return turned, turned if sliding is full else sliding[positions].unsqueeze(1)


def rms_factor(x: Tensor, eps: float) -> Tensor:
    """1 / RMS over the last dimension, kept: [..., 1].

    In single exactly rounded operations: a fused multiply-add may or may not be used
    depending on a row's place in a vector register, and rows must not depend on that.
    """
    length = torch.linalg.vector_norm(x, 2, -1, True)
    factor: Tensor = length.square_().mul_(_inverse(x.shape[-1])).add_(eps).rsqrt_()
    return factor


@functools.cache
def _inverse(width: int) -> Tensor:
    # Multiplying by a tensor of no dimensions takes a third of the time of a Python number.
    return torch.tensor(1.0 / width)
