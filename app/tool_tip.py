"""Text of others in a tooltip: Qt shows what looks like HTML as HTML there, and has no switch for it."""

from __future__ import annotations

from html import escape


def letter_for_letter(text: str) -> str:
    """What to set as a tooltip so that ``text`` is read as it is: a title, a name, a token, a prompt."""
    if "<" not in text and "&lt;" not in text:
        return text
    return f'<span style="white-space: pre-wrap">{escape(text)}</span>'
