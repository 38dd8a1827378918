"""Which prompts are compared on: the chat's last one or all of them, typed lines, or a file."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import (
    QButtonGroup,
    QFileDialog,
    QHBoxLayout,
    QLabel,
    QPlainTextEdit,
    QPushButton,
    QRadioButton,
    QVBoxLayout,
    QWidget,
)

from app.compare.prompts import (
    Prompt,
    PromptFile,
    PromptFileError,
    asked,
    lines_of,
    of_conversation,
    read_file,
)
from app.language import tr, tr_n
from app.tree_panel.token_text import visible
from engine.protocol import Message, Role

SHOWN = 110
"""Characters of the chat's prompt that are shown."""


class Source(StrEnum):
    ONE = "one"
    CHAT = "chat"
    TYPED = "typed"
    FILE = "file"


class PromptEditor(QWidget):
    changed = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._messages: tuple[Message, ...] = ()
        self._chat: tuple[Prompt, ...] = ()
        self._system = ""
        self._file: PromptFile | None = None
        title = QLabel(tr("Compare", "Prompts"), self)
        title.setProperty("textRole", "label")
        self.buttons = {source: QRadioButton(self) for source in Source}
        group = QButtonGroup(self)
        for button in self.buttons.values():
            group.addButton(button)
            button.toggled.connect(self._on_source)
        self.buttons[Source.TYPED].setText(tr("Compare", "These, one a line"))
        self.buttons[Source.FILE].setText(tr("Compare", "A file"))
        self.one = self._label()
        self.edit = QPlainTextEdit(self)
        self.edit.setAccessibleName(tr("Compare", "Prompts, one a line"))
        self.edit.setPlaceholderText(tr("Compare", "Write or paste prompts, one a line"))
        self.edit.setTabChangesFocus(True)
        self.edit.setFixedHeight(5 * self.fontMetrics().lineSpacing() + 14)
        self.edit.textChanged.connect(self.changed)
        self.file_button = QPushButton(tr("Compare", "Choose a file…"), self)
        self.file_button.setAutoDefault(False)
        self.file_button.setToolTip(
            tr("Compare", "JSON lines with “turns” (or “prompt”, “text”), or a text with one prompt a line")
        )
        self.file_button.setAccessibleDescription(self.file_button.toolTip())
        self.file_button.clicked.connect(self._ask)
        self.file_words = self._label()
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(4)
        column.addWidget(title)
        column.addWidget(self.buttons[Source.ONE])
        column.addWidget(self.one)
        column.addWidget(self.buttons[Source.CHAT])
        column.addWidget(self.buttons[Source.TYPED])
        column.addWidget(self.edit)
        row = QHBoxLayout()
        row.addWidget(self.buttons[Source.FILE])
        row.addWidget(self.file_button)
        row.addStretch(1)
        column.addLayout(row)
        column.addWidget(self.file_words)
        self.buttons[Source.TYPED].setChecked(True)
        self._show()

    def _label(self) -> QLabel:
        label = QLabel(self)
        label.setTextFormat(Qt.TextFormat.PlainText)
        label.setWordWrap(True)
        label.setProperty("textRole", "small")
        label.setContentsMargins(24, 0, 0, 2)
        label.hide()
        return label

    # ------------------------------------------------------------------ filling

    def fill(self, messages: Sequence[Message], conversation: Sequence[Message]) -> None:
        """``messages`` ends with the prompt that is typed or was asked last; ``conversation`` is the chat."""
        self._messages = tuple(messages)
        self._chat = of_conversation(conversation)
        self._system = next((each.content for each in (*messages, *conversation) if each.role is Role.SYSTEM), "")
        one, chat = self.buttons[Source.ONE], self.buttons[Source.CHAT]
        one.setText(tr("Compare", "This prompt, with the chat before it"))
        one.setEnabled(bool(messages))
        text = Prompt(self._messages).text
        self.one.setText(visible(text, SHOWN).replace("␣", " "))
        self.one.setVisible(bool(text))
        if self._chat:
            chat.setText(tr_n("Compare", "The one prompt of this chat", "All %n prompts of this chat", len(self._chat)))
        else:
            chat.setText(tr("Compare", "All prompts of this chat"))
        chat.setEnabled(bool(self._chat))
        if messages:
            one.setChecked(True)
        elif one.isChecked() or chat.isChecked():
            self.buttons[Source.TYPED].setChecked(True)
        self._show()
        self.changed.emit()

    @property
    def source(self) -> Source:
        return next((source for source, button in self.buttons.items() if button.isChecked()), Source.TYPED)

    def prompts(self) -> tuple[Prompt, ...]:
        match self.source:
            case Source.ONE:
                return (Prompt(self._messages),) if self._messages else ()
            case Source.CHAT:
                return self._chat
            case Source.TYPED:
                return asked(lines_of(self.edit.toPlainText()), self._system)
            case Source.FILE:
                return asked(self._file.texts if self._file else (), self._system)

    def problem(self) -> str:
        """What to do so that there is a prompt, or ""."""
        if self.prompts():
            return ""
        if self.source is Source.FILE:
            return tr("Compare", "Choose a file with prompts.")
        return tr("Compare", "Write a prompt, or choose where prompts come from.")

    # ------------------------------------------------------------------ a file

    def _ask(self) -> None:
        dialog = QFileDialog(self, tr("Compare", "Prompts"))
        dialog.setNameFilters(
            [
                tr("Compare", "Lists of prompts (*.jsonl *.json *.ndjson *.txt *.md)"),
                tr("Compare", "All files (*)"),
            ]
        )
        dialog.setFileMode(QFileDialog.FileMode.ExistingFile)
        dialog.fileSelected.connect(lambda path: self.take_file(Path(path)))
        dialog.finished.connect(lambda _: dialog.deleteLater())
        dialog.open()

    def take_file(self, path: Path) -> bool:
        """Use a file's prompts; what is wrong with it is said beside it."""
        try:
            self._file = read_file(path)
        except PromptFileError as error:
            self._file = None
            self.file_words.setText(str(error))
        else:
            count = tr_n("Compare", "%n prompt from {file}.", "%n prompts from {file}.", len(self._file.texts))
            self.file_words.setText(" ".join([count.format(file=path.name), *self._file.problems]))
        self.file_words.setProperty("textRole", "small" if self._file is not None else "error")
        self.file_words.style().polish(self.file_words)
        self.buttons[Source.FILE].setChecked(True)
        self._show()
        self.changed.emit()
        return self._file is not None

    def _on_source(self, chosen: bool) -> None:
        if chosen:
            self._show()
            self.changed.emit()

    def _show(self) -> None:
        self.edit.setEnabled(self.source is Source.TYPED)
        self.file_words.setVisible(bool(self.file_words.text()))
