"""The figures above the tree: acceptance length, speed, accepted guesses, and the step."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QPointF, QRectF, QSize, Qt
from PySide6.QtGui import (
    QFont,
    QFontMetrics,
    QPainter,
    QPaintEvent,
    QPen,
    QResizeEvent,
)
from PySide6.QtWidgets import QGridLayout, QSizePolicy, QWidget

from app import theme
from app.language import tr
from app.language.numbers import decimal
from app.tree_panel.history import Figures

_WIDE = 600
"""From this width on the four figures stand in one row."""


class Figure(QWidget):
    """A number and, in small letters, what it is. Painted: a new number lays nothing out anew."""

    def __init__(self, name: str, meaning: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._name = name
        self._value = self._caption = ""
        self.setToolTip(meaning)
        self.setAccessibleDescription(meaning)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.show_value("–")

    @property
    def value(self) -> str:
        return self._value

    @property
    def caption(self) -> str:
        return self._caption

    def show_value(self, value: str, caption: str | None = None) -> None:
        """Show a number; the caption is the figure's name unless another is given."""
        caption = self._name if caption is None else caption
        if (value, caption) != (self._value, self._caption):
            self._value, self._caption = value, caption
            self.setAccessibleName(f"{self._name}: {value}" + (f", {caption}" if caption != self._name else ""))
            self.update()

    def _fonts(self) -> tuple[QFont, QFont]:
        large, small = QFont(self.font()), QFont(self.font())
        size = self.font().pointSizeF()
        large.setWeight(QFont.Weight.DemiBold)
        if size > 0:
            large.setPointSizeF(size * 1.45)
            small.setPointSizeF(size * 0.88)
        return large, small

    def sizeHint(self) -> QSize:
        large, small = self._fonts()
        return QSize(110, 11 + QFontMetrics(large).height() + QFontMetrics(small).height())

    def minimumSizeHint(self) -> QSize:
        return QSize(60, self.sizeHint().height())

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.FontChange:
            self.updateGeometry()

    def paintEvent(self, _event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        colours = theme.tokens(self)
        painter.setPen(QPen(colours.grid, 1))
        painter.setBrush(colours.background_alt)
        painter.drawRoundedRect(QRectF(self.rect()).adjusted(0.5, 0.5, -0.5, -0.5), 8, 8)
        room = self.width() - 20
        top = 5
        inks = (self.palette().windowText().color(), colours.muted)
        for text, font, ink in zip((self._value, self._caption), self._fonts(), inks, strict=True):
            metrics = QFontMetrics(font)
            painter.setFont(font)
            painter.setPen(ink)
            shown = metrics.elidedText(text, Qt.TextElideMode.ElideRight, room)
            painter.drawText(QPointF(11, top + metrics.ascent()), shown)
            top += metrics.height()
        painter.end()


class FiguresBar(QWidget):
    """Four figures, two by two in a narrow panel."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.tau = Figure(
            tr("Panel", "tokens per step (τ)"),
            tr(
                "Panel",
                "Acceptance length: tokens emitted per pass of the target so far, the bonus token included. "
                "Without guessing it is 1.",
            ),
            self,
        )
        self.speed = Figure(
            tr("Panel", "tokens/s"),
            tr(
                "Panel",
                "Decode speed so far, in tokens per second; the time to read the prompt is left out. "
                "In brackets: the last 2 seconds.",
            ),
            self,
        )
        self.accepted = Figure(
            tr("Panel", "accepted/drafted"),
            tr(
                "Panel",
                "Guesses that the target confirmed, of all guesses so far. Only one path of a "
                "tree can be accepted, so the share is low even when guessing does well.",
            ),
            self,
        )
        self.where = Figure(tr("Panel", "step"), tr("Panel", "Which pass of the target is shown."), self)
        self._figures = (self.tau, self.speed, self.accepted, self.where)
        self._grid = QGridLayout(self)
        self._grid.setContentsMargins(0, 0, 0, 0)
        self._grid.setSpacing(6)
        self._columns = 0
        self._place(2)

    def _place(self, columns: int) -> None:
        if columns == self._columns:
            return
        self._columns = columns
        for number, figure in enumerate(self._figures):
            self._grid.addWidget(figure, number // columns, number % columns)
        for column in range(4):
            self._grid.setColumnStretch(column, 1 if column < columns else 0)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._place(4 if event.size().width() >= _WIDE else 2)

    def clear(self) -> None:
        for figure in self._figures:
            figure.show_value("–")

    def show_figures(self, figures: Figures) -> None:
        passed = figures.index > 0
        self.tau.show_value(decimal(figures.acceptance_length, 2) if passed else "–")
        speed, recent = figures.tokens_per_second, figures.recent_tokens_per_second
        self.speed.show_value(
            _speed(speed) if passed and speed else "–",
            tr("Panel", "tokens/s (now {speed})").format(speed=_speed(recent)) if passed and recent else None,
        )
        rate = figures.acceptance_rate
        if rate is None:
            self.accepted.show_value("–")
        else:
            share = tr("Panel", "accepted/drafted, {share} %").format(share=f"{rate * 100:.0f}")
            self.accepted.show_value(f"{figures.accepted}/{figures.drafted}", share)
        of = tr("Panel", "step of {last}").format(last=figures.last_index) if figures.last_index else None
        self.where.show_value(
            str(figures.index) if passed else tr("Panel", "prompt"), of if passed else None
        )


def _speed(value: float) -> str:
    return decimal(value, 1 if value < 100 else 0)
