"""Names of files that are about to be written: whole, with their ending, before anything is replaced."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from PySide6.QtWidgets import QFileDialog


def offer(dialog: QFileDialog, stem: str, endings: Mapping[str, str]) -> None:
    """Have a dialog complete the name that is typed, so that it asks before it replaces the file of that name.

    :param endings: by name filter, as ``".json"``.
    """
    dialog.setNameFilters(list(endings))
    dialog.setAcceptMode(QFileDialog.AcceptMode.AcceptSave)

    def follow(name_filter: str) -> None:
        typed = [Path(path) for path in dialog.selectedFiles()]
        dialog.setDefaultSuffix(endings[name_filter].removeprefix("."))
        if typed and typed[0].suffix in endings.values():
            dialog.selectFile(typed[0].with_suffix(endings[name_filter]).name)

    first = next(iter(endings.values()))
    dialog.setDefaultSuffix(first.removeprefix("."))
    dialog.selectFile(stem + first)
    dialog.filterSelected.connect(follow)


def completed(path: Path, ending: str, known: tuple[str, ...]) -> Path:
    """The path with ``ending``, unless it has one of those ``known``; then under a name that is free.

    What follows a dot is not always an ending: "About 3.5" is a whole name, and no dialog has asked
    whether the file that comes of it may be replaced.
    """
    if path.suffix.lower() in known:
        return path
    whole = path.with_name(path.name + ending)
    number = 1
    while whole.exists():
        number += 1
        whole = path.with_name(f"{path.name} ({number}){ending}")
    return whole
