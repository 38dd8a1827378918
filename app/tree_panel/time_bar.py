"""Where a step's time went."""

from __future__ import annotations

from PySide6.QtCore import QRectF, QSize, Qt
from PySide6.QtGui import QBrush, QColor, QFont, QFontMetrics, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QSizePolicy, QWidget

from app import theme
from app.language import tr
from app.tree_panel.description import TIME_PARTS, milliseconds, time_parts, times_text
from engine.protocol import StepTimes


class TimeBar(QWidget):
    """A thin stacked bar, and the same in words below it."""

    _BAR = 8
    _GAP = 5

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._times: StepTimes | None = None
        self.setAccessibleName(tr("Panel", "Time of this step"))
        policy = QSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Fixed)
        policy.setHeightForWidth(True)
        self.setSizePolicy(policy)
        self.setToolTip(
            tr(
                "Panel",
                "draft: the guesses are made. verify: the target checks all of them in one pass. "
                "accept: choosing the path and tidying the cache. other: the rest.",
            )
        )

    @property
    def text(self) -> str:
        return "" if self._times is None else times_text(self._times)

    def show_times(self, times: StepTimes | None) -> None:
        if times != self._times:
            self._times = times
            self.setAccessibleDescription(self.text)
            self.update()

    def _small(self) -> QFont:
        font = QFont(self.font())
        if font.pointSizeF() > 0:
            font.setPointSizeF(font.pointSizeF() * 0.88)
        return font

    def _line(self) -> int:
        return QFontMetrics(self._small()).height() + 2

    def _entries(self) -> list[tuple[str, float, str]]:
        parts = time_parts(self._times) if self._times else tuple((name, 0.0) for name in TIME_PARTS)
        return [
            (name, value, f"{tr('Panel', name)} {milliseconds(value) if self._times else '–'}") for name, value in parts
        ]

    def _rows(self, width: float) -> list[tuple[str, str, float, float]]:
        """Name, text, x and row of every entry, wrapped. Room is kept for four digits: no trembling."""
        metrics = QFontMetrics(self._small())
        x, row = 0.0, 0
        out = []
        for name, _value, text in self._entries():
            wide = 12 + max(metrics.horizontalAdvance(text), metrics.horizontalAdvance(f"{tr('Panel', name)} 00.0 ms"))
            if x > 0 and x + wide > width:
                x, row = 0.0, row + 1
            out.append((name, text, x, float(row)))
            x += wide + 8
        return out

    def hasHeightForWidth(self) -> bool:
        return True

    def heightForWidth(self, width: int) -> int:
        rows = int(self._rows(width)[-1][3]) + 1
        return self._BAR + self._GAP + rows * self._line()

    def sizeHint(self) -> QSize:
        return QSize(300, self.heightForWidth(300))

    def minimumSizeHint(self) -> QSize:
        return QSize(160, self._BAR + self._GAP + self._line())

    def paintEvent(self, _event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        colours = theme.tokens(self)
        entries = self._entries()
        total = sum(value for _name, value, _text in entries)
        bar = QRectF(0, 0, self.width(), self._BAR)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(colours.grid)
        painter.drawRoundedRect(bar, 3, 3)
        if total > 0:
            x = 0.0
            for name, value, _text in entries:
                wide = bar.width() * value / total
                if wide > 0:
                    # A hair of background between the parts keeps them apart without colour.
                    _segment(painter, QRectF(x, 0, max(wide - 1.5, 0.5), self._BAR), name, colours)
                x += wide
        line = self._line()
        painter.setFont(self._small())
        for name, text, x, row in self._rows(self.width()):
            top = self._BAR + self._GAP + row * line
            _segment(painter, QRectF(x, top + (line - 8) / 2, 8, 8), name, colours)
            painter.setPen(colours.muted)
            painter.drawText(
                QRectF(x + 12, top, self.width(), line),
                Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignLeft,
                text,
            )
        painter.end()


_BRUSHES = {
    "draft": Qt.BrushStyle.BDiagPattern,
    "verify": Qt.BrushStyle.SolidPattern,
    "accept": Qt.BrushStyle.Dense4Pattern,
    "other": Qt.BrushStyle.NoBrush,
}


def _segment(painter: QPainter, rect: QRectF, name: str, colours: theme.Tokens) -> None:
    """One part in its own pattern: hatched, solid, dotted or only outlined."""
    ink: QColor = {
        "draft": colours.accepted,
        "verify": colours.accent,
        "accept": colours.bonus,
        "other": colours.muted,
    }[name]
    painter.save()
    painter.setPen(Qt.PenStyle.NoPen)
    tint = QColor(ink)
    tint.setAlphaF(0.3)
    painter.fillRect(rect, tint)
    if _BRUSHES[name] is not Qt.BrushStyle.NoBrush:
        painter.fillRect(rect, QBrush(ink, _BRUSHES[name]))
    painter.setPen(QPen(ink, 1))
    painter.setBrush(Qt.BrushStyle.NoBrush)
    if rect.width() >= 2:
        painter.drawRect(rect.adjusted(0.5, 0.5, -0.5, -0.5))
    painter.restore()
