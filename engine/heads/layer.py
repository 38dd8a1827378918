"""One decoder layer of an EAGLE head as it drafts: a few rows at a time, over the head's own cache.

Drafts need not be reproducible bit for bit, since the target checks each of them, so
attention is plain float here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from engine.heads.config import EagleConfig
from engine.heads.projections import MakeLinear
from engine.heads.shapes import layer_name
from engine.models.attention import float_attention
from engine.models.cache import KVCache
from engine.models.decoder import interleave, rms_factor


@dataclass(frozen=True, slots=True)
class Rows:
    """What the layers of one pass share: where the rows' keys go, what they see, how they turn."""

    begin: int
    end: int
    rope: Tensor
    """[rows, 1, head_dim / 2] complex."""
    bias: Tensor | None
    """[rows * heads / kv_heads, end], 0 or -inf; None where every row sees every slot."""


class Passes:
    """Prepares a pass: positions, sight and room in the cache."""

    def __init__(self, config: EagleConfig, device: torch.device) -> None:
        self._group = config.num_attention_heads // config.num_key_value_heads
        self._frequencies = config.rope.frequencies().to(device)
        self._magnitude = config.rope.magnitude
        self._device = device

    def rows(self, positions: Sequence[int], cache: KVCache, drafted: int, seen: Tensor | None) -> Rows:
        """``seen`` [rows, drafted + rows]: which unverified slots a row sees; None is a causal run."""
        rows = len(positions)
        cache.reserve(drafted + rows)
        where = torch.tensor(positions, dtype=torch.float32, device=self._device)
        angles = where[:, None] * self._frequencies
        rope = torch.polar(torch.full_like(angles, self._magnitude), angles).unsqueeze(1)
        begin = cache.length + drafted
        end = begin + rows
        bias = None
        if seen is not None or rows > 1:
            if seen is None:
                seen = torch.ones(rows, rows, dtype=torch.bool, device=self._device).tril_()
            # Made where it is used: as wide as the text, it would take long to copy at every level.
            bias = torch.zeros(rows, end, device=self._device)
            bias[:, end - seen.shape[1] :].masked_fill_(~seen.to(self._device), float("-inf"))
            bias = bias.repeat_interleave(self._group, 0)
        return Rows(begin, end, rope, bias)


class HeadLayer:
    """Attention and MLP with their residuals. The norm before the attention is the caller's."""

    def __init__(
        self,
        config: EagleConfig,
        index: int,
        tensors: Mapping[str, Tensor],
        make_linear: MakeLinear,
        device: torch.device,
        *,
        fine_input: bool = False,
    ) -> None:
        """``tensors`` are float32; ``fine_input`` is for layers whose input went through no norm."""
        self._index = index
        self._eps = config.rms_norm_eps
        self._heads, self._kv_heads = config.num_attention_heads, config.num_key_value_heads
        self._width, self._inner = config.head_dim, config.intermediate_size
        name = layer_name(index)
        order = interleave(config.head_dim)

        def rotated(letter: str, count: int, kind: str) -> Tensor:
            rows = tensors[f"{name}.self_attn.{letter}_proj.{kind}"]
            return rows.view(count, config.head_dim, -1)[:, order].reshape(
                count * config.head_dim, *rows.shape[1:]
            )

        def joined(kind: str) -> Tensor:
            value = tensors[f"{name}.self_attn.v_proj.{kind}"]
            return torch.cat((rotated("q", self._heads, kind), rotated("k", self._kv_heads, kind), value))

        bias = joined("bias") if config.attention_bias else None
        self._qkv = make_linear(joined("weight"), bias, fine=fine_input)
        self._out = make_linear(
            tensors[f"{name}.self_attn.o_proj.weight"], tensors.get(f"{name}.self_attn.o_proj.bias")
        )
        self._gate_up = make_linear(
            torch.cat((tensors[f"{name}.mlp.gate_proj.weight"], tensors[f"{name}.mlp.up_proj.weight"]))
        )
        self._down = make_linear(tensors[f"{name}.mlp.down_proj.weight"], fine=True)
        self._mlp_norm = tensors[f"{name}.post_attention_layernorm.weight"].to(device)
        self._qk_norm: Tensor | None = None
        if config.qk_norm:
            self._qk_norm = torch.cat(
                (
                    tensors[f"{name}.self_attn.q_norm.weight"][order].expand(self._heads, -1),
                    tensors[f"{name}.self_attn.k_norm.weight"][order].expand(self._kv_heads, -1),
                )
            ).to(device)
        self._scale = torch.tensor(config.head_dim**-0.5, device=device)

    def memory_bytes(self) -> int:
        return sum(part.memory_bytes() for part in (self._qkv, self._out, self._gate_up, self._down))

    def forward(
        self, x: Tensor, row_scale: Tensor | None, residual: Tensor, pass_: Rows, cache: KVCache
    ) -> Tensor:
        """``x`` [rows, in] times ``row_scale`` [rows, 1] goes into the attention. → [rows, hidden]"""
        rows, heads, kv_heads, width = x.shape[0], self._heads, self._kv_heads, self._width
        qkv = self._qkv(x, row_scale)
        both = qkv[:, : (heads + kv_heads) * width]
        if self._qk_norm is not None:
            both = both.reshape(rows, heads + kv_heads, width)
            both = (both * self._qk_norm).mul_(rms_factor(both, self._eps))
        both = both.reshape(rows, heads + kv_heads, width // 2, 2)
        both = torch.view_as_real(torch.view_as_complex(both) * pass_.rope).view(
            rows, heads + kv_heads, width
        )
        begin, end = pass_.begin, pass_.end
        keys, values = cache.keys[self._index], cache.values[self._index]
        keys[:, begin:end] = both[:, heads:].transpose(0, 1)
        values[:, begin:end] = (
            qkv[:, (heads + kv_heads) * width :].view(rows, kv_heads, width).transpose(0, 1)
        )
        group = heads // kv_heads
        query = both[:, :heads].view(rows, kv_heads, group, width).transpose(0, 1)
        query = query.reshape(kv_heads, rows * group, width)
        mixed = float_attention(query, keys[:, :end], values[:, :end], self._scale, pass_.bias)
        mixed = mixed.view(kv_heads, rows, group * width).transpose(0, 1).reshape(rows, heads * width)

        hidden = self._out(mixed).add_(residual)
        x = self._gate_up(hidden * self._mlp_norm, rms_factor(hidden, self._eps))
        x = functional.silu(x[:, : self._inner]) * x[:, self._inner :]
        return self._down(x).add_(hidden)
