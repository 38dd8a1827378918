"""Every method the engine knows, in the order in which they are shown. A new one is one line here."""

from __future__ import annotations

from engine.drafting import (
    draft_model,
    dynamic_tree,
    lookahead,
    medusa,
    plain,
    prompt_lookup,
    static_tree,
)
from engine.drafting.method import Equipment, Method, Methods

METHODS: tuple[Method, ...] = (
    plain.METHOD,
    static_tree.METHOD,
    dynamic_tree.EAGLE2,
    dynamic_tree.EAGLE3,
    medusa.METHOD,
    draft_model.METHOD,
    lookahead.METHOD,
    prompt_lookup.METHOD,
)


def methods_for(equipment: Equipment) -> Methods:
    """Which of them can be used with what is loaded."""
    return Methods(equipment, METHODS)
