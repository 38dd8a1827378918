"""The page that shows a comparison: both replies as they are written, and then what came of it."""

from __future__ import annotations

from PySide6.QtCore import QMetaObject, Qt, Slot
from PySide6.QtGui import QAccessible, QAccessibleAnnouncementEvent
from PySide6.QtWidgets import QBoxLayout, QLabel, QProgressBar, QScrollArea, QVBoxLayout, QWidget

from app.compare import words
from app.compare.comparison import Which
from app.compare.pane import RunPane
from app.compare.plan import Job
from app.compare.prompt_table import PromptTable
from app.compare.record import Record
from app.compare.result import ResultCard
from app.compare.runner import CompareRunner
from app.compare.states import Phase
from app.language import tr, tr_n
from app.tree_panel.token_text import visible

PROGRESS = 1000
PROMPT_SHOWN = 160
LONG_NAME = 44
"""Characters from which a side's name may find no room over its reply."""


class RunPage(QWidget):
    def __init__(self, runner: CompareRunner, scroll: QScrollArea) -> None:
        """``scroll`` is what the page will stand in: the result is brought into view in it."""
        super().__init__()
        self._runner = runner
        self._scroll = scroll
        self.record: Record | None = None
        """What is shown."""
        self.prompt_at = 0
        """Whose texts are shown."""
        self._live = False
        self._pair = (-1, -1)
        self.conditions = self._label()
        self.prompt = self._label()
        self.panes = {which: RunPane(words.letter(which), self) for which in Which}
        self._replies = QBoxLayout(QBoxLayout.Direction.LeftToRight)
        self._replies.setSpacing(16)
        for pane in self.panes.values():
            self._replies.addWidget(pane, 1)
        self.progress = QProgressBar(self)
        self.progress.setRange(0, PROGRESS)
        self.progress.setTextVisible(False)
        self.progress.setFixedHeight(6)
        self.progress.setAccessibleName(tr("Compare", "Progress of the comparison"))
        self.state = self._label()
        self.card = ResultCard(self)
        self.table = PromptTable(self)
        column = QVBoxLayout(self)
        column.setContentsMargins(20, 14, 20, 6)
        column.setSpacing(10)
        for widget in (self.conditions, self.prompt, self.progress, self.state):
            column.addWidget(widget)
        column.addLayout(self._replies, 1)
        column.addWidget(self.card)
        column.addWidget(self.table)
        self.table.chosen.connect(self._on_chosen)
        runner.phase_changed.connect(self._on_phase)
        runner.began.connect(self._on_began)
        runner.grew.connect(self._on_grew)
        runner.ended.connect(self._on_ended)
        runner.recorded.connect(self._on_recorded)

    def _label(self) -> QLabel:
        label = QLabel(self)
        label.setTextFormat(Qt.TextFormat.PlainText)
        label.setWordWrap(True)
        label.setProperty("textRole", "small")
        return label

    def set_direction(self, direction: QBoxLayout.Direction) -> None:
        self._replies.setDirection(direction)
        self.card.set_direction(direction)

    # ------------------------------------------------------------------ a comparison that is kept

    def show_record(self, record: Record, prompt: int = 0) -> None:
        """Show one that is complete, as complete as it became."""
        self._live = False
        self.record = record
        self.progress.hide()
        self.state.hide()
        self._show_names(record)
        self.table.begin(record)
        self.card.show_record(record, prompt)
        self._show_texts(record, prompt)
        self.table.choose(prompt)

    def _show_names(self, record: Record) -> None:
        lines = [" · ".join(words.conditions(record))]
        for which, pane in self.panes.items():
            name = f"{words.letter(which)}  {record.side(which).name}"
            pane.set_title(name)
            if len(name) > LONG_NAME:
                lines.append(name)
        self.conditions.setText("\n".join(lines))

    def _show_texts(self, record: Record, prompt: int) -> None:
        self.prompt_at = prompt
        answers = record.answers[prompt]
        self._show_prompt(prompt)
        for which, pane in self.panes.items():
            first = next(iter(record.replies_of(which, prompt)), None)
            pane.show_reply(answers.text(which), first)
            if answers.difference is not None:
                place = answers.difference.place(which)
                pane.mark(place.start, place.end)

    def _show_prompt(self, prompt: int) -> None:
        if self.record is None:
            return
        text = visible(self.record.answers[prompt].prompt, PROMPT_SHOWN).replace("␣", " ")
        self.prompt.setText(tr("Compare", "Prompt: {text}").format(text=text))

    @Slot(int)
    def _on_chosen(self, row: int) -> None:
        if self.record is not None and not self._live:
            self.card.show_record(self.record, row)
            self._show_texts(self.record, row)

    # ------------------------------------------------------------------ what the runner tells

    def begin(self) -> None:
        """A comparison is about to start: everything is empty."""
        self._live = True
        self._pair = (-1, -1)
        self.record = None
        for widget in (self.card, self.table):
            widget.hide()
        for label in (self.conditions, self.prompt):
            label.clear()
        for pane in self.panes.values():
            pane.clear(tr("Compare", "Waiting for its turn"))

    @Slot(object)
    def _on_began(self, job: Job) -> None:
        new, self.record = self.record is None, self._runner.record
        if self.record is not None:
            self._show_names(self.record)
            if new:
                self.table.begin(self.record)
        if self._pair != (job.prompt, job.repeat):
            self._pair = (job.prompt, job.repeat)
            self.panes[job.which.other].clear(tr("Compare", "Waiting for its turn"))
            self.table.choose(job.prompt)
            self._show_prompt(job.prompt)
        self.panes[job.which].clear(tr("Compare", "Waiting for the engine…"))
        self._show_progress()

    @Slot(object, str)
    def _on_grew(self, which: Which, text: str) -> None:
        self.panes[which].add(text, self._runner.runs[which])
        self._show_progress()

    @Slot(object)
    def _on_ended(self, job: Job) -> None:
        self.panes[job.which].finish(self._runner.runs[job.which])
        self._show_progress()

    @Slot()
    def _on_recorded(self) -> None:
        self.record = self._runner.record
        if self.record is not None:
            for row in {reply.prompt for reply in self.record.replies[-2:]}:
                self.table.update_row(self.record, row)

    def _show_progress(self) -> None:
        runner, plan = self._runner, self._runner.plan
        self.progress.setValue(round(runner.progress * PROGRESS))
        job = runner.job
        if job is None or plan is None or runner.phase is not Phase.RUNNING:
            return
        parts = [
            tr("Compare", "Reply {number} of {total}: side {side}").format(
                number=runner.done + 1, total=runner.total, side=words.letter(job.which)
            )
        ]
        if len(plan.prompts) > 1:
            parts.append(
                tr("Compare", "prompt {number} of {total}").format(number=job.prompt + 1, total=len(plan.prompts))
            )
        if plan.repeats > 1:
            parts.append(tr("Compare", "repeat {number} of {total}").format(number=job.repeat + 1, total=plan.repeats))
        if (left := runner.seconds_left) is not None:
            parts.append(time_left(left))
        self.state.setText(", ".join(parts))

    @Slot()
    def _on_phase(self) -> None:
        if not self._live:
            return
        runner = self._runner
        self.progress.setVisible(runner.busy)
        self.state.setVisible(runner.busy)
        match runner.phase:
            case Phase.STOPPING:
                self.state.setText(tr("Compare", "Stopping after what the engine does now…"))
            case Phase.LOADING:
                self.state.setText(tr("Compare", "Loading the head of this side…"))
            case Phase.MEASURING:
                self.state.setText(tr("Compare", "Looking at the logits where the texts part…"))
            case Phase.DONE | Phase.STOPPED | Phase.FAILED:
                self._finish()
            case _:
                self._show_progress()

    def _finish(self) -> None:
        """Show what there is, and have it spoken."""
        runner = self._runner
        if runner.record is not None and any(answers.text(w) for answers in runner.record.answers for w in Which):
            self.show_record(runner.record, self._first_of_interest(runner.record))
        elif runner.trouble is not None:
            self._live = False
            self.card.show_words(runner.trouble.message, runner.trouble.next_step, trouble=True)
        else:
            self._live = False
            self.card.show_words(tr("Compare", "Stopped before a reply was complete. Nothing was compared."))
        for pane in self.panes.values():
            if not pane.text and not pane.status.text():
                pane.status.setText(tr("Compare", "Not run"))
        # After the layout has made room for the result, which is asked for but not done yet.
        QMetaObject.invokeMethod(self, "_reveal", Qt.ConnectionType.QueuedConnection)
        QAccessible.updateAccessibility(QAccessibleAnnouncementEvent(self, self.card.spoken))

    def _first_of_interest(self, record: Record) -> int:
        """A prompt whose texts differ, else the first."""
        return next((place for place, each in enumerate(record.answers) if each.difference is not None), 0)

    @Slot()
    def _reveal(self) -> None:
        self._scroll.ensureWidgetVisible(self.card)


def time_left(seconds: float) -> str:
    """About how long it goes on."""
    if seconds < 8:
        return tr("Compare", "a few seconds left")
    if seconds < 50:
        return tr_n("Compare", "about %n second left", "about %n seconds left", round(seconds / 5) * 5)
    return tr_n("Compare", "about %n minute left", "about %n minutes left", max(1, round(seconds / 60)))
