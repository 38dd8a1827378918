"""Where Eyrie keeps its files on this system.

``EYRIE_DATA_DIR`` moves all of it below one folder, for portable copies and for
tests. Functions and not constants, so that a change of the environment counts.
"""

from __future__ import annotations

import os
from pathlib import Path

import platformdirs

from engine.errors import ResourceError

DATA_DIR_VARIABLE = "EYRIE_DATA_DIR"
_NAME = "eyrie"


def data_folder() -> Path:
    """Chats and what else cannot be made again."""
    return _made(_chosen("") or platformdirs.user_data_path(_NAME, appauthor=False))


def cache_folder() -> Path:
    """Converted and downloaded models, measurements: large, and safe to delete."""
    return _made(_chosen("cache") or platformdirs.user_cache_path(_NAME, appauthor=False))


def config_folder() -> Path:
    """Settings."""
    return _made(_chosen("config") or platformdirs.user_config_path(_NAME, appauthor=False))


def log_folder() -> Path:
    """Log files."""
    return _made(_chosen("logs") or platformdirs.user_log_path(_NAME, appauthor=False))


def _chosen(part: str) -> Path | None:
    root = os.environ.get(DATA_DIR_VARIABLE)
    return Path(root).expanduser().absolute() / part if root else None


def _made(folder: Path) -> Path:
    """:raises ResourceError: the folder cannot be made."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ResourceError(
            f"The folder {folder} cannot be made ({error.strerror or error}).",
            f"Free space or change its permissions, or set {DATA_DIR_VARIABLE} to a folder that can be written.",
        ) from error
    return folder


def name_of(folder: Path) -> str:
    """The folder's name; of a snapshot in the hub cache, which is called by its commit, the repository's."""
    top = folder.parent.parent.name
    if folder.parent.name == "snapshots" and top.startswith("models--"):
        return top.removeprefix("models--").replace("--", "/")
    return folder.name
