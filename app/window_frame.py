"""The window's parts and where they stand: what :mod:`app.main_window` brings to life."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import QByteArray, QEvent, QSettings, Qt, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QLabel, QMainWindow, QSplitter, QStackedWidget, QVBoxLayout, QWidget

from app import icons
from app.actions import Actions, TopBar
from app.banner import Toast
from app.chat import figures
from app.chat.book import ChatBook
from app.chat.composer import Composer
from app.chat.empty_state import EmptyState
from app.chat.list_panel import ChatListPanel
from app.chat.transcript import LINE_CHARACTERS, Transcript
from app.client import EngineClient
from app.notices import NoticeArea
from app.settings.store import SettingsStore
from app.tree_panel.panel import TreePanel

WINDOW_FILE = "window.ini"


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
        self.book = ChatBook()
        self.setWindowTitle("Eyrie")
        self.setWindowIcon(icons.application_icon())
        self.commands = Actions(self)
        self._build()
        self._restore_window()

    def _build(self) -> None:
        self.top_bar = TopBar(self.commands, self)
        self.top_bar.setIconSize(icons.size_for(self))
        self.addToolBar(self.top_bar)
        self.chat_list = ChatListPanel(self.book)
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
        self.chat_list.setMinimumWidth(170)
        centre.setMinimumWidth(360)
        for place, (part, stretch) in enumerate(((self.chat_list, 0), (centre, 1), (self.panel, 0))):
            self.splitter.addWidget(part)
            self.splitter.setStretchFactor(place, stretch)
        self.splitter.setSizes([230, 700, 430])
        centre.resized.connect(self._place_composer)
        self.setCentralWidget(self.splitter)
        self.toast = Toast(centre, self._foot)
        self.status = QLabel()
        self.status.setProperty("textRole", "small")
        self.status.setContentsMargins(12, 2, 4, 2)
        self.numbers = QLabel()
        self.numbers.setProperty("textRole", "small")
        self.numbers.setContentsMargins(4, 2, 12, 2)
        self.numbers.setToolTip(f"{figures.SPEED_HELP}\n{figures.TAU_HELP}")
        self.statusBar().setSizeGripEnabled(False)
        self.statusBar().addWidget(self.status, 1)
        self.statusBar().addPermanentWidget(self.numbers)
        self.commands.fill_menus(self.menuBar(), self.chat_list.rename_action, self.chat_list.delete_action)
        for first, second in (
            (self.chat_list.new_button, self.chat_list.view),
            (self.chat_list.view, self.transcript),
            (self.transcript, self.composer.edit),
            (self.composer.edit, self.composer.send_button),
        ):
            QWidget.setTabOrder(first, second)

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
            self.top_bar.setIconSize(icons.size_for(self))
            icons.redress(self)
