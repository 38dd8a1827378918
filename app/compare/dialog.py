"""The comparison window: one prompt, twice, and what EAGLE changed."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QMetaObject, Qt, Slot
from PySide6.QtGui import QAccessible, QAccessibleAnnouncementEvent, QCloseEvent, QResizeEvent
from PySide6.QtWidgets import (
    QBoxLayout,
    QCheckBox,
    QDialog,
    QHBoxLayout,
    QLabel,
    QProgressBar,
    QPushButton,
    QScrollArea,
    QVBoxLayout,
    QWidget,
)

from app.compare.pane import RunPane
from app.compare.result import ResultCard
from app.compare.runner import Client, CompareRunner, Phase, Which
from app.tree_panel.token_text import visible
from engine.protocol import GenerationSettings, Message, Role

_ABREAST = 620
"""From this width on the replies stand side by side."""
_PROGRESS = 1000
_NAMES = {Which.EAGLE: "with EAGLE", Which.PLAIN: "without EAGLE"}


class CompareDialog(QDialog):
    """Runs a prompt with EAGLE and without it; not modal, so the chat stays in reach.

    Closing the window stops what it started.
    """

    def __init__(self, client: Client, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._messages: tuple[Message, ...] = ()
        self._settings = GenerationSettings()
        self.runner = CompareRunner(client, self)
        self.setWindowTitle("Compare EAGLE on and off")
        self.setModal(False)
        self.setWindowFlag(Qt.WindowType.WindowMaximizeButtonHint)
        self.setMinimumSize(360, 420)
        self._build()
        self.runner.phase_changed.connect(self._show_phase)
        self.runner.began.connect(self._began)
        self.runner.grew.connect(self._grew)
        self.runner.ended.connect(self._ended)
        self._show_phase()

    def _build(self) -> None:
        heading = QLabel("The same prompt, with EAGLE and without", self)
        heading.setProperty("textRole", "heading")
        self.prompt = QLabel(self)
        self.prompt.setTextFormat(Qt.TextFormat.PlainText)
        self.prompt.setWordWrap(True)
        self.prompt.setProperty("textRole", "small")
        self.panes = {Which.EAGLE: RunPane("With EAGLE", self), Which.PLAIN: RunPane("Without EAGLE", self)}
        self._replies = QBoxLayout(QBoxLayout.Direction.LeftToRight)
        self._replies.setSpacing(16)
        for which in Which:
            self._replies.addWidget(self.panes[which], 1)
        self.progress = QProgressBar(self)
        self.progress.setRange(0, _PROGRESS)
        self.progress.setTextVisible(False)
        self.progress.setFixedHeight(6)
        self.progress.setAccessibleName("Progress of the comparison")
        self.state = QLabel(self)
        self.state.setTextFormat(Qt.TextFormat.PlainText)
        self.state.setProperty("textRole", "small")
        self.result_card = ResultCard(self)
        self.plain_first = QCheckBox("Swap the order", self)
        self.plain_first.setToolTip("Run without EAGLE first, to see whether the first run pays for warming up.")
        self.plain_first.setAccessibleDescription(self.plain_first.toolTip())
        self.cancel_button = QPushButton("Cancel", self)
        self.cancel_button.setAccessibleName("Cancel the comparison")
        self.again_button = QPushButton("Run again", self)
        self.again_button.setAccessibleName("Run the comparison again")
        self.close_button = QPushButton("Close", self)
        self.close_button.setAccessibleName("Close the comparison")
        for button in (self.cancel_button, self.again_button, self.close_button):
            button.setAutoDefault(False)
        self.cancel_button.clicked.connect(self.runner.cancel)
        self.again_button.clicked.connect(self.run_again)
        self.close_button.clicked.connect(self.close)
        buttons = QHBoxLayout()
        buttons.setSpacing(8)
        buttons.addWidget(self.plain_first)
        buttons.addStretch(1)
        for button in (self.cancel_button, self.again_button, self.close_button):
            buttons.addWidget(button)
        content = QWidget(self)
        column = QVBoxLayout(content)
        column.setContentsMargins(16, 14, 16, 4)
        column.setSpacing(10)
        column.addWidget(heading)
        column.addWidget(self.prompt)
        column.addWidget(self.progress)
        column.addWidget(self.state)
        column.addLayout(self._replies, 1)
        column.addWidget(self.result_card)
        self._scroll = scroll = QScrollArea(self)
        scroll.setWidget(content)
        scroll.setWidgetResizable(True)
        scroll.setFrameShape(QScrollArea.Shape.NoFrame)
        scroll.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        scroll.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        scroll.verticalScrollBar().setAccessibleName("Scroll the comparison")
        outer = QVBoxLayout(self)
        outer.setContentsMargins(0, 0, 0, 0)
        outer.setSpacing(0)
        outer.addWidget(scroll, 1)
        buttons.setContentsMargins(16, 10, 16, 14)
        outer.addLayout(buttons)
        self.resize(900, 700)

    # ------------------------------------------------------------------ commands

    def start(self, messages: Sequence[Message], settings: GenerationSettings) -> None:
        """Compare on these messages; a comparison that still runs is given up."""
        self._messages = tuple(messages)
        self._settings = settings
        asked = next((m.content for m in reversed(self._messages) if m.role is Role.USER), "")
        self.prompt.setText(f"Prompt: {visible(asked, 160).replace('␣', ' ')}" if asked else "")
        self.prompt.setVisible(bool(asked))
        self.run_again()

    @Slot()
    def run_again(self) -> None:
        """The same once more, in the order that is chosen now."""
        for pane in self.panes.values():
            pane.clear("Waiting for its turn")
        self.result_card.hide()
        self.runner.start(self._messages, self._settings, self.plain_first.isChecked())
        if self._settings.seed is None:
            self._settings = self.runner.settings  # repeats take the seed of the first time

    def closeEvent(self, event: QCloseEvent) -> None:
        self.runner.abandon()
        super().closeEvent(event)

    def done(self, code: int) -> None:
        """Also reached by the Escape key, which sends no close event."""
        self.runner.abandon()
        super().done(code)

    # ------------------------------------------------------------------ what the runner tells

    @Slot(object)
    def _began(self, which: Which) -> None:
        self.panes[which].clear("Waiting for the engine…")
        self._show_progress()

    @Slot(object, str)
    def _grew(self, which: Which, text: str) -> None:
        self.panes[which].add(text, self.runner.runs[which])
        self._show_progress()

    @Slot(object)
    def _ended(self, which: Which) -> None:
        self.panes[which].finish(self.runner.runs[which])
        self._show_progress()

    def _show_progress(self) -> None:
        self.progress.setValue(round(self.runner.progress * _PROGRESS))
        current = self.runner.current
        if self.runner.phase is Phase.RUNNING and current is not None:
            number = sum(run.finished is not None for run in self.runner.runs.values()) + 1
            self.state.setText(f"Run {number} of 2: {_NAMES[current]}")

    @Slot()
    def _show_phase(self) -> None:
        phase = self.runner.phase
        busy = self.runner.busy
        self.cancel_button.setEnabled(phase is Phase.RUNNING)
        self.again_button.setEnabled(not busy and bool(self._messages))
        self.plain_first.setEnabled(not busy)
        self.progress.setVisible(busy)
        self.state.setVisible(busy)
        if phase is Phase.STOPPING:
            self.state.setText("Stopping after the step that is running…")
        elif phase is Phase.CANCELLED:
            self._settle("Not run")
            self.result_card.show_words("Cancelled. Nothing was compared.")
        elif phase is Phase.FAILED:
            self._settle("Not run")
            assert self.runner.trouble is not None
            self.result_card.show_trouble(self.runner.trouble)
            self._announce()
        elif phase is Phase.DONE:
            self._show_result()
            self._announce()

    def _settle(self, words: str) -> None:
        """Runs that never ended say so."""
        for which, run in self.runner.runs.items():
            if run.finished is None:
                self.panes[which].flush()
                self.panes[which].status.setText("Broke off" if run.pieces else words)

    def _show_result(self) -> None:
        comparison = self.runner.comparison
        assert comparison is not None
        eagle, plain = (self.runner.runs[which].finished for which in Which)
        assert eagle is not None and plain is not None
        speeds = (eagle.stats.tokens_per_second, plain.stats.tokens_per_second)
        self.result_card.show_comparison(comparison, speeds, len(eagle.token_ids))
        if comparison.difference is not None:
            for which, side in (
                (Which.EAGLE, comparison.difference.eagle),
                (Which.PLAIN, comparison.difference.plain),
            ):
                self.panes[which].mark(side.start, side.end)

    def _announce(self) -> None:
        """Bring the result into view and have it spoken."""
        # After the layout has made room for the result, which is asked for but not done yet.
        QMetaObject.invokeMethod(self, "_reveal", Qt.ConnectionType.QueuedConnection)
        event = QAccessibleAnnouncementEvent(self, self.result_card.spoken)
        QAccessible.updateAccessibility(event)

    @Slot()
    def _reveal(self) -> None:
        self._scroll.ensureWidgetVisible(self.result_card)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        wide = event.size().width() >= _ABREAST
        direction = QBoxLayout.Direction.LeftToRight if wide else QBoxLayout.Direction.TopToBottom
        self._replies.setDirection(direction)
        self.result_card.set_direction(direction)
