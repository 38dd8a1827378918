"""Where the application keeps its files."""

from __future__ import annotations

import os
from pathlib import Path

import platformdirs

DATA_DIR_VARIABLE = "EYRIE_DATA_DIR"


def data_folder(asked_for: str | None = None) -> Path:
    """The data folder: the command line's, else the environment's, else the system's. It is created.

    :raises OSError: it cannot be created.
    """
    chosen = asked_for or os.environ.get(DATA_DIR_VARIABLE)
    folder = Path(chosen).expanduser() if chosen else platformdirs.user_data_path("eyrie", appauthor=False)
    folder = folder.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    return folder
