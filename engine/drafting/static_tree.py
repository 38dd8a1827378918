"""EAGLE-1 as a method: a head of any version under a tree of fixed shape (arXiv 2401.15077)."""

from __future__ import annotations

from collections.abc import Sequence

from engine.drafting.drafter import Drafter, Options, TreeLimits
from engine.drafting.eagle import EagleDrafter
from engine.drafting.method import DEPTH, NODES, PUBLISHED_TREE, TREE, Equipment, Method, needs_head
from engine.drafting.static_growth import DRAW, grow
from engine.drafting.tree_shapes import EAGLE_MC_SIM_7B_63, parse_tree
from engine.sampling import Sampler
from engine.settings import MethodInfo, Needs, Shape
from engine.tree import DraftTree

NAMED = {PUBLISHED_TREE: EAGLE_MC_SIM_7B_63}


class StaticTreeDrafter(EagleDrafter):
    """The head's state is that of the dynamic tree; only the tree's shape is decided beforehand."""

    weighs = False
    _shape = EAGLE_MC_SIM_7B_63
    _sampler: Sampler | None = None

    def start(self, tokens: Sequence[int], options: Options, sampler: Sampler) -> None:
        self._shape = parse_tree(str(options["tree"]), NAMED)
        self._sampler = sampler if options["draw"] and not sampler.greedy else None

    def propose(self, tokens: Sequence[int], limits: TreeLimits) -> DraftTree:
        shape = self._shape.cut(limits.nodes, limits.depth)
        growth = self.begin(tokens, len(shape))
        return grow(growth, shape, self._sampler, len(tokens) - 1)


def _make(equipment: Equipment) -> Drafter:
    assert equipment.head is not None
    return StaticTreeDrafter(equipment.head, equipment.context)


def _parse(_name: str, text: str) -> None:
    parse_tree(text, NAMED)


METHOD = Method(
    MethodInfo(
        id="eagle1",
        name="EAGLE-1",
        about="A small head guesses along a tree of fixed shape. Any EAGLE head can be used, so that the fixed "
        "tree can be compared with the growing one.",
        needs=Needs.HEAD,
        shape=Shape.TREE,
        settings=(
            TREE,
            NODES,
            DEPTH,
            DRAW,
        ),
    ),
    make=_make,
    missing=needs_head,
    rank=5,
    parse=_parse,
)
