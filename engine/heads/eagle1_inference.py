"""The EAGLE-1 and EAGLE-2 head as it drafts (EAGLE, arXiv 2401.15077; ``cnets1.py`` of SafeAILab/EAGLE).

It predicts the target's next *final* state: embedding and state go through one matrix
into a decoder layer without a norm before its attention, and what comes out stands for
the state, raw. The target's own output table turns it into tokens, which on a large
vocabulary is what a draft level costs.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from engine.heads.checkpoint import Eagle1Checkpoint
from engine.heads.layer import HeadLayer, Passes
from engine.heads.projections import FusionLinear, MakeLinear, int8_linear
from engine.heads.shapes import layer_name
from engine.models.cache import KVCache
from engine.models.decoder import Decoder, rms_factor


@dataclass(frozen=True)
class TargetParts:
    """What an EAGLE-1 or EAGLE-2 head borrows from its target."""

    embedding: Tensor
    """[vocab, hidden], the raw table."""
    final_state: Callable[[Tensor], Tensor]
    """The last layer's output [rows, hidden] → the output table's input: the target's final norm."""
    logits: Callable[[Tensor], Tensor]
    """Final states [rows, hidden] → [rows, vocab]."""

    @classmethod
    def of(cls, decoder: Decoder) -> TargetParts:
        def final_state(hidden: Tensor) -> Tensor:
            scaled, factor = decoder.normed(hidden)
            return scaled * factor

        def logits(state: Tensor) -> Tensor:
            return decoder.weights.head.logits(state, state.new_ones(state.shape[0], 1))

        return cls(decoder.weights.embedding, final_state, logits)


class Eagle1Inference:
    """A loaded head of EAGLE-1 or EAGLE-2 over the target's embedding (see :meth:`read_as`); it uses
    its own output table where it brings one.

    Row i pairs the target's final state of token i with the embedding of token i + 1; its
    position is i, and its output stands for the final state of token i + 1.
    """

    name = "EAGLE-2"
    taps: tuple[int, ...] = ()

    def __init__(
        self,
        checkpoint: Eagle1Checkpoint,
        target: TargetParts,
        make_linear: MakeLinear = int8_linear,
        device: torch.device | str = "cpu",
    ) -> None:
        config = self.config = checkpoint.config
        self.device = torch.device(device)
        self._embedding = target.embedding
        tensors = {
            name: tensor.float()
            for name, tensor in checkpoint.tensors.items()
            if name != "embed_tokens.weight"
        }
        self._target = target
        self._fc = FusionLinear(tensors["fc.weight"], tensors.get("fc.bias"), make_linear, self.device)
        self._layers = [
            HeadLayer(config, index, tensors, make_linear, self.device, fine_input=index == 0)
            for index in range(config.num_layers)
        ]
        self._layer_norms = [
            tensors[f"{layer_name(index)}.input_layernorm.weight"].to(self.device)
            for index in range(1, config.num_layers)
        ]
        self._output = make_linear(tensors["lm_head.weight"]) if config.own_output else None
        self._passes = Passes(config, self.device)

    def read_as(self, embedding: Tensor) -> Eagle1Inference:
        """The same weights with another embedding table."""
        other = copy.copy(self)
        other._embedding = embedding
        return other

    def new_cache(self, max_length: int) -> KVCache:
        config = self.config
        return KVCache(
            config.num_layers, config.num_key_value_heads, config.head_dim, max_length, device=self.device
        )

    def memory_bytes(self) -> int:
        own = self._output.memory_bytes() if self._output is not None else 0
        return own + self._fc.memory_bytes() + sum(layer.memory_bytes() for layer in self._layers)

    def fuse(self, features: Tensor) -> Tensor:
        """The last layer's output [rows, hidden] → the target's final states [rows, hidden]."""
        return self._target.final_state(features)

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
        pass_ = self._passes.rows(positions, cache, drafted, seen)
        ids = torch.tensor(tokens, device=self._embedding.device)
        embedded = self._embedding[ids].float().to(self.device)
        hidden = self._fc(torch.cat((embedded, states), -1))
        hidden = self._layers[0].forward(hidden, None, hidden, pass_, cache)
        for layer, norm in zip(self._layers[1:], self._layer_norms, strict=True):
            factor = rms_factor(hidden, self.config.rms_norm_eps)
            hidden = layer.forward(hidden * norm, factor, hidden, pass_, cache)
        return hidden

    def best(self, hidden: Tensor, count: int) -> tuple[list[list[int]], list[list[float]]]:
        """The ``count`` likeliest next tokens of each row with their log-probabilities (softmax at
        temperature 1 over the whole vocabulary)."""
        logits = self.logits(hidden)
        values, indices = logits.topk(min(count, logits.shape[1]))
        values = values - logits.logsumexp(-1, True)
        return indices.tolist(), values.tolist()

    def logits(self, hidden: Tensor) -> Tensor:
        """Logits over the target's vocabulary. [rows, vocab]"""
        return self._target.logits(hidden) if self._output is None else self._output(hidden)
