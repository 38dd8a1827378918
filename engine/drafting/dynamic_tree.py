"""EAGLE-2 and EAGLE-3 as methods: the dynamic tree of :mod:`engine.drafting.eagle` on a head of their kind."""

from __future__ import annotations

from engine.drafting.drafter import Drafter
from engine.drafting.eagle import EagleDrafter
from engine.drafting.method import DEPTH, NODES, THRESHOLD, TOP_K, Equipment, Method, needs_head
from engine.settings import MethodInfo, Needs, Shape


def _make(equipment: Equipment) -> Drafter:
    assert equipment.head is not None
    return EagleDrafter(equipment.head, equipment.context)


def _method(name: str, about: str) -> Method:
    def missing(equipment: Equipment) -> str:
        problem = needs_head(equipment)
        if problem or equipment.head is None or equipment.head.name == name:
            return problem
        return f"The loaded head is for {equipment.head.name}. Choose an {name} head for this model."

    return Method(
        MethodInfo(
            id=name.lower().replace("-", ""),
            name=name,
            about=about,
            needs=Needs.HEAD,
            shape=Shape.TREE,
            settings=(NODES, DEPTH, TOP_K, THRESHOLD),
        ),
        make=_make,
        missing=missing,
        rank=10,
        tunings=tuple({"top_k": count} for count in (2, 3, 4, 6, 10)),
    )


EAGLE2 = _method(
    "EAGLE-2",
    "A small head continues the model's last state; the tree grows where the head is sure of itself.",
)
EAGLE3 = _method(
    "EAGLE-3",
    "A small head continues states from three depths of the model; the tree grows where the head is sure.",
)
