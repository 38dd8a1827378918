"""What the user has chosen, and where it is kept. No Qt here.

One JSON file in the data folder, written to a temporary file first and moved into
place, so that a power cut leaves either the old or the new one. A file that cannot
be read is set aside under another name, never overwritten, and the user is told.
"""

from __future__ import annotations

import json
import logging
import os
import re
import tempfile
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from app.chat.notifier import Notifier
from app.language import tr
from app.language.choice import Language
from app.theme import ThemeChoice
from engine.protocol import GenerationSettings, TreeSettings

log = logging.getLogger(__name__)

FILE_NAME = "settings.json"


@dataclass(frozen=True, slots=True)
class Settings:
    """Every choice, with its default."""

    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int = 0
    max_new_tokens: int = 256
    seed: int | None = None
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    no_repeat_ngram: int = 0
    eagle: bool = True
    tree_nodes: int | None = None
    """``None``: the engine measures and chooses."""
    tree_depth: int | None = None
    highlight: bool = True
    """Mark accepted draft tokens in the replies."""
    theme: ThemeChoice = ThemeChoice.SYSTEM
    language: Language = Language.SYSTEM
    font_size: int | None = None
    """Points; ``None`` is the system's."""
    reduced_motion: bool = False
    """Show what grows a few times a second instead of at every frame."""
    idle_unload_minutes: int | None = 30
    """Minutes without use after which the model is unloaded; ``None``: never."""
    models: Mapping[str, Any] = field(default_factory=dict)
    """By model: what it has its own way; see :mod:`app.settings.per_model`."""
    loads: Mapping[str, Any] = field(default_factory=dict)
    """By model: how it is loaded; see :mod:`app.settings.loading`."""
    last: Mapping[str, Any] = field(default_factory=dict)
    """The pair that was loaded last."""
    tour_seen: bool = False
    licences_seen: tuple[str, ...] = ()
    demo_notice_dismissed: bool = False

    def generation(self) -> GenerationSettings:
        return GenerationSettings(
            temperature=self.temperature,
            top_p=self.top_p,
            top_k=self.top_k,
            max_new_tokens=self.max_new_tokens,
            seed=self.seed,
            min_p=self.min_p,
            repetition_penalty=self.repetition_penalty,
            presence_penalty=self.presence_penalty,
            frequency_penalty=self.frequency_penalty,
            no_repeat_ngram=self.no_repeat_ngram,
            eagle=self.eagle,
            tree=TreeSettings(nodes=self.tree_nodes, depth=self.tree_depth),
        )


LIMITS: dict[str, tuple[float, float]] = {
    "temperature": (0.0, 2.0),
    "top_p": (0.05, 1.0),
    "top_k": (0, 1000),
    "max_new_tokens": (1, 32768),
    "seed": (0, 2**31 - 1),
    "min_p": (0.0, 1.0),
    "repetition_penalty": (0.5, 2.0),
    "presence_penalty": (-2.0, 2.0),
    "frequency_penalty": (-2.0, 2.0),
    "no_repeat_ngram": (0, 64),
    "tree_nodes": (2, 128),
    "tree_depth": (1, 16),
    "font_size": (7, 32),
    "idle_unload_minutes": (1, 1440),
    "context": (256, 1_048_576),
}
"""Smallest and largest value of every number."""

MAY_BE_NONE = ("idle_unload_minutes",)
"""Numbers that can be left out although their default is one."""

CHOICES_KEPT = ("licences_seen", "demo_notice_dismissed", "tour_seen", "models", "loads", "last")
"""What "restore defaults" leaves alone: what the user has been told, and what models have their own way."""


def _checked(name: str, value: Any, default: Any) -> Any:
    """A value from the file as its field wants it. :raises ValueError: it does not fit."""
    if name in ("models", "loads"):
        if not isinstance(value, dict) or not all(isinstance(table, dict) for table in value.values()):
            raise ValueError("a table of models is expected")
        return value
    if name == "last":
        if not isinstance(value, dict):
            raise ValueError("a table is expected")
        return value
    if name == "theme":
        return ThemeChoice(value)
    if name == "language":
        return Language(value)
    if name == "licences_seen":
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise ValueError("a list of names is expected")
        return tuple(value)
    if isinstance(default, bool):
        if not isinstance(value, bool):
            raise ValueError("true or false is expected")
        return value
    if value is None and (default is None or name in MAY_BE_NONE):
        return None
    whole = not isinstance(default, float)
    if isinstance(value, bool) or not isinstance(value, int if whole else int | float):
        raise ValueError("a whole number is expected" if whole else "a number is expected")
    low, high = LIMITS[name]
    if not low <= value <= high:
        raise ValueError(f"a number from {low:g} to {high:g} is expected")
    return value if whole else float(value)


def fits(name: str, value: object) -> bool:
    """Whether a number from elsewhere is one that a field of ``Settings`` takes."""
    try:
        return _checked(name, value, getattr(Settings(), name)) is not None
    except ValueError:
        return False


def _told(kept: str) -> str:
    """Where a file was set aside, as a further sentence; "" where it was not."""
    return " " + tr("Settings", "The old file is kept as {file}.").format(file=kept) if kept else ""


class SettingsStore:
    """The settings in force. ``changed`` is called with the new ones, ``save`` writes them."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE_NAME
        self._current = Settings()
        self.problem = ""
        """What went wrong with the file, for people; empty when nothing did."""
        self.changed: Notifier[Settings] = Notifier()
        self._dirty = False
        self._load()

    @property
    def path(self) -> Path:
        return self._path

    @property
    def current(self) -> Settings:
        return self._current

    def update(self, **changes: Any) -> None:
        """Change some fields; observers hear of it only when something differs."""
        wanted = replace(self._current, **changes)
        if wanted != self._current:
            self._current = wanted
            self._dirty = True
            self.changed(wanted)

    def restore_defaults(self) -> None:
        defaults = Settings()
        self.update(
            **{
                item.name: getattr(defaults, item.name)
                for item in fields(Settings)
                if item.name not in CHOICES_KEPT
            }
        )

    def save(self) -> bool:
        """Write what has changed. ``False``, and ``problem`` set, when that was not possible."""
        if not self._dirty:
            return True
        text = json.dumps(asdict(self._current), indent=2, ensure_ascii=False) + "\n"
        # Names of files that are no proper text stand in Python strings as halves of pairs, which JSON can escape.
        text = re.sub("[\ud800-\udfff]", lambda half: f"\\u{ord(half[0]):04x}", text)
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            handle, name = tempfile.mkstemp(prefix=FILE_NAME, suffix=".new", dir=self._path.parent)
            try:
                with os.fdopen(handle, "w", encoding="utf-8") as file:
                    file.write(text)
                    file.flush()
                    os.fsync(file.fileno())
                os.replace(name, self._path)
            except BaseException:
                os.unlink(name)
                raise
        except OSError as error:
            log.warning("settings not saved: %s", error)
            text = tr("Settings", "The settings could not be saved: {error}.")
            self.problem = text.format(error=error.strerror or error)
            return False
        self._dirty = False
        return True

    def _load(self) -> None:
        try:
            raw = json.loads(self._path.read_text(encoding="utf-8"))
            if not isinstance(raw, dict):
                raise ValueError("the file does not hold a table")
        except FileNotFoundError:
            return
        except (OSError, ValueError, RecursionError) as error:
            log.warning("settings not readable: %s", error)
            self.problem = tr("Settings", "The settings file could not be read, so the defaults apply.")
            self.problem += _told(self._set_aside())
            return
        wrong = []
        values: dict[str, Any] = {}
        defaults = Settings()
        for item in fields(Settings):
            if item.name not in raw:
                continue
            try:
                values[item.name] = _checked(item.name, raw[item.name], getattr(defaults, item.name))
            except ValueError as error:
                log.warning("setting %s: %s", item.name, error)
                wrong.append(item.name.replace("_", " "))
        self._current = replace(defaults, **values)
        if wrong:
            text = tr("Settings", "Some settings were not valid and have their default again: {names}.")
            self.problem = text.format(names=", ".join(wrong)) + _told(self._set_aside(copy=True))
            self._dirty = True

    def _set_aside(self, copy: bool = False) -> str:
        """Keep the unusable file under another name; the name, or "" when that failed."""
        target = self._path.with_name(f"settings.broken-{time.strftime('%Y%m%d-%H%M%S')}.json")
        try:
            if copy:
                target.write_bytes(self._path.read_bytes())
            else:
                os.replace(self._path, target)
        except OSError as error:
            log.warning("the broken settings file stays where it is: %s", error)
            return ""
        return target.name
