"""What a comparison came to: the speed-up and its spread, whether the texts are the same, the caveats."""

from __future__ import annotations

from PySide6.QtCore import QRect, QRectF, Qt
from PySide6.QtGui import QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QBoxLayout, QFrame, QHBoxLayout, QLabel, QVBoxLayout, QWidget

from app import theme
from app.compare import words
from app.compare.comparison import Outcome, Which
from app.compare.record import Record
from app.compare.speed_bars import Sign, SpeedBars
from app.compare.spread import speed, speed_up
from app.language import tr


class _Text(QLabel):
    """Where scripts mix, a label and its font's metrics may count different lines: this has room for either."""

    def heightForWidth(self, width: int) -> int:
        room = QRect(0, 0, max(1, width), 1 << 20)
        need = self.fontMetrics().boundingRect(room, Qt.TextFlag.TextWordWrap, self.text())
        return max(super().heightForWidth(width), need.height())


def _label(parent: QWidget, role: str = "") -> QLabel:
    label = _Text(parent)
    label.setTextFormat(Qt.TextFormat.PlainText)
    label.setWordWrap(True)
    label.setTextInteractionFlags(
        Qt.TextInteractionFlag.TextSelectableByMouse | Qt.TextInteractionFlag.TextSelectableByKeyboard
    )
    label.setFocusPolicy(Qt.FocusPolicy.NoFocus)
    if role:
        label.setProperty("textRole", role)
    return label


class ResultCard(QFrame):
    """Hidden until there is something to say."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setAccessibleName(tr("Compare", "Result of the comparison"))
        self.factor = _label(self, "display")
        self.factor.setWordWrap(False)
        self.factor_words = _label(self, "label")
        self.spread = _label(self, "small")
        self.bars = SpeedBars(self)
        self.sign = Sign(self)
        self.verdict = _label(self, "label")
        self.detail = _label(self)
        self.caveats = _label(self, "small")
        left = QVBoxLayout()
        left.setSpacing(2)
        left.setContentsMargins(0, 0, 0, 0)
        for widget in (self.factor, self.factor_words, self.spread):
            left.addWidget(widget)
        left.addSpacing(4)
        left.addWidget(self.bars)
        left.addStretch(1)
        self._left = QWidget(self)
        self._left.setLayout(left)
        top = QHBoxLayout()
        top.setSpacing(8)
        top.addWidget(self.sign, 0, Qt.AlignmentFlag.AlignTop)
        top.addWidget(self.verdict, 1)
        right = QVBoxLayout()
        right.setSpacing(6)
        right.addLayout(top)
        right.addWidget(self.detail)
        right.addWidget(self.caveats)
        right.addStretch(1)
        self._row = QBoxLayout(QBoxLayout.Direction.LeftToRight, self)
        self._row.setContentsMargins(16, 12, 16, 12)
        self._row.addWidget(self._left, 2)
        self._row.addLayout(right, 3)
        self.set_direction(QBoxLayout.Direction.LeftToRight)
        self.hide()

    def set_direction(self, direction: QBoxLayout.Direction) -> None:
        """Speed and verdict beside each other, or one below the other."""
        self._row.setDirection(direction)
        self._row.setSpacing(24 if direction is QBoxLayout.Direction.LeftToRight else 12)

    def paintEvent(self, _event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        colours = theme.tokens(self)
        painter.setPen(QPen(colours.grid, 1))
        painter.setBrush(colours.background_alt)
        painter.drawRoundedRect(QRectF(self.rect()).adjusted(0.5, 0.5, -0.5, -0.5), 10, 10)
        painter.end()

    @property
    def spoken(self) -> str:
        """The result as one text, for screen readers."""
        parts = (self.factor, self.factor_words, self.spread, self.verdict, self.detail, self.caveats)
        return "\n".join(label.text() for label in parts if not label.isHidden() and label.text())

    def show_record(self, record: Record, prompt: int) -> None:
        """The result of all prompts, and where the texts of one of them part."""
        found = speed_up(record)
        speeds = [speed(record, which) for which in Which]
        self._left.setVisible(any(speeds))
        if found is None:
            self.factor.setText("–")
            self.factor_words.setText(tr("Compare", "No pair of replies has speeds to compare"))
            self.spread.clear()
        else:
            self.factor.setText(words.times(found.factor))
            self.factor_words.setText(words.factor_words(found.factor))
            self.spread.setText(words.spread_words(found))
        self.spread.setVisible(bool(self.spread.text()))
        self.bars.show_speeds(*(each.median if each is not None else 0.0 for each in speeds))
        self._show_verdict(record, prompt)
        said = words.caveats(record)
        if record.stopped:
            said.insert(0, tr("Compare", "It was stopped: this is what was complete by then."))
        self.caveats.setText("\n".join(f"• {text}" for text in said))
        self.caveats.setVisible(bool(said))
        self._finish()

    def _show_verdict(self, record: Record, prompt: int) -> None:
        outcomes = {answers.outcome for answers in record.answers}
        if record.problem:
            kind = "trouble"
        elif Outcome.DIFFERENT in outcomes:
            kind = "different"
        else:
            kind = "same" if outcomes - {None} else ""
        self.sign.show_kind(kind)
        detail = words.difference_words(record, record.answers[prompt])
        if len(record.answers) > 1 and detail:
            head = tr("Compare", "Prompt {number}: {verdict}").format(
                number=prompt + 1, verdict=words.answer_verdict(record, prompt)
            )
            detail = f"{head}\n{detail}"
        verdict = words.verdict(record)
        if record.problem:
            detail = "\n".join(text for text in (verdict, detail) if text)
            verdict = record.problem
        self._say(verdict, detail)

    def show_words(self, verdict: str, detail: str = "", trouble: bool = False) -> None:
        """Without a record, e.g. why there is none."""
        self._left.hide()
        self.sign.show_kind("trouble" if trouble else "")
        self._say(verdict, detail)
        self.caveats.hide()
        self._finish()

    def _say(self, verdict: str, detail: str) -> None:
        self.verdict.setText(verdict)
        self.detail.setText(detail)
        self.detail.setVisible(bool(detail))

    def _finish(self) -> None:
        self.show()
        self.setAccessibleDescription(self.spoken)
