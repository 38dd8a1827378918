"""EAGLE-1: the head predicts the target's next final state, which the target's own output table reads.

The published loss (EAGLE, arXiv 2401.15077, section 4.2; ``train/main.py`` of SafeAILab/EAGLE):
smooth L1 on the state plus a tenth of the cross-entropy, states in training blurred by
uniform noise. Beyond the paper the head is unrolled over its own predictions as EAGLE-3
is, since that is how it drafts; one depth (``--unroll 1``) is the published training.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import torch
from torch import Tensor
from torch.nn import functional

from engine.heads.checkpoint import Eagle1Checkpoint
from engine.heads.config import Eagle1Config
from engine.heads.eagle1 import Eagle1Head
from engine.training.batches import Batch, BatchMaker
from engine.training.draft_vocabulary import DraftVocabulary
from engine.training.eagle3 import initialise
from engine.training.features import FeatureStore
from engine.training.final_state import FinalState
from engine.training.recipe import Recipe
from engine.training.unroll import Level, unroll

NOISE = 0.1
"""Half the width of the noise on each number of a state, whose mean square is 1."""


class Eagle1Recipe(Recipe[Eagle1Head]):
    title = "an EAGLE-1 head"
    objective = "predicts its next final state, and with it the next token, drafting from its own outputs"
    token_weight = 0.1

    def __init__(
        self, config: Eagle1Config, store: FeatureStore, scale: float, embedding: Tensor, final: FinalState
    ) -> None:
        """``scale`` is the root mean square of final states: training divides by it, so that the published
        loss means the same for every target, and what is exported is multiplied."""
        everything = DraftVocabulary(torch.arange(config.vocab_size), 1.0, config.vocab_size)
        maker = BatchMaker(store, everything.to_draft(), lambda states: final.of(states) / scale)
        super().__init__(config, maker, everything)
        self._config, self._scale, self._embedding = config, scale, embedding
        self._table = (final.table.float() * scale).bfloat16()

    def new(self) -> Eagle1Head:
        head = Eagle1Head(self._config)
        initialise(head)
        with torch.no_grad():
            if head.fc.bias is not None:
                head.fc.bias.zero_()
        return head

    def given(self, batch: Batch, generator: torch.Generator) -> Batch:
        noise = torch.rand(batch.states.shape, generator=generator) * (2 * NOISE) - NOISE
        return replace(batch, states=(batch.states.float() + noise).to(batch.states.dtype))

    def levels(
        self, module: Eagle1Head, batch: Batch, fractions: Sequence[float], draw: Tensor
    ) -> Iterator[Level]:
        return unroll(module, self.maker.prefix, batch, self._embedding, fractions, draw)

    def output(self, module: Eagle1Head, level: Level, used: Tensor | None = None) -> tuple[Tensor, Tensor]:
        return (level.out if used is None else level.out[used]), self._table

    def regression(self, level: Level, batch: Batch) -> Tensor | None:
        known = batch.left[level.targets] > 1  # the state of a reply's last token was not kept
        if not bool(known.any()):
            return None
        true = batch.states[level.targets[known] + 1].float()
        return functional.smooth_l1_loss(level.out[known].float(), true)

    def checkpoint(self, module: Eagle1Head, facts: Mapping[str, object]) -> Eagle1Checkpoint:
        """Undoes the scale: ``fc`` reads true states, and whatever adds to the output gives true ones.

        Attention and MLP read through ``fc``'s output as it is, so their first matrices divide; the norm
        before the MLP takes the scale away by itself.
        """
        layer, scale = module.midlayer, self._scale
        width = self._config.hidden_size
        with torch.no_grad():
            module.fc.weight[:, :width].mul_(scale)  # the embedding's half; the state's is divided and multiplied
            if module.fc.bias is not None:
                module.fc.bias.mul_(scale)
            for projection in (layer.self_attn.q_proj, layer.self_attn.k_proj, layer.self_attn.v_proj):
                projection.weight.div_(scale)
            layer.self_attn.o_proj.weight.mul_(scale)
            layer.mlp.down_proj.weight.mul_(scale)
        module.config = replace(self._config, training=facts)
        return module.to_checkpoint()
