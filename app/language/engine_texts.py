"""Texts that come from the engine, in the user's language.

The engine's processes know no language: their errors, notices and descriptions arrive in
English, with names and numbers filled in. The translations hold what ``engine`` can say as
templates with fields (``The prompt has {0} tokens.``); an arriving text is compared with these, and
what stood in the fields is put into the translation. What fits no template is shown as it came.
"""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from xml.etree import ElementTree

from app.language import tr
from app.language.choice import Language
from app.language.installing import folder, shown

log = logging.getLogger(__name__)

CONTEXT = "engine"
ABOUT_IT = "Engine"
"""What the window says of the engine; it, too, is kept with replies in English."""
FIELD = re.compile(r"(\{\{|\}\}|\{\w*\})")
SENTENCES = re.compile(r"(?<=[.!?])\s+(?=\S)")
DEEPEST = 3
"""What stands in a field can itself be a text of the engine, and so on."""


@dataclass(frozen=True, slots=True)
class Template:
    """What the engine can say."""

    text: str
    pattern: re.Pattern[str]
    """Matches it filled in; one group a field."""
    needle: str
    """Its longest part without a field: where that is not found, nothing has to be compared."""


def template(text: str) -> Template:
    parts = [part for part in FIELD.split(text) if part]
    literal = [{"{{": "{", "}}": "}"}.get(part, part) for part in parts]
    pattern = "".join(
        "(.*?)" if FIELD.fullmatch(part) and part not in ("{{", "}}") else re.escape(shown_as)
        for part, shown_as in zip(parts, literal, strict=True)
    )
    plain = [part for part in parts if not FIELD.fullmatch(part)]
    return Template(text, re.compile(pattern, re.DOTALL), max(plain, key=len, default=""))


def names_of(text: str) -> list[str]:
    """The fields of a template, in the order in which they stand."""
    return [part[1:-1] for part in FIELD.findall(text) if part not in ("{{", "}}")]


@lru_cache(maxsize=4)
def templates(path: Path) -> tuple[Template, ...]:
    """The texts with fields of a ``.ts`` file, those that leave the least open first."""
    try:
        contexts = ElementTree.parse(path).getroot().iter("context")
        engine = next((each for each in contexts if each.findtext("name") == CONTEXT), None)
    except (OSError, ElementTree.ParseError) as error:
        log.warning("the engine's texts stay English: %s", error)
        return ()
    texts = [] if engine is None else [each.findtext("source", "") for each in engine.iter("message")]
    found = [template(text) for text in texts if names_of(text)]
    return tuple(sorted(found, key=lambda each: -len(FIELD.sub("", each.text))))


def of_engine(text: str) -> str:
    """What the engine said, translated as far as it is known."""
    if not text or shown() is Language.ENGLISH:
        return text
    return _translated(text, shown())


@lru_cache(maxsize=2048)
def _translated(text: str, language: Language, depth: int = 0) -> str:
    known = _as_a_whole(text, language, depth)
    if known is not None:
        return known
    sentences = SENTENCES.split(text)
    if len(sentences) == 1:
        return text
    return " ".join(_as_a_whole(each, language, depth) or each for each in sentences)


def _as_a_whole(text: str, language: Language, depth: int) -> str | None:
    """``text`` in ``language`` if it is one text of the engine."""
    for context in (CONTEXT, ABOUT_IT):
        translated = tr(context, text)
        if translated != text:
            return translated
    if depth >= DEEPEST:
        return None
    for each in templates(folder() / f"eyrie_{language.value}.ts"):
        if each.needle not in text or (match := each.pattern.fullmatch(text)) is None:
            continue
        translated = tr(CONTEXT, each.text)
        if translated == each.text:
            continue
        filled = {
            name: _translated(value, language, depth + 1)
            for name, value in zip(names_of(each.text), match.groups(), strict=True)
        }
        return _fill(translated, filled)
    return None


def _fill(text: str, values: dict[str, str]) -> str:
    """As ``str.format``, but what is put in may have braces of any kind."""

    def put(part: re.Match[str]) -> str:
        return {"{{": "{", "}}": "}"}.get(part[0]) or values[part[0][1:-1]]

    return FIELD.sub(put, text)
