"""What a model may have its own way, and how it goes together with the settings and the chat's. No Qt here.

The narrower wins: the settings, then the model's, then the chat's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from app.chat.conversation import OVERRIDABLE, Chat
from app.settings.store import Settings, fits
from engine.protocol import GenerationSettings, MethodInfo, ModelInfo


@dataclass(frozen=True, slots=True)
class ModelSettings:
    """Everything that can be set for one model."""

    values: Mapping[str, Any] = field(default_factory=dict)
    """Fields of ``GenerationSettings`` (:data:`OVERRIDABLE`)."""
    method: str = ""
    """Id of a drafting method; empty takes the model's own."""
    options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """By method: its settings that differ from their defaults."""
    thinking: bool | None = None
    system_prompt: str = ""
    """Used where a chat has none of its own."""


def of_model(settings: Settings, model: ModelInfo | None) -> ModelSettings:
    """What is set for a model. What the file has wrong is left out."""
    raw = settings.models.get(model.name, {}) if model is not None else {}
    values = {
        name: value
        for name, value in _table(raw.get("values")).items()
        if _may_be_own(name, value)
    }
    options = {
        str(method): {
            str(name): value
            for name, value in _table(chosen).items()
            if isinstance(value, bool | int | float | str)
        }
        for method, chosen in _table(raw.get("options")).items()
    }
    thinking = raw.get("thinking")
    return ModelSettings(
        values,
        str(raw.get("method") or ""),
        options,
        thinking if isinstance(thinking, bool) else None,
        str(raw.get("system_prompt") or ""),
    )


def with_model(settings: Settings, model: ModelInfo, own: ModelSettings) -> Mapping[str, Any]:
    """``Settings.models`` with a model's own ones; without them when there are none."""
    others = {name: table for name, table in settings.models.items() if name != model.name}
    return others if own == ModelSettings() else {**others, model.name: asdict(own)}


def chosen_method(model: ModelInfo | None, own: ModelSettings) -> MethodInfo | None:
    """The method that is set for the model, if the model can use it; None leaves the choice to the engine."""
    known = {method.id: method for method in model.methods} if model is not None else {}
    method = known.get(own.method)
    return method if method is not None and not method.problem else None


def resolve(settings: Settings, model: ModelInfo | None, chat: Chat) -> GenerationSettings:
    """What a reply in a chat is asked for with."""
    own = of_model(settings, model)
    drafter = chosen_method(model, own)
    method = drafter.id if drafter is not None else ""
    names = {each.name for each in drafter.settings} if drafter is not None else set()
    chosen = tuple((name, value) for name, value in own.options.get(method, {}).items() if name in names)
    thinking = own.thinking if model is not None and model.thinking_optional else None
    common = replace(settings.generation(), **own.values, method=method, options=chosen, thinking=thinking)
    # An imported chat may say anything.
    return replace(common, **{name: value for name, value in chat.overrides.items() if _may_be_own(name, value)})


def _may_be_own(name: str, value: object) -> bool:
    return name in OVERRIDABLE and fits(name, value)


def _table(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
