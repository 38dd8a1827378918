"""The EAGLE-3 head as a torch module: what training optimises and what the fast path is checked against.

One decoder layer between three hidden states of the target and a small output
table (EAGLE-3, arXiv 2503.01840; ``cnets.py`` of SafeAILab/EAGLE). Parameters
carry the names of the public checkpoints, so ``state_dict`` needs no mapping.

Row ``t`` pairs the hidden states of token ``t`` with the embedding of token
``t + 1`` and predicts token ``t + 2``; positions count pairs from 0. Embeddings
are rows of the target's table as stored. Gemma multiplies them by
``sqrt(hidden)`` on its own way in; the head normalises them and must not.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from engine.heads.checkpoint import Eagle3Checkpoint, draft_ids
from engine.heads.config import TAPS, Eagle3Config, EagleConfig


class _NormFunction(torch.autograd.Function):
    """RMS norm with a backward of four passes; autograd's own costs as much as a matrix product."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, eps: float, dtype: torch.dtype) -> Tensor:
        length = torch.linalg.vector_norm(x, dim=-1, keepdim=True, dtype=torch.float32)
        scale = torch.rsqrt(length.square() / x.shape[-1] + eps)
        unit = (x * scale.to(x.dtype)).to(dtype)
        ctx.save_for_backward(unit, scale, weight)
        ctx.input_dtype = x.dtype
        return unit * weight.to(dtype)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, None, None]:
        unit, scale, weight = ctx.saved_tensors
        grad, narrow = grads[0], weight.to(unit.dtype)
        product = grad * unit
        along = (product @ narrow[:, None]) / -unit.shape[-1]
        d_x = (grad * narrow).addcmul_(unit, along).mul_(scale.to(unit.dtype))
        return d_x.to(ctx.input_dtype), product.flatten(0, -2).sum(0).to(weight.dtype), None, None


class RMSNorm(nn.Module):
    """Llama's RMS norm (``w``, not ``1 + w``). Gives bfloat16 under autocast, else the type of its input."""

    def __init__(self, width: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        dtype = torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else x.dtype
        y: Tensor = _NormFunction.apply(x, self.weight, self.eps, dtype)  # type: ignore[no-untyped-call]
        return y


class Attention(nn.Module):
    """The projections of rows of ``width`` columns; which rows attend to which is decided by the caller."""

    def __init__(self, config: EagleConfig, width: int) -> None:
        super().__init__()
        self._dim, self._theta = config.head_dim, config.rope_theta
        self.q_proj = nn.Linear(width, config.query_size, bias=False)
        self.k_proj = nn.Linear(width, config.kv_size, bias=False)
        self.v_proj = nn.Linear(width, config.kv_size, bias=False)
        self.o_proj = nn.Linear(config.query_size, config.hidden_size, bias=False)
        if config.qk_norm:
            self.q_norm = RMSNorm(config.head_dim, config.rms_norm_eps)
            self.k_norm = RMSNorm(config.head_dim, config.rms_norm_eps)
        self._normed = config.qk_norm

    def queries(self, mixed: Tensor, positions: Tensor) -> Tensor:
        """``[rows, heads, dim]``, rotated."""
        query = self.q_proj(mixed).view(len(mixed), -1, self._dim)
        return rotate(self.q_norm(query) if self._normed else query, positions, self._theta)

    def keys_values(self, mixed: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Each ``[rows, kv heads, dim]``; keys are rotated."""
        key = self.k_proj(mixed).view(len(mixed), -1, self._dim)
        key = rotate(self.k_norm(key) if self._normed else key, positions, self._theta)
        return key, self.v_proj(mixed).view(len(mixed), -1, self._dim)


class MLP(nn.Module):
    """SwiGLU."""

    def __init__(self, hidden: int, wide: int) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(hidden, wide, bias=False)
        self.up_proj = nn.Linear(hidden, wide, bias=False)
        self.down_proj = nn.Linear(wide, hidden, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))
        return y


class Midlayer(nn.Module):
    """The decoder layer; its attention reads embedding and state side by side."""

    def __init__(self, config: Eagle3Config) -> None:
        super().__init__()
        self.self_attn = Attention(config, 2 * config.hidden_size)
        self.mlp = MLP(config.hidden_size, config.intermediate_size)
        self.hidden_norm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.input_layernorm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.post_attention_layernorm = RMSNorm(config.hidden_size, config.rms_norm_eps)


class Eagle3Head(nn.Module):
    """An EAGLE-3 head. ``forward`` is the plain use; training takes the parts one by one."""

    def __init__(self, config: Eagle3Config) -> None:
        super().__init__()
        self.config = config
        if config.norm_before_fc:
            self.input_norm = RMSNorm(TAPS * config.target_hidden_size, config.rms_norm_eps)
        if config.fc_norm:
            norms = (RMSNorm(config.target_hidden_size, config.rms_norm_eps) for _ in range(TAPS))
            self.fc_norm = nn.ModuleList(norms)
        self.fc = nn.Linear(TAPS * config.target_hidden_size, config.hidden_size, bias=False)
        self.midlayer = Midlayer(config)
        self.norm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.lm_head = nn.Linear(config.hidden_size, config.draft_vocab_size, bias=False)

    @classmethod
    def from_checkpoint(cls, checkpoint: Eagle3Checkpoint) -> Eagle3Head:
        """The head of a verified checkpoint in float32; the vocabulary maps stay with the checkpoint."""
        head = cls(checkpoint.config)
        weights = {name: t.float() for name, t in checkpoint.tensors.items() if name not in ("d2t", "t2d")}
        head.load_state_dict(weights)
        return head.eval()

    def to_checkpoint(self, ids: Tensor, dtype: torch.dtype = torch.float16) -> Eagle3Checkpoint:
        """Public tensors of this head, which drafts the target tokens ``ids [draft vocabulary]``."""
        tensors = {name: parameter.detach().to(dtype) for name, parameter in self.state_dict().items()}
        marks = torch.zeros(self.config.vocab_size, dtype=torch.bool)
        marks[ids] = True
        tensors["d2t"] = ids.long() - torch.arange(len(ids))
        tensors["t2d"] = marks
        assert torch.equal(draft_ids(tensors["d2t"]), ids.long())
        return Eagle3Checkpoint(self.config, tensors)

    # ------------------------------------------------------------------ parts of a pass

    def fuse(self, taps: Tensor) -> Tensor:
        """Tapped states ``[rows, 3 * target hidden]`` (low, mid, high) to a head state ``[rows, hidden]``."""
        if self.config.norm_before_fc:
            taps = self.input_norm(taps)
        elif self.config.fc_norm:
            parts = zip(self.fc_norm, taps.chunk(TAPS, -1), strict=True)
            taps = torch.cat([norm(part) for norm, part in parts], -1)
        g: Tensor = self.fc(taps)
        return g

    def mix(self, state: Tensor, embedding: Tensor) -> Tensor:
        """What attention reads, ``[rows, 2 * hidden]``: the embedding first, the state second, each normed."""
        layer = self.midlayer
        return torch.cat([layer.input_layernorm(embedding), layer.hidden_norm(state)], -1)

    def queries(self, mixed: Tensor, positions: Tensor) -> Tensor:
        """``[rows, heads, dim]``, rotated."""
        return self.midlayer.self_attn.queries(mixed, positions)

    def keys_values(self, mixed: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Each ``[rows, kv heads, dim]``; keys are rotated."""
        return self.midlayer.self_attn.keys_values(mixed, positions)

    def finish(self, state: Tensor, mixed: Tensor, attended: Tensor) -> Tensor:
        """From attention output ``[rows, heads, dim]`` to the layer's raw output ``[rows, hidden]``."""
        layer = self.midlayer
        residual = mixed[:, self.config.hidden_size :] if self.config.norm_before_residual else state
        x = residual + layer.self_attn.o_proj(attended.flatten(-2))
        out: Tensor = x + layer.mlp(layer.post_attention_layernorm(x))
        return out

    def recur(self, out: Tensor) -> Tensor:
        """The state that stands for the target's hidden states at the next draft level."""
        normed: Tensor = self.norm(out) if self.config.norm_output else out
        return normed

    def logits(self, out: Tensor) -> Tensor:
        """Scores over the draft vocabulary, ``[rows, draft vocabulary]``."""
        scores: Tensor = self.lm_head(self.norm(out))
        return scores

    def forward(self, state: Tensor, embedding: Tensor, positions: Tensor, mask: Tensor) -> Tensor:
        """One pass over rows that attend to each other by ``mask [rows, rows]`` (true = sees).

        ``state`` is fused or recurrent, ``[rows, hidden]``. Returns the raw
        output ``[rows, hidden]`` for :meth:`recur` and :meth:`logits`.
        """
        mixed = self.mix(state, embedding)
        query, (key, value) = self.queries(mixed, positions), self.keys_values(mixed, positions)
        share = self.config.num_attention_heads // self.config.num_key_value_heads
        key, value = key.repeat_interleave(share, 1), value.repeat_interleave(share, 1)
        scores = torch.einsum("qhd,khd->hqk", query, key) * self.config.head_dim**-0.5
        weights = scores.masked_fill(~mask, float("-inf")).softmax(-1)
        return self.finish(state, mixed, torch.einsum("hqk,khd->qhd", weights, value))


def rotate(x: Tensor, positions: Tensor, theta: float) -> Tensor:
    """Rotary positions in the half-split layout: ``x [rows, heads, dim]``, ``positions [rows]``."""
    dim = x.shape[-1]
    frequencies = theta ** (-torch.arange(0, dim, 2, dtype=torch.float32) / dim)
    angles = positions[:, None].float() * frequencies
    cos, sin = angles.cos()[:, None].to(x.dtype), angles.sin()[:, None].to(x.dtype)
    left, right = x.chunk(2, -1)
    return torch.cat([left * cos - right * sin, right * cos + left * sin], -1)
