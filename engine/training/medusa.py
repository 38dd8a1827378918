"""Medusa heads: each guesses one further token from the target's final state alone.

Medusa-1 (arXiv 2401.10774, section 2.2; ``medusa_model.py`` of FasterDecoding/Medusa): the
target stays as it is, head ``k`` starts as a copy of its output table behind a block that
adds nothing, and its loss weighs ``decay ** k``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import torch
from torch import Tensor, nn
from torch.nn import functional

from engine.heads.medusa import MedusaCheckpoint, MedusaConfig
from engine.training.batches import Batch, BatchMaker
from engine.training.draft_vocabulary import DraftVocabulary
from engine.training.features import FeatureStore
from engine.training.final_state import FinalState
from engine.training.recipe import Recipe
from engine.training.unroll import Level


class ResidualBlock(nn.Module):
    """``x + SiLU(W x + b)``; starts as the identity."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.linear = nn.Linear(width, width)
        nn.init.zeros_(self.linear.weight)
        nn.init.zeros_(self.linear.bias)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = x + functional.silu(self.linear(x))
        return y


class MedusaModule(nn.ModuleList):
    """All heads: blocks, then a table without a bias. Parameters carry the public names."""

    def __init__(self, config: MedusaConfig) -> None:
        def table() -> nn.Module:
            return nn.Linear(config.hidden_size, config.vocab_size, bias=False)

        super().__init__(
            nn.ModuleList([*(ResidualBlock(config.hidden_size) for _ in range(config.layers)), table()])
            for _ in range(config.heads)
        )


class MedusaRecipe(Recipe[MedusaModule]):
    title = "a set of Medusa heads"
    objective = "guesses its next tokens, one head each, from its final state"

    def __init__(self, config: MedusaConfig, store: FeatureStore, final: FinalState) -> None:
        everything = DraftVocabulary(torch.arange(config.vocab_size), 1.0, config.vocab_size)
        super().__init__(config, BatchMaker(store, everything.to_draft(), final.of), everything)
        self._config, self._final = config, final

    def new(self) -> MedusaModule:
        module = MedusaModule(self._config)
        with torch.no_grad():
            for head in module:
                assert isinstance(head, nn.ModuleList)
                _table(head).copy_(self._final.table)
        return module

    def is_matrix(self, name: str, parameter: Tensor) -> bool:
        return name.endswith("linear.weight")

    def levels(
        self, module: MedusaModule, batch: Batch, fractions: Sequence[float], draw: Tensor
    ) -> Iterator[Level]:
        for depth, (head, fraction) in enumerate(zip(module, fractions, strict=False)):
            assert isinstance(head, nn.ModuleList)
            rows = ((batch.left > depth) & (draw < fraction)).nonzero()[:, 0]
            if not len(rows):
                return
            state = batch.states.index_select(0, rows)
            for block in head[:-1]:
                state = block(state)
            yield Level(depth, rows, state)

    def output(self, module: MedusaModule, level: Level, used: Tensor | None = None) -> tuple[Tensor, Tensor]:
        head = module[level.depth]
        assert isinstance(head, nn.ModuleList)
        return (level.out if used is None else level.out[used]), _table(head)

    def checkpoint(self, module: MedusaModule, facts: Mapping[str, object]) -> MedusaCheckpoint:
        tensors = {name: value.detach().half() for name, value in module.state_dict().items()}
        return MedusaCheckpoint(replace(self._config, training=facts), tensors)


def _table(head: nn.ModuleList) -> Tensor:
    last = head[-1]
    assert isinstance(last, nn.Linear)
    return last.weight
