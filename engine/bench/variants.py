"""What is measured: methods with their settings, read from the command line and checked before a model loads."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace

from engine.commands.method_options import read_options
from engine.drafting.method import Method, options_of
from engine.drafting.registry import METHODS
from engine.drafting.static_growth import DRAW
from engine.errors import PromptError
from engine.settings import GenerationSettings, SettingValue, TreeSettings

PLAIN = "plain"
ALL = "all"
GRID = "nodes=2,4,8,12,16;depth=2,4,8"
"""What ``--sweep`` tries where no grid is given."""
_KNOWN = {method.info.id: method for method in METHODS}


@dataclass(frozen=True, slots=True)
class Variant:
    """A method with some of its settings; what is left out has its default or is the engine's choice."""

    method: str
    options: tuple[tuple[str, SettingValue], ...] = ()
    fixed: bool = False
    """Never adapts: every size stays, and it drafts also where that loses."""

    @property
    def label(self) -> str:
        """Names it in tables and in JSON."""
        given = ", ".join(f"{name}={value}" for name, value in self.options)
        return f"{self.method} ({given})" if given else self.method

    @property
    def name(self) -> str:
        """The method's name for people."""
        return _KNOWN[self.method].info.name

    def settings(self, base: GenerationSettings) -> GenerationSettings:
        """``base`` with this method; the sizes of ``base.tree`` reach methods that have such settings."""
        return replace(
            base,
            method=self.method,
            options=self.options,
            eagle=self.method != PLAIN,
            adapt=base.adapt and not self.fixed,
        )

    def same_text(self, temperature: float) -> bool:
        """Whether the reply must be that of plain decoding with the same seed, id for id.

        Guesses that are drawn, and lossy settings, give another text above temperature 0.
        """
        chosen = options_of(_KNOWN[self.method], self.settings(GenerationSettings()))
        lossy = any(chosen[setting.name] in setting.lossy for setting in _KNOWN[self.method].info.settings)
        return temperature == 0 or not (chosen.get(DRAW.name) or lossy)


def parse_methods(text: str, tree: TreeSettings) -> list[Variant]:
    """``all``, or a comma list of ``method`` and ``method:name=value,name=value``.

    Raises :class:`PromptError` for a method or a setting that is unknown, or a value out of range.
    """
    if text.strip() == ALL:
        found = [Variant(method.info.id) for method in METHODS if method.info.drafts]
    else:
        found = [_variant(piece) for piece in _pieces(text)]
    for variant in found:
        options_of(_KNOWN[variant.method], variant.settings(GenerationSettings(tree=tree)))
    return list(dict.fromkeys(found))


def _pieces(text: str) -> list[str]:
    """Split at commas outside brackets; what has a value but no method goes on with the one before."""
    pieces: list[str] = []
    for part in _split(text):
        part = part.strip()
        if pieces and "=" in part and ":" not in part.partition("=")[0]:
            pieces[-1] += f"\n{part}"
        elif part:
            pieces.append(part)
    if not pieces:
        raise PromptError("No method is named.", f"Write {ALL}, or some of {_drafting()}.")
    return pieces


def _split(text: str) -> list[str]:
    parts, depth = [""], 0
    for character in text:
        depth += (character == "[") - (character == "]")
        if character == "," and depth <= 0:
            parts.append("")
        else:
            parts[-1] += character
    return parts


def _variant(piece: str) -> Variant:
    name, _, given = piece.partition(":")
    method = _KNOWN.get(name)
    if method is None or not method.info.drafts:
        what = "Plain decoding is always measured" if method else f"There is no method “{name}”"
        raise PromptError(f"{what}.", f"Write {ALL}, or some of {_drafting()}.")
    return Variant(name, read_options(name, [pair for pair in given.split("\n") if pair]))


def _drafting() -> str:
    return ", ".join(method.info.id for method in METHODS if method.info.drafts)


def grid(method: str, text: str) -> list[Variant]:
    """Every combination of ``name=value,value;name=value`` that differs in effect, with fixed settings.

    Names that the method does not have are left out of the built-in grid; of a grid that was
    asked for they raise :class:`PromptError`.
    """
    known = _method(method)
    axes: list[list[tuple[str, SettingValue]]] = []
    for axis in filter(None, (part.strip() for part in (text or GRID).split(";"))):
        name, _, values = axis.partition("=")
        if not text and name not in {setting.name for setting in known.info.settings}:
            continue
        axes.append([read_options(method, [f"{name}={value.strip()}"])[0] for value in values.split(",")])
    found = [Variant(method, tuple(combination), fixed=True) for combination in itertools.product(*axes)]
    for variant in found:
        options_of(known, variant.settings(GenerationSettings()))
    if not axes:
        raise PromptError(f"{known.info.name} has no sizes to try.", "Give a grid: --grid name=value,value;…")
    by_effect: dict[tuple[tuple[str, SettingValue], ...], Variant] = {}
    for variant in found:
        by_effect.setdefault(_effect(variant), variant)
    return list(by_effect.values())


def _effect(variant: Variant) -> tuple[tuple[str, SettingValue], ...]:
    """Its settings with no more levels than there are nodes for."""
    sizes = dict(variant.options)
    nodes, depth = sizes.get("nodes"), sizes.get("depth")
    if isinstance(nodes, int) and isinstance(depth, int):
        sizes["depth"] = min(depth, nodes - 1)
    return tuple(sizes.items())


def _method(name: str) -> Method:
    _variant(name)
    return _KNOWN[name]
