"""The window's parts and where they stand: what :mod:`app.main_window` brings to life."""

from __future__ import annotations

import logging
import sqlite3
from pathlib import Path

from PySide6.QtCore import QByteArray, QEvent, QSettings, Qt, QTimer, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import (
    QLabel,
    QMainWindow,
    QSplitter,
    QStackedWidget,
    QVBoxLayout,
    QWidget,
)

from app import icons
from app.actions import Actions, TopBar
from app.banner import Banner, Toast
from app.chat import figures
from app.chat.book import ChatBook
from app.chat.composer import Composer
from app.chat.empty_state import EmptyState
from app.chat.keeping import Keeper
from app.chat.list_panel import ChatListPanel
from app.chat.transcript import LINE_CHARACTERS, Transcript
from app.client import EngineClient
from app.language import mark, tr
from app.notices import NoticeArea
from app.settings.store import SettingsStore
from app.storage.store import ChatStore
from app.tab_order import in_order
from app.tour import Stop
from app.tree_panel.panel import TreePanel

log = logging.getLogger(__name__)

WINDOW_FILE = "window.ini"
NOT_KEPT = mark(
    "Chats", "Chats cannot be kept in this session: {error}. What is written now is lost when Eyrie ends."
)


def open_chats(folder: Path) -> tuple[ChatStore | None, str]:
    """The stored chats, and what is to be said about them; without a database they live in memory."""
    try:
        store = ChatStore(folder)
    except (OSError, sqlite3.Error) as error:
        log.error("no database of chats: %s", error)
        return None, tr("Chats", NOT_KEPT).format(error=error)
    return store, store.problem


class _Centre(QWidget):
    """The middle column; tells when it gets another width."""

    resized = Signal()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self.resized.emit()


class WindowFrame(QMainWindow):
    """Chats, conversation and draft tree side by side; remembers its place and sizes."""

    def __init__(
        self, client: EngineClient, store: SettingsStore, folder: Path, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self.client = client
        self.store = store
        self.folder = folder
        self.follows_language = False
        """Whether somebody builds another window when the language changes."""
        self.chats, self.unsaved = open_chats(folder)
        self.book = ChatBook(Keeper(self.chats) if self.chats is not None else None)
        self.setWindowTitle("Eyrie")
        self.setWindowIcon(icons.application_icon())
        self.commands = Actions(self)
        self._dresser = QTimer(self)
        self._dresser.setSingleShot(True)
        self._dresser.timeout.connect(self._dress)
        self._build()
        self._restore_window()

    def _build(self) -> None:
        self.top_bar = TopBar(self.commands, self)
        self.top_bar.setIconSize(icons.size_for(self))
        self.addToolBar(self.top_bar)
        self.chat_list = ChatListPanel(self.book, self.chats.search if self.chats is not None else None)
        self.notices = NoticeArea(self.client, self.store)
        self.empty = EmptyState()
        self.transcript = Transcript()
        self.stack = QStackedWidget()
        self.stack.addWidget(self.empty)
        self.stack.addWidget(self.transcript)
        self.composer = Composer()
        self.panel = TreePanel()
        self._foot = QWidget()
        self._foot_layout = QVBoxLayout(self._foot)
        self.editing = Banner()
        self._foot_layout.addWidget(self.editing)
        self._foot_layout.addWidget(self.composer)
        centre = _Centre()
        column = QVBoxLayout(centre)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        column.addWidget(self.notices)
        column.addWidget(self.stack, 1)
        column.addWidget(self._foot)
        self._centre = centre
        self.splitter = QSplitter(Qt.Orientation.Horizontal)
        self.splitter.setHandleWidth(1)
        self.splitter.setChildrenCollapsible(False)
        centre.setMinimumWidth(360)
        for place, (part, stretch) in enumerate(((self.chat_list, 0), (centre, 1), (self.panel, 0))):
            self.splitter.addWidget(part)
            self.splitter.setStretchFactor(place, stretch)
        self.splitter.setSizes([230, 700, 430])
        centre.resized.connect(self._place_composer)
        self.setCentralWidget(self.splitter)
        self.toast = Toast(centre, self._foot)
        self.status = QLabel()
        self.status.setTextFormat(Qt.TextFormat.PlainText)
        self.status.setProperty("textRole", "small")
        self.status.setContentsMargins(12, 2, 4, 2)
        self.numbers = QLabel()
        self.numbers.setProperty("textRole", "small")
        self.numbers.setContentsMargins(4, 2, 12, 2)
        self.numbers.setToolTip(figures.explanation())
        self.statusBar().setSizeGripEnabled(False)
        self.statusBar().addWidget(self.status, 1)
        self.statusBar().addPermanentWidget(self.numbers)
        self.commands.fill_menus(self.menuBar(), self.chat_list)
        above = [stop for strip in self.notices.findChildren(Banner) for stop in strip.stops()]
        in_order(
            [
                *self.chat_list.stops(), self.notices.loading.cancel_button, self.notices.files.cancel_button, *above, *self.empty.buttons, *self.transcript.stops(),
                *self.editing.stops(), *self.composer.stops(), self.toast.button,
            ]
        )  # fmt: skip

    def tour_stops(self) -> tuple[Stop, ...]:
        """What the first-run tour points out."""
        return (
            Stop(
                self.composer,
                tr("Tour", "Write here"),
                tr(
                    "Tour",
                    "Everything runs on this computer. Enter sends, Esc stops a reply; what came stays.",
                ),
            ),
            Stop(
                self.panel,
                tr("Tour", "The draft tree"),
                tr(
                    "Tour",
                    "A small head guesses several words ahead; the model checks all guesses at once. Here you "
                    "see which it accepted. The reply stays the model's own, it only comes faster.",
                ),
            ),
            Stop(
                self.top_bar,
                tr("Tour", "EAGLE on and off"),
                tr("Tour", "Switch the guessing off to see the difference, or compare both side by side."),
            ),
            Stop(
                self.chat_list,
                tr("Tour", "Your chats"),
                tr(
                    "Tour",
                    "They are kept on this computer as you write. Search in all of them with Ctrl+F; every "
                    "command is found with Ctrl+K, and ? lists the keys.",
                ),
            ),
        )

    # ------------------------------------------------------------------ place and sizes

    def _restore_window(self) -> None:
        state = QSettings(str(self.folder / WINDOW_FILE), QSettings.Format.IniFormat)
        geometry, sizes = state.value("geometry"), state.value("splitter")
        if not (isinstance(geometry, QByteArray) and self.restoreGeometry(geometry)):
            room = self.screen().availableGeometry()
            self.resize(min(1360, round(room.width() * 0.92)), min(880, round(room.height() * 0.9)))
        if isinstance(sizes, QByteArray):
            self.splitter.restoreState(sizes)
        for name, action, part in (
            ("chats", self.commands.chats, self.chat_list),
            ("panel", self.commands.panel, self.panel),
        ):
            shown = str(state.value(name, "true")).lower() != "false"
            action.setChecked(shown)
            part.setVisible(shown)

    def save_window(self) -> None:
        state = QSettings(str(self.folder / WINDOW_FILE), QSettings.Format.IniFormat)
        state.setValue("geometry", self.saveGeometry())
        state.setValue("splitter", self.splitter.saveState())
        state.setValue("chats", self.commands.chats.isChecked())
        state.setValue("panel", self.commands.panel.isChecked())
        state.sync()

    def _place_composer(self) -> None:
        widest = self.fontMetrics().averageCharWidth() * LINE_CHARACTERS + 20
        side = max(16, (self._centre.width() - widest) // 2)
        self._foot_layout.setContentsMargins(side, 6, side, 10)
        self.toast.place()

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() in (QEvent.Type.PaletteChange, QEvent.Type.FontChange) and hasattr(self, "top_bar"):
            self._dress()
            # The parts get the new font after the window, and icons are as large as their text.
            self._dresser.start()

    def _dress(self) -> None:
        self.top_bar.setIconSize(icons.size_for(self))
        icons.redress(self)
