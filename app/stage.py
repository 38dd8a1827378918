"""Shows the window, and builds another in its place when the language changes.

Texts are put into widgets as these are made, so another language needs other widgets. What
outlives them is the engine with its model, and the hub's process with its token and downloads; chats, drafts and sizes come back from where they are
kept. That is done once nothing is going on: no reply, no comparison, no file being written, no
other window open.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from PySide6.QtCore import QCoreApplication, QObject, QTimer, Signal
from PySide6.QtWidgets import QDialog

from app.client import EngineClient, EngineState
from app.garbage import held
from app.language import installing
from app.main_window import MainWindow
from app.settings.store import SettingsStore
from engine.protocol import Load

log = logging.getLogger(__name__)

LOOK_MS = 200
"""Between two looks whether the window can be changed, while it is to be."""
FLUSH_SECONDS = 0.05
"""Longest wait for the disk at one look."""

MakeWindow = Callable[[EngineClient, Load], MainWindow]


def at_rest(window: MainWindow) -> bool:
    """Whether nothing is going on that another window could not take up."""
    client, chats = window.client, window.chats
    steady = client.state in (EngineState.READY, EngineState.OFF, EngineState.DEAD) and not client.is_loading
    writing = bool(client.active) or window.replies.running is not None or window.desk.waits
    jobs = window.exchange.is_busy or window.panel.export_button.job is not None
    others = any(dialog.isVisible() for dialog in window.findChildren(QDialog)) or window.dialogs.tour is not None
    if not steady or writing or jobs or others or not window.isVisible():
        return False
    return chats is not None and chats.keeps and chats.flush(FLUSH_SECONDS)


class Stage(QObject):
    """Has a :attr:`window`, not always the same one."""

    gone = Signal()
    """The window is closed and the engine has ended."""

    def __init__(
        self, application: QCoreApplication, store: SettingsStore, client: EngineClient, load: Load, make: MakeWindow,
        follows: bool = True,
    ) -> None:  # fmt: skip
        """``make(client, load)`` builds a window; ``follows``: it takes the language of the settings."""
        super().__init__(application)
        self._application = application
        self._store = store
        self._make = make
        self._follows = follows
        self._timer = QTimer(self)
        self._timer.setInterval(LOOK_MS)
        self._timer.timeout.connect(self._look)
        self.window = self._built(client, load)
        if follows:
            store.changed.subscribe(lambda _: self._watch())

    def _built(self, client: EngineClient, load: Load) -> MainWindow:
        window = self._make(client, load)
        window.follows_language = self._follows
        window.gone.connect(self.gone)
        return window

    def _wanted(self) -> bool:
        return installing.language_of(self._store.current.language) is not installing.shown()

    def _watch(self) -> None:
        if self._wanted() and not self._timer.isActive():
            self._timer.start()

    def _look(self) -> None:
        if not self._wanted():
            self._timer.stop()
        elif at_rest(self.window):
            self._timer.stop()
            self._change()

    def _change(self) -> None:
        old, load = self.window, self.window.engine.asked_for
        with held():  # widgets come and go
            client = old.retire()
            shown = installing.install(self._application, self._store.current.language)
            log.info("the window is built anew in %s", shown.value)
            self.window = self._built(client, load)
            self.window.dialogs.hub_client.take_over(old.dialogs.hub_client)
            if self.window.engine.is_off:
                self.window.engine.say_off()
            client.tell_again()
            self.window.show()
            old.hide()
            old.deleteLater()
        self.window.activateWindow()
