"""The chats as a Qt list model, over :class:`app.chat.book.ChatBook`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from PySide6.QtCore import QAbstractListModel, QModelIndex, QObject, QPersistentModelIndex, Qt

from app.chat.book import ChatBook
from app.chat.conversation import Chat

Index = QModelIndex | QPersistentModelIndex
TOP = QModelIndex()


class ChatListModel(QAbstractListModel):
    """One row a chat; its title can be edited in place."""

    def __init__(self, book: ChatBook, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._book = book
        self._watched: dict[str, Callable[[], None]] = {}
        book.before_insert.subscribe(lambda row: self.beginInsertRows(QModelIndex(), row, row))
        book.inserted.subscribe(self._on_inserted)
        book.before_remove.subscribe(lambda row: self.beginRemoveRows(QModelIndex(), row, row))
        book.removed.subscribe(self._on_removed)
        for chat in book.chats:
            self._watch(chat)

    def _watch(self, chat: Chat) -> None:
        self._watched[chat.id] = chat.changed.subscribe(self._on_changed)

    def _on_inserted(self, chat: Chat) -> None:
        self.endInsertRows()
        self._watch(chat)

    def _on_removed(self, chat: Chat) -> None:
        self.endRemoveRows()
        self._watched.pop(chat.id)()

    def _on_changed(self, chat: Chat) -> None:
        index = self.index_of(chat)
        self.dataChanged.emit(index, index)

    def chat_at(self, index: Index) -> Chat:
        return self._book.chats[index.row()]

    def index_of(self, chat: Chat) -> QModelIndex:
        return self.index(self._book.chats.index(chat), 0)

    def rowCount(self, parent: Index = TOP) -> int:
        return 0 if parent.isValid() else len(self._book.chats)

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        if not index.isValid():
            return None
        chat = self.chat_at(index)
        if role in (Qt.ItemDataRole.DisplayRole, Qt.ItemDataRole.EditRole, Qt.ItemDataRole.ToolTipRole):
            return chat.title
        if role == Qt.ItemDataRole.AccessibleTextRole:
            return f"Chat: {chat.title}" + (", a reply is being written" if chat.running else "")
        return None

    def setData(self, index: Index, value: Any, role: int = Qt.ItemDataRole.EditRole) -> bool:
        if role != Qt.ItemDataRole.EditRole or not index.isValid():
            return False
        self.chat_at(index).rename(str(value))
        return True

    def flags(self, index: Index) -> Qt.ItemFlag:
        flags = super().flags(index)
        return flags | Qt.ItemFlag.ItemIsEditable if index.isValid() else flags
