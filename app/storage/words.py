"""How texts are cut into words for the search, and where a query is found in a text.

SQLite's tokenizer cuts at spaces and punctuation; Chinese, Japanese and Korean are
written without spaces, so every such character is made a word of its own
before a text is indexed, and a run of them in a query becomes a phrase.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass

DENSE = "\u1100-\u11ff\u2e80-\u2fdf\u3040-\u30ff\u3130-\u318f\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"
"""Ranges of characters that are words by themselves."""
_DENSE = re.compile(f"([{DENSE}])")
_TERM = re.compile(f"[{DENSE}]+|[^\\W_{DENSE}]+")
SNIPPET = 90
"""Characters of a text shown around its first hit."""
BEFORE = 14
"""Those of them that stand before it: the list is narrow."""


def spaced(text: str) -> str:
    """The text as it is indexed."""
    return _DENSE.sub(r" \1 ", text)


def terms(query: str) -> list[str]:
    """The words of a query, runs of dense characters in one piece."""
    return _TERM.findall(query)


def signs(query: str) -> str:
    """A query of nothing but signs, as an emoji or ``->``, which no index of words has; else ""."""
    return "" if terms(query) else query.strip()


def match(query: str) -> str:
    """An FTS5 expression: all words, each as the beginning of a word. Empty when there is none."""
    parts = []
    for term in terms(query):
        if _DENSE.match(term):
            parts.append('"' + " ".join(term) + '"')
        else:
            parts.append(f'"{term}"*')
    return " AND ".join(parts)


def _fold(text: str) -> str:
    """Lower case without accents, one character for one character."""
    if text.isascii():
        return text.lower()
    return "".join(_fold_one(character) for character in text)


def _fold_one(character: str) -> str:
    if character.isascii():
        return character.lower()
    plain = unicodedata.normalize("NFD", character)[0].casefold()
    return plain if len(plain) == 1 else character


def hits(text: str, query: str) -> list[tuple[int, int]]:
    """Where the words of a query stand in a text: ``text[start:end]``, in order and apart."""
    folded = _fold(text)
    found: list[tuple[int, int]] = []
    if literal := signs(query):
        found.extend(_occurrences(text, literal, dense=True))
    for term in terms(query):
        found.extend(_occurrences(folded, _fold(term), bool(_DENSE.match(term))))
    merged: list[tuple[int, int]] = []
    for start, end in sorted(found):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def _occurrences(text: str, term: str, dense: bool) -> Iterator[tuple[int, int]]:
    at = text.find(term)
    while at >= 0:
        before = text[at - 1] if at else " "
        if dense or not (before.isalnum()) or _DENSE.match(before):
            yield at, at + len(term)
        at = text.find(term, at + 1)


@dataclass(frozen=True, slots=True)
class Snippet:
    """A piece of a text on one line, and where the query stands in it."""

    text: str
    hits: tuple[tuple[int, int], ...]


def snippet(text: str, query: str, length: int = SNIPPET) -> Snippet:
    """The surroundings of the first hit, cut at words; the beginning of the text when there is none."""
    # Long texts are searched near the first occurrence of the longest word only.
    first = _first(text, query)
    begin = max(0, first - BEFORE)
    if begin:
        space = text.find(" ", begin, first)
        begin = space + 1 if space >= 0 else begin
    piece = text[begin : begin + length]
    flat = re.sub(r"\s", " ", piece)
    lead = "…" if begin else ""
    flat = lead + flat + ("…" if begin + length < len(text) else "")
    return Snippet(flat, tuple(hits(flat, query)))


def _first(text: str, query: str) -> int:
    spans = hits(text[:20_000], query) or (hits(text, query) if len(text) > 20_000 else [])
    return spans[0][0] if spans else 0
