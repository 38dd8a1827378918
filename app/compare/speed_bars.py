"""Speeds as bars, and the sign beside a verdict: painted, so that they need no picture."""

from __future__ import annotations

from PySide6.QtCore import QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QFontMetrics, QPainter, QPaintEvent, QPen, QPolygonF
from PySide6.QtWidgets import QSizePolicy, QWidget

from app import theme
from app.language import tr
from app.language.numbers import decimal


class SpeedBars(QWidget):
    """Tokens per second of both sides as two bars of one scale."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._speeds = (0.0, 0.0)
        self.setAccessibleName(tr("Compare", "Tokens per second of both sides"))
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)

    def show_speeds(self, a: float, b: float) -> None:
        self._speeds = (a, b)
        self.setAccessibleDescription(
            tr("Compare", "A {a}, B {b} tokens per second").format(a=decimal(a, 1), b=decimal(b, 1))
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
        texts = [
            tr("Compare", "{speed} tokens/s").format(speed=decimal(speed, 1)) if speed else "–"
            for speed in self._speeds
        ]
        label = metrics.horizontalAdvance("B ") + 6
        number = max(map(metrics.horizontalAdvance, texts)) + 10
        room = max(10, self.width() - label - number)
        most = max(*self._speeds, 1e-9)
        line = metrics.height() + 8
        middle = Qt.AlignmentFlag.AlignVCenter
        for row, (name, speed) in enumerate(zip("AB", self._speeds, strict=True)):
            top = row * line
            painter.setPen(colours.muted)
            painter.drawText(QRectF(0, top, label, line), middle, name)
            bar = QRectF(label, top + 5, room * speed / most, line - 10)
            painter.setPen(Qt.PenStyle.NoPen if row == 0 else QPen(colours.muted, 1))
            painter.setBrush(colours.accepted if row == 0 else colours.grid)
            painter.drawRoundedRect(bar, 3, 3)
            painter.setPen(self.palette().windowText().color())
            painter.drawText(QRectF(bar.right() + 8, top, number + 40, line), middle, texts[row])
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
