"""The system prompt of one chat, and the settings in which it differs; kept under a name as a preset."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from PySide6.QtCore import Qt
from PySide6.QtWidgets import (
    QComboBox,
    QDialog,
    QDialogButtonBox,
    QFrame,
    QHBoxLayout,
    QInputDialog,
    QLabel,
    QPlainTextEdit,
    QPushButton,
    QScrollArea,
    QVBoxLayout,
    QWidget,
)

from app.chat.conversation import Chat
from app.language import mark, tr
from app.settings.own_values import OwnValues
from app.storage.store import ChatStore
from app.wheel import scroll_past
from engine.protocol import GenerationSettings

FRAME = 60
"""Height left to the title bar, and to what else stands on the screen."""
NO_PRESET = mark("Instructions", "Choose a preset…")


class InstructionsDialog(QDialog):
    """Changes apply to the chat with "Save"; a preset fills the fields."""

    def __init__(
        self, chat: Chat, common: GenerationSettings, store: ChatStore | None, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self._chat = chat
        self._store = store
        self.setWindowTitle(tr("Instructions", "System prompt and settings of this chat"))
        column = QVBoxLayout(self)
        column.setContentsMargins(24, 18, 24, 18)
        column.setSpacing(10)
        title = QLabel(chat.shown_title)
        title.setTextFormat(Qt.TextFormat.PlainText)
        title.setProperty("textRole", "heading")
        column.addWidget(title)
        if store is not None:
            column.addLayout(self._build_presets())
        label = QLabel(tr("Instructions", "&System prompt"))
        self.prompt = QPlainTextEdit(chat.system_prompt)
        self.prompt.setPlaceholderText(
            tr("Instructions", "What the model is told before the conversation, for instance its role.")
        )
        self.prompt.setAccessibleName(tr("Instructions", "System prompt"))
        self.prompt.setTabChangesFocus(True)
        label.setBuddy(self.prompt)
        self.prompt.setMinimumHeight(4 * self.prompt.fontMetrics().lineSpacing())
        self.values = OwnValues(common)
        self.values.fill(chat.overrides)
        column.addWidget(self._scrolled(label), 1)
        box = QDialogButtonBox(QDialogButtonBox.StandardButton.Save | QDialogButtonBox.StandardButton.Cancel)
        self.save_button = box.button(QDialogButtonBox.StandardButton.Save)
        self.clear_button = box.addButton(
            tr("Instructions", "Clear"), QDialogButtonBox.ButtonRole.ResetRole
        )
        self.clear_button.clicked.connect(lambda: self.fill("", {}))
        box.accepted.connect(self._save)
        box.rejected.connect(self.reject)
        column.addWidget(box)
        scroll_past(self)
        self.resize(560, min(680, self.screen().availableSize().height() - FRAME))

    def _scrolled(self, label: QLabel) -> QScrollArea:
        """The prompt and the values: with large text they are higher than a screen."""
        inner = QWidget()
        fields = QVBoxLayout(inner)
        fields.setContentsMargins(0, 0, 0, 0)
        fields.setSpacing(10)
        fields.addWidget(label)
        fields.addWidget(self.prompt, 1)
        fields.addLayout(self.values)
        area = QScrollArea()
        area.setWidget(inner)
        area.setWidgetResizable(True)
        area.setFrameShape(QFrame.Shape.NoFrame)
        area.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        area.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        area.setMinimumWidth(inner.minimumSizeHint().width() + area.verticalScrollBar().sizeHint().width())
        return area

    def _build_presets(self) -> QHBoxLayout:
        row = QHBoxLayout()
        self.presets = QComboBox()
        self.presets.setAccessibleName(tr("Instructions", "Preset"))
        self.presets.activated.connect(self._take_preset)
        self.keep_button = QPushButton(tr("Instructions", "Save as preset…"))
        self.keep_button.clicked.connect(self._ask_name)
        self.drop_button = QPushButton(tr("Instructions", "Delete preset"))
        self.drop_button.clicked.connect(self._drop_preset)
        row.addWidget(self.presets, 1)
        row.addWidget(self.keep_button)
        row.addWidget(self.drop_button)
        self._list_presets()
        return row

    def _list_presets(self, current: str = "") -> None:
        assert self._store is not None
        self.presets.clear()
        self.presets.addItem(tr("Instructions", NO_PRESET))
        for name, prompt, settings in self._store.presets():
            self.presets.addItem(name, (prompt, settings))
        self.presets.setCurrentIndex(max(0, self.presets.findText(current)) if current else 0)
        self.drop_button.setEnabled(self.presets.currentIndex() > 0)

    def _take_preset(self, place: int) -> None:
        chosen = self.presets.itemData(place)
        self.drop_button.setEnabled(place > 0)
        if chosen is not None:
            self.fill(*chosen)

    def fill(self, prompt: str, settings: Mapping[str, Any]) -> None:
        self.prompt.setPlainText(prompt)
        self.values.fill(settings)

    def entered(self) -> tuple[str, dict[str, Any]]:
        """System prompt, and the values that differ from the settings."""
        return self.prompt.toPlainText(), self.values.entered()

    def _ask_name(self) -> None:
        dialog = QInputDialog(self)
        dialog.setWindowTitle(tr("Instructions", "Save as preset"))
        dialog.setLabelText(tr("Instructions", "Name of the preset:"))
        if self.presets.currentIndex() > 0:
            dialog.setTextValue(self.presets.currentText())
        dialog.textValueSelected.connect(self.keep_preset)
        dialog.open()

    def keep_preset(self, name: str) -> None:
        name = " ".join(name.split())
        if name and self._store is not None:
            self._store.put_preset(name, *self.entered()).wait(1.0)
            self._list_presets(name)

    def _drop_preset(self) -> None:
        if self._store is not None and self.presets.currentIndex() > 0:
            self._store.delete_preset(self.presets.currentText()).wait(1.0)
            self._list_presets()

    def _save(self) -> None:
        self._chat.instruct(*self.entered())
        self.accept()
