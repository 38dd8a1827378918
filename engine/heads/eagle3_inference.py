"""The EAGLE-3 head as it drafts: a few rows at a time, over its own cache.

The same arithmetic as :class:`engine.heads.eagle3.Eagle3Head`, which trains it and is the
reference in tests, laid out for speed like the target's decoder. Drafts need not be
reproducible bit for bit, since the target checks each of them, so attention is plain
float here.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional

from engine.heads.checkpoint import Eagle3Checkpoint
from engine.heads.projections import MakeLinear, int8_linear
from engine.models.attention import float_attention
from engine.models.cache import KVCache
from engine.models.decoder import interleave, rms_factor


class Eagle3Inference:
    """A loaded head. ``embedding`` [vocab, hidden] is the target's raw table.

    Row i pairs the target's features of token i with the embedding of token i + 1; its
    position is i. The recurrent state is the layer's output before the final norm.
    """

    name = "EAGLE-3"

    def __init__(
        self,
        checkpoint: Eagle3Checkpoint,
        embedding: Tensor,
        make_linear: MakeLinear = int8_linear,
    ) -> None:
        config = self.config = checkpoint.config
        tensors = {
            name: tensor.float() for name, tensor in checkpoint.tensors.items() if tensor.is_floating_point()
        }
        order = interleave(config.head_dim)

        def rotated(name: str, count: int) -> Tensor:
            rows = tensors[f"midlayer.self_attn.{name}.weight"]
            return rows.view(count, config.head_dim, -1)[:, order].reshape(count * config.head_dim, -1)

        # A few columns of the tapped states are hundreds of times larger than the rest. A row's
        # int8 step would follow them, so the columns' sizes move from the weights to the states.
        self._columns = tensors["fc.weight"].abs().amax(0).clamp_min(1e-12)
        self._fuse = make_linear(tensors["fc.weight"] / self._columns, fine=True)
        self._qkv = make_linear(
            torch.cat(
                (
                    rotated("q_proj", config.num_attention_heads),
                    rotated("k_proj", config.num_key_value_heads),
                    tensors["midlayer.self_attn.v_proj.weight"],
                )
            )
        )
        self._out = make_linear(tensors["midlayer.self_attn.o_proj.weight"])
        self._gate_up = make_linear(
            torch.cat((tensors["midlayer.mlp.gate_proj.weight"], tensors["midlayer.mlp.up_proj.weight"]))
        )
        self._down = make_linear(tensors["midlayer.mlp.down_proj.weight"], fine=True)
        self._lm_head = make_linear(tensors["lm_head.weight"])
        self._embedding_norm = tensors["midlayer.input_layernorm.weight"]
        self._hidden_norm = tensors["midlayer.hidden_norm.weight"]
        self._mlp_norm = tensors["midlayer.post_attention_layernorm.weight"]
        self._final_norm = tensors["norm.weight"]
        self._embedding = embedding
        self._draft_ids: list[int] = checkpoint.draft_ids.tolist()
        self._scale = torch.tensor(config.head_dim**-0.5)
        half = torch.arange(0, config.head_dim, 2, dtype=torch.float32) / config.head_dim
        self._frequencies = config.rope_theta**-half

    @property
    def taps(self) -> tuple[int, ...]:
        return self.config.taps

    def new_cache(self, max_length: int) -> KVCache:
        config = self.config
        return KVCache(1, config.num_key_value_heads, config.head_dim, max_length)

    def memory_bytes(self) -> int:
        parts = (self._fuse, self._qkv, self._out, self._gate_up, self._down, self._lm_head)
        return sum(part.memory_bytes() for part in parts)

    def fuse(self, features: Tensor) -> Tensor:
        """Tapped states side by side [rows, 3 * target_hidden] → [rows, hidden]."""
        return self._fuse(features * self._columns)

    def forward(
        self,
        states: Tensor,
        tokens: Sequence[int],
        positions: Sequence[int],
        cache: KVCache,
        drafted: int = 0,
        seen: Tensor | None = None,
    ) -> Tensor:
        """One pass of the layer. [rows, hidden] → [rows, hidden]

        ``states`` are fused features or the outputs of parent nodes, ``tokens`` the
        tokens that follow them. Keys and values go behind the ``cache.length`` stable
        slots and the ``drafted`` ones of this tree. ``seen`` [rows, drafted + rows]
        says which of these a row sees, itself included; None means a causal run.
        """
        config = self.config
        rows = len(tokens)
        heads, kv_heads, width = config.num_attention_heads, config.num_key_value_heads, config.head_dim
        eps = config.rms_norm_eps
        cache.reserve(drafted + rows)
        embedded = self._embedding[torch.tensor(tokens)].float()
        normed = (states * self._hidden_norm).mul_(rms_factor(states, eps))
        x = torch.cat(((embedded * self._embedding_norm).mul_(rms_factor(embedded, eps)), normed), -1)
        residual = normed if config.norm_before_residual else states

        qkv = self._qkv(x)
        angles = torch.tensor(positions, dtype=torch.float32)[:, None] * self._frequencies
        rope = torch.polar(torch.ones_like(angles), angles).unsqueeze(1)
        both = qkv[:, : (heads + kv_heads) * width].reshape(rows, heads + kv_heads, width // 2, 2)
        both = torch.view_as_real(torch.view_as_complex(both) * rope).view(rows, heads + kv_heads, width)
        begin = cache.length + drafted
        end = begin + rows
        keys, values = cache.keys[0], cache.values[0]
        keys[:, begin:end] = both[:, heads:].transpose(0, 1)
        values[:, begin:end] = (
            qkv[:, (heads + kv_heads) * width :].view(rows, kv_heads, width).transpose(0, 1)
        )

        group = heads // kv_heads
        bias = None
        if seen is not None or rows > 1:
            if seen is None:
                seen = torch.ones(rows, rows, dtype=torch.bool).tril_()
            bias = torch.zeros(rows, end)
            bias[:, end - seen.shape[1] :].masked_fill_(~seen, float("-inf"))
            bias = bias.repeat_interleave(group, 0)
        query = both[:, :heads].view(rows, kv_heads, group, width).transpose(0, 1)
        query = query.reshape(kv_heads, rows * group, width)
        mixed = float_attention(query, keys[:, :end], values[:, :end], self._scale, bias)
        mixed = mixed.view(kv_heads, rows, group * width).transpose(0, 1).reshape(rows, heads * width)

        hidden = self._out(mixed).add_(residual)
        x = self._gate_up(hidden * self._mlp_norm, rms_factor(hidden, eps))
        inner = config.intermediate_size
        x = functional.silu(x[:, :inner]) * x[:, inner:]
        hidden = self._down(x).add_(hidden)
        if config.norm_output:
            hidden = (hidden * self._final_norm).mul_(rms_factor(hidden, eps))
        return hidden

    def best(self, hidden: Tensor, count: int) -> tuple[list[list[int]], list[list[float]]]:
        """The ``count`` likeliest next tokens of each row, as target ids, with their
        log-probabilities (softmax at temperature 1 over the draft vocabulary)."""
        logits = self._draft_logits(hidden)
        values, indices = logits.topk(min(count, logits.shape[1]))
        values -= logits.logsumexp(-1, True)
        ids = self._draft_ids
        return [[ids[i] for i in row] for row in indices.tolist()], values.tolist()

    def logits(self, hidden: Tensor) -> Tensor:
        """Logits over the target's vocabulary [rows, vocab]; -inf for what cannot be drafted."""
        spread = torch.full((hidden.shape[0], self.config.vocab_size), -torch.inf)
        spread[:, self._draft_ids] = self._draft_logits(hidden)
        return spread

    def _draft_logits(self, hidden: Tensor) -> Tensor:
        """[rows, draft vocab]"""
        if self.config.norm_output:
            return self._lm_head(hidden)
        return self._lm_head(hidden * self._final_norm, rms_factor(hidden, self.config.rms_norm_eps))
