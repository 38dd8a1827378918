"""Buttons whose sign is painted in the palette's own ink: right in both themes and at any scale."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum

from PySide6.QtCore import QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QPainter, QPaintEvent, QPalette, QPen, QPolygonF
from PySide6.QtWidgets import QStyle, QStyleOptionToolButton, QStylePainter, QToolButton, QWidget


class Glyph(StrEnum):
    FIRST = "first"
    BACK = "back"
    FORWARD = "forward"
    LAST = "last"
    PAUSE = "pause"
    LIVE = "live"
    CLOSED = "closed"
    OPEN = "open"
    PLUS = "plus"
    MINUS = "minus"


class GlyphButton(QToolButton):
    """A tool button with a glyph before its text, or alone. Its name is spoken and shown as a tooltip."""

    def __init__(self, glyph: Glyph, name: str, parent: QWidget | None = None, text: str = "") -> None:
        super().__init__(parent)
        self._glyph = glyph
        self.setAutoRaise(True)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.rename(name, text)

    @property
    def glyph(self) -> Glyph:
        return self._glyph

    def set_glyph(self, glyph: Glyph) -> None:
        if glyph is not self._glyph:
            self._glyph = glyph
            self.update()

    def rename(self, name: str, text: str = "") -> None:
        """Change what is spoken and, where there is one, the visible text."""
        if name != self.accessibleName():
            self.setAccessibleName(name)
            self.setToolTip(name)
        if text != self.text():
            self.setText(text)
            self.updateGeometry()

    def _side(self) -> int:
        return self.fontMetrics().height() + 10

    def sizeHint(self) -> QSize:
        side = self._side()
        text = self.fontMetrics().horizontalAdvance(self.text()) + 10 if self.text() else 0
        return QSize(side + text, side)

    def minimumSizeHint(self) -> QSize:
        return self.sizeHint()

    def paintEvent(self, _event: QPaintEvent) -> None:
        painter = QStylePainter(self)
        option = QStyleOptionToolButton()
        self.initStyleOption(option)
        option.text = ""
        painter.drawComplexControl(QStyle.ComplexControl.CC_ToolButton, option)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        group = QPalette.ColorGroup.Normal if self.isEnabled() else QPalette.ColorGroup.Disabled
        ink = self.palette().color(group, QPalette.ColorRole.ButtonText)
        side = min(self._side(), self.height())
        size = round(side * 0.42)
        middle = side / 2 if self.text() else self.width() / 2
        area = QRectF(middle - size / 2, self.height() / 2 - size / 2, size, size)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(ink)
        _DRAW[self._glyph](painter, area)
        if self.text():
            painter.setPen(ink)
            rect = self.rect().adjusted(side - 2, 0, 0, 0)
            painter.drawText(rect, Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignLeft, self.text())
        painter.end()


def _triangle(painter: QPainter, area: QRectF, leftwards: bool) -> None:
    near, far = (area.right(), area.left()) if leftwards else (area.left(), area.right())
    painter.drawPolygon(
        QPolygonF(
            [QPointF(near, area.top()), QPointF(far, area.center().y()), QPointF(near, area.bottom())]
        )
    )


def _first(painter: QPainter, area: QRectF) -> None:
    painter.drawRect(QRectF(area.left(), area.top(), area.width() * 0.2, area.height()))
    _triangle(painter, area.adjusted(area.width() * 0.28, 0, 0, 0), True)


def _last(painter: QPainter, area: QRectF) -> None:
    painter.drawRect(QRectF(area.right() - area.width() * 0.2, area.top(), area.width() * 0.2, area.height()))
    _triangle(painter, area.adjusted(0, 0, -area.width() * 0.28, 0), False)


def _pause(painter: QPainter, area: QRectF) -> None:
    bar = area.width() * 0.3
    painter.drawRect(QRectF(area.left() + bar * 0.3, area.top(), bar, area.height()))
    painter.drawRect(QRectF(area.right() - bar * 1.3, area.top(), bar, area.height()))


def _stroke(painter: QPainter, area: QRectF, points: list[tuple[float, float]]) -> None:
    pen = QPen(painter.brush().color(), 1.6)
    pen.setCapStyle(Qt.PenCapStyle.RoundCap)
    pen.setJoinStyle(Qt.PenJoinStyle.RoundJoin)
    painter.setPen(pen)
    painter.drawPolyline(
        QPolygonF([QPointF(area.left() + x * area.width(), area.top() + y * area.height()) for x, y in points])
    )


def _plus(painter: QPainter, area: QRectF) -> None:
    _stroke(painter, area, [(0.5, 0.1), (0.5, 0.9)])
    _stroke(painter, area, [(0.1, 0.5), (0.9, 0.5)])


_DRAW: dict[Glyph, Callable[[QPainter, QRectF], None]] = {
    Glyph.FIRST: _first,
    Glyph.LAST: _last,
    Glyph.BACK: lambda p, a: _triangle(p, a.adjusted(a.width() * 0.14, 0, -a.width() * 0.14, 0), True),
    Glyph.FORWARD: lambda p, a: _triangle(p, a.adjusted(a.width() * 0.14, 0, -a.width() * 0.14, 0), False),
    Glyph.LIVE: lambda p, a: _triangle(p, a, False),
    Glyph.PAUSE: _pause,
    Glyph.CLOSED: lambda p, a: _stroke(p, a, [(0.3, 0.1), (0.7, 0.5), (0.3, 0.9)]),
    Glyph.OPEN: lambda p, a: _stroke(p, a, [(0.1, 0.3), (0.5, 0.7), (0.9, 0.3)]),
    Glyph.PLUS: _plus,
    Glyph.MINUS: lambda p, a: _stroke(p, a, [(0.1, 0.5), (0.9, 0.5)]),
}
