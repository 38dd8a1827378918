"""One side of the comparison: the reply as it is written, and its figures."""

from __future__ import annotations

from PySide6.QtCore import QEvent, Qt, QTimer, Slot
from PySide6.QtGui import QColor, QHideEvent, QResizeEvent, QTextCharFormat, QTextCursor
from PySide6.QtWidgets import (
    QGridLayout,
    QHBoxLayout,
    QLabel,
    QPlainTextEdit,
    QSizePolicy,
    QTextEdit,
    QVBoxLayout,
    QWidget,
)

from app import theme
from app.compare.record import Reply
from app.compare.states import RunState
from app.language import mark, tr
from app.language.numbers import decimal, whole
from app.tool_tip import letter_for_letter
from app.tree_panel.description import milliseconds
from app.tree_panel.figures_bar import Figure
from engine.protocol import FinishReason

FLUSH_MS = 33
"""Shortest time between two updates of the text."""

_REASONS = {
    FinishReason.EOS: mark("Compare", "Finished"),
    FinishReason.LENGTH: mark("Compare", "Finished, length limit reached"),
    FinishReason.CONTEXT: mark("Compare", "Finished, context full"),
    FinishReason.STOPPED: mark("Compare", "Stopped"),
    FinishReason.ERROR: mark("Compare", "Broke off"),
}


def _shown(text: str) -> str:
    """Text as the document holds it: a carriage return would count differently there."""
    return text.replace("\r", "")


def _units(text: str) -> int:
    """Length in UTF-16 units, in which a document counts."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


class OneLine(QLabel):
    """A text on one line that ends with an ellipsis where there is no room; the tool tip has it whole."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._whole = ""
        self.setTextFormat(Qt.TextFormat.PlainText)
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)

    def show_text(self, text: str) -> None:
        self._whole = text
        self.setToolTip(letter_for_letter(text))
        self.setAccessibleName(text)
        self._cut()

    def _cut(self) -> None:
        mode = Qt.TextElideMode.ElideRight
        self.setText(self.fontMetrics().elidedText(self._whole, mode, max(40, self.width() - 2)))

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._cut()

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.FontChange and hasattr(self, "_whole"):
            self._cut()


class RunPane(QWidget):
    """A reply as plain text; what is marked in it lies on top as a format, never in the text."""

    def __init__(self, title: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._text = ""
        self._waiting: list[str] = []
        self._mark: tuple[int, int] | None = None
        self.title = OneLine(self)
        self.title.setProperty("textRole", "label")
        self.status = QLabel(self)
        self.status.setTextFormat(Qt.TextFormat.PlainText)
        self.status.setProperty("textRole", "small")
        self.view = QPlainTextEdit(self)
        self.view.setReadOnly(True)
        self.view.setUndoRedoEnabled(False)
        self.view.setMinimumHeight(110)
        self.view.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Ignored)
        self.view.document().setDocumentMargin(9)
        self.view.setTextInteractionFlags(
            Qt.TextInteractionFlag.TextSelectableByMouse | Qt.TextInteractionFlag.TextSelectableByKeyboard
        )
        self.speed = Figure(
            tr("Compare", "tokens/s"), tr("Compare", "Decode speed; the time to read the prompt is left out."), self
        )
        self.tau = Figure(
            tr("Compare", "tokens per step (τ)"), tr("Compare", "Tokens emitted per pass of the target."), self
        )
        self.first = Figure(
            tr("Compare", "to first token"), tr("Compare", "Time from the request to the first token."), self
        )
        self.tokens = Figure(
            tr("Compare", "tokens"), tr("Compare", "Length of the reply, end token included."), self
        )
        head = QHBoxLayout()
        head.addWidget(self.title, 1)
        head.addWidget(self.status)
        figures = QGridLayout()
        figures.setSpacing(6)
        for place, figure in enumerate((self.speed, self.tau, self.first, self.tokens)):
            figures.addWidget(figure, place // 2, place % 2)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(6)
        column.addLayout(head)
        column.addWidget(self.view, 1)
        column.addLayout(figures)
        self._timer = QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.setInterval(FLUSH_MS)
        self._timer.timeout.connect(self.flush)
        self.set_title(title)

    def set_title(self, title: str) -> None:
        """The side's letter and name."""
        self.title.show_text(title)
        self.view.setAccessibleName(tr("Compare", "Reply: {side}").format(side=title))

    @property
    def text(self) -> str:
        """Everything that was added since `clear`, drawn or not."""
        return self._text

    def clear(self, status: str) -> None:
        self._timer.stop()
        self._text = ""
        self._waiting.clear()
        self._mark = None
        self.view.setExtraSelections([])
        self.view.clear()
        self.status.setText(status)
        for figure in (self.speed, self.tau, self.first, self.tokens):
            figure.show_value("–")

    def add(self, text: str, run: RunState) -> None:
        """Add text and show the figures so far, at the next flush."""
        self._text += text
        self._waiting.append(text)
        self.status.setText(tr("Compare", "Reading the prompt…") if run.reading else tr("Compare", "Writing…"))
        self._figures(run)
        if not self._timer.isActive():
            self._timer.start()

    def finish(self, run: RunState) -> None:
        """Show the final figures of a run that has ended."""
        self.flush()
        self._figures(run)
        if run.finished is not None:
            self.status.setText(tr("Compare", _REASONS[run.finished.reason]))
            self.first.show_value(milliseconds(run.finished.stats.time_to_first_token))

    def _figures(self, run: RunState) -> None:
        count = run.finished.stats.new_tokens if run.finished is not None else len(run.pieces)
        self._numbers(run.tokens_per_second, run.acceptance_length, count)

    def _numbers(self, speed: float, tau: float, count: int) -> None:
        self.speed.show_value(decimal(speed, 1) if speed else "–")
        self.tau.show_value(decimal(tau, 2) if tau else "–")
        self.tokens.show_value(whole(count) if count else "–")

    def show_reply(self, text: str, reply: Reply | None) -> None:
        """A reply that is kept, with the figures of its side's first one; ``None``: it was not complete."""
        self.clear("" if text else tr("Compare", "Not run"))
        self._text = text
        self._waiting.append(text)
        self.flush()
        self.view.verticalScrollBar().setValue(0)
        if reply is None:
            if text:
                self.status.setText(tr("Compare", "Broke off"))
            return
        self.status.setText(tr("Compare", _REASONS[reply.reason]))
        self._numbers(reply.tokens_per_second, reply.acceptance_length, reply.tokens)
        self.first.show_value(milliseconds(reply.first_token))

    @Slot()
    def flush(self) -> None:
        """Write what has come; the view stays at the end if it was there."""
        text = _shown("".join(self._waiting))
        self._waiting.clear()
        if not text:
            return
        bar = self.view.verticalScrollBar()
        follows = bar.value() >= bar.maximum() - 2
        cursor = QTextCursor(self.view.document())
        cursor.movePosition(QTextCursor.MoveOperation.End)
        cursor.insertText(text)
        if follows:
            bar.setValue(bar.maximum())

    def mark(self, start: int, end: int) -> None:
        """Mark the characters from ``start`` to ``end``; an empty range marks the end of the text."""
        self.flush()
        self._mark = (start, end)
        first = _units(_shown(self._text[:start]))
        last = first + _units(_shown(self._text[start:end]))
        cursor = QTextCursor(self.view.document())
        cursor.setPosition(first)
        cursor.setPosition(last, QTextCursor.MoveMode.KeepAnchor)
        selection = QTextEdit.ExtraSelection()
        selection.cursor = cursor
        style = QTextCharFormat()
        colours = theme.tokens(self)
        style.setBackground(colours.step_fill)
        style.setForeground(self.palette().text().color())
        style.setUnderlineStyle(QTextCharFormat.UnderlineStyle.SingleUnderline)
        style.setUnderlineColor(QColor(colours.bonus))
        selection.format = style
        self.view.setExtraSelections([selection])
        there = QTextCursor(self.view.document())
        there.setPosition(first)
        self.view.setTextCursor(there)
        self.view.centerCursor()

    @property
    def marked_text(self) -> str:
        """What is marked in the document; "" if nothing is."""
        selections = self.view.extraSelections()
        return selections[0].cursor.selectedText() if selections else ""

    def hideEvent(self, event: QHideEvent) -> None:
        self._timer.stop()
        super().hideEvent(event)
