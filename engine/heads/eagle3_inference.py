"""The EAGLE-3 head as it drafts: a few rows at a time, over its own cache.

The same arithmetic as :class:`engine.heads.eagle3.Eagle3Head`, which trains the plain
variant of it and is the reference in tests, laid out for speed like the target's
decoder. The variants follow speculators (``models/eagle3``) and SpecForge: several
layers, norms before or behind the fusion, norms on queries and keys, an own embedding.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence

import torch
from torch import Tensor

from engine.heads.checkpoint import Eagle3Checkpoint
from engine.heads.config import TAPS, Eagle3Config
from engine.heads.layer import HeadLayer, Passes
from engine.heads.projections import FusionLinear, MakeLinear, int8_linear
from engine.heads.shapes import layer_name
from engine.models.cache import KVCache
from engine.models.decoder import rms_factor


class Eagle3Inference:
    """A loaded head. ``embedding`` [vocab, hidden] is the target's raw table, or the head's own.

    Row i pairs the target's features of token i with the embedding of token i + 1; its
    position is i. The recurrent state is the last layer's output before the final norm,
    unless the config says ``norm_output``.
    """

    name = "EAGLE-3"

    def __init__(
        self,
        checkpoint: Eagle3Checkpoint,
        embedding: Tensor,
        make_linear: MakeLinear = int8_linear,
        device: torch.device | str = "cpu",
    ) -> None:
        config = self.config = checkpoint.config
        self.device = torch.device(device)
        tensors = {
            name: tensor.float()
            for name, tensor in checkpoint.tensors.items()
            if tensor.is_floating_point() and name != "embed_tokens.weight"
        }

        def norm(name: str) -> Tensor:
            return tensors[f"{name}.weight"].to(self.device)

        self._fuse = FusionLinear(tensors["fc.weight"], None, make_linear, self.device)
        self._layers = [
            HeadLayer(config, index, tensors, make_linear, self.device) for index in range(config.num_layers)
        ]
        self._lm_head = make_linear(tensors["lm_head.weight"])
        self._embedding_norm = norm("midlayer.input_layernorm")
        self._hidden_norm = norm("midlayer.hidden_norm")
        self._layer_norms = [norm(f"{layer_name(i)}.input_layernorm") for i in range(1, config.num_layers)]
        self._final_norm = norm("norm")
        self._input_norm = norm("input_norm") if config.norm_before_fc else None
        self._tap_norms = torch.stack([norm(f"fc_norm.{i}") for i in range(TAPS)]) if config.fc_norm else None
        self._passes = Passes(config, self.device)
        self._embedding = embedding
        self._draft_ids: list[int] = checkpoint.draft_ids.tolist()

    def read_as(self, config: Eagle3Config, embedding: Tensor) -> Eagle3Inference:
        """The same weights under another reading of what the files leave open: other taps,
        another residual or recurrence, another embedding table."""
        other = copy.copy(self)
        other.config = config
        other._embedding = embedding
        return other

    @property
    def taps(self) -> tuple[int, ...]:
        return self.config.taps

    def new_cache(self, max_length: int) -> KVCache:
        config = self.config
        return KVCache(
            config.num_layers, config.num_key_value_heads, config.head_dim, max_length, device=self.device
        )

    def memory_bytes(self) -> int:
        layers = sum(layer.memory_bytes() for layer in self._layers)
        return self._fuse.memory_bytes() + layers + self._lm_head.memory_bytes()

    def fuse(self, features: Tensor) -> Tensor:
        """Tapped states side by side [rows, 3 * target_hidden] → [rows, hidden]."""
        if self._tap_norms is not None:
            apart = features.view(features.shape[0], TAPS, -1)
            apart = (apart * self._tap_norms).mul_(rms_factor(apart, self.config.rms_norm_eps))
            features = apart.flatten(1)
        elif self._input_norm is not None:
            factor = rms_factor(features, self.config.rms_norm_eps)
            features = (features * self._input_norm).mul_(factor)
        return self._fuse(features)

    def forward(
        self,
        states: Tensor,
        tokens: Sequence[int],
        positions: Sequence[int],
        cache: KVCache,
        drafted: int = 0,
        seen: Tensor | None = None,
    ) -> Tensor:
        """One pass, see :class:`engine.heads.inference.EagleInference`. [rows, hidden] → [rows, hidden]"""
        eps = self.config.rms_norm_eps
        pass_ = self._passes.rows(positions, cache, drafted, seen)
        ids = torch.tensor(tokens, device=self._embedding.device)
        embedded = self._embedding[ids].float().to(self.device)
        normed = (states * self._hidden_norm).mul_(rms_factor(states, eps))
        x = torch.cat(((embedded * self._embedding_norm).mul_(rms_factor(embedded, eps)), normed), -1)
        residual = normed if self.config.norm_before_residual else states
        hidden = self._layers[0].forward(x, None, residual, pass_, cache)
        for layer, norm in zip(self._layers[1:], self._layer_norms, strict=True):
            hidden = layer.forward(hidden * norm, rms_factor(hidden, eps), hidden, pass_, cache)
        if self.config.norm_output:
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
        few = self._draft_logits(hidden)
        spread = few.new_full((few.shape[0], self.config.vocab_size), -torch.inf)
        spread[:, self._draft_ids] = few
        return spread

    def _draft_logits(self, hidden: Tensor) -> Tensor:
        """[rows, draft vocab]"""
        if self.config.norm_output:
            return self._lm_head(hidden)
        return self._lm_head(hidden * self._final_norm, rms_factor(hidden, self.config.rms_norm_eps))
