"""Says why Eyrie does not start: in the terminal, and in a window for whoever started it by its icon."""

from __future__ import annotations

import os
import sys

from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QApplication, QMessageBox

from app.language import installing, mark, tr
from app.language.choice import Language

UNUSABLE = mark(
    "Start", "Eyrie cannot use its data folder: {error}. Choose another with --data-dir, or free what is in the way."
)
IN_USE = mark(
    "Start",
    "Another Eyrie uses this data folder and does not answer. End it, or choose another folder with --data-dir.",
)
UNSEEN = ("offscreen", "minimal")
"""Qt platforms whose windows nobody would see, or close."""


def can_show() -> bool:
    """Whether there is a screen for a window; Qt ends the process where it finds none."""
    if QGuiApplication.instance() is not None:
        return QGuiApplication.platformName() not in UNSEEN
    if os.environ.get("QT_QPA_PLATFORM"):
        return os.environ["QT_QPA_PLATFORM"] not in UNSEEN
    return sys.platform != "linux" or bool({"DISPLAY", "WAYLAND_DISPLAY"} & os.environ.keys())


def refuse(text: str, error: object = "") -> None:
    """Say a marked text of this file; returns once it is read."""
    app = QApplication.instance()
    if app is None and can_show():
        app = QApplication(["eyrie"])
        installing.install(app, Language.SYSTEM)
    words = tr("Start", text).format(error=str(error).rstrip(".")) if error else tr("Start", text)
    if sys.stderr is not None:
        print(words, file=sys.stderr)
    if app is not None and can_show():
        box = QMessageBox(QMessageBox.Icon.Warning, "Eyrie", words)
        box.setTextFormat(Qt.TextFormat.PlainText)
        box.exec()
