"""The target's forward pass: a few rows of one sequence, a tree among them, over a cache.

Written flat, in plain torch operations, because on a CPU the small operations are
the price of a step: queries, keys and values come out of one product, gate and up
out of another, RoPE is one complex multiplication, and a norm's row factor is
handed to the linear after it instead of being multiplied in.

Layer order and norms follow Gemma 3 (transformers, ``modeling_gemma3.py``): four
norms a layer, norms on queries and keys, two RoPE bases.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from engine.models.attention import VALUE_LEVELS, Visibility, exact_attention, float_attention, visibility
from engine.models.cache import KVCache
from engine.models.config import DecoderConfig
from engine.models.linear import Linear
from engine.models.output_head import OutputHead


@dataclass(frozen=True, slots=True)
class LayerWeights:
    """One layer, norms as plain factors (Gemma's 1 + w is added when loading)."""

    attention_norm: Tensor  # [hidden]
    qkv: Linear  # hidden -> (heads + 2 * kv_heads) * head_dim, RoPE pairs interleaved
    qk_norm: Tensor  # [heads + kv_heads, head_dim], RoPE pairs interleaved
    score_scale: Tensor  # no dimensions
    out: Linear
    post_attention_norm: Tensor  # [hidden]
    mlp_norm: Tensor  # [hidden]
    gate_up: Linear  # hidden -> 2 * intermediate
    down: Linear
    post_mlp_norm: Tensor  # [hidden]


@dataclass(frozen=True, slots=True)
class DecoderWeights:
    embedding: Tensor  # [vocab, hidden], memory-mapped where it comes from a file
    layers: tuple[LayerWeights, ...]
    final_norm: Tensor  # [hidden]
    head: OutputHead
    exact: bool
    """Integer attention (see :mod:`engine.models.attention`): qk_norm and qkv carry the grid."""


def interleave(head_dim: int) -> Tensor:
    """Order of channels that puts RoPE's pairs (i, i + d/2) side by side. [head_dim]"""
    half = head_dim // 2
    return torch.arange(head_dim).view(2, half).T.reshape(-1)


class Decoder:
    """A target. Holds weights, no sequence: every call names its cache."""

    def __init__(self, config: DecoderConfig, weights: DecoderWeights) -> None:
        self.config = config
        self.weights = weights
        self._rope_length = 0
        self._embedding_scale = torch.tensor(config.embedding_scale)
        self._attend = exact_attention if weights.exact else float_attention

    def new_cache(self, max_length: int | None = None) -> KVCache:
        config = self.config
        limit = min(max_length or config.max_positions, config.max_positions)
        return KVCache(config.num_layers, config.num_kv_heads, config.head_dim, limit)

    def memory_bytes(self) -> int:
        weights = self.weights
        body = sum(
            linear.memory_bytes()
            for layer in weights.layers
            for linear in (layer.qkv, layer.out, layer.gate_up, layer.down)
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
        config, weights = self.config, self.weights
        rows = tokens.numel()
        cache.reserve(rows)
        group = config.num_heads // config.num_kv_heads
        full = visibility(cache.length, positions, tree_mask, 0, group)
        sliding = full
        if config.sliding_window:
            sliding = visibility(cache.length, positions, tree_mask, config.sliding_window, group)
        rope_full, rope_sliding = self._rope(positions)

        tapped: dict[int, Tensor] = {}
        hidden = weights.embedding.index_select(0, tokens).float().mul_(self._embedding_scale)
        for index, layer in enumerate(weights.layers):
            if index in taps:
                tapped[index] = hidden
            if config.layer_is_sliding[index]:
                hidden = self._layer(layer, index, hidden, cache, sliding, rope_sliding)
            else:
                hidden = self._layer(layer, index, hidden, cache, full, rope_full)
        tapped[config.num_layers] = hidden
        return hidden, [tapped[tap] for tap in taps]

    def normed(self, hidden: Tensor) -> tuple[Tensor, Tensor]:
        """The final norm as (input, row factor) of the output head: their product is the
        state transformers calls ``last_hidden_state``. [rows, hidden], [rows, 1]"""
        return hidden * self.weights.final_norm, rms_factor(hidden, self.config.norm_eps)

    def logits(self, hidden: Tensor) -> Tensor:
        """Logits [rows, vocab] of states before the final norm [rows, hidden]."""
        return self.weights.head.logits(*self.normed(hidden))

    def argmax(self, hidden: Tensor) -> Tensor:
        """The most likely token of each row [rows], without keeping all logits."""
        return self.weights.head.argmax(*self.normed(hidden))

    def _layer(
        self, layer: LayerWeights, index: int, hidden: Tensor, cache: KVCache, sight: Visibility, rope: Tensor
    ) -> Tensor:
        eps = self.config.norm_eps
        x = layer.qkv(hidden * layer.attention_norm, rms_factor(hidden, eps))
        x = layer.out(self._attention(layer, index, x, cache, sight, rope))
        hidden = (x * layer.post_attention_norm).mul_(rms_factor(x, eps)).add_(hidden)
        x = layer.gate_up(hidden * layer.mlp_norm, rms_factor(hidden, eps))
        width = self.config.intermediate_size
        x = layer.down(functional.gelu(x[:, :width], approximate="tanh") * x[:, width:])
        return (x * layer.post_mlp_norm).mul_(rms_factor(x, eps)).add_(hidden)

    def _attention(
        self, layer: LayerWeights, index: int, qkv: Tensor, cache: KVCache, sight: Visibility, rope: Tensor
    ) -> Tensor:
        config, exact = self.config, self.weights.exact
        rows = qkv.shape[0]
        heads, kv_heads, width = config.num_heads, config.num_kv_heads, config.head_dim
        both = qkv[:, : (heads + kv_heads) * width].view(rows, heads + kv_heads, width)
        both = (both * layer.qk_norm).mul_(rms_factor(both, config.norm_eps))
        pairs = torch.view_as_complex(both.view(rows, heads + kv_heads, width // 2, 2)) * rope
        both = torch.view_as_real(pairs).view(rows, heads + kv_heads, width)
        value = qkv[:, (heads + kv_heads) * width :].view(rows, kv_heads, width)
        if exact:
            both = both.round_()
            value = value.round().clamp_(-VALUE_LEVELS, VALUE_LEVELS)
        begin = cache.length
        keys, values = cache.keys[index], cache.values[index]
        keys[:, begin : begin + rows] = both[:, heads:].transpose(0, 1)
        values[:, begin : begin + rows] = value.transpose(0, 1)
        keys = keys[:, sight.start : sight.end]
        values = values[:, sight.start : sight.end]
        if kv_heads == 1:
            query = both[:, :heads].reshape(rows * heads, width)
            alone: Tensor = self._attend(query, keys[0], values[0], layer.score_scale, sight.bias)
            return alone.view(rows, heads * width)
        group = heads // kv_heads
        query = both[:, :heads].view(rows, kv_heads, group, width).transpose(0, 1)
        query = query.reshape(kv_heads, rows * group, width)
        mixed: Tensor = self._attend(query, keys, values, layer.score_scale, sight.bias)
        return mixed.view(kv_heads, rows, group * width).transpose(0, 1).reshape(rows, heads * width)

    def _rope(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Rotations [rows, 1, head_dim / 2] complex, for full and sliding layers."""
        needed = int(positions.max()) + 1
        if needed > self._rope_length:
            self._rope_length = min(max(needed, 2 * self._rope_length, 2048), self.config.max_positions)
            self._rope_full = _rotations(self.config.rope_theta, self.config.head_dim, self._rope_length)
            self._rope_sliding = _rotations(
                self.config.rope_theta_sliding, self.config.head_dim, self._rope_length
            )
        return self._rope_full[positions].unsqueeze(1), self._rope_sliding[positions].unsqueeze(1)


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


def _rotations(theta: float, head_dim: int, length: int) -> Tensor:
    frequencies = theta ** -(torch.arange(0, head_dim, 2, dtype=torch.float32) / head_dim)
    angles = torch.outer(torch.arange(length, dtype=torch.float32), frequencies)
    return torch.polar(torch.ones_like(angles), angles)
