"""The chats as a Qt list model, over :class:`app.chat.book.ChatBook`.

Rows are headings and chats: pinned ones, then folders (which fold), then the others by
the day they were last used; or, during a search, the chats that answer it. When
the book changes the rows are made anew and only what differs is told to the view.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, datetime
from enum import IntEnum
from typing import Any

from PySide6.QtCore import QAbstractListModel, QModelIndex, QObject, QPersistentModelIndex, Qt, QTimer

from app.chat.book import ChatBook
from app.chat.conversation import Chat
from app.language import mark, numbers, tr
from app.storage.search import Hit
from app.storage.words import Snippet, hits
from app.tool_tip import letter_for_letter

Index = QModelIndex | QPersistentModelIndex
TOP = QModelIndex()
HOUR_MS = 3_600_000

PINNED = mark("Chats", "Pinned")
DAYS = (
    (0, mark("Chats", "Today")),
    (1, mark("Chats", "Yesterday")),
    (7, mark("Chats", "Previous 7 days")),
    (30, mark("Chats", "Previous 30 days")),
)
OLDER = mark("Chats", "Older")
NOTHING = mark("Chats", "Nothing found")


class Part(IntEnum):
    """Roles of what a row shows beside its title."""

    HEADING = Qt.ItemDataRole.UserRole + 1
    """Whether the row is a heading."""
    FOLDER = Qt.ItemDataRole.UserRole + 2
    """A heading's folder, or "" when it does not fold."""
    FOLDED = Qt.ItemDataRole.UserRole + 3
    HITS = Qt.ItemDataRole.UserRole + 4
    """Where the query stands in the title."""
    SNIPPET = Qt.ItemDataRole.UserRole + 5


@dataclass(frozen=True, slots=True)
class Heading:
    text: str
    folder: str = ""


Row = Heading | Chat


class ChatListModel(QAbstractListModel):
    """One row a chat, headings between them; a chat's title can be edited in place."""

    def __init__(self, book: ChatBook, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._book = book
        self._query = ""
        self._found: dict[str, Hit] = {}
        self._folded: set[str] = set()
        self._watched: list[Chat] = []
        self._rows: list[Row] = list(self._arranged())
        book.rearranged.subscribe(self._arrange)
        book.renamed.subscribe(self._on_renamed)
        # "Today" becomes "Yesterday" while the window stays open.
        self._clock = QTimer(self)
        self._clock.setInterval(HOUR_MS)
        self._clock.timeout.connect(lambda: self._arrange())
        self._clock.start()

    # ------------------------------------------------------------------ rows

    def chat_at(self, index: Index) -> Chat | None:
        row = self._rows[index.row()] if index.isValid() else None
        return row if isinstance(row, Chat) else None

    def hit_at(self, index: Index) -> Hit | None:
        chat = self.chat_at(index)
        return self._found.get(chat.id) if chat is not None else None

    def index_of(self, chat: Chat) -> QModelIndex:
        """Where a chat stands; an invalid index when a folded folder or a search hides it."""
        for place, row in enumerate(self._rows):
            if row is chat:
                return self.index(place, 0)
        return QModelIndex()

    def neighbour(self, chat: Chat, step: int) -> Chat:
        """The chat before (-1) or after (+1) in the list, going round at its ends."""
        shown = [row for row in self._rows if isinstance(row, Chat)]
        if not shown:
            return chat
        return shown[(shown.index(chat) + step) % len(shown)] if chat in shown else shown[0]

    @property
    def is_searching(self) -> bool:
        return bool(self._query)

    def show_hits(self, query: str, found: Iterable[Hit]) -> None:
        """Show the chats that answer a query; all of them when it is empty."""
        self._query = query
        self._found = {hit.chat_id: hit for hit in found}
        self._arrange()
        if self._rows:
            self.dataChanged.emit(self.index(0, 0), self.index(len(self._rows) - 1, 0))

    def fold(self, folder: str) -> None:
        """Fold a folder, or open it again."""
        self._folded ^= {folder}
        self._arrange()
        for place, row in enumerate(self._rows):
            if isinstance(row, Heading) and row.folder == folder:
                self.dataChanged.emit(self.index(place, 0), self.index(place, 0))

    def _arranged(self) -> Iterable[Row]:
        chats = self._book.chats
        if self._query:
            by_id = {chat.id: chat for chat in chats}
            rows = [by_id[chat_id] for chat_id in self._found if chat_id in by_id]
            found = tr("Chats", "{count} found").format(count=numbers.whole(len(rows)))
            yield Heading(found if rows else tr("Chats", NOTHING))
            yield from rows
            return
        pinned = [chat for chat in chats if chat.pinned]
        if pinned:
            yield Heading(tr("Chats", PINNED))
            yield from pinned
        for folder in self._book.folders:
            yield Heading(folder, folder)
            if folder not in self._folded:
                yield from (chat for chat in chats if chat.folder == folder and not chat.pinned)
        heading = ""
        edges = _edges()
        for chat in chats:
            if chat.pinned or chat.folder:
                continue
            name = next((text for begins, text in edges if chat.updated >= begins), OLDER)
            if name != heading:
                heading = name
                yield Heading(tr("Chats", name))
            yield chat

    def _arrange(self, moved: Chat | None = None) -> None:
        """Tell the view the smallest run of rows that differs, besides the one chat that has ``moved``."""
        new = list(self._arranged())
        if moved is not None:
            self._take_out(moved)
        old = self._rows
        first = 0
        while first < min(len(new), len(old)) and _same(new[first], old[first]):
            first += 1
        behind = 0
        while behind < min(len(new), len(old)) - first and _same(new[-1 - behind], old[-1 - behind]):
            behind += 1
        if first < len(old) - behind:
            self.beginRemoveRows(QModelIndex(), first, len(old) - behind - 1)
            self._rows = old[:first] + old[len(old) - behind :]
            self.endRemoveRows()
        if first < len(new) - behind:
            self.beginInsertRows(QModelIndex(), first, len(new) - behind - 1)
            self._rows = new
            self.endInsertRows()
        self._rows = new

    def _take_out(self, chat: Chat) -> None:
        """Remove a chat's row, and the heading above it if that has no other."""
        row = next((place for place, each in enumerate(self._rows) if each is chat), None)
        if row is None:
            return
        alone = row + 1 == len(self._rows) or isinstance(self._rows[row + 1], Heading)
        first = row - 1 if alone and row and isinstance(self._rows[row - 1], Heading) else row
        self.beginRemoveRows(QModelIndex(), first, row)
        del self._rows[first : row + 1]
        self.endRemoveRows()

    def _on_renamed(self, chat: Chat) -> None:
        self._arrange()
        index = self.index_of(chat)
        if index.isValid():
            self.dataChanged.emit(index, index)

    # ------------------------------------------------------------------ Qt's questions

    def rowCount(self, parent: Index = TOP) -> int:
        return 0 if parent.isValid() else len(self._rows)

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        if not index.isValid():
            return None
        row = self._rows[index.row()]
        return self._of_heading(row, role) if isinstance(row, Heading) else self._of_chat(row, role)

    def _of_heading(self, row: Heading, role: int) -> Any:
        folded = row.folder in self._folded
        if role == Qt.ItemDataRole.DisplayRole:
            return row.text
        if role == Part.HEADING:
            return True
        if role == Part.FOLDER:
            return row.folder
        if role == Part.FOLDED:
            return bool(row.folder) and folded
        if role == Qt.ItemDataRole.AccessibleTextRole:
            if not row.folder:
                return row.text
            words = tr("Chats", "Folder: {name}, folded") if folded else tr("Chats", "Folder: {name}, open")
            return words.format(name=row.text)
        return None

    def _of_chat(self, chat: Chat, role: int) -> Any:
        hit = self._found.get(chat.id) if self._query else None
        if role in (Qt.ItemDataRole.DisplayRole, Qt.ItemDataRole.EditRole):
            return chat.shown_title
        if role == Qt.ItemDataRole.ToolTipRole:
            return letter_for_letter(chat.shown_title)
        if role == Qt.ItemDataRole.AccessibleTextRole:
            return _spoken(chat, hit.snippet.text if hit is not None else "")
        if role == Part.HITS:
            return hits(chat.shown_title, self._query) if self._query else []
        if role == Part.SNIPPET:
            return hit.snippet if hit is not None else Snippet("", ())
        return False if role == Part.HEADING else None

    def setData(self, index: Index, value: Any, role: int = Qt.ItemDataRole.EditRole) -> bool:
        chat = self.chat_at(index)
        if role != Qt.ItemDataRole.EditRole or chat is None:
            return False
        chat.rename(str(value))
        return True

    def flags(self, index: Index) -> Qt.ItemFlag:
        row = self._rows[index.row()] if index.isValid() else None
        if isinstance(row, Chat):
            return super().flags(index) | Qt.ItemFlag.ItemIsEditable
        if isinstance(row, Heading):
            return Qt.ItemFlag.ItemIsEnabled
        return super().flags(index)


def _spoken(chat: Chat, snippet: str) -> str:
    """A chat for a screen reader. The parts stand beside each other in every language."""
    words = tr("Chats", "Chat: {name}, pinned") if chat.pinned else tr("Chats", "Chat: {name}")
    words = words.format(name=chat.shown_title)
    if snippet:
        words += f": {snippet}"
    return f"{words}, {tr('Chats', 'a reply is being written')}" if chat.running else words


def _same(one: Row, other: Row) -> bool:
    return one is other or (isinstance(one, Heading) and one == other)


def _edges() -> list[tuple[float, str]]:
    """Since when a chat counts as of today, yesterday and so on; seconds since the epoch."""
    midnight = datetime.combine(date.today(), datetime.min.time()).timestamp()
    return [
        (midnight - days * 86400.0, text) for days, text in DAYS if midnight - days * 86400.0 < time.time()
    ]
