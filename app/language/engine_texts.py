"""Texts that come from the engine, in the user's language.

The engine's processes know no language: their errors, notices and descriptions arrive in
English. Those that the sources of ``engine`` hold are in the translations under one context.
"""

from __future__ import annotations

from app.language import tr

CONTEXT = "engine"


def of_engine(text: str) -> str:
    """What the engine said, translated if it is known, as it came otherwise."""
    return tr(CONTEXT, text) if text else text
