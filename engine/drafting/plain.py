"""Plain decoding: one token a pass, nothing is drafted."""

from __future__ import annotations

from engine.drafting.method import Method
from engine.settings import MethodInfo, Needs, Shape

METHOD = Method(
    MethodInfo(
        id="plain",
        name="Plain decoding",
        about="The model alone, one token at a time: what every other method is measured against.",
        needs=Needs.NOTHING,
        shape=Shape.CHAIN,
        drafts=False,
    ),
    make=None,
)
