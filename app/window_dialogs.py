"""The dialogs of the window, and what leads to them."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QObject, Qt, QTimer, Signal
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QDialog, QMessageBox

from app import icons
from app.chat.conversation import Chat
from app.chat.instructions import InstructionsDialog
from app.command_palette import CommandPalette
from app.compare.dialog import CompareDialog
from app.compare.shelf import Shelf
from app.diagnostics import about_text, diagnostics
from app.hub.activity import DownloadButton
from app.hub.client import HubClient, hub_transport
from app.hub.dialog import HubDialog
from app.language import tr
from app.licence_dialog import LicenceDialog
from app.settings.dialog import SettingsDialog
from app.settings.model_dialog import ModelSettingsDialog
from app.settings.per_model import of_model, resolve
from app.shortcut_list import ShortcutList
from app.tour import Tour
from app.transport import Transport
from app.window_frame import WindowFrame
from engine.protocol import Load, Loaded, Message, Role
from engine.protocol.hub_messages import Browse

RESUME_MS = 4000
"""After the start, so that the engine's process has the machine first."""


class WindowDialogs(QObject):
    """Opens them over the window, without ever blocking it."""

    load_requested = Signal(object)
    """A pair was chosen among the models: a :class:`engine.protocol.Load`."""
    draft_requested = Signal(str)
    """The folder of a model that is to draft for the one that is loaded."""
    reload_requested = Signal()

    comparisons_changed = Signal()
    """A chat has other comparisons than before."""

    def __init__(
        self,
        frame: WindowFrame,
        command: Callable[[], Load],
        hub: Callable[[], Transport] | None = None,
    ) -> None:
        """``command()`` tells what is loaded, or would be; ``hub`` stands in for the hub's process."""
        super().__init__(frame)
        self._frame = frame
        self.loaded_as = lambda: command().model
        self._command = command
        self.shelf = Shelf(frame.book)
        self.compare: CompareDialog | None = None
        self.hub: HubDialog | None = None
        self.hub_client = HubClient(hub or (lambda: hub_transport(frame.folder)), self)
        self.downloads = DownloadButton(self.hub_client, frame)
        self.downloads.clicked.connect(self.open_downloads)
        self.downloads.ended.connect(self._on_download_ended)
        self.downloads.began.connect(frame.notices.download_began)
        frame.notices.downloads_requested.connect(self.open_downloads)
        frame.statusBar().addPermanentWidget(self.downloads)
        self.licence: LicenceDialog | None = None
        self.settings: SettingsDialog | None = None
        self.palette: CommandPalette | None = None
        self.tour: Tour | None = None
        frame.client.loaded.connect(self._on_loaded)
        frame.client.closed.connect(self.hub_client.close)
        if any((frame.folder / "downloads").glob("*.json")):
            # Downloads that ran when Eyrie ended go on, without anybody looking at them.
            QTimer.singleShot(RESUME_MS, self, self._resume_downloads)
        frame.chat_list.instructions_requested.connect(self.open_instructions)

    def _open(self, dialog: QDialog) -> None:
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.open()

    # ------------------------------------------------------------------ compare

    def comparison(self) -> tuple[Message, ...]:
        """The conversation up to what is typed, or else up to the last prompt."""
        chat, told = self._frame.book.current, of_model(self._frame.store.current, self._frame.client.model)
        if typed := self._frame.composer.text.strip():
            return (*chat.request(told.system_prompt), Message(Role.USER, typed))
        messages = chat.request(told.system_prompt)
        while messages and messages[-1].role is not Role.USER:
            messages = messages[:-1]
        return messages

    def open_compare(self) -> None:
        """Put two settings together, to be compared on the typed text, the last prompt or others."""
        frame, messages = self._frame, self.comparison()
        chat, model = frame.book.current, frame.client.model
        if self.compare is None:
            self.compare = CompareDialog(frame.client, self._command, self.shelf, self.hub_client, frame)
            self.compare.kept_changed.connect(self.comparisons_changed)
        told = of_model(frame.store.current, model).system_prompt
        settings = resolve(frame.store.current, model, chat)
        self.compare.open_for(chat, settings, messages, chat.request(told))
        self.compare.show()
        self.compare.raise_()
        self.compare.activateWindow()

    def open_comparisons(self) -> None:
        """The same window at what is kept with the chat."""
        self.open_compare()
        if self.compare is not None:
            self.compare.show_saved()

    # ------------------------------------------------------------------ models

    def open_hub(self) -> None:
        """The models: those for this machine, those of the hub, those that are here."""
        if self.hub is None:
            self.hub = HubDialog(
                self.hub_client, self._loaded_bytes, self._frame, self._engine_pid, self._loaded_path
            )
            self.hub.load_requested.connect(self.load_requested)
            self.hub.draft_requested.connect(self.draft_requested)
            # What becomes of it is shown by the window below; downloads go on.
            self.hub.load_requested.connect(self.hub.hide)
            self.hub.draft_requested.connect(self.hub.hide)
        self.hub.show()
        self.hub.raise_()
        self.hub.activateWindow()
        self._frame.notices.downloads_seen()

    def open_downloads(self) -> None:
        """The same, at the downloads."""
        self.open_hub()
        assert self.hub is not None
        self.hub.show_downloads()

    def _on_download_ended(self, repo_id: str, text: str) -> None:
        if self.hub is None or not self.hub.isVisible():  # it says so itself
            self._frame.notices.download_ended(repo_id, text)

    def _loaded_bytes(self) -> int:
        model = self._frame.client.model
        return model.memory_bytes if model else 0

    def _loaded_path(self) -> str:
        model = self._frame.client.model
        return model.path if model else ""

    def _engine_pid(self) -> int:
        return self._frame.client.pid

    def _resume_downloads(self) -> None:
        if self.hub is None:
            self.hub_client.send(Browse(self._loaded_bytes()))

    # ------------------------------------------------------------------ settings and help

    def open_settings(self) -> None:
        chats = self._frame.chats
        follows = self._frame.follows_language and chats is not None and chats.keeps
        self.settings = SettingsDialog(self._frame.store, self._frame, follows)
        self._open(self.settings)

    def open_instructions(self, chat: Chat) -> None:
        frame = self._frame
        self._open(InstructionsDialog(chat, frame.store.current.generation(), frame.chats, frame))

    def open_model_settings(self) -> None:
        model = self._frame.client.model
        if model is not None:
            dialog = ModelSettingsDialog(model, self._frame.store, self._frame, self.loaded_as())
            dialog.reload_wanted.connect(self.reload_requested)
            self._open(dialog)

    def open_palette(self) -> None:
        self.palette = CommandPalette(self._frame)
        self._open(self.palette)

    def open_shortcuts(self) -> None:
        self._open(ShortcutList(self._frame))

    def start_tour(self) -> None:
        """Point out the parts of the window, once by itself and then on demand."""
        if self.licence is not None and self.licence.isVisible():
            self.licence.finished.connect(lambda _: self.start_tour())
        elif self.tour is None:
            frame = self._frame
            self.tour = Tour(frame, frame.tour_stops())
            self.tour.ended.connect(self._on_tour_ended)
            self.tour.start()

    def _on_tour_ended(self) -> None:
        self.tour = None
        self._frame.composer.setFocus()  # where whoever has seen it begins to write
        self._frame.store.update(tour_seen=True)

    # ------------------------------------------------------------------ licence, diagnostics, about

    def _on_loaded(self, event: Loaded) -> None:
        model = event.model
        if model.licence_text and model.licence_name not in self._frame.store.current.licences_seen:
            if self.tour is None:
                self.open_licence()
            else:  # one after the other: it would stand over the tour's card
                self.tour.ended.connect(self.open_licence)

    def open_licence(self) -> None:
        model = self._frame.client.model
        if model is None or not model.licence_text:
            return
        self.licence = LicenceDialog(model, self._frame)
        self.licence.accepted.connect(lambda: self._licence_read(model.licence_name))
        self.licence.finished.connect(self._licence_closed)
        self._open(self.licence)

    def _licence_closed(self, _result: int) -> None:
        self.licence = None

    def _licence_read(self, name: str) -> None:
        seen = self._frame.store.current.licences_seen
        if name not in seen:
            self._frame.store.update(licences_seen=(*seen, name))

    def copy_diagnostics(self) -> None:
        frame = self._frame
        QGuiApplication.clipboard().setText(diagnostics(frame.client, frame.store, frame.folder))
        frame.status.setText(tr("Window", "Diagnostics copied"))

    def open_about(self) -> None:
        box = QMessageBox(
            QMessageBox.Icon.NoIcon, tr("About", "About Eyrie"), about_text(), parent=self._frame
        )
        box.setTextFormat(Qt.TextFormat.PlainText)
        box.setIconPixmap(icons.application_icon().pixmap(64, 64))
        self._open(box)
