"""What strangers wrote, made plain: JSON that may be anything, texts of one line, numbers that are numbers."""

from __future__ import annotations

import json
import unicodedata
from typing import Any

LARGEST = 10**15
"""No size in bytes and no count on the hub is larger."""


def json_object(text: str | bytes) -> dict[str, Any]:
    """:raises ValueError: it is no JSON, is nested without end, or is anything but an object."""
    try:
        found = json.loads(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if not isinstance(found, dict):
        raise ValueError("no object")
    return found


def line(text: object, most: int) -> str:
    """A text on one line, without what is invisible or turns the direction of writing; "" for anything else."""
    if not isinstance(text, str):
        return ""
    words = " ".join(text[: 4 * most].split())
    return "".join(letter for letter in words if unicodedata.category(letter)[0] != "C")[:most]


def count(number: object) -> int:
    """A number of things; 0 for what is none, and never more than :data:`LARGEST`."""
    if isinstance(number, bool) or not isinstance(number, int):
        return 0
    return max(0, min(number, LARGEST))


def texts(many: object) -> tuple[str, ...]:
    """The texts of a list; () for anything else."""
    return tuple(each for each in many if isinstance(each, str)) if isinstance(many, list | tuple) else ()
