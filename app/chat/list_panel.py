"""The side bar: a button for a new chat and the list of chats."""

from __future__ import annotations

from PySide6.QtCore import QItemSelectionModel, QModelIndex, QPoint, Qt, Signal
from PySide6.QtGui import QAction, QKeySequence, QPainter, QPaintEvent
from PySide6.QtWidgets import QAbstractItemView, QLabel, QListView, QMenu, QPushButton, QVBoxLayout, QWidget

from app import icons, theme
from app.chat.book import ChatBook
from app.chat.conversation import Chat
from app.chat.list_model import ChatListModel


class ChatListPanel(QWidget):
    """Shows the book's chats and keeps its selection on the current one."""

    delete_requested = Signal(object)
    chat_opened = Signal()
    """Enter or a click on a chat: the user wants to write there."""

    def __init__(self, book: ChatBook, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._book = book
        self._removing = False
        self.model = ChatListModel(book, self)
        outer = QVBoxLayout(self)
        outer.setContentsMargins(0, 12, 0, 8)
        outer.setSpacing(8)
        self.new_button = QPushButton("New chat")
        icons.dress(self.new_button, "new-chat")
        self.new_button.setAccessibleName("New chat")
        self.new_button.clicked.connect(self._on_new)
        top = QVBoxLayout()
        top.setContentsMargins(10, 0, 10, 0)
        top.addWidget(self.new_button)
        outer.addLayout(top)
        heading = QLabel("Chats")
        heading.setProperty("textRole", "small")
        heading.setContentsMargins(18, 6, 0, 0)
        outer.addWidget(heading)
        self.view = QListView()
        self.view.setObjectName("chatList")
        self.view.setAccessibleName("Chats")
        self.view.setModel(self.model)
        self.view.setUniformItemSizes(True)
        self.view.setTextElideMode(Qt.TextElideMode.ElideRight)
        self.view.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.view.setEditTriggers(
            QAbstractItemView.EditTrigger.DoubleClicked | QAbstractItemView.EditTrigger.EditKeyPressed
        )
        self.view.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
        self.view.customContextMenuRequested.connect(self._on_menu)
        self.view.selectionModel().currentChanged.connect(self._on_current)
        self.view.clicked.connect(lambda _: self.chat_opened.emit())
        self.view.activated.connect(lambda _: self.chat_opened.emit())
        outer.addWidget(self.view, 1)
        heading.setBuddy(self.view)

        self.rename_action = QAction("&Rename chat", self)
        self.rename_action.setShortcut(QKeySequence("F2"))
        self.rename_action.triggered.connect(self.rename_current)
        self.delete_action = QAction("&Delete chat", self)
        self.delete_action.setShortcut(QKeySequence(Qt.Key.Key_Delete))
        self.delete_action.setShortcutContext(Qt.ShortcutContext.WidgetShortcut)
        self.delete_action.triggered.connect(lambda: self.delete_requested.emit(self._book.current))
        self.view.addAction(self.delete_action)

        book.current_changed.subscribe(self._select)
        book.inserted.subscribe(lambda _: self._select(book.current))
        book.before_remove.subscribe(lambda _: self._set_removing(True))
        book.removed.subscribe(lambda _: self._set_removing(False))
        self._select(book.current)

    def rename_current(self) -> None:
        self.view.setFocus()
        self.view.edit(self.model.index_of(self._book.current))

    def _set_removing(self, removing: bool) -> None:
        # While rows are taken out the view moves its current row by itself; the book decides then.
        self._removing = removing

    def _select(self, chat: Chat) -> None:
        if chat not in self._book.chats:
            return
        index = self.model.index_of(chat)
        selection = self.view.selectionModel()
        if selection.currentIndex() != index:
            selection.setCurrentIndex(index, QItemSelectionModel.SelectionFlag.ClearAndSelect)

    def _on_new(self) -> None:
        self._book.new()
        self.chat_opened.emit()

    def _on_current(self, index: QModelIndex, _before: QModelIndex) -> None:
        if index.isValid() and not self._removing:
            self._book.select(self.model.chat_at(index))

    def _on_menu(self, point: QPoint) -> None:
        index = self.view.indexAt(point)
        if not index.isValid():
            return
        self._book.select(self.model.chat_at(index))
        menu = QMenu(self)
        menu.addAction(self.rename_action)
        menu.addAction(self.delete_action)
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        menu.popup(self.view.viewport().mapToGlobal(point))

    def paintEvent(self, event: QPaintEvent) -> None:
        QPainter(self).fillRect(self.rect(), theme.tokens(self).background_alt)
