"""Find anything by typing a few letters of it: every command of the menus, and every chat."""

from __future__ import annotations

from dataclasses import dataclass

from PySide6.QtCore import QEvent, QObject, QSize, Qt
from PySide6.QtGui import QAccessible, QAccessibleAnnouncementEvent, QAction, QKeyEvent, QKeySequence
from PySide6.QtWidgets import (
    QDialog,
    QHeaderView,
    QLineEdit,
    QMenu,
    QTreeWidget,
    QTreeWidgetItem,
    QVBoxLayout,
)

from app.chat.conversation import Chat
from app.language import tr
from app.language.mnemonics import plain
from app.tool_tip import letter_for_letter
from app.window_frame import WindowFrame

MOST = 60
"""Rows shown at once."""
WIDTH = 70
"""In average characters."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One thing that can be done."""

    text: str
    keys: str
    target: QAction | Chat


def keys_of(action: QAction) -> str:
    return ", ".join(
        sequence.toString(QKeySequence.SequenceFormat.NativeText) for sequence in action.shortcuts()
    )


def native(keys: str) -> str:
    """Keys such as ``Shift+Return`` in the words of the user's keyboard."""
    return QKeySequence(keys).toString(QKeySequence.SequenceFormat.NativeText)


def commands_of(frame: WindowFrame) -> list[tuple[str, list[QAction]]]:
    """Every action of the menu bar, by its menu."""
    groups = []
    for top in frame.menuBar().actions():
        menu = top.menu()
        if isinstance(menu, QMenu):
            found = [
                action for action in menu.actions() if not action.isSeparator() and action.menu() is None
            ]
            groups.append((plain(top.text()), found))
    return groups


def rank(text: str, query: str) -> int | None:
    """How well a text answers: lower is better, ``None`` not at all. Letters must come in order."""
    text, query = text.casefold(), query.casefold().strip()
    if not query:
        return 0
    at = text.find(query)
    if at >= 0:
        return at if at == 0 or not text[at - 1].isalnum() else 100 + at
    place = -1
    for letter in query.replace(" ", ""):
        place = text.find(letter, place + 1)
        if place < 0:
            return None
    return 1000 + place


class CommandPalette(QDialog):
    """A field and a list; Enter does what is marked."""

    def __init__(self, frame: WindowFrame) -> None:
        super().__init__(frame)
        self._frame = frame
        self.setWindowTitle(tr("Commands", "Find a command"))
        self._entries = [
            Entry(f"{plain(action.text())}", keys_of(action), action)
            for _, actions in commands_of(frame)
            for action in actions
            if action is not frame.commands.palette
        ]
        self._entries += [Entry(chat.shown_title, "", chat) for chat in frame.book.chats]
        column = QVBoxLayout(self)
        self.field = QLineEdit()
        self.field.setPlaceholderText(tr("Commands", "Type a command or a chat"))
        self.field.setAccessibleName(tr("Commands", "Type a command or the title of a chat"))
        self.field.textChanged.connect(self._fill)
        self.field.returnPressed.connect(self._do)
        self.field.installEventFilter(self)
        self.list = QTreeWidget()
        self.list.setAccessibleName(tr("Commands", "Commands and chats"))
        self.list.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.list.setColumnCount(2)
        self.list.setHeaderHidden(True)
        self.list.setRootIsDecorated(False)
        self.list.setUniformRowHeights(True)
        self.list.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        header = self.list.header()
        header.setStretchLastSection(False)
        header.setSectionResizeMode(0, QHeaderView.ResizeMode.Stretch)
        header.setSectionResizeMode(1, QHeaderView.ResizeMode.ResizeToContents)
        self.list.itemClicked.connect(lambda _: self._do())
        column.addWidget(self.field)
        column.addWidget(self.list)
        wide = max(560, WIDTH * self.fontMetrics().averageCharWidth())
        self.resize(min(wide, frame.width() - 40), min(440, frame.height() - 40))
        self._fill("")

    def shown(self) -> list[str]:
        """The texts in the list, from the top."""
        return [self._row(place).text(0) for place in range(self.list.topLevelItemCount())]

    def _row(self, place: int) -> QTreeWidgetItem:
        item = self.list.topLevelItem(place)
        assert item is not None
        return item

    def _fill(self, query: str) -> None:
        found = []
        for place, entry in enumerate(self._entries):
            if isinstance(entry.target, QAction) and not entry.target.isEnabled():
                continue
            value = rank(entry.text, query)
            if value is not None:
                found.append((value, place, entry))
        found.sort(key=lambda each: each[:2])
        self.list.clear()
        height = self.fontMetrics().lineSpacing() + 9
        for _, _, entry in found[:MOST]:
            what = tr("Commands", "Chat") if isinstance(entry.target, Chat) else entry.keys
            item = QTreeWidgetItem([entry.text, what])
            item.setSizeHint(0, QSize(0, height))
            item.setData(0, Qt.ItemDataRole.UserRole, entry)
            item.setToolTip(0, letter_for_letter(entry.text))
            self.list.addTopLevelItem(item)
        self._mark(0)

    def _mark(self, row: int) -> None:
        if not self.list.topLevelItemCount():
            return
        item = self._row(min(max(row, 0), self.list.topLevelItemCount() - 1))
        self.list.setCurrentItem(item)
        if QAccessible.isActive():  # the focus stays in the field
            QAccessible.updateAccessibility(QAccessibleAnnouncementEvent(self.list, item.text(0)))

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Up and Down move the mark while the field keeps the focus."""
        if isinstance(event, QKeyEvent) and event.type() == QEvent.Type.KeyPress:
            moves = {Qt.Key.Key_Down: 1, Qt.Key.Key_Up: -1, Qt.Key.Key_PageDown: 8, Qt.Key.Key_PageUp: -8}
            step = moves.get(Qt.Key(event.key()))
            if step is not None:
                self._mark(self.list.currentIndex().row() + step)
                return True
        return super().eventFilter(watched, event)

    def _do(self) -> None:
        item = self.list.currentItem()
        if item is None:
            return
        entry = item.data(0, Qt.ItemDataRole.UserRole)
        self.close()
        if isinstance(entry.target, Chat):
            self._frame.book.select(entry.target)
            self._frame.composer.setFocus()
        else:
            entry.target.trigger()
