"""The known pairs of targets and heads: a file of the project, and one of the user's."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from dataclasses import MISSING, fields
from importlib.resources import files
from pathlib import Path
from typing import Any

from engine.errors import EngineError
from engine.protocol.hub import CataloguePair

FILE_NAME = "catalog.toml"
FORMAT_VERSION = 1
FORMATS = (
    "SafeAILab EAGLE-1/2",
    "SafeAILab EAGLE-3",
    "SpecForge EAGLE-3",
    "AngelSlim EAGLE-3",
    "speculators EAGLE-3",
    "modelopt EAGLE-3",
    "Medusa",
)
"""As :class:`engine.heads.formats.HeadFormat` calls them; a test compares."""
CARDS = (0, 8, 12, 16, 24)
_FIELDS = {field.name: field for field in fields(CataloguePair)}
_NEEDED = [name for name, field in _FIELDS.items() if field.default is MISSING]


def shipped() -> tuple[CataloguePair, ...]:
    """The pairs that come with Eyrie."""
    return parse(files("resources").joinpath(FILE_NAME).read_text(encoding="utf-8"), FILE_NAME)


def catalogue(folder: Path | None = None) -> tuple[tuple[CataloguePair, ...], str]:
    """The shipped pairs and those of the user's file in ``folder``; what is wrong with that file, or ""."""
    pairs = shipped()
    if folder is None:
        return pairs, ""
    path = folder / FILE_NAME
    try:
        own = parse(path.read_text(encoding="utf-8"), str(path))
    except FileNotFoundError:
        return pairs, ""
    except OSError as error:
        return pairs, f"{path} cannot be read: {error.strerror or error}."
    except UnicodeDecodeError:
        return pairs, f"{path} cannot be read: it is no text in UTF-8."
    except EngineError as error:
        return pairs, error.message
    return merge(pairs, own), ""


def merge(pairs: Iterable[CataloguePair], own: Iterable[CataloguePair]) -> tuple[CataloguePair, ...]:
    """``own`` pairs replace those of the same target and head, and are added otherwise."""
    merged = {(pair.target, pair.head): pair for pair in pairs}
    merged.update({(pair.target, pair.head): pair for pair in own})
    return tuple(merged.values())


def parse(text: str, where: str) -> tuple[CataloguePair, ...]:
    """:raises EngineError: naming the first thing that is wrong, and in which pair."""

    def wrong(what: str) -> EngineError:
        return EngineError(f"{where}: {what}.", "Correct the file, or delete it.")

    try:
        raw = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise wrong(str(error)) from None
    except RecursionError:
        raise wrong("it is nested too deep") from None
    if raw.get("format_version") != FORMAT_VERSION:
        raise wrong(f"format_version {FORMAT_VERSION} is expected")
    if unknown := set(raw) - {"format_version", "pair"}:
        raise wrong(f"“{min(unknown)}” is not known")
    listed = raw.get("pair", [])
    if not isinstance(listed, list):
        raise wrong("[[pair]] is expected")
    pairs: list[CataloguePair] = []
    seen: set[tuple[str, str]] = set()
    for number, entry in enumerate(listed, 1):
        try:
            pair = _pair(entry)
        except OverflowError:
            raise wrong(f"pair {number}: a number is too large") from None
        except ValueError as error:
            raise wrong(f"pair {number}: {error}") from None
        if (pair.target, pair.head) in seen:
            raise wrong(f"pair {number}: {pair.target} with {pair.head} is there twice")
        seen.add((pair.target, pair.head))
        pairs.append(pair)
    return tuple(pairs)


def _pair(entry: dict[str, Any]) -> CataloguePair:
    """:raises ValueError: a field is missing, unknown or senseless."""
    if not isinstance(entry, dict):
        raise ValueError("it is no table")
    if unknown := set(entry) - set(_FIELDS):
        raise ValueError(f"“{min(unknown)}” is not known")
    if absent := [name for name in _NEEDED if name not in entry]:
        raise ValueError(f"“{absent[0]}” is missing")
    values: dict[str, Any] = {}
    for name, value in entry.items():
        kind = str(_FIELDS[name].type)
        if kind.startswith("tuple"):
            item: type = int if "int" in kind else str
            if not isinstance(value, list) or not all(type(each) is item for each in value):
                raise ValueError(f"“{name}” is no list of {'numbers' if item is int else 'words'}")
            values[name] = tuple(value)
        elif kind == "float":
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise ValueError(f"“{name}” is no number")
            values[name] = float(value)
        elif type(value).__name__ != kind:
            raise ValueError(f"“{name}” is not of the type {kind}")
        else:
            values[name] = value
    pair = CataloguePair(**values)
    for repo in (pair.target, pair.head):
        if repo.count("/") != 1 or not all(part.strip() for part in repo.split("/")):
            raise ValueError(f"“{repo}” is no name of a repository")
    if pair.format not in FORMATS:
        raise ValueError(f"the format “{pair.format}” is not known")
    if pair.vram_gb not in CARDS:
        raise ValueError(f"vram_gb is one of {', '.join(map(str, CARDS))}")
    if pair.parameters <= 0 or pair.draft_vocabulary < 0 or pair.context < 0:
        raise ValueError("a size is negative or 0")
    if pair.taps and (len(pair.taps) != 3 or list(pair.taps) != sorted(set(pair.taps)) or pair.taps[0] < 0):
        raise ValueError("“taps” are three layers in ascending order")
    if pair.speedup and not (1 <= pair.speedup < 10 and pair.speedup_source):
        raise ValueError("a speed-up needs its source, and lies between 1 and 10")
    return pair
