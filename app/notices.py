"""Everything the window has to say about the engine, between tool bar and conversation.

Loading with its progress, errors with what to do next, the word that the demo
model is tiny, and why EAGLE cannot be offered.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, auto

from PySide6.QtCore import Qt, Signal, Slot
from PySide6.QtWidgets import QHBoxLayout, QLabel, QProgressBar, QPushButton, QVBoxLayout, QWidget

from app.banner import Banner, Offer
from app.client import DIED, EngineClient
from app.language import mark, tr
from app.language.engine_texts import of_engine
from app.settings.store import SettingsStore
from engine.protocol import Failed, Loaded, Loading

DEMO = mark(
    "Notices",
    "This is a tiny demo model. It shows how speculative decoding works, but it makes things up: "
    "do not rely on its answers. Better models come from the model hub.",
)
DIED_NEXT = mark("Notices", "What was received is kept.")
NO_HEAD = mark(
    "Notices", "No EAGLE head is loaded for this model, so replies are decoded one token at a time."
)
DOWNLOADS = 4
"""That ended and are told of at a time, the latest."""


def details_of(failure: Failed) -> str:
    parts = (failure.message, failure.next_step, f"Kind: {failure.kind}", failure.detail)
    return "\n".join(part for part in parts if part)


class LoadingStrip(QWidget):
    """A message and a thin bar while something takes its time, as loading a model, and a button that cancels it."""

    cancelled = Signal()

    def __init__(self, parent: QWidget | None = None, cancel: str = "", progress: str = "") -> None:
        """``cancel`` and ``progress`` name the button and the bar; by default they are those of loading."""
        super().__init__(parent)
        column = QVBoxLayout(self)
        column.setContentsMargins(16, 9, 16, 9)
        column.setSpacing(6)
        row = QHBoxLayout()
        self.label = QLabel()
        self.label.setTextFormat(Qt.TextFormat.PlainText)
        self.share = QLabel()
        self.share.setProperty("textRole", "small")
        row.addWidget(self.label, 1)
        row.addWidget(self.share)
        self.cancel_button = QPushButton(tr("Notices", "Cancel"))
        self.cancel_button.setAccessibleName(cancel or tr("Notices", "Cancel loading"))
        self.cancel_button.clicked.connect(self.cancelled)
        row.addWidget(self.cancel_button)
        column.addLayout(row)
        self.bar = QProgressBar()
        self.bar.setObjectName("loadingBar")
        self.bar.setTextVisible(False)
        self.bar.setAccessibleName(progress or tr("Notices", "Loading progress"))
        column.addWidget(self.bar)
        self.hide()

    def show_progress(self, message: str, fraction: float | None) -> None:
        self.label.setText(message)
        self.bar.setAccessibleDescription(message)
        if fraction is None:
            self.bar.setRange(0, 0)
            self.share.clear()
        else:
            self.bar.setRange(0, 1000)
            self.bar.setValue(round(1000 * min(1.0, max(0.0, fraction))))
            self.share.setText(f"{min(1.0, max(0.0, fraction)):.0%}")
        self.show()


class Source(Enum):
    """What an error is of, and so what makes it past."""

    REPLY = auto()
    ENGINE = auto()
    OTHERS = auto()


class NoticeArea(QWidget):
    """Strips that come and go. Knows the client's state; asks the window to act."""

    restart_requested = Signal()
    reload_requested = Signal()
    cancel_requested = Signal()
    downloads_requested = Signal()

    def __init__(self, client: EngineClient, store: SettingsStore, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._store = store
        self._error_of = Source.OTHERS
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        self.loading = LoadingStrip()
        self.files = LoadingStrip(
            cancel=tr("Notices", "Cancel the export or import"), progress=tr("Notices", "Progress of the export or import")
        )
        self.error = Banner(error=True)
        self.crash = Banner(error=True)
        """Of the session before; it stays until it is dismissed, whatever the engine does meanwhile."""
        self.settings = Banner()
        self.chats = Banner(error=True)
        self.engine = Banner()
        self.head = Banner()
        self.downloads = Banner()
        self._downloads: dict[str, str] = {}
        """What is said of downloads that ended, by repository."""
        self.demo = Banner()
        self.loading.cancelled.connect(self.cancel_requested)
        for strip in (
            self.loading, self.files, self.error, self.crash, self.chats, self.settings, self.engine, self.head,
            self.downloads, self.demo,
        ):  # fmt: skip
            column.addWidget(strip)
        self.downloads.dismissed.connect(self.downloads_seen)
        self.demo.dismissed.connect(lambda: store.update(demo_notice_dismissed=True))
        client.loading.connect(self._on_loading)
        client.loaded.connect(self._on_loaded)
        client.failed.connect(self._on_failed)
        client.engine_died.connect(self._on_died)
        if store.problem:
            self.settings.say(store.problem)

    def starting(self) -> None:
        """The engine starts: nothing can be told yet of how long it takes."""
        self.engine_goes_on()
        self.engine.hide()
        self.loading.show_progress(tr("Notices", "Starting the engine…"), None)

    def show_failure(self, failure: Failed, retry: Callable[[], object] | None = None) -> None:
        """The error bar: what happened, what to do next, and a way to try again."""
        offers = (Offer(tr("Notices", "Try again"), retry),) if retry is not None else ()
        text = f"{of_engine(failure.message)} {of_engine(failure.next_step)}".strip()
        self._error_of = Source.REPLY if failure.request_id is not None else Source.OTHERS
        self.error.say(text, offers, details_of(failure))

    def reply_began(self) -> None:
        """What is said of a reply that failed is over with the next one, which "Try again" would mean."""
        if self._error_of is Source.REPLY:
            self.error.hide()

    def engine_goes_on(self) -> None:
        """What was said of the engine and of its replies is over; what failed elsewhere stays to be read."""
        if self._error_of is not Source.OTHERS:
            self.error.hide()

    def say_unloaded(self, text: str) -> None:
        """The model was given back on purpose."""
        self.head.hide()
        self.engine.say(text, (Offer(tr("Notices", "Load the model"), self.reload_requested.emit),))

    def say_unsaved(self, text: str) -> None:
        """What keeps the chats from being saved; "" when nothing does any more."""
        if text:
            self.chats.say(text)
        else:
            self.chats.hide()

    @Slot()
    def downloads_seen(self) -> None:
        """What ended so far is known."""
        self._downloads.clear()
        self.downloads.hide()

    @Slot(str)
    def download_began(self, repo_id: str) -> None:
        """What was said of its last end is over."""
        if self._downloads.pop(repo_id, ""):
            self._show_downloads()

    def download_ended(self, repo_id: str, text: str) -> None:
        """A download is there, or stopped; what was said of others stays until it is dismissed."""
        self._downloads.pop(repo_id, "")
        self._downloads[repo_id] = text
        self._show_downloads()

    def _show_downloads(self) -> None:
        if not self._downloads:
            self.downloads.hide()
            return
        lines = list(self._downloads.values())[-DOWNLOADS:]
        offer = Offer(tr("Notices", "Show the downloads"), self.downloads_requested.emit)
        self.downloads.say("\n".join(lines), (offer,))

    @Slot(object)
    def _on_loading(self, event: Loading) -> None:
        self.loading.show_progress(of_engine(event.message), event.fraction)

    @Slot(object)
    def _on_loaded(self, event: Loaded) -> None:
        self.loading.hide()
        self.engine_goes_on()
        model = event.model
        if model.notice:
            self.engine.say(of_engine(model.notice))
        else:
            self.engine.hide()
        if model.is_demo and not self._store.current.demo_notice_dismissed:
            self.demo.say(tr("Notices", DEMO))
        else:
            self.demo.hide()
        if model.head_name is None:
            why = of_engine(model.head_problem or "") or tr("Notices", NO_HEAD)
            self.head.say(tr("Notices", "EAGLE is not available. {why}").format(why=why))
        else:
            self.head.hide()

    @Slot(object)
    def _on_failed(self, event: Failed) -> None:
        if event.request_id is None:
            self.loading.hide()
            self.show_failure(event, self.reload_requested.emit)
            self._error_of = Source.ENGINE

    @Slot(str)
    def _on_died(self, detail: str) -> None:
        self.loading.hide()
        restart = Offer(tr("Notices", "Restart engine"), self.restart_requested.emit)
        text = tr("Engine", DIED) + " " + tr("Notices", DIED_NEXT)
        self._error_of = Source.ENGINE
        self.error.say(text, (restart,), detail or tr("Notices", "No details are known."))
