"""Medusa: heads that guess several positions ahead at once, combined along a fixed tree.

Cai et al., arXiv 2401.10774. Head k is about the token k + 2 places after the last verified
one, whatever comes between; a path of ranks combines their likeliest tokens. The
guesses are no matter of chance, so the one-draw rule verifies them losslessly; *typical
acceptance* is offered beside it and changes the distribution.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from engine.drafting.drafter import Drafter, Options, TreeLimits
from engine.drafting.method import DEPTH, NODES, PUBLISHED_TREE, TREE, Equipment, Method
from engine.drafting.nodes import Nodes
from engine.drafting.tree_shapes import MEDUSA_MC_SIM_7B_63, Path, parse_tree
from engine.heads.medusa import MedusaHeads
from engine.models.decoder import Decoder
from engine.sampling import Sampler
from engine.settings import MethodInfo, MethodSetting, Needs, SettingKind, Shape
from engine.tree import DraftTree
from engine.verification import Target, Verified, verify, verify_typical

NAMED = {PUBLISHED_TREE: MEDUSA_MC_SIM_7B_63}


class Medusa(Drafter):
    """Keeps the target's state of the last verified token, nothing else."""

    def __init__(self, heads: MedusaHeads, decoder: Decoder) -> None:
        self._heads = heads
        self._decoder = decoder
        self._state: Tensor | None = None
        self._shape = MEDUSA_MC_SIM_7B_63
        self._typical: tuple[float, float] | None = None

    def observe(self, features: Tensor) -> None:
        self._state = features[-1:]

    def start(self, tokens: Sequence[int], options: Options, sampler: Sampler) -> None:
        self._shape = parse_tree(str(options["tree"]), NAMED)
        self._typical = None
        if options["acceptance"] == "typical" and not sampler.greedy:
            self._typical = float(options["typical_threshold"] or 0.0), float(options["typical_delta"] or 0.0)

    def propose(self, tokens: Sequence[int], limits: TreeLimits) -> DraftTree:
        if self._state is None:
            raise ValueError("nothing was observed before the proposal")
        shape = self._shape.cut(limits.nodes, min(limits.depth, self._heads.config.heads))
        x, factor = self._decoder.normed(self._state)
        logits = self._heads.propose_logits(x * factor)
        widest = max(shape.counts.values())
        values, ids = logits.topk(min(widest, logits.shape[1]))
        logs = (values - torch.logsumexp(logits, -1, True)).tolist()
        guesses = ids.tolist()
        nodes = Nodes(tokens[-1])
        place: dict[Path, int] = {(): 0}
        for path in sorted(shape.paths, key=lambda path: (len(path), path)):
            level, rank = len(path) - 1, path[-1]
            place[path] = nodes.add(place[path[:-1]], guesses[level][rank], logs[level][rank])
        return nodes.tree(range(len(nodes.tokens)))

    def accept(self, tree: DraftTree, target: Target) -> Verified:
        if self._typical is None:
            return verify(tree, target)
        return verify_typical(tree, target, *self._typical)


def _make(equipment: Equipment) -> Drafter:
    assert equipment.medusa is not None
    return Medusa(equipment.medusa, equipment.decoder)


def _missing(equipment: Equipment) -> str:
    if equipment.medusa is not None:
        return ""
    return equipment.head_problem or "It needs Medusa heads. Choose some that were made for this model."


def _parse(_name: str, text: str) -> None:
    parse_tree(text, NAMED)


METHOD = Method(
    MethodInfo(
        id="medusa",
        name="Medusa",
        about="Several heads guess the next positions all at once; a fixed tree combines their likeliest tokens.",
        needs=Needs.MEDUSA_HEADS,
        shape=Shape.TREE,
        settings=(
            TREE,
            NODES,
            DEPTH,
            MethodSetting(
                "acceptance",
                "Acceptance",
                "Lossless: what the model would have said. Typical: also what it finds likely enough; faster, "
                "but the replies are no longer the model's own.",
                SettingKind.CHOICE,
                "lossless",
                choices=("lossless", "typical"),
                lossy=("typical",),
            ),
            MethodSetting(
                "typical_threshold",
                "Typical: threshold",
                "A guess with this probability always stands under typical acceptance.",
                SettingKind.NUMBER,
                0.09,
                0.0,
                1.0,
            ),
            MethodSetting(
                "typical_delta",
                "Typical: delta",
                "Scales the threshold down where the model is unsure, under typical acceptance.",
                SettingKind.NUMBER,
                0.3,
                0.0,
                1.0,
            ),
        ),
    ),
    make=_make,
    missing=_missing,
    rank=10,
    parse=_parse,
)
