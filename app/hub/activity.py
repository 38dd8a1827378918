"""Downloads in the main window: a few quiet words while they run, and a notice at their end.

It only listens: the hub's process is not started for it.
"""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal, Slot
from PySide6.QtWidgets import QToolButton, QWidget

from app.hub import words
from app.hub.client import DIED, HubClient
from app.language import numbers, tr, tr_n
from engine.protocol.hub import DownloadState, Phase
from engine.protocol.hub_messages import HubFailed, Queue


def is_under_way(state: DownloadState) -> bool:
    """Whether it runs or waits for its turn."""
    return state.phase.is_active or state.phase is Phase.QUEUED


class DownloadButton(QToolButton):
    """Stands in the status bar while something is downloaded; leads to the downloads."""

    ended = Signal(str, str)
    """A download that was seen running came to its end: its repository, and words about that."""
    began = Signal(str)
    """A repository that is downloaded again, or after all."""

    def __init__(self, client: HubClient, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextOnly)
        self.setProperty("look", "small")
        self.setProperty("textRole", "small")
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setToolTip(tr("Hub", "Show the downloads"))
        self._running: dict[str, str] = {}
        """Repositories by their download."""
        client.queue.connect(self._on_queue)
        client.failed.connect(self._on_failed)
        self.hide()

    @Slot(object)
    def _on_queue(self, event: Queue) -> None:
        before = self._running
        running = [state for state in event.downloads if is_under_way(state)]
        self._running = {state.download_id: state.repo_id for state in running}
        for state in event.downloads:
            if (
                state.download_id in before
                and state.download_id not in self._running
                and (text := _end(state))
            ):
                self.ended.emit(state.repo_id, text)
        for download_id in self._running.keys() - before.keys():
            self.began.emit(self._running[download_id])
        self._show(running)

    def _show(self, running: list[DownloadState]) -> None:
        if not running:
            self.hide()
            return
        done, total = sum(state.done for state in running), sum(state.total for state in running)
        text = tr_n("Hub", "Downloading %n model", "Downloading %n models", len(running))
        if total:
            # Cut, not rounded: it is not all here before it is.
            text = tr("Hub", "{downloads}, {share}").format(
                downloads=text, share=numbers.percent(min(1.0, done * 100 // total / 100))
            )
        if text != self.text():
            self.setText(text)
            self.setAccessibleName(text)
            self.setAccessibleDescription(tr("Hub", "Show the downloads"))
        self.show()

    @Slot(object)
    def _on_failed(self, event: HubFailed) -> None:
        if event.problem != DIED:
            return
        stopped, self._running = self._running, {}
        for repo_id in stopped.values():
            self.ended.emit(repo_id, _stopped(repo_id, words.problem(DIED)))
        self.hide()


def _end(state: DownloadState) -> str:
    """What is to be said of a download that does not run any more; "" where its user stopped it."""
    if state.phase is Phase.DONE:
        return tr("Hub", "{name} is downloaded.").format(name=state.repo_id)
    if state.phase is Phase.FAILED:
        return _stopped(state.repo_id, words.problem(state.problem) if state.problem else "")
    return ""


def _stopped(name: str, reason: str) -> str:
    return tr("Hub", "The download of {name} stopped. {reason}").format(name=name, reason=reason).strip()
