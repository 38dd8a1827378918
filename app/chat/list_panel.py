"""The side bar: a new chat, the search, and the list of chats."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from PySide6.QtCore import QItemSelectionModel, QModelIndex, QPoint, Qt, QTimer, Signal
from PySide6.QtGui import QAction, QKeyEvent, QKeySequence, QPainter, QPaintEvent
from PySide6.QtWidgets import (
    QAbstractItemView,
    QLineEdit,
    QListView,
    QMenu,
    QPushButton,
    QVBoxLayout,
    QWidget,
)

from app import icons, theme
from app.chat.book import ChatBook
from app.chat.conversation import Chat
from app.chat.list_delegate import ChatRowDelegate
from app.chat.list_model import ChatListModel, Part
from app.language import mark, tr
from app.storage.search import Hit

LEAST_WIDTH = 170
"""Pixels; more where the button needs more."""
SEARCH_MS = 60
"""Time after the last key at which a search begins."""
NO_FOLDER = mark("Chats", "No folder")

Find = Callable[[str], Sequence[Hit]]


class ChatListPanel(QWidget):
    """Shows the book's chats and keeps its selection on the current one."""

    delete_requested = Signal(object)
    folder_requested = Signal(object)
    """A chat wants to go into a folder that does not exist yet."""
    export_requested = Signal(object)
    instructions_requested = Signal(object)
    """The system prompt and settings of a chat are to be shown."""
    message_found = Signal(object, str)
    """``(Chat, message id)``: a hit of the search was opened."""
    room_wanted = Signal()
    """Something is to be done in the list, which may be hidden."""
    chat_opened = Signal()
    """Enter or a click on a chat: the user wants to write there."""

    def __init__(self, book: ChatBook, find: Find | None = None, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._book = book
        self._find = find
        self._busy = False
        self.model = ChatListModel(book, self)
        outer = QVBoxLayout(self)
        outer.setContentsMargins(0, 12, 0, 8)
        outer.setSpacing(8)
        outer.addStrut(LEAST_WIDTH)
        self.new_button = QPushButton(tr("Chats", "New chat"))
        icons.dress(self.new_button, "new-chat")
        self.new_button.setAccessibleName(tr("Chats", "New chat"))
        self.new_button.clicked.connect(self._on_new)
        self.search = _SearchField()
        self.search.setVisible(find is not None)
        self.search.left_by_keys.connect(self._enter_list)
        self._search_timer = QTimer(self)
        self._search_timer.setSingleShot(True)
        self._search_timer.setInterval(SEARCH_MS)
        self._search_timer.timeout.connect(self.run_search)
        self.search.textChanged.connect(lambda _: self._search_timer.start())
        top = QVBoxLayout()
        top.setContentsMargins(10, 0, 10, 0)
        top.setSpacing(8)
        top.addWidget(self.new_button)
        top.addWidget(self.search)
        outer.addLayout(top)
        self.view = QListView()
        self.view.setObjectName("chatList")
        self.view.setAccessibleName(tr("Chats", "Chats"))
        self.view.setModel(self.model)
        self._delegate = ChatRowDelegate(self)
        self.view.setItemDelegate(self._delegate)
        self.view.setUniformItemSizes(True)
        self.view.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.view.setEditTriggers(
            QAbstractItemView.EditTrigger.DoubleClicked | QAbstractItemView.EditTrigger.EditKeyPressed
        )
        self.view.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
        self.view.customContextMenuRequested.connect(self._on_menu)
        self.view.selectionModel().currentChanged.connect(self._on_current)
        self.view.clicked.connect(self._on_clicked)
        self.view.activated.connect(lambda index: self._on_clicked(index))
        outer.addWidget(self.view, 1)
        self._make_actions()
        book.current_changed.subscribe(self._select)
        self.model.rowsAboutToBeRemoved.connect(lambda *_: self._set_busy(True))
        self.model.rowsRemoved.connect(lambda *_: self._set_busy(False))
        book.rearranged.subscribe(lambda _: self._select(book.current))
        book.renamed.subscribe(lambda _: self._select(book.current))
        self._select(book.current)

    def _make_actions(self) -> None:
        self.rename_action = QAction(tr("Chats", "&Rename chat"), self)
        self.rename_action.setShortcut(QKeySequence("F2"))
        self.rename_action.triggered.connect(self.rename_current)
        self.delete_action = QAction(tr("Chats", "&Delete chat"), self)
        self.delete_action.setShortcut(QKeySequence(Qt.Key.Key_Delete))
        self.delete_action.setShortcutContext(Qt.ShortcutContext.WidgetShortcut)
        self.delete_action.triggered.connect(lambda: self.delete_requested.emit(self._book.current))
        self.view.addAction(self.delete_action)
        self.pin_action = QAction(tr("Chats", "P&in chat"), self)
        self.pin_action.setCheckable(True)
        self.pin_action.setShortcut(QKeySequence("Ctrl+D"))
        self.pin_action.triggered.connect(lambda on: self._book.current.pin(on))
        self.instructions_action = QAction(tr("Chats", "S&ystem prompt and settings of this chat…"), self)
        self.instructions_action.setShortcut(QKeySequence("Ctrl+I"))
        self.instructions_action.triggered.connect(
            lambda: self.instructions_requested.emit(self._book.current)
        )
        self.export_action = QAction(tr("Chats", "&Export chat…"), self)
        self.export_action.setShortcut(QKeySequence("Ctrl+Shift+S"))
        self.export_action.triggered.connect(lambda: self.export_requested.emit(self._book.current))
        self.new_folder_action = QAction(tr("Chats", "Move to a &new folder…"), self)
        self.new_folder_action.setShortcut(QKeySequence("Ctrl+Shift+N"))
        self.new_folder_action.triggered.connect(lambda: self.folder_requested.emit(self._book.current))
        self.folder_menu = QMenu(tr("Chats", "Move to f&older"), self)
        self.folder_menu.aboutToShow.connect(self._fill_folders)

    def stops(self) -> list[QWidget]:
        """Where Tab stops in here."""
        return [self.new_button, self.search, self.view]

    # ------------------------------------------------------------------ search

    def focus_search(self) -> None:
        self.search.setFocus()
        self.search.selectAll()

    def run_search(self) -> None:
        """Show what answers the text in the search field."""
        self._search_timer.stop()
        query = self.search.text().strip()
        found = self._find(query) if self._find is not None and query else ()
        self._delegate.two_lines = bool(query)
        self._set_busy(True)
        self.model.show_hits(query, found)
        self._set_busy(False)
        self.view.doItemsLayout()
        self._select(self._book.current)

    def _enter_list(self) -> None:
        """From the search field down to the first row that can be chosen."""
        self.view.setFocus()
        for row in range(self.model.rowCount()):
            index = self.model.index(row, 0)
            if self.model.chat_at(index) is not None:
                self.view.setCurrentIndex(index)
                return

    # ------------------------------------------------------------------ selection

    def rename_current(self) -> None:
        """Edit the title in the list, which comes into view with the row of the chat."""
        self.room_wanted.emit()
        chat = self._book.current
        if not self.model.index_of(chat).isValid():
            self.drop_search()
        if not self.model.index_of(chat).isValid() and chat.folder:
            self.model.fold(chat.folder)
        index = self.model.index_of(chat)
        if index.isValid():
            self._select(chat)
            self.view.setFocus()
            self.view.edit(index)

    def _set_busy(self, busy: bool) -> None:
        # While rows go the view moves its current row by itself; the book decides then.
        self._busy = busy

    def _select(self, chat: Chat) -> None:
        index = self.model.index_of(chat)
        selection = self.view.selectionModel()
        if not index.isValid():
            self._set_busy(True)
            selection.clear()
            self._set_busy(False)
        elif selection.currentIndex() != index or not selection.isSelected(index):
            selection.setCurrentIndex(index, QItemSelectionModel.SelectionFlag.ClearAndSelect)
        self.pin_action.setChecked(self._book.current.pinned)

    def drop_search(self) -> None:
        """All chats again, at once."""
        if self.search.text():
            self.search.clear()
            self.run_search()

    def _on_new(self) -> None:
        self.drop_search()
        self._book.new()
        self.chat_opened.emit()

    def _on_current(self, index: QModelIndex, _before: QModelIndex) -> None:
        chat = self.model.chat_at(index)
        if chat is not None and not self._busy:
            self._book.select(chat)

    def _on_clicked(self, index: QModelIndex) -> None:
        folder = index.data(Part.FOLDER)
        if folder:
            self.model.fold(str(folder))
            self._select(self._book.current)
            return
        chat, hit = self.model.chat_at(index), self.model.hit_at(index)
        if chat is None:
            return
        self._book.select(chat)
        if hit is not None and hit.message_id is not None:
            self.message_found.emit(chat, hit.message_id)
        self.chat_opened.emit()

    # ------------------------------------------------------------------ menu

    def _on_menu(self, point: QPoint) -> None:
        index = self.view.indexAt(point)
        chat = self.model.chat_at(index)
        if chat is None:
            return
        self._book.select(chat)
        menu = QMenu(self)
        menu.addAction(self.rename_action)
        menu.addAction(self.pin_action)
        menu.addMenu(self.folder_menu)
        menu.addAction(self.instructions_action)
        menu.addAction(self.export_action)
        menu.addSeparator()
        menu.addAction(self.delete_action)
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        menu.popup(self.view.viewport().mapToGlobal(point))

    def _fill_folders(self) -> None:
        chat = self._book.current
        self.folder_menu.clear()
        for text, folder in ((tr("Chats", NO_FOLDER), ""), *((name, name) for name in self._book.folders)):
            # A mnemonic in a name would be eaten: "&" is doubled.
            action = self.folder_menu.addAction(text.replace("&", "&&"))
            action.setCheckable(True)
            action.setChecked(chat.folder == folder)
            action.triggered.connect(lambda _=False, folder=folder: chat.move(folder))
        self.folder_menu.addSeparator()
        self.folder_menu.addAction(self.new_folder_action)

    def paintEvent(self, event: QPaintEvent) -> None:
        QPainter(self).fillRect(self.rect(), theme.tokens(self).background_alt)


class _SearchField(QLineEdit):
    """Down or Enter goes to what was found, Escape takes the search back."""

    left_by_keys = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.setPlaceholderText(tr("Chats", "Search chats"))
        self.setAccessibleName(tr("Chats", "Search titles and messages of all chats"))
        self.setClearButtonEnabled(True)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() in (Qt.Key.Key_Down, Qt.Key.Key_Return, Qt.Key.Key_Enter):
            self.left_by_keys.emit()
        elif event.key() == Qt.Key.Key_Escape and self.text():
            self.clear()
        else:
            super().keyPressEvent(event)
