"""EAGLE-3: the training-time test over three tapped states, with no loss on the states themselves.

The norms that newer heads have are trained where the configuration asks for them: on queries and keys,
before the residual, before the fusion (over all tapped states, or one for each), and behind the output.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from engine.heads.checkpoint import Eagle3Checkpoint
from engine.heads.config import Eagle3Config
from engine.heads.eagle3 import Eagle3Head
from engine.training.batches import Batch, BatchMaker
from engine.training.draft_vocabulary import DraftVocabulary
from engine.training.features import FeatureStore
from engine.training.recipe import Recipe
from engine.training.unroll import Level, unroll


class Eagle3Recipe(Recipe[Eagle3Head]):
    title = "an EAGLE-3 head"
    objective = "predicts it with EAGLE-3's training-time test, drafting from its own outputs"

    def __init__(
        self,
        config: Eagle3Config,
        store: FeatureStore,
        vocabulary: DraftVocabulary,
        scale: Tensor,
        embedding: Tensor,
    ) -> None:
        """``embedding [vocab, hidden]`` is the target's table; ``scale [taps * hidden]`` divides the states
        while training and goes into ``fc`` in the end, or is what a norm before ``fc`` begins with."""
        self._normed = config.norm_before_fc or config.fc_norm  # a norm must see the target's own states

        def prepare(states: Tensor) -> Tensor:
            return states if self._normed else states / scale

        super().__init__(config, BatchMaker(store, vocabulary.to_draft(), prepare), vocabulary)
        self._config, self._scale, self._embedding = config, scale, embedding

    def new(self) -> Eagle3Head:
        head = Eagle3Head(self._config)
        initialise(head, self._embedding[self.vocabulary.ids].float())
        if self._normed:
            norms = [head.input_norm] if self._config.norm_before_fc else list(head.fc_norm)
            for norm, scale in zip(norms, self._scale.chunk(len(norms)), strict=True):
                _to_unit_columns(norm, scale)
        return head

    def levels(
        self, module: Eagle3Head, batch: Batch, fractions: Sequence[float], draw: Tensor
    ) -> Iterator[Level]:
        return unroll(module, self.maker.prefix, batch, self._embedding, fractions, draw)

    def output(self, module: Eagle3Head, level: Level, used: Tensor | None = None) -> tuple[Tensor, Tensor]:
        return module.norm(level.out if used is None else level.out[used]), module.lm_head.weight

    def checkpoint(self, module: Eagle3Head, facts: Mapping[str, object]) -> Eagle3Checkpoint:
        if not self._normed:
            with torch.no_grad():
                module.fc.weight /= self._scale
        module.config = replace(self._config, training=facts)
        return module.to_checkpoint(self.vocabulary.ids)


@torch.no_grad()
def _to_unit_columns(norm: torch.nn.Module, scale: Tensor) -> None:
    """Let ``norm`` give columns of the size ``scale`` about the size one, as dividing by it would."""
    norm.get_parameter("weight").copy_(scale.square().mean().sqrt() / scale)


@torch.no_grad()
def initialise(head: torch.nn.Module, rows: Tensor | None = None) -> None:
    """Start from what is known: an output table begins as the target's ``rows [draft, hidden]``.

    The states arrive scaled to unit columns, so plain fan-in scaling is right
    everywhere. The output of attention and MLP starts small, leaving the fused
    state to carry the first predictions.
    """
    for name, parameter in head.named_parameters():
        if parameter.ndim == 2:
            parameter.normal_(std=parameter.shape[1] ** -0.5)
        if name.endswith(("o_proj.weight", "down_proj.weight")):
            parameter.mul_(0.3)
        if rows is not None and name == "lm_head.weight":
            parameter.copy_(rows / rows.square().mean().sqrt() * rows.shape[1] ** -0.5)
