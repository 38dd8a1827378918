"""Measurements that are kept between starts, so that the second load of a model is quick.

One small JSON file each, below the cache folder. What a measurement depends on is part of its
name, so that it is made anew when anything of that changes: this machine, its libraries,
the files of model and head. A file that cannot be read, or makes no sense, counts as not there.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import torch

from engine import __version__
from engine.paths import cache_folder

T = TypeVar("T")


def remembered(
    kind: str,
    name: str,
    make: Callable[[], T],
    *,
    read: Callable[[object], T],
    write: Callable[[T], object],
    fresh: bool = False,
    worth: Callable[[T], bool] = lambda _: True,
) -> T:
    """What ``make`` measures: as it was kept under ``kind`` and ``name``, or made and kept now.

    ``write`` gives what JSON can hold, and ``read`` the value again; it raises where that makes no sense.
    What is not ``worth`` it is not kept, nor is what was kept before it.
    """
    if not fresh:
        found = recall(kind, name, read)
        if found is not None:
            return found
    value = make()
    if worth(value):
        keep(kind, name, write(value))
    else:
        forget(kind, name)
    return value


def recall(kind: str, name: str, read: Callable[[object], T]) -> T | None:
    """What was kept, as ``read`` understands it; None where it is not there, damaged, or of another version."""
    try:
        return read(json.loads(_path(kind, name).read_text(encoding="utf-8")))
    except (OSError, ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError):
        return None


def keep(kind: str, name: str, value: object) -> None:
    """Keep ``value``, which JSON can hold; where that fails it is measured again next time."""
    path = _path(kind, name)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(f".{os.getpid()}.part")
        part.write_text(json.dumps(value), encoding="utf-8")
        part.replace(path)
    except OSError:
        pass


def forget(kind: str, name: str) -> None:
    """Keep nothing under this name any more."""
    with suppress(OSError):
        _path(kind, name).unlink(missing_ok=True)


def _path(kind: str, name: str) -> Path:
    return cache_folder() / kind / f"{_key(name)}.json"


def identity(path: Path) -> str:
    """Words that change when the file, or a file in the folder, is another one: by size and date."""
    found = [str(path)]
    try:
        for file in sorted(path.iterdir()) if path.is_dir() else [path]:
            if file.is_file():
                state = file.stat()
                found.append(f"{file.name} {state.st_size} {state.st_mtime_ns}")
    except OSError as error:
        found.append(f"{error.errno}")
    return "|".join(found)


def _key(name: str) -> str:
    machine = f"{platform.node()}|{platform.machine()}|{platform.processor()}|{torch.get_num_threads()}"
    return hashlib.sha256(f"{__version__}|{machine}|{torch.__version__}|{name}".encode()).hexdigest()[:24]
