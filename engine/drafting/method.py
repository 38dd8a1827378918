"""A method as the engine knows it: its description, what it needs, and how to make its drafter."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from engine.drafting.drafter import Drafter, Options
from engine.errors import PromptError
from engine.heads.inference import EagleInference
from engine.heads.medusa import MedusaHeads
from engine.models.decoder import Decoder
from engine.settings import (
    GenerationSettings,
    MethodInfo,
    MethodSetting,
    SettingKind,
    SettingValue,
    TreeSettings,
)


@dataclass(frozen=True)
class Equipment:
    """What is loaded: all that a drafter can be made of."""

    decoder: Decoder
    context: int
    """Tokens of one sequence."""
    head: EagleInference | None = None
    medusa: MedusaHeads | None = None
    draft: Decoder | None = None
    """A smaller model with the same vocabulary."""
    head_problem: str = ""
    """Why there is no head of either kind."""
    draft_problem: str = ""


@dataclass(frozen=True)
class Method:
    info: MethodInfo
    make: Callable[[Equipment], Drafter] | None
    """None for plain decoding."""
    missing: Callable[[Equipment], str] = lambda _equipment: ""
    """Why it cannot be used with this, and what would help; empty when it can."""
    rank: int = 0
    """Of the methods that can be used, the one with the highest rank is the default."""
    tunings: tuple[Mapping[str, SettingValue], ...] = ()
    """Combinations of settings that are worth a trial where they are left open (None), neighbours side
    by side; begun with is the one that holds the sizes to begin with, or the first. Sizes that a larger tree can tell about need none."""
    parse: Callable[[str, str], None] | None = None
    """``parse(name, text)`` raises :class:`PromptError` for a text setting that makes no sense."""


def needs_head(equipment: Equipment) -> str:
    if equipment.head is not None:
        return ""
    return equipment.head_problem or "It needs an EAGLE head. Choose one for this model."


# --------------------------------------------------------------------------- settings of several methods

NODES = MethodSetting(
    "nodes", "Nodes", "Rows verified in one pass of the target, root included.", SettingKind.INTEGER, None, 2, 256
)
DEPTH = MethodSetting("depth", "Depth", "Levels of guesses below the root.", SettingKind.INTEGER, None, 1, 32)
PUBLISHED_TREE = "mc_sim_7b_63"
"""What the papers call their tree; each method has one of its own by that name."""
TREE = MethodSetting(
    "tree",
    "Tree",
    "The published tree, or paths of ranks such as [[0], [1], [0, 0]]; its likeliest part is used "
    "where nodes or depth allow no more.",
    SettingKind.TEXT,
    PUBLISHED_TREE,
    choices=(PUBLISHED_TREE,),
)
TOP_K = MethodSetting(
    "top_k",
    "Top-k",
    "Children considered for each node, and nodes expanded at each level.",
    SettingKind.INTEGER,
    None,
    1,
    64,
)
THRESHOLD = MethodSetting(
    "threshold",
    "Confidence threshold",
    "A guess that the drafter gives less than this gets no guesses of its own; 0.2 to 0.4 are usual, "
    "0 switches it off.",
    SettingKind.NUMBER,
    0.0,
    0.0,
    1.0,
)


def options_of(method: Method, settings: GenerationSettings) -> dict[str, SettingValue | None]:
    """The method's settings for a reply, complete. :class:`PromptError` for one that is unknown or
    out of range. ``settings.tree`` fills nodes, depth and top-k where the method has them."""
    known = {setting.name: setting for setting in method.info.settings}
    options = {name: setting.default for name, setting in known.items()}
    for name in TreeSettings.__dataclass_fields__:
        value = getattr(settings.tree, name)
        if value is not None and name in known:
            options[name] = _checked(method, known[name], value)
    for name, value in settings.options:
        if name not in known:
            raise PromptError(
                f"{method.info.name} has no setting “{name}”.",
                f"It has {', '.join(known)}." if known else "It has none at all.",
            )
        options[name] = _checked(method, known[name], value)
    return options


def _checked(method: Method, setting: MethodSetting, value: SettingValue) -> SettingValue:
    kind = setting.kind
    what = f"{method.info.name}: {setting.title.lower()} is {value!r}."
    if kind in (SettingKind.INTEGER, SettingKind.NUMBER):
        whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if not number or (kind is SettingKind.INTEGER and not whole):
            raise PromptError(what, "It must be a whole number." if not whole else "It must be a number.")
        low, high = setting.low, setting.high
        assert isinstance(value, int | float) and low is not None and high is not None
        if not low <= value <= high:
            raise PromptError(what, f"It must be between {low:g} and {high:g}.")
        return int(value) if kind is SettingKind.INTEGER else float(value)
    if kind is SettingKind.SWITCH:
        if not isinstance(value, bool):
            raise PromptError(what, "It must be on or off.")
    elif not isinstance(value, str):
        raise PromptError(what, "It must be a text.")
    elif kind is SettingKind.CHOICE and value not in setting.choices:
        raise PromptError(what, f"It must be one of {', '.join(setting.choices)}.")
    elif kind is SettingKind.TEXT and method.parse is not None:
        method.parse(setting.name, value)
    return value


def parse_value(setting: MethodSetting, text: str) -> SettingValue:
    """A value as typed on a command line. :class:`PromptError` when it is of another kind."""
    try:
        match setting.kind:
            case SettingKind.INTEGER:
                return int(text)
            case SettingKind.NUMBER:
                return float(text)
            case SettingKind.SWITCH:
                return {"on": True, "true": True, "1": True, "off": False, "false": False, "0": False}[
                    text.lower()
                ]
            case _:
                return text
    except (ValueError, KeyError):
        raise PromptError(
            f"{setting.title} is “{text}”.", f"It must be {_KINDS[setting.kind]}."
        ) from None


_KINDS = {
    SettingKind.INTEGER: "a whole number",
    SettingKind.NUMBER: "a number",
    SettingKind.SWITCH: "on or off",
}


class Methods:
    """The methods that can be used with what is loaded."""

    def __init__(self, equipment: Equipment, known: tuple[Method, ...]) -> None:
        self.equipment = equipment
        self._known = {method.info.id: method for method in known}
        self._problems = {method.info.id: method.missing(equipment) for method in known}
        usable = [method for method in known if not self._problems[method.info.id]]
        self.default = max(usable, key=lambda method: method.rank).info.id
        """Id of the method that is used when none is named."""

    @property
    def infos(self) -> tuple[MethodInfo, ...]:
        return tuple(
            replace(method.info, problem=self._problems[name]) for name, method in self._known.items()
        )

    def choose(self, settings: GenerationSettings) -> tuple[Method, Options]:
        """What ``settings`` ask for. :class:`PromptError` for a method that is unknown or cannot be used."""
        name = settings.method or self.default
        method = self._known.get(name)
        if method is None:
            raise PromptError(f"There is no method “{name}”.", f"Choose one of {', '.join(self._known)}.")
        if self._problems[name]:
            raise PromptError(f"{method.info.name} cannot be used here.", self._problems[name])
        return method, options_of(method, settings)
