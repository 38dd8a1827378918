"""Tokens written so that every character of them can be seen. No Qt.

A token is untrusted text: it may hold only white space, control characters that turn the
writing direction round, or half an emoji. Here it becomes one safe line.
"""

from __future__ import annotations

import unicodedata

MARKS = {
    " ": "␣",
    "\n": "↵",
    "\t": "⇥",
    "\r": "␍",
    "\u00a0": "⍽",
    "\u2028": "↵",
    "\u2029": "↵",
    "\u3000": "␣",
}
"""White space and the mark that stands for it."""

MARK_CHARACTERS = frozenset(MARKS.values())

_RUN = 4
"""From this length on, a run of one mark is written once with its count."""

_JOINERS = ("\u200c", "\u200d")
"""Zero-width characters that emoji and several scripts need between letters."""


def _written(character: str) -> str:
    mark = MARKS.get(character)
    if mark is not None:
        return mark
    category = unicodedata.category(character)
    if category in ("Cc", "Cf", "Cs", "Zl", "Zp", "Zs") and character not in _JOINERS:
        # Tags and variation of emoji flags are Cf too; shown as codes they are ugly but true.
        return f"‹{ord(character):04X}›"
    return character


def visible(text: str, limit: int = 48) -> str:
    """``text`` on one line with white space marked: ``" the\\n"`` becomes ``"␣the↵"``.

    At most about ``limit`` characters of the token are written, then an ellipsis, so that a
    hostile token of a million characters costs no more than a long word. An empty token
    (a byte of a character that is not complete yet) becomes ``"∅"``.
    """
    if not text:
        return "∅"
    out: list[str] = []
    length = 0
    position = 0
    while position < len(text):
        if length >= limit:
            out.append("…")
            break
        character = text[position]
        run = 1
        if character in MARKS:
            while position + run < len(text) and text[position + run] == character:
                run += 1
        written = _written(character)
        if run >= _RUN:
            written = f"{written}×{run}"
        else:
            written *= run
        out.append(written)
        length += len(written)
        position += run
    return "".join(out)


def isolated(text: str) -> str:
    """``text`` between first-strong isolates, so that it cannot reorder the sentence round it."""
    return f"\u2068{text}\u2069"


def quoted(text: str, limit: int = 48) -> str:
    """A token inside a sentence: visible, in quotation marks and isolated."""
    return f"“{isolated(visible(text, limit))}”"


def percent(probability: float | None) -> str:
    """``0.624`` as ``"62 %"``; the ends say that they are not exact; ``None`` is a dash."""
    if probability is None:
        return "–"
    if not 0.0 <= probability <= 1.0:  # also catches NaN
        return "?"
    if 0.0 < probability < 0.005:
        return "<1 %"
    if 0.995 <= probability < 1.0:
        return ">99 %"
    return f"{probability * 100:.0f} %"
