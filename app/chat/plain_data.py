"""Frozen dataclasses from what was stored as JSON: a file may hold anything, a dataclass only what it says.

A value of another kind raises; so a wrong one is left out where it is read, and does not
break what shows it later. Fields that a newer Eyrie has added are passed over.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import is_dataclass
from enum import Enum
from functools import lru_cache
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

Made = TypeVar("Made")

LARGEST = 2**63
"""Whole numbers are smaller."""


def built(kind: type[Made], values: object) -> Made:
    """An object of a dataclass. :raises ValueError: a value does not fit, or one without a default is missing."""
    if not isinstance(values, Mapping):
        raise ValueError(f"{kind.__name__} is no table")
    hints = _hints(kind)
    try:
        return kind(**{name: fitted(hints[name], value) for name, value in values.items() if name in hints})
    except TypeError as error:
        raise ValueError(str(error)) from error


@lru_cache(maxsize=64)
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)


def fitted(hint: Any, value: Any) -> Any:
    """``value`` as the type ``hint`` wants it; lists become tuples. :raises ValueError: it is something else."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        for each in arguments:
            try:
                return fitted(each, value)
            except ValueError:
                continue
    elif origin is tuple and isinstance(value, list | tuple):
        if arguments[-1] is Ellipsis:
            return tuple(fitted(arguments[0], each) for each in value)
        if len(arguments) == len(value):
            return tuple(fitted(each, part) for each, part in zip(arguments, value, strict=True))
    elif isinstance(hint, type) and _is(hint, value):
        return float(value) if hint is float else value
    elif isinstance(hint, type) and issubclass(hint, Enum):
        return hint(value)
    elif is_dataclass(hint):
        return built(hint, value)  # type: ignore[arg-type]
    raise ValueError(f"{value!r:.60} is no {hint}")


def _is(hint: type, value: Any) -> bool:
    """Whether a value is of one of the kinds that JSON knows."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if hint is float:
        return number and math.isfinite(value) and abs(value) < LARGEST
    if hint is int:
        return number and isinstance(value, int) and abs(value) < LARGEST
    return hint in (bool, str, NoneType) and isinstance(value, hint)
