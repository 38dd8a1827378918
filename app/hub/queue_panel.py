"""The downloads: a line each with its bar, its files on demand, and what can be done with it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from PySide6.QtCore import QSize, Qt, QTimer, Signal
from PySide6.QtGui import QAccessible, QAccessibleAnnouncementEvent
from PySide6.QtWidgets import (
    QHBoxLayout,
    QMessageBox,
    QProgressBar,
    QPushButton,
    QScrollArea,
    QSizePolicy,
    QVBoxLayout,
    QWidget,
)
from shiboken6 import isValid

from app.elided_label import ElidedLabel
from app.hub import words
from app.hub.client import DIED, HubClient
from app.hub.details_pane import ACCOUNT_KINDS, label
from app.language import tr
from app.tab_order import in_order
from app.wrapping_row import WrappingRow
from engine.protocol.hub import DownloadState, Phase
from engine.protocol.hub_messages import Cancel, HubCommand, HubFailed, Pause, Queue, Resume

STEPS = 1000
SHARE = 0.34
"""Of the dialog's height at most; more downloads are scrolled to."""
SILENT_MS = 5000
"""Without a word from the hub's process, which tells of what arrives four times a second."""


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
        for button in (self.more, self.pause, self.cancel):
            top.addWidget(button)
        cures = WrappingRow(self)  # below, where large text leaves them no room beside the others
        cures.add(self.link, self.token)
        self.cures = cures
        column = QVBoxLayout(self)
        column.setContentsMargins(12, 5, 12, 5)
        column.setSpacing(4)
        column.addLayout(top)
        column.addWidget(self.bar)
        column.addWidget(self.problem)
        column.addWidget(cures)
        column.addWidget(self.files)
        self._question: QMessageBox | None = None

    def _button(self, text: str, act: Callable[[], object]) -> QPushButton:
        button = QPushButton(text, self)
        button.setAutoDefault(False)
        button.clicked.connect(lambda _=False: act())
        return button

    def stops(self) -> list[QWidget]:
        """Where Tab stops in here."""
        return [self.more, self.pause, self.cancel, self.link, self.token]

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
        self.cures.setVisible(not (self.link.isHidden() and self.token.isHidden()))
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
        if self._question is not None and isValid(self._question):
            self._question.raise_()  # one is enough
            return
        box = QMessageBox(QMessageBox.Icon.Question, tr("Hub", "Cancel the download"), "", parent=self)
        self._question = box
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


class RowArea(QScrollArea):
    """As high as its rows, up to a share of the window; in a low window a row is enough."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._wanted = self._least = 0
        self.setWidgetResizable(True)
        self.setFrameShape(QScrollArea.Shape.NoFrame)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Maximum)

    def want(self, wanted: int, least: int) -> None:
        """Heights of all rows, and of one."""
        if (self._wanted, self._least) != (wanted, least):
            self._wanted, self._least = wanted, least
            self.updateGeometry()

    def sizeHint(self) -> QSize:
        share = max(self._least, round(SHARE * self.window().height()))
        return QSize(200, min(self._wanted, share))

    def minimumSizeHint(self) -> QSize:
        return QSize(200, min(self._wanted, self._least))


class QueuePanel(QWidget):
    link_chosen = Signal(str)
    token_requested = Signal()

    def __init__(self, client: HubClient, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._client = client
        self.rows: dict[str, DownloadRow] = {}
        self.states: tuple[DownloadState, ...] = ()
        # In one line: a height that follows from the width would keep the panel from giving way.
        self.title = ElidedLabel(self)
        self.title.setProperty("textRole", "label")
        self.title.setContentsMargins(12, 6, 12, 0)
        inner = QWidget(self)
        self._column = QVBoxLayout(inner)
        self._column.setContentsMargins(0, 0, 0, 4)
        self._column.setSpacing(0)
        self._column.addStretch(1)
        self.area = RowArea(self)
        self.area.setWidget(inner)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(2)
        column.addWidget(self.title)
        column.addWidget(self.area)
        client.queue.connect(self._on_queue)
        client.failed.connect(self._on_failed)
        self._free_disk = 0
        self._wants_focus = False
        self._silence = QTimer(self)
        self._silence.setSingleShot(True)
        self._silence.setInterval(SILENT_MS)
        self._silence.timeout.connect(self._on_silence)
        self.hide()

    def _on_silence(self) -> None:
        """The process hangs, or is held: a speed that stays where it was would be a lie."""
        states = (replace(each, speed=0.0, seconds_left=None) for each in self.states)
        self._show(tuple(states))

    def _on_failed(self, event: HubFailed) -> None:
        """Where the hub's process has ended nothing runs: what ran is shown as stopped, and can be resumed."""
        if event.problem == DIED:
            states = (
                replace(each, phase=Phase.PAUSED, speed=0.0, note="") if each.phase.is_active else each
                for each in self.states
            )
            self._on_queue(Queue(tuple(states), self._free_disk))

    def _on_queue(self, event: Queue) -> None:
        self._free_disk = event.free_disk
        self._show(event.downloads)
        if any(each.speed for each in event.downloads):
            self._silence.start()
        else:
            self._silence.stop()

    def _show(self, states: tuple[DownloadState, ...]) -> None:
        self.states = states
        # What runs stands above what waits; what is done goes to the end.
        ordered = sorted(states, key=lambda state: (not state.phase.is_active, state.phase is Phase.DONE))
        wanted = {state.download_id for state in states}
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
        free = tr("Hub", "{size} free on the disk").format(size=words.size(self._free_disk))
        if moved:
            in_order(stop for state in ordered for stop in self.rows[state.download_id].stops())
        self.title.show_text(words.joined(_summary(states), free))
        self.setVisible(bool(states))
        self.fit_height()
        if self._wants_focus and ordered:
            self._wants_focus = False
            self.rows[ordered[0].download_id].pause.setFocus()

    def take_focus(self) -> None:
        """Lead to the first download, as soon as it is known."""
        self._wants_focus = True
        self._show(self.states)

    def _ask(self, command: HubCommand) -> None:
        self._client.send(command)

    def fit_height(self) -> None:
        """Take the room that the rows need now: texts that wrap are lower in a wide window."""
        width = max(self.area.viewport().width(), 200)
        heights = [
            row.heightForWidth(width) if row.hasHeightForWidth() else row.sizeHint().height()
            for row in self.rows.values()
        ]
        self.area.want(8 + sum(heights), 8 + min(heights, default=0))
        self.area.updateGeometry()  # its share of the window may be another


def _summary(states: tuple[DownloadState, ...]) -> str:
    """All downloads in a few words."""
    waiting = [state for state in states if state.phase is not Phase.DONE]
    if not waiting:
        return tr("Hub", "Downloads")
    done, total = sum(state.done for state in waiting), sum(state.total for state in waiting)
    amount = words.of_total(done, total) if total else ""
    return words.joined(tr("Hub", "Downloads"), amount)
