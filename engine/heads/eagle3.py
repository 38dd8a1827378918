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

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from engine.heads.checkpoint import Eagle3Checkpoint, draft_ids
from engine.heads.config import Eagle3Config


class RMSNorm(nn.Module):
    """Llama's RMS norm (``w``, not ``1 + w``), computed in float32."""

    def __init__(self, width: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        y = x.float()
        y = y * torch.rsqrt(y.square().mean(-1, keepdim=True) + self.eps)
        return y * self.weight.float()


class Attention(nn.Module):
    """The projections; which rows attend to which is decided by the caller."""

    def __init__(self, config: Eagle3Config) -> None:
        super().__init__()
        queries = config.num_attention_heads * config.head_dim
        keys = config.num_key_value_heads * config.head_dim
        self.q_proj = nn.Linear(2 * config.hidden_size, queries, bias=False)
        self.k_proj = nn.Linear(2 * config.hidden_size, keys, bias=False)
        self.v_proj = nn.Linear(2 * config.hidden_size, keys, bias=False)
        self.o_proj = nn.Linear(queries, config.hidden_size, bias=False)


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
        self.self_attn = Attention(config)
        self.mlp = MLP(config.hidden_size, config.intermediate_size)
        self.hidden_norm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.input_layernorm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.post_attention_layernorm = RMSNorm(config.hidden_size, config.rms_norm_eps)


class Eagle3Head(nn.Module):
    """An EAGLE-3 head. ``forward`` is the plain use; training takes the parts one by one."""

    def __init__(self, config: Eagle3Config) -> None:
        super().__init__()
        self.config = config
        self.fc = nn.Linear(3 * config.target_hidden_size, config.hidden_size, bias=False)
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
        g: Tensor = self.fc(taps)
        return g

    def project(
        self, state: Tensor, embedding: Tensor, positions: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Queries ``[rows, heads, dim]``, keys and values ``[rows, kv heads, dim]``, residual ``[rows, hidden]``."""
        layer, dim = self.midlayer, self.config.head_dim
        normed = layer.hidden_norm(state)
        x = torch.cat([layer.input_layernorm(embedding), normed], -1)
        attention = layer.self_attn
        query = rotate(attention.q_proj(x).unflatten(-1, (-1, dim)), positions, self.config.rope_theta)
        key = rotate(attention.k_proj(x).unflatten(-1, (-1, dim)), positions, self.config.rope_theta)
        value = attention.v_proj(x).unflatten(-1, (-1, dim))
        return query, key, value, (normed if self.config.norm_before_residual else state)

    def finish(self, residual: Tensor, attended: Tensor) -> Tensor:
        """From attention output ``[rows, heads, dim]`` to the layer's raw output ``[rows, hidden]``."""
        layer = self.midlayer
        x = residual.float() + layer.self_attn.o_proj(attended.flatten(-2)).float()
        out: Tensor = x + layer.mlp(layer.post_attention_layernorm(x)).float()
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
        query, key, value, residual = self.project(state, embedding, positions)
        share = self.config.num_attention_heads // self.config.num_key_value_heads
        key, value = key.repeat_interleave(share, 1), value.repeat_interleave(share, 1)
        scores = torch.einsum("qhd,khd->hqk", query, key) * self.config.head_dim**-0.5
        weights = scores.masked_fill(~mask, float("-inf")).softmax(-1)
        return self.finish(residual, torch.einsum("hqk,khd->qhd", weights, value))


def rotate(x: Tensor, positions: Tensor, theta: float) -> Tensor:
    """Rotary positions in the half-split layout: ``x [rows, heads, dim]``, ``positions [rows]``."""
    dim = x.shape[-1]
    frequencies = theta ** (-torch.arange(0, dim, 2, dtype=torch.float32) / dim)
    angles = positions[:, None].float() * frequencies
    cos, sin = angles.cos()[:, None], angles.sin()[:, None]
    left, right = x.float().chunk(2, -1)
    return torch.cat([left * cos - right * sin, right * cos + left * sin], -1).to(x.dtype)
