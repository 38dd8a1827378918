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
) -> T:
    """What ``make`` measures: as it was kept under ``kind`` and ``name``, or made and kept now.

    ``write`` gives what JSON can hold, and ``read`` the value again; it raises where that makes no sense.
    """
    path = cache_folder() / kind / f"{_key(name)}.json"
    if not fresh:
        try:
            return read(json.loads(path.read_text(encoding="utf-8")))
        except (OSError, ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError):
            pass  # not there, damaged, or of another version
    value = make()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(f".{os.getpid()}.part")
        part.write_text(json.dumps(write(value)), encoding="utf-8")
        part.replace(path)
    except OSError:
        pass  # it is measured again next time
    return value


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
