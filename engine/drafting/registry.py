"""Every method the engine knows, in the order in which they are shown. A new one is one line here."""

from __future__ import annotations

from engine.drafting import dynamic_tree, plain
from engine.drafting.method import Equipment, Method, Methods

METHODS: tuple[Method, ...] = (
    plain.METHOD,
    dynamic_tree.EAGLE2,
    dynamic_tree.EAGLE3,
)


def methods_for(equipment: Equipment) -> Methods:
    """Which of them can be used with what is loaded."""
    return Methods(equipment, METHODS)
