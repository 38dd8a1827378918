"""The downloads: a line each with its bar, its files on demand, and what can be done with it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QAccessible, QAccessibleAnnouncementEvent
from PySide6.QtWidgets import (
    QHBoxLayout,
    QMessageBox,
    QProgressBar,
    QPushButton,
    QScrollArea,
    QVBoxLayout,
    QWidget,
)

from app.elided_label import ElidedLabel
from app.hub import words
from app.hub.client import DIED, HubClient
from app.hub.details_pane import ACCOUNT_KINDS, label
from app.language import tr
from app.tab_order import in_order
from engine.protocol.hub import DownloadState, Phase
from engine.protocol.hub_messages import Cancel, HubCommand, HubFailed, Pause, Queue, Resume

STEPS = 1000
SHARE = 0.34
"""Of the dialog's height at most; more downloads are scrolled to."""


class DownloadRow(QWidget):
    """One download. Its buttons ask; the queue's next state shows what came of it."""

    asked = Signal(object)
    link_chosen = Signal(str)
    token_requested = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.state: DownloadState | None = None
        self.name = ElidedLabel(self, Qt.TextElideMode.ElideMiddle)
        self.name.setProperty("textRole", "label")
        self.line = ElidedLabel(self)
        self.line.setProperty("textRole", "small")
        self.bar = QProgressBar(self)
        self.bar.setObjectName("loadingBar")
        self.bar.setRange(0, STEPS)
        self.bar.setTextVisible(False)
        self.files = label(self, "small")
        self.files.hide()
        self.problem = label(self, "error")
        self.link = self._button(tr("Hub", "Open its page"), self._on_link)
        self.token = self._button(tr("Hub", "Enter a token…"), self.token_requested.emit)
        self.more = self._button(tr("Hub", "Files"), self._on_files)
        self.pause = self._button(tr("Hub", "Pause"), self._on_pause)
        self.cancel = self._button(tr("Hub", "Cancel…"), self._on_cancel)
        texts = QVBoxLayout()
        texts.setSpacing(0)
        texts.addWidget(self.name)
        texts.addWidget(self.line)
        top = QHBoxLayout()
        top.setSpacing(8)
        top.addLayout(texts, 1)
        for button in (self.link, self.token, self.more, self.pause, self.cancel):
            top.addWidget(button)
        column = QVBoxLayout(self)
        column.setContentsMargins(12, 5, 12, 5)
        column.setSpacing(4)
        column.addLayout(top)
        column.addWidget(self.bar)
        column.addWidget(self.problem)
        column.addWidget(self.files)

    def _button(self, text: str, act: Callable[[], object]) -> QPushButton:
        button = QPushButton(text, self)
        button.setAutoDefault(False)
        button.clicked.connect(lambda _=False: act())
        return button

    def stops(self) -> list[QWidget]:
        """Where Tab stops in here."""
        return [self.link, self.token, self.more, self.pause, self.cancel]

    def show_state(self, state: DownloadState) -> None:
        before, self.state = self.state, state
        self.name.show_text(state.repo_id)
        self.line.show_text(words.download_line(state))
        if state.total:
            self.bar.setRange(0, STEPS)
            self.bar.setValue(round(STEPS * state.done / state.total))
        else:
            self.bar.setRange(0, 0 if state.phase.is_active else STEPS)
        self.bar.setVisible(state.phase is not Phase.DONE)
        self.bar.setAccessibleName(tr("Hub", "Download of {name}").format(name=state.repo_id))
        self.bar.setAccessibleDescription(self.line.whole)
        problem = state.problem
        self.problem.setText(words.problem(problem) if problem else "")
        self.problem.setVisible(problem is not None)
        self.link.setVisible(problem is not None and bool(problem.link))
        self.token.setVisible(problem is not None and problem.kind in ACCOUNT_KINDS)
        stopped = state.phase in (Phase.PAUSED, Phase.FAILED)
        going_on = tr("Hub", "Resume") if stopped else tr("Hub", "Pause")
        self.pause.setText(tr("Hub", "Try again") if problem else going_on)
        self.pause.setVisible(state.phase is not Phase.DONE)
        self.cancel.setText(tr("Hub", "Dismiss") if state.phase is Phase.DONE else tr("Hub", "Cancel…"))
        for button in (self.link, self.token, self.more, self.pause, self.cancel):
            name = tr("Hub", "{action}: {name}")
            button.setAccessibleName(name.format(action=button.text().rstrip("…"), name=state.repo_id))
        self.more.setVisible(bool(state.files))
        if not self.files.isHidden():
            self._show_files()
        if before is not None and before.phase is not state.phase:
            self._announce(state)

    def _announce(self, state: DownloadState) -> None:
        spoken = {
            Phase.DONE: tr("Hub", "{name} is downloaded."),
            Phase.FAILED: tr("Hub", "The download of {name} stopped. {reason}"),
            Phase.PAUSED: tr("Hub", "The download of {name} is paused."),
        }.get(state.phase)
        if spoken and QAccessible.isActive():
            spoken = spoken.format(name=state.repo_id, reason=self.problem.text())
            QAccessible.updateAccessibility(QAccessibleAnnouncementEvent(self, spoken))

    def _show_files(self) -> None:
        files = self.state.files if self.state else ()
        partly, whole = tr("Hub", "{file}:  {done} of {size}"), tr("Hub", "{file}:  {size}, here")
        self.files.setText(
            "\n".join(
                (partly if file.done < file.size else whole).format(
                    file=file.path, done=words.size(file.done), size=words.size(file.size)
                )
                for file in files
            )
        )

    def _on_files(self) -> None:
        self.files.setVisible(self.files.isHidden())
        self._show_files()
        self.updateGeometry()

    def _on_pause(self) -> None:
        if self.state is not None:
            stopped = self.state.phase in (Phase.PAUSED, Phase.FAILED)
            self.asked.emit((Resume if stopped else Pause)(self.state.download_id))

    def _on_link(self) -> None:
        if self.state is not None and self.state.problem is not None:
            self.link_chosen.emit(self.state.problem.link)

    def _on_cancel(self) -> None:
        state = self.state
        if state is None:
            return
        if state.phase is Phase.DONE or not state.done:
            self.asked.emit(Cancel(state.download_id, delete=state.phase is not Phase.DONE))
            return
        box = QMessageBox(QMessageBox.Icon.Question, tr("Hub", "Cancel the download"), "", parent=self)
        box.setText(tr("Hub", "Cancel the download of {name}?").format(name=state.repo_id))
        box.setInformativeText(
            tr("Hub", "{size} have arrived. Kept, they need not be fetched again later.").format(
                size=words.size(state.done)
            )
        )
        box.setTextFormat(Qt.TextFormat.PlainText)
        keep = box.addButton(tr("Hub", "Cancel, keep what arrived"), QMessageBox.ButtonRole.AcceptRole)
        delete = box.addButton(tr("Hub", "Cancel and delete"), QMessageBox.ButtonRole.DestructiveRole)
        on = box.addButton(tr("Hub", "Go on downloading"), QMessageBox.ButtonRole.RejectRole)
        box.setDefaultButton(on)
        ask: Callable[[bool], object] = partial(self._cancel, state.download_id)
        keep.clicked.connect(lambda: ask(False))
        delete.clicked.connect(lambda: ask(True))
        box.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        box.open()

    def _cancel(self, download_id: str, delete: bool) -> None:
        self.asked.emit(Cancel(download_id, delete))


class QueuePanel(QWidget):
    link_chosen = Signal(str)
    token_requested = Signal()

    def __init__(self, client: HubClient, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._client = client
        self.rows: dict[str, DownloadRow] = {}
        self.states: tuple[DownloadState, ...] = ()
        self.title = label(self, "label")
        self.title.setContentsMargins(12, 6, 12, 0)
        inner = QWidget(self)
        self._column = QVBoxLayout(inner)
        self._column.setContentsMargins(0, 0, 0, 4)
        self._column.setSpacing(0)
        self._column.addStretch(1)
        self.area = QScrollArea(self)
        self.area.setWidget(inner)
        self.area.setWidgetResizable(True)
        self.area.setFrameShape(QScrollArea.Shape.NoFrame)
        self.area.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.area.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(2)
        column.addWidget(self.title)
        column.addWidget(self.area)
        client.queue.connect(self._on_queue)
        client.failed.connect(self._on_failed)
        self._free_disk = 0
        self.hide()

    def _on_failed(self, event: HubFailed) -> None:
        """Where the hub's process has ended nothing runs: what ran is shown as stopped, and can be resumed."""
        if event.problem == DIED:
            states = (
                replace(each, phase=Phase.PAUSED, speed=0.0, note="") if each.phase.is_active else each
                for each in self.states
            )
            self._on_queue(Queue(tuple(states), self._free_disk))

    def _on_queue(self, event: Queue) -> None:
        self.states, self._free_disk = event.downloads, event.free_disk
        # What runs stands above what waits; what is done goes to the end.
        ordered = sorted(
            event.downloads, key=lambda state: (not state.phase.is_active, state.phase is Phase.DONE)
        )
        wanted = {state.download_id for state in event.downloads}
        for key in [key for key in self.rows if key not in wanted]:
            row = self.rows.pop(key)
            self._column.removeWidget(row)
            row.hide()
            row.deleteLater()
        moved = False
        for place, state in enumerate(ordered):
            if state.download_id not in self.rows:
                row = DownloadRow(self)
                row.asked.connect(self._ask)
                row.link_chosen.connect(self.link_chosen)
                row.token_requested.connect(self.token_requested)
                self.rows[state.download_id] = row
            row = self.rows[state.download_id]
            if self._column.indexOf(row) != place:
                self._column.insertWidget(place, row)
                moved = True
            row.show_state(state)
        free = tr("Hub", "{size} free on the disk").format(size=words.size(event.free_disk))
        if moved:
            in_order(stop for state in ordered for stop in self.rows[state.download_id].stops())
        self.title.setText(words.joined(_summary(event.downloads), free))
        self.setVisible(bool(event.downloads))
        self._fit_height()

    def _ask(self, command: HubCommand) -> None:
        self._client.send(command)

    def _fit_height(self) -> None:
        # Texts that wrap are lower in a wide window than their own hint says.
        width = max(self.area.viewport().width(), 200)
        wanted = 8 + sum(
            row.heightForWidth(width) if row.hasHeightForWidth() else row.sizeHint().height()
            for row in self.rows.values()
        )
        self.area.setFixedHeight(min(wanted, round(SHARE * self.window().height())))


def _summary(states: tuple[DownloadState, ...]) -> str:
    """All downloads in a few words."""
    waiting = [state for state in states if state.phase is not Phase.DONE]
    if not waiting:
        return tr("Hub", "Downloads")
    done, total = sum(state.done for state in waiting), sum(state.total for state in waiting)
    amount = words.of_total(done, total) if total else ""
    return words.joined(tr("Hub", "Downloads"), amount)
