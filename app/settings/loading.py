"""How a model is to be loaded, and which one was used last. No Qt here.

Kept by what ``Load.model`` names, since this is decided before there is a model to ask.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from app.settings.store import LIMITS, Settings
from engine.protocol import Load

WEIGHT_FORMATS = ("", "nf4", "int8", "bfloat16", "float16", "float32")
"""What :attr:`engine.protocol.Load.weight_format` takes; the first leaves it to the engine."""


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """Fields of :class:`engine.protocol.Load` with its defaults."""

    context: int = 0
    weight_format: str = ""
    double_quant: bool = False
    draft: str = ""


def options_for(settings: Settings, model: str) -> LoadOptions:
    """What is set for loading ``model``. What the file has wrong is left out."""
    raw = settings.loads.get(model, {})
    context, weights, draft = raw.get("context"), raw.get("weight_format"), raw.get("draft")
    low, high = LIMITS["context"]
    fits = isinstance(context, int) and not isinstance(context, bool) and low <= context <= high
    return LoadOptions(
        context if fits else 0,
        weights if weights in WEIGHT_FORMATS else "",
        raw.get("double_quant") is True,
        draft if isinstance(draft, str) else "",
    )


def with_options(settings: Settings, model: str, options: LoadOptions) -> Mapping[str, Any]:
    """``Settings.loads`` with those of a model; without them when they are the defaults."""
    others = {name: table for name, table in settings.loads.items() if name != model}
    return others if options == LoadOptions() else {**others, model: asdict(options)}


def complete(settings: Settings, command: Load) -> Load:
    """``command`` with what is set for its model; what it says itself wins."""
    options = options_for(settings, command.model)
    return replace(
        command,
        context=command.context or options.context,
        weight_format=command.weight_format or options.weight_format,
        double_quant=command.double_quant or options.double_quant,
        draft=command.draft or options.draft,
    )


def last_command(settings: Settings) -> Load:
    """The pair that was loaded last; the demo where there was none."""
    model, head = settings.last.get("model"), settings.last.get("head")
    if not isinstance(model, str) or not model:
        return Load()
    return Load(model, head if isinstance(head, str) else None)


def remembered(command: Load) -> Mapping[str, Any]:
    """``Settings.last`` for :func:`last_command` at the next start."""
    return {"model": command.model, "head": command.head}
