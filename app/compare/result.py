"""What the comparison came to: the speed-up, whether the texts are the same, and the caveats."""

from __future__ import annotations

from PySide6.QtCore import QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QFontMetrics, QPainter, QPaintEvent, QPen, QPolygonF
from PySide6.QtWidgets import QBoxLayout, QFrame, QHBoxLayout, QLabel, QSizePolicy, QVBoxLayout, QWidget

from app import theme
from app.compare.comparison import Comparison, Difference, Outcome, Side
from app.compare.runner import Trouble
from app.tree_panel.token_text import isolated, percent, quoted, visible


class SpeedBars(QWidget):
    """Tokens per second of both runs as two bars of one scale."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._speeds = (0.0, 0.0)
        self.setAccessibleName("Tokens per second of both runs")
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)

    def show_speeds(self, eagle: float, plain: float) -> None:
        self._speeds = (eagle, plain)
        self.setAccessibleDescription(
            f"With EAGLE {eagle:.1f}, without EAGLE {plain:.1f} tokens per second"
        )
        self.update()

    def sizeHint(self) -> QSize:
        return QSize(260, 2 * (self.fontMetrics().height() + 8))

    def minimumSizeHint(self) -> QSize:
        return QSize(180, self.sizeHint().height())

    def paintEvent(self, _event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        colours = theme.tokens(self)
        metrics: QFontMetrics = self.fontMetrics()
        label = metrics.horizontalAdvance("Without ") + 4
        number = metrics.horizontalAdvance("0000.0 tok/s") + 6
        room = max(10, self.width() - label - number)
        most = max(*self._speeds, 1e-9)
        line = metrics.height() + 8
        middle = Qt.AlignmentFlag.AlignVCenter
        for row, (name, speed) in enumerate(zip(("With", "Without"), self._speeds, strict=True)):
            top = row * line
            painter.setPen(colours.muted)
            painter.drawText(QRectF(0, top, label, line), middle, name)
            bar = QRectF(label, top + 5, room * speed / most, line - 10)
            painter.setPen(Qt.PenStyle.NoPen)
            if row == 0:
                painter.setBrush(colours.accepted)
            else:
                painter.setPen(QPen(colours.muted, 1))
                painter.setBrush(colours.grid)
            painter.drawRoundedRect(bar, 3, 3)
            painter.setPen(self.palette().windowText().color())
            painter.drawText(QRectF(bar.right() + 8, top, number + 40, line), middle, f"{speed:.1f} tok/s")
        painter.end()


class Sign(QWidget):
    """A tick, an unequal sign or an exclamation mark, painted."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._kind = ""
        self.setFixedSize(22, 22)

    def show_kind(self, kind: str) -> None:
        """``kind`` is "same", "different", "trouble" or ""."""
        self._kind = kind
        self.setVisible(bool(kind))
        self.update()

    def paintEvent(self, _event: QPaintEvent) -> None:
        colours = theme.tokens(self)
        ink = {"same": colours.accepted, "different": colours.bonus, "trouble": colours.error}.get(self._kind)
        if ink is None:
            return
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(ink)
        painter.drawEllipse(QRectF(1, 1, 20, 20))
        pen = QPen(self.palette().base().color(), 2.2)
        pen.setCapStyle(Qt.PenCapStyle.RoundCap)
        pen.setJoinStyle(Qt.PenJoinStyle.RoundJoin)
        painter.setPen(pen)
        painter.setBrush(Qt.BrushStyle.NoBrush)
        if self._kind == "same":
            painter.drawPolyline(QPolygonF([QPointF(6.5, 11.5), QPointF(9.7, 14.7), QPointF(15.5, 7.8)]))
        elif self._kind == "different":
            painter.drawLine(QPointF(6.5, 9), QPointF(15.5, 9))
            painter.drawLine(QPointF(6.5, 13.2), QPointF(15.5, 13.2))
            painter.drawLine(QPointF(13.4, 6), QPointF(8.6, 16))
        else:
            painter.drawLine(QPointF(11, 6), QPointF(11, 12))
            painter.drawPoint(QPointF(11, 15.6))
        painter.end()


def _label(parent: QWidget, role: str = "") -> QLabel:
    label = QLabel(parent)
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
        self.factor = _label(self, "display")
        self.factor.setWordWrap(False)
        self.factor_words = _label(self, "small")
        self.bars = SpeedBars(self)
        self.sign = Sign(self)
        self.verdict = _label(self, "label")
        self.detail = _label(self)
        self.caveats = _label(self, "small")

        left = QVBoxLayout()
        left.setSpacing(0)
        left.addWidget(self.factor)
        left.addWidget(self.factor_words)
        left.addSpacing(4)
        left.addWidget(self.bars)
        left.addStretch(1)
        self._left = QWidget(self)
        self._left.setLayout(left)
        left.setContentsMargins(0, 0, 0, 0)
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
        """The result as one text, for screen readers and the clipboard."""
        parts = (self.factor, self.factor_words, self.verdict, self.detail, self.caveats)
        return "\n".join(label.text() for label in parts if not label.isHidden() and label.text())

    def show_comparison(self, comparison: Comparison, speeds: tuple[float, float], tokens: int) -> None:
        """``speeds``: tokens per second with EAGLE and without; ``tokens``: length of the EAGLE reply."""
        self._left.show()
        factor = comparison.speed_up
        if factor is None:
            self.factor.setText("–")
            self.factor_words.setText("A reply of one token has no decode speed.")
        else:
            self.factor.setText(f"{factor:.2f}×")
            self.factor_words.setText(_factor_words(factor))
        self.bars.show_speeds(*speeds)
        if comparison.outcome is Outcome.IDENTICAL:
            self.sign.show_kind("same")
            self._say(f"Identical: all {tokens} tokens are the same", "")
        elif comparison.outcome is Outcome.PREFIX:
            self.sign.show_kind("same")
            self._say("The same as far as both go", "One of the runs did not reach its end.")
        else:
            assert comparison.difference is not None
            self.sign.show_kind("different")
            self._say(*_difference_words(comparison.difference))
        self.caveats.setText("\n".join(f"• {caveat}" for caveat in comparison.caveats))
        self.caveats.setVisible(bool(comparison.caveats))
        self._finish()

    def show_trouble(self, trouble: Trouble) -> None:
        self._left.hide()
        self.sign.show_kind("trouble")
        self._say(trouble.message, trouble.next_step)
        self.caveats.hide()
        self._finish()

    def show_words(self, words: str) -> None:
        """Neither a result nor a trouble, e.g. that the user cancelled."""
        self._left.hide()
        self.sign.show_kind("")
        self._say(words, "")
        self.caveats.hide()
        self._finish()

    def _say(self, verdict: str, detail: str) -> None:
        self.verdict.setText(verdict)
        self.detail.setText(detail)
        self.detail.setVisible(bool(detail))

    def _finish(self) -> None:
        self.setAccessibleName("Result of the comparison")
        self.show()
        self.setAccessibleDescription(self.spoken)


def _factor_words(factor: float) -> str:
    if factor >= 1.02:
        return "as fast with EAGLE"
    if factor > 0.98:
        return "about as fast with EAGLE as without"
    return "slower with EAGLE for this prompt"


def _side_words(name: str, side: Side) -> str:
    if side.token_id is None:
        return f"{name}: the reply had ended"
    text = quoted(side.text, 32) if side.text else "a part of a character"
    chance = "" if side.probability is None else f", the target gave it {percent(side.probability)}"
    return f"{name}: {text} (id {side.token_id}{chance})"


def _difference_words(difference: Difference) -> tuple[str, str]:
    before = visible(difference.before, 120)
    context = f"after “…{isolated(before)}”" if difference.before else "at the very beginning"
    return (
        f"First difference at token {difference.index + 1}",
        "\n".join(
            (
                context[0].upper() + context[1:],
                _side_words("With EAGLE", difference.eagle),
                _side_words("Without EAGLE", difference.plain),
            )
        ),
    )
