"""Text of files that others have written: UTF-8, or what the file itself says at its beginning."""

from __future__ import annotations

import codecs

MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
"""How such files begin, of which Windows makes many; the longer marks come first."""


def decoded(raw: bytes) -> str:
    """:raises UnicodeDecodeError: it is no text, or one of a kind that cannot be told."""
    return raw.decode(next((name for mark, name in MARKS if raw.startswith(mark)), "utf-8"))
