"""Names of files that are written: complete, and nothing is replaced unasked."""

from __future__ import annotations

from pathlib import Path

import pytest
from PySide6.QtWidgets import QApplication, QFileDialog
from pytestqt.qtbot import QtBot

from app.chat.exchange import file_name
from app.saving import completed, offer

ENDINGS = {"Chats (*.json)": ".json", "Markdown (*.md)": ".md"}
KNOWN = tuple(ENDINGS.values())


@pytest.mark.parametrize(
    ("name", "whole"),
    [
        ("About 3.5", "About 3.5.json"), ("v1.2", "v1.2.json"), ("chat", "chat.json"), ("a.json", "a.json"),
        ("a.MD", "a.MD"), (".hidden", ".hidden.json"),
    ],
)  # fmt: skip
def test_a_name_gets_its_ending(tmp_path: Path, name: str, whole: str) -> None:
    assert completed(tmp_path / name, ".json", KNOWN) == tmp_path / whole


def test_what_no_dialog_has_asked_about_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "v1.2.json").write_text("mine")
    assert completed(tmp_path / "v1.2", ".json", KNOWN).name == "v1.2 (2).json"


def test_a_dialog_completes_the_name_before_it_asks(qtbot: QtBot, look: QApplication, tmp_path: Path) -> None:
    dialog = QFileDialog()
    qtbot.addWidget(dialog)
    dialog.setOption(QFileDialog.Option.DontUseNativeDialog)
    dialog.setDirectory(str(tmp_path))
    offer(dialog, file_name("What is 3.5?"), ENDINGS)
    dialog.show()
    assert [Path(path).name for path in dialog.selectedFiles()] == ["What is 3.5.json"]
    dialog.selectNameFilter("Markdown (*.md)")
    dialog.filterSelected.emit("Markdown (*.md)")
    assert [Path(path).name for path in dialog.selectedFiles()] == ["What is 3.5.md"]
    dialog.selectFile("notes")
    assert [Path(path).name for path in dialog.selectedFiles()] == ["notes.md"]
