"""How well a head drafts, measured on held-out prompts without running the target.

A chain is drafted from every reply row, and compared with what the target went
on to say. A draft counts at depth ``n`` only if all shallower ones were right, so
feeding the true tokens equals feeding the head's own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import torch
from torch.nn import functional

from engine.training.batches import Batch
from engine.training.recipe import Module, Recipe

WIDTHS = (1, 2, 3, 4)


@dataclass(frozen=True)
class Acceptance:
    """Acceptance on one kind of reply.

    ``chain[d]`` is the share of drafts at depth ``d + 1`` that are right given that
    all before were (the paper's d-alpha); ``chain_length`` the expected number of
    tokens per target pass with a chain, bonus token included. ``first[w]`` is the
    share of rows whose next token is among the head's ``w + 1`` best. ``tree_length``
    is the expected number with the four best at depth 1, two at depth 2 and one
    further on: a lower bound for a dynamic tree of similar size.
    """

    rows: int
    chain: tuple[float, ...]
    chain_length: float
    first: tuple[float, ...]
    tree_length: float

    def json(self) -> dict[str, object]:
        return asdict(self)

    def __str__(self) -> str:
        chain = " ".join(f"{value:.3f}" for value in self.chain)
        return f"chain {chain}, tau {self.chain_length:.2f}, top-4 {self.first[-1]:.3f}, tree {self.tree_length:.2f}"


@torch.no_grad()
def evaluate(
    recipe: Recipe[Module],
    head: Module,
    batches: Sequence[Batch],
    depths: int = 6,
) -> dict[str, Acceptance]:
    """Measure on ``batches``; keys are "greedy" and "sampled" (kinds without rows are left out)."""
    hits = {kind: torch.zeros(depths, len(WIDTHS)) for kind in ("greedy", "sampled")}
    seen = {kind: torch.zeros(depths) for kind in hits}
    chain = {kind: torch.zeros(depths) for kind in hits}
    tree = {kind: torch.zeros(depths) for kind in hits}
    begun = {kind: torch.zeros(depths) for kind in hits}
    widths = [4, 2] + [1] * depths
    head.eval()
    for batch in batches:
        alive = torch.ones(len(batch.tokens), dtype=torch.bool)
        in_tree = alive.clone()
        with torch.autocast("cpu", torch.bfloat16):
            for level in recipe.levels(head, batch, [1.0] * depths, torch.zeros(len(alive))):
                scores = functional.linear(*recipe.output(head, level))
                best = recipe.vocabulary.ids[scores.topk(max(WIDTHS), -1).indices]
                right = best == batch.next[level.targets][:, None]
                for kind in hits:
                    mine = batch.greedy[level.rows] == (kind == "greedy")
                    rows, d = level.rows[mine], level.depth
                    going = alive[rows]
                    seen[kind][d] += int(going.sum())
                    begun[kind][d] += len(rows)
                    for column, width in enumerate(WIDTHS):
                        hits[kind][d, column] += int((right[mine, :width].any(-1) & going).sum())
                    chain[kind][d] += int((right[mine, 0] & going).sum())
                    tree[kind][d] += int((right[mine, : widths[d]].any(-1) & in_tree[rows]).sum())
                alive[level.rows] &= right[:, 0]
                in_tree[level.rows] &= right[:, : widths[level.depth]].any(-1)
    head.train()
    return {
        kind: Acceptance(
            rows=int(begun[kind][0]),
            chain=tuple((hits[kind][:, 0] / seen[kind].clamp_min(1)).tolist()),
            chain_length=1 + float((chain[kind] / begun[kind].clamp_min(1)).sum()),
            first=tuple((hits[kind][0] / seen[kind][0]).tolist()),
            tree_length=1 + float((tree[kind] / begun[kind].clamp_min(1)).sum()),
        )
        for kind in hits
        if begun[kind][0] > 0
    }
