"""``python -m engine inspect``: what a folder, a file or a repository holds, what it pairs with, its memory."""

from __future__ import annotations

import argparse
from pathlib import Path

from engine.commands import inspect_report as report
from engine.commands.looking import Looked, look
from engine.errors import HeadError, ModelError
from engine.loaded import DEMO, DEMO_HEAD


def run(arguments: argparse.Namespace) -> int:
    """1 when files are wrong, or a head and a target that were named do not fit each other."""
    if arguments.path == DEMO:
        from engine.models.demo import demo_folder

        folder = look(str(demo_folder(lambda *_: None, lambda: False)))
        report.target(folder, None)
        print()
        return report.head(look(str(DEMO_HEAD)), folder)
    path = Path(arguments.path).expanduser()
    if path.suffix == ".gguf" and path.exists():
        report.gguf(path)
        return 0
    if path.is_file():
        raise ModelError(f"{path} is a file.", "Give a model folder, a head folder or a .gguf file.")
    found = look(arguments.path)
    if found.is_head:
        if arguments.head:
            raise HeadError(f"{found.name} is a head itself.", "Name the model with --target.")
        return report.head(found, _named(arguments.target, is_head=False))
    if arguments.target:
        raise ModelError(f"{found.name} is a model itself.", "Name the head with --head.")
    return report.target(found, _named(arguments.head, is_head=True))


def _named(name: str | None, is_head: bool) -> Looked | None:
    if not name:
        return None
    found = look(name)
    if found.is_head is not is_head:
        raise ModelError(
            f"{found.name} is a {'model' if is_head else 'head'}, not a {'head' if is_head else 'model'}.",
            f"Name a {'head' if is_head else 'model'}.",
        )
    return found
