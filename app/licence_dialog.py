"""Shows a model's licence, once, as plain text."""

from __future__ import annotations

from PySide6.QtCore import QSize, Qt
from PySide6.QtWidgets import QDialog, QDialogButtonBox, QLabel, QPlainTextEdit, QVBoxLayout, QWidget

from app.language import tr
from engine.protocol import ModelInfo


class LicenceDialog(QDialog):
    """The terms under which the loaded model may be used."""

    def __init__(self, model: ModelInfo, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle(tr("Licence", "Model licence"))
        column = QVBoxLayout(self)
        column.setContentsMargins(24, 20, 24, 18)
        column.setSpacing(10)
        heading = QLabel(model.licence_name or tr("Licence", "Licence"))
        heading.setTextFormat(Qt.TextFormat.PlainText)
        heading.setProperty("textRole", "heading")
        note = QLabel(tr("Licence", "{model} is used under these terms.").format(model=model.name))
        note.setTextFormat(Qt.TextFormat.PlainText)
        note.setProperty("textRole", "small")
        note.setWordWrap(True)
        text = QPlainTextEdit(model.licence_text)
        text.setReadOnly(True)
        text.setTabChangesFocus(True)
        text.setAccessibleName(tr("Licence", "Licence text"))
        for part in (heading, note, text):
            column.addWidget(part)
        box = QDialogButtonBox()
        self.accept_button = box.addButton(tr("Licence", "I understand"), QDialogButtonBox.ButtonRole.AcceptRole)
        self.accept_button.setProperty("look", "primary")
        self.accept_button.setDefault(True)
        box.accepted.connect(self.accept)
        column.addWidget(box)

    def sizeHint(self) -> QSize:
        line = self.fontMetrics()
        return QSize(line.averageCharWidth() * 84, line.height() * 28)
