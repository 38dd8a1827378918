"""The comparisons that are kept with a chat: open, delete, undo."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import (
    QHBoxLayout,
    QLabel,
    QListWidget,
    QListWidgetItem,
    QPushButton,
    QVBoxLayout,
    QWidget,
)

from app.language import tr
from app.language.numbers import moment
from app.storage.comparisons import ComparisonRecord
from app.tool_tip import letter_for_letter
from app.tree_panel.token_text import visible


class SavedList(QWidget):
    """Hidden while there is nothing to show."""

    opened = Signal(str)
    """Id of a comparison."""
    delete_requested = Signal(str)
    restore_requested = Signal(str)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._deleted: list[str] = []
        title = QLabel(tr("Compare", "Kept with this chat"), self)
        title.setProperty("textRole", "label")
        self.list = QListWidget(self)
        self.list.setAccessibleName(tr("Compare", "Comparisons kept with this chat"))
        self.list.setFixedHeight(5 * self.fontMetrics().lineSpacing() + 20)
        self.list.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.list.setTextElideMode(Qt.TextElideMode.ElideRight)
        self.open_button = QPushButton(tr("Compare", "Open"), self)
        self.open_button.setAccessibleName(tr("Compare", "Open the chosen comparison"))
        self.delete_button = QPushButton(tr("Compare", "Delete"), self)
        self.delete_button.setAccessibleName(tr("Compare", "Delete the chosen comparison"))
        self.undo_button = QPushButton(tr("Compare", "Undo deleting"), self)
        self.undo_button.hide()
        row = QHBoxLayout()
        for button in (self.open_button, self.delete_button, self.undo_button):
            button.setAutoDefault(False)
            row.addWidget(button)
        row.addStretch(1)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(6)
        column.addWidget(title)
        column.addWidget(self.list)
        column.addLayout(row)
        self.list.itemActivated.connect(lambda item: self.opened.emit(item.data(Qt.ItemDataRole.UserRole)))
        self.list.currentItemChanged.connect(lambda *_: self._show_buttons())
        self.open_button.clicked.connect(lambda: self.opened.emit(self.current))
        self.delete_button.clicked.connect(self._delete)
        self.undo_button.clicked.connect(self._undo)
        self.hide()

    @property
    def current(self) -> str:
        """Id of the chosen one, or ""."""
        item = self.list.currentItem()
        return str(item.data(Qt.ItemDataRole.UserRole)) if item is not None else ""

    def show_saved(self, saved: Sequence[ComparisonRecord]) -> None:
        chosen = self.current
        known = {self.list.item(row).data(Qt.ItemDataRole.UserRole) for row in range(self.list.count())}
        if saved and saved[0].id not in known:
            chosen = saved[0].id  # it has just been made
        self.list.clear()
        for record in saved:
            item = QListWidgetItem(f"{moment(record.created)}   {visible(record.title, 160).replace('␣', ' ')}")
            item.setData(Qt.ItemDataRole.UserRole, record.id)
            item.setToolTip(letter_for_letter(record.title))
            self.list.addItem(item)
            if record.id == chosen:
                self.list.setCurrentItem(item)
        if self.list.currentItem() is None and self.list.count():
            self.list.setCurrentRow(0)
        self._show_buttons()
        self.setVisible(bool(saved) or bool(self._deleted))

    def forget(self) -> None:
        """Another chat: what was deleted is not undone here any more."""
        self._deleted.clear()

    def _delete(self) -> None:
        if chosen := self.current:
            self._deleted.append(chosen)
            self.delete_requested.emit(chosen)

    def _undo(self) -> None:
        if self._deleted:
            self.restore_requested.emit(self._deleted.pop())

    def _show_buttons(self) -> None:
        for button in (self.open_button, self.delete_button):
            button.setEnabled(bool(self.current))
        self.undo_button.setVisible(bool(self._deleted))
