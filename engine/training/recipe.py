"""What the training loop asks of a kind of head: one small file a kind answers it.

The loop knows batches, optimisers and checkpoints; a recipe knows the module, what it
drafts to each depth, what of that is scored against the target's distribution, and which
public files the finished module becomes. Recipes hold no state of a run: the module is
passed in, since the averaged one is measured and exported with the same words.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Generic, TypeVar

import torch
from torch import Tensor, nn

from engine.heads.checkpoint import Checkpoint
from engine.heads.config import EagleConfig
from engine.heads.medusa import MedusaConfig
from engine.training.batches import Batch, BatchMaker
from engine.training.draft_vocabulary import DraftVocabulary
from engine.training.loss import soft_cross_entropy
from engine.training.unroll import Level

Module = TypeVar("Module", bound=nn.Module)


class Recipe(ABC, Generic[Module]):
    """How one kind of head is trained."""

    title: str
    """What the head is called on its card, with its article: ``an EAGLE-3 head``."""
    objective: str
    """What it learns, for its card: a clause."""
    token_weight = 1.0
    """Weight of the cross-entropy in the loss."""

    def __init__(
        self, config: EagleConfig | MedusaConfig, maker: BatchMaker, vocabulary: DraftVocabulary
    ) -> None:
        self.config, self.maker, self.vocabulary = config, maker, vocabulary

    @abstractmethod
    def new(self) -> Module:
        """A module as training begins with it; drawn from torch's generator."""

    def is_matrix(self, name: str, parameter: Tensor) -> bool:
        """Whether Muon optimises it: matrices between states. AdamW takes tables and vectors."""
        return parameter.ndim == 2 and not name.startswith("lm_head")

    @abstractmethod
    def levels(self, module: Module, batch: Batch, fractions: Sequence[float], draw: Tensor) -> Iterator[Level]:
        """What the module drafts to each depth from the share ``fractions[depth]`` of the reply rows:
        those whose uniform number ``draw [rows]`` is below it."""

    @abstractmethod
    def output(self, module: Module, level: Level, used: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """States ``[n, hidden]`` of the rows ``used`` (a mask of the level's rows; all without it) and the
        table ``[draft vocabulary, hidden]`` that gives their scores as a product."""

    def regression(self, level: Level, batch: Batch) -> Tensor | None:
        """A loss on the states themselves, weighted; None where tokens are all that counts."""
        return None

    def given(self, batch: Batch, generator: torch.Generator) -> Batch:
        """The batch as the module sees it in training; noise may be drawn from ``generator``."""
        return batch

    @abstractmethod
    def checkpoint(self, module: Module, facts: Mapping[str, object]) -> Checkpoint:
        """The module in its public form, which reads states as the target gives them."""

    # ------------------------------------------------------------------ the loss

    def loss(
        self, module: Module, batch: Batch, fractions: Sequence[float], decay: float, generator: torch.Generator
    ) -> tuple[Tensor, float]:
        """(loss of a step, cross-entropy at the first depth, which is comparable between settings).

        Depth k weighs ``decay ** k``. Rows whose likeliest token cannot be drafted carry no cross-entropy.
        """
        draw = torch.rand(len(batch.tokens), generator=generator)
        first = 0.0
        total = torch.zeros(())
        whole = sum(decay**k for k in range(len(fractions)))
        for level in self.levels(module, self.given(batch, generator), fractions, draw):
            share = decay**level.depth / whole
            used = batch.usable[level.targets]
            targets = level.targets[used]
            if len(targets):
                hidden, table = self.output(module, level, used)
                weights = torch.full((len(targets),), share / len(targets))
                loss = soft_cross_entropy(
                    hidden.to(torch.bfloat16),
                    table.to(torch.bfloat16),
                    batch.ids[targets],
                    batch.probabilities[targets],
                    weights,
                )
                total = total + self.token_weight * loss
                if level.depth == 0:
                    first = float(loss.detach()) * whole
            further = self.regression(level, batch)
            if further is not None:
                total = total + share * further
        return total, first
