"""The target as the trainer needs it: many sequences at once, its hidden states in the open.

The chat engine decodes one conversation as fast as it can; a trainer wants
throughput. :class:`BatchTarget` runs a Gemma 3 text model in bfloat16 over a
batch of sequences which all begin with the same few-shot prefix. The prefix is
processed once and its keys and values are shared by every row.

Hidden states follow the ``output_hidden_states`` convention of transformers:
index ``i`` is the *input* of layer ``i``, index 0 the scaled embeddings, index
``layers`` the output of the last layer before the final norm.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional as F

from engine.models.config import DecoderConfig
from engine.models.loading import TensorSource
from engine.models.weights import EMBEDDING, Tensors


@dataclass
class Cache:
    """Keys and values of a batch of rows, ``[layers, rows, capacity, kv_heads * head_dim]``.

    Slot ``i`` of a row holds the token at position ``prefix + i``.
    """

    keys: Tensor
    values: Tensor

    def store(self, rows: Tensor, other: Cache, sources: Tensor) -> None:
        """Copy rows ``sources`` of a freshly read cache into ``rows`` of this one."""
        width = other.keys.shape[2]
        self.keys[:, rows, :width] = other.keys[:, sources]
        self.values[:, rows, :width] = other.values[:, sources]


def gemma_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """RMS norm in float32 with Gemma's ``1 + w``; ``weight`` already holds the 1."""
    y = x.float()
    return (y * torch.rsqrt(y.square().mean(-1, keepdim=True) + eps) * weight).to(x.dtype)


class BatchTarget:
    """A Gemma 3 text model in bfloat16, for batches of sequences behind one shared prefix."""

    def __init__(self, config: DecoderConfig, source: Tensors, dtype: torch.dtype = torch.bfloat16) -> None:
        """Raises ModelError when ``source`` lacks a tensor."""
        self.config = config
        self.dtype = dtype

        def norm(name: str) -> Tensor:
            return 1.0 + source.get(name).float()

        def joined(*names: str) -> Tensor:
            return torch.cat([source.get(name) for name in names]).to(dtype)

        self.embedding = source.get(EMBEDDING).to(dtype)
        """The tied embedding and output table, ``[vocab, hidden]``, not scaled."""
        self._final_norm = norm("model.norm.weight")
        self._layers: list[dict[str, Tensor]] = []
        for index in range(config.num_layers):
            base = f"model.layers.{index}."
            attention, mlp = base + "self_attn.", base + "mlp."
            self._layers.append(
                {
                    "qkv": joined(*(f"{attention}{x}_proj.weight" for x in "qkv")),
                    "o": joined(attention + "o_proj.weight"),
                    "q_norm": norm(attention + "q_norm.weight"),
                    "k_norm": norm(attention + "k_norm.weight"),
                    "gate_up": joined(mlp + "gate_proj.weight", mlp + "up_proj.weight"),
                    "down": joined(mlp + "down_proj.weight"),
                    "in": norm(base + "input_layernorm.weight"),
                    "post": norm(base + "post_attention_layernorm.weight"),
                    "pre_mlp": norm(base + "pre_feedforward_layernorm.weight"),
                    "post_mlp": norm(base + "post_feedforward_layernorm.weight"),
                }
            )
        self.output_ids: Tensor | None = None
        """Tokens among which replies are written, sorted; ``None`` is the whole vocabulary."""
        self._output = self.embedding
        self.prefix_ids: list[int] = []
        self.prefix_states: dict[int, Tensor] = {}
        self._prefix: Cache | None = None

    @classmethod
    def load(cls, folder: Path, dtype: torch.dtype = torch.bfloat16) -> BatchTarget:
        """Read a model folder (raises ModelError)."""
        with TensorSource(folder) as source:
            return cls(DecoderConfig.from_folder(folder), source, dtype)

    # ------------------------------------------------------------------ passes

    @torch.inference_mode()
    def set_prefix(self, ids: Sequence[int], taps: Sequence[int]) -> None:
        """Process the shared prefix once; ``prefix_states[tap]`` is ``[prefix, hidden]`` afterwards."""
        self.prefix_ids, self._prefix = [], None
        _, states, cache = self.read(torch.tensor([list(ids)]), torch.tensor([len(ids)]), taps)
        self.prefix_ids = list(ids)
        self.prefix_states = {tap: states[tap][0] for tap in taps}
        self._prefix = cache

    @torch.inference_mode()
    def read(
        self, tokens: Tensor, lengths: Tensor, taps: Sequence[int]
    ) -> tuple[Tensor, dict[int, Tensor], Cache]:
        """Read padded sequences that follow the prefix.

        Takes ``tokens [rows, width]`` and ``lengths [rows]``. Returns the final
        normed hidden state ``[rows, width, hidden]``, the tapped states by
        index and the keys and values. What stands behind a row's length is
        meaningless.
        """
        rows, width = tokens.shape
        past = len(self.prefix_ids)
        own = torch.arange(width)
        query, key = past + own, torch.arange(past + width)
        causal = key[None] <= query[:, None]
        valid = torch.cat([torch.ones(rows, past, dtype=torch.bool), own[None] < lengths[:, None]], 1)
        valid = valid | (key[None] <= past)  # a row of padding still attends to something
        full = (causal[None] & valid[:, None])[:, None]
        sliding = full & (query[:, None] - key[None] < self.config.sliding_window)
        return self._run(tokens, query[None].expand(rows, width), taps, full, sliding, None, None)

    @torch.inference_mode()
    def step(
        self, tokens: Tensor, slots: Tensor, cache: Cache, taps: Sequence[int]
    ) -> tuple[Tensor, dict[int, Tensor]]:
        """One token for each row: ``tokens [rows]`` at ``slots [rows]`` behind the prefix.

        The cache is written. Returns the final hidden ``[rows, hidden]`` and taps.
        """
        past = len(self.prefix_ids)
        width = int(slots.max()) + 1
        key = torch.arange(past + width)
        position = past + slots
        full = key[None] <= position[:, None]
        sliding = full & (position[:, None] - key[None] < self.config.sliding_window)
        final, states, _ = self._run(
            tokens[:, None], position[:, None], taps, full[:, None, None], sliding[:, None, None], cache, slots
        )
        return final[:, 0], {tap: state[:, 0] for tap, state in states.items()}

    def _run(
        self,
        tokens: Tensor,
        positions: Tensor,
        taps: Sequence[int],
        full: Tensor,
        sliding: Tensor,
        cache: Cache | None,
        slots: Tensor | None,
    ) -> tuple[Tensor, dict[int, Tensor], Cache]:
        config = self.config
        x = self.embedding[tokens].float() * config.embedding_scale
        rotations = {
            True: _rotation(positions, config.head_dim, config.rope_theta),
            False: _rotation(positions, config.head_dim, config.rope_theta_sliding),
        }
        states: dict[int, Tensor] = {}
        keys, values = [], []
        for index, layer in enumerate(self._layers):
            if index in taps:
                states[index] = x.to(self.dtype)
            is_full = not config.layer_is_sliding[index]
            y = gemma_norm(x, layer["in"], config.norm_eps).to(self.dtype)
            y, key, value = self._attention(
                y, layer, index, rotations[is_full], full if is_full else sliding, cache, slots
            )
            keys.append(key)
            values.append(value)
            x = x + gemma_norm(F.linear(y, layer["o"]), layer["post"], config.norm_eps).float()
            y = gemma_norm(x, layer["pre_mlp"], config.norm_eps).to(self.dtype)
            gate, up = F.linear(y, layer["gate_up"]).chunk(2, -1)
            y = F.linear(F.gelu(gate, approximate="tanh") * up, layer["down"])
            x = x + gemma_norm(y, layer["post_mlp"], config.norm_eps).float()
        if config.num_layers in taps:
            states[config.num_layers] = x.to(self.dtype)
        final = gemma_norm(x, self._final_norm, config.norm_eps).to(self.dtype)
        return final, states, cache or Cache(torch.stack(keys), torch.stack(values))

    def _attention(
        self,
        y: Tensor,
        layer: dict[str, Tensor],
        index: int,
        rotation: tuple[Tensor, Tensor],
        mask: Tensor,
        cache: Cache | None,
        slots: Tensor | None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        config = self.config
        rows, width, _ = y.shape
        wide = config.kv_size
        query, key, value = torch.split(F.linear(y, layer["qkv"]), [config.query_size, wide, wide], -1)
        query = gemma_norm(query.view(rows, width, config.num_heads, -1), layer["q_norm"], config.norm_eps)
        key = gemma_norm(key.view(rows, width, config.num_kv_heads, -1), layer["k_norm"], config.norm_eps)
        query, key = _rotate(query, rotation), _rotate(key, rotation).flatten(2)
        if cache is None:
            all_keys, all_values = key, value
        else:
            assert slots is not None
            everyone = torch.arange(rows)
            cache.keys[index, everyone, slots] = key[:, 0]
            cache.values[index, everyone, slots] = value[:, 0]
            used = mask.shape[-1] - len(self.prefix_ids)
            all_keys, all_values = cache.keys[index, :, :used], cache.values[index, :, :used]
        out = self._shared_attention(query, all_keys, all_values, index, mask)
        return out.flatten(2).to(self.dtype), key, value

    def _shared_attention(self, query: Tensor, keys: Tensor, values: Tensor, index: int, mask: Tensor) -> Tensor:
        """Attention over each row's own keys and over the prefix, which all rows share.

        ``query [rows, width, heads, dim]``, ``keys/values [rows, used, kv * dim]``,
        ``mask [rows, 1, width, prefix + used]``. The two parts are computed apart
        (the prefix as one product for all rows) and merged by their log-sums.
        """
        rows, width, heads, dim = query.shape
        kv = self.config.num_kv_heads
        share = heads // kv
        past = len(self.prefix_ids)
        # [rows, kv, width * share, dim]: heads that share keys stand together, as if they were positions.
        grouped = query.view(rows, width, kv, share, dim).permute(0, 2, 1, 3, 4).reshape(rows, kv, width * share, dim)
        own_mask = torch.zeros(mask[..., past:].shape, dtype=self.dtype).masked_fill_(~mask[..., past:], -torch.inf)
        own_mask = own_mask.unsqueeze(3).expand(-1, -1, -1, share, -1).reshape(rows, 1, width * share, -1)
        # The kernel behind scaled_dot_product_attention, called by name because it also gives the log-sums;
        # plain products would copy the strided cache at every step.
        out, log_sum = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
            grouped,
            keys.view(rows, -1, kv, dim).transpose(1, 2),
            values.view(rows, -1, kv, dim).transpose(1, 2),
            attn_mask=own_mask.expand(-1, kv, -1, -1),
            scale=self.config.attention_scale,
        )
        if past:
            assert self._prefix is not None
            prefix_keys = self._prefix.keys[index, 0].view(past, kv, dim).permute(1, 2, 0)
            prefix_values = self._prefix.values[index, 0].view(past, kv, dim).transpose(0, 1)
            flat = grouped.transpose(0, 1).reshape(kv, rows * width * share, dim)
            scores = (flat @ prefix_keys).float().view(kv, rows, width, share, past) * self.config.attention_scale
            scores = scores.masked_fill(~mask[None, :, 0, :, None, :past], -torch.inf).view(kv, -1, past)
            prefix_sum = scores.logsumexp(-1, keepdim=True)
            weights = (scores - prefix_sum).exp().nan_to_num(0.0).to(self.dtype)
            prefix_out = (weights @ prefix_values).view(kv, rows, width * share, dim).transpose(0, 1)
            prefix_sum = prefix_sum.view(kv, rows, width * share, 1).transpose(0, 1)
            part = torch.sigmoid(prefix_sum - log_sum.float()[..., None])
            out = torch.lerp(out.float(), prefix_out.float(), part)
        merged: Tensor = out.view(rows, kv, width, share, dim).permute(0, 2, 1, 3, 4)
        return merged.reshape(rows, width, heads, dim)

    # ------------------------------------------------------------------ output

    def write_with(self, ids: Sequence[int]) -> None:
        """Write replies with these tokens only: the output table is most of a small model's cost."""
        self.output_ids = torch.tensor(sorted(set(ids)))
        self._output = self.embedding[self.output_ids]

    @torch.inference_mode()
    def top_logits(self, final: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
        """The ``count`` largest logits of ``final [rows, hidden]``.

        Returns ids and logits ``[rows, count]``, best first, and the log of the
        sum over all logits ``[rows]``. Exact: the ``count`` best entries lie in
        the ``count`` blocks with the largest maxima, so only those are searched.
        """
        logits = F.linear(final, self._output)
        total = logits.float().logsumexp(-1)
        block = 128
        rows, vocab = logits.shape
        whole = vocab // block * block
        if whole <= block * count:
            values, ids = logits.float().topk(min(count, vocab), -1)
        else:
            blocks = logits[:, :whole].reshape(rows, -1, block)
            best = blocks.amax(-1).topk(count, -1).indices
            candidates = blocks.gather(1, best[..., None].expand(-1, -1, block)).flatten(1)
            candidates = torch.cat([candidates, logits[:, whole:]], 1).float()
            places = (best[..., None] * block + torch.arange(block)).flatten(1)
            places = torch.cat([places, torch.arange(whole, vocab).expand(rows, -1)], 1)
            values, inner = candidates.topk(count, -1)
            ids = places.gather(1, inner)
        return (ids if self.output_ids is None else self.output_ids[ids]), values, total


def _rotation(positions: Tensor, dim: int, theta: float) -> tuple[Tensor, Tensor]:
    frequencies = theta ** (-torch.arange(0, dim, 2).float() / dim)
    angles = positions[..., None].float() * frequencies
    angles = torch.cat([angles, angles], -1)[..., None, :]
    return angles.cos(), angles.sin()


def _rotate(x: Tensor, rotation: tuple[Tensor, Tensor]) -> Tensor:
    cos, sin = rotation
    y = x.float()
    left, right = y.chunk(2, -1)
    return (y * cos + torch.cat([-right, left], -1) * sin).to(x.dtype)
