"""One side of a comparison: which method with which of its settings, or none, and on which head. No Qt.

Nothing here knows a method: names, settings and what cannot be used come from
:class:`engine.protocol.MethodInfo`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from app.language import tr
from app.language.engine_texts import of_engine
from engine.protocol import GenerationSettings, Load, MethodInfo, ModelInfo, SettingValue, TreeSettings


@dataclass(frozen=True, slots=True)
class SideChoice:
    drafting: bool = True
    """False for plain decoding."""
    method: str = ""
    """Id of a method; empty takes the model's own."""
    options: tuple[tuple[str, SettingValue], ...] = ()
    """The method's settings that are not left at their defaults."""
    head: str | None = None
    """Folder of the head it drafts with; ``None`` for the one that is loaded."""
    head_name: str = ""
    """For people, of ``head``."""

    def settings(self, shared: GenerationSettings) -> GenerationSettings:
        """What a reply of this side is asked for with; sizes are the method's settings here."""
        shared = replace(shared, tree=TreeSettings(), eagle=self.drafting)
        if not self.drafting:
            return replace(shared, method="", options=())
        return replace(shared, method=self.method, options=self.options)

    def load(self, common: Load) -> Load | None:
        """What must be loaded for it: ``None`` where that does not matter."""
        if not self.drafting:
            return None
        return common if self.head is None else replace(common, head=self.head)


PLAIN = SideChoice(drafting=False)


def method_of(choice: SideChoice, model: ModelInfo | None) -> MethodInfo | None:
    """The method that the side would draft with, as far as it is known."""
    if model is None or not choice.drafting:
        return None
    wanted = choice.method or model.method
    return next((method for method in model.methods if method.id == wanted), None)


def from_settings(settings: GenerationSettings, model: ModelInfo | None) -> SideChoice:
    """The side that does as the chat's replies do when drafting is on."""
    choice = SideChoice(method=settings.method, options=settings.options)
    method = method_of(choice, model)
    if method is None:
        return choice
    names = {setting.name for setting in method.settings}
    sizes = {name: getattr(settings.tree, name) for name in TreeSettings.__dataclass_fields__}
    chosen = {name: value for name, value in sizes.items() if value is not None and name in names}
    chosen.update({name: value for name, value in settings.options if name in names})
    return replace(choice, options=tuple(chosen.items()))


def problem_of(choice: SideChoice, model: ModelInfo) -> str:
    """Why the side cannot be run with what is loaded now, in words, or ""."""
    if not choice.drafting:
        return ""
    method = method_of(choice, model)
    if method is None:
        if model.methods:
            return tr("Compare", "This model does not know the method “{method}”.").format(method=choice.method)
        return "" if model.head_name is not None else of_engine(model.head_problem or "")
    return of_engine(method.problem)


def is_lossy(choice: SideChoice, model: ModelInfo | None) -> bool:
    """Whether the side's replies need not follow the target's own distribution."""
    method = method_of(choice, model)
    if method is None:
        return False
    chosen = dict(choice.options)
    values = ((chosen.get(setting.name, setting.default), setting.lossy) for setting in method.settings)
    return not method.lossless or any(value in lossy for value, lossy in values)


def name_of(choice: SideChoice, model: ModelInfo | None) -> str:
    """The side in a few words, e.g. "EAGLE-2 (nodes 12), head new"."""
    if not choice.drafting:
        return tr("Compare", "Plain decoding")
    method = method_of(choice, model)
    name = of_engine(method.name) if method is not None else choice.method or "EAGLE"
    if method is not None and not choice.method:
        name = tr("Compare", "{method}, automatic").format(method=name)
    titles = {setting.name: of_engine(setting.title) for setting in method.settings} if method else {}
    options = ", ".join(f"{titles.get(key, key)} {_words(value)}" for key, value in choice.options)
    if options:
        name = f"{name} ({options})"
    if choice.head is not None:
        name = tr("Compare", "{method}, head {head}").format(method=name, head=choice.head_name or choice.head)
    return name


def _words(value: SettingValue) -> str:
    if isinstance(value, bool):
        return tr("Compare", "on") if value else tr("Compare", "off")
    text = f"{value:g}" if isinstance(value, float) else str(value)
    return text if len(text) <= 24 else text[:23] + "…"
