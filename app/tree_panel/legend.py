"""What the shapes of the picture mean."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from PySide6.QtCore import QEvent, QPointF, QRectF, QSize, Qt
from PySide6.QtGui import (
    QFont,
    QFontMetricsF,
    QHelpEvent,
    QPainter,
    QPaintEvent,
    QPalette,
    QResizeEvent,
)
from PySide6.QtWidgets import QSizePolicy, QToolTip, QWidget

from app import theme
from app.language import tr
from app.tree_panel import marks
from app.tree_panel.explanation import LEGEND
from app.tree_panel.layout import Kind

_SWATCH = 21.0
_GAP = 5.0
_SPACING = 9.0


class Entry(NamedTuple):
    kind: Kind
    name: str
    text: str
    place: QRectF


class Legend(QWidget):
    """One entry for each kind of token, wrapped over as many lines as the width needs."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._window = False
        self.setAccessibleName(tr("Panel", "Legend of the draft tree"))
        self._describe()
        policy = QSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Preferred)
        policy.setHeightForWidth(True)
        self.setSizePolicy(policy)

    def show_window(self, window: bool) -> None:
        """Whether the rows of a window are explained as well."""
        if window != self._window:
            self._window = window
            self._describe()
            self.updateGeometry()
            self.update()

    def _describe(self) -> None:
        self.setAccessibleDescription(" ".join(f"{each.name}: {each.text}" for each in self._places(600)))

    def _small(self) -> QFont:
        font = QFont(self.font())
        if font.pointSizeF() > 0:
            font.setPointSizeF(font.pointSizeF() * 0.88)
        return font

    def _places(self, width: float) -> list[Entry]:
        return entries(width, self._small(), self._window)

    def hasHeightForWidth(self) -> bool:
        return True

    def heightForWidth(self, width: int) -> int:
        return round(self._places(width)[-1][3].bottom())

    def sizeHint(self) -> QSize:
        return QSize(300, self.heightForWidth(300))

    def minimumSizeHint(self) -> QSize:
        return QSize(120, self.fontMetrics().height() + 6)

    def resizeEvent(self, event: QResizeEvent) -> None:
        self.updateGeometry()
        super().resizeEvent(event)

    def event(self, event: QEvent) -> bool:
        if event.type() == QEvent.Type.ToolTip and isinstance(event, QHelpEvent):
            for _kind, _name, text, place in self._places(self.width()):
                if place.contains(QPointF(event.pos())):
                    QToolTip.showText(event.globalPos(), text, self, place.toAlignedRect())
                    return True
            QToolTip.hideText()
            return True
        return super().event(event)

    def paintEvent(self, _event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        paint_entries(painter, self._places(self.width()), self._small(), self.palette())
        painter.end()


def entries(width: float, font: QFont, window: bool) -> list[Entry]:
    """What is explained and where, in lines of at most ``width``; ``window``: its rows as well."""
    metrics = QFontMetricsF(font)
    line = metrics.height() + 6.0
    x = y = 0.0
    out: list[Entry] = []
    for kind, name, text in LEGEND:
        if kind is Kind.WINDOW and not window:
            continue
        name = tr("Panel", name)
        wide = _SWATCH + _GAP + metrics.horizontalAdvance(name)
        if x > 0 and x + wide > width:
            x, y = 0.0, y + line
        out.append(Entry(kind, name, tr("Panel", text), QRectF(x, y, wide, line)))
        x += wide + _SPACING
    return out


def paint_entries(painter: QPainter, shown: Sequence[Entry], font: QFont, palette: QPalette) -> None:
    colours = theme.tokens(palette)
    base = palette.base().color()
    painter.setFont(font)
    for kind, name, _text, place in shown:
        box = QRectF(place.left() + 1, place.center().y() - 7, _SWATCH - 2, 14)
        marks.draw_box(painter, kind, box, colours, base)
        if kind is not Kind.WINDOW:  # drawn without a sign, for there are many
            marks.draw_icon(painter, kind, box.center(), colours, 7.0)
        painter.setPen(palette.windowText().color())
        painter.drawText(place.adjusted(_SWATCH + _GAP, 0, 2, 0), Qt.AlignmentFlag.AlignVCenter, name)
