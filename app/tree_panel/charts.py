"""What the charts below the tree share, and the smallest of them: acceptance by depth."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QEvent, QRectF, QSize, Qt
from PySide6.QtGui import QHelpEvent, QPainter, QPaintEvent
from PySide6.QtWidgets import QSizePolicy, QToolTip, QWidget

from app import theme
from app.language import tr, tr_n
from app.tree_panel.history import DepthAcceptance


class Chart(QWidget):
    """A title and a plot below it."""

    def __init__(self, title: str, height: int, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._title = title
        self.setAccessibleName(title)
        self._height = height
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)

    def sizeHint(self) -> QSize:
        return QSize(260, self._height + self.fontMetrics().height() + 6)

    def minimumSizeHint(self) -> QSize:
        return QSize(140, self.sizeHint().height())

    def _paint_title(self, painter: QPainter, note: str = "") -> None:
        metrics = self.fontMetrics()
        line = QRectF(0, 0, self.width(), metrics.height() + 2)
        painter.setPen(self.palette().windowText().color())
        painter.drawText(line, Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter, self._title)
        used = metrics.horizontalAdvance(self._title)
        if note and used + metrics.horizontalAdvance(note) + 12 < line.width():
            painter.setPen(theme.tokens(self).muted)
            painter.drawText(line, Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter, note)

    def _plot(self) -> QRectF:
        top = self.fontMetrics().height() + 8.0
        return QRectF(0.5, top, self.width() - 1.0, self.height() - top)

    def _paint_nothing(self, painter: QPainter, words: str) -> None:
        painter.setPen(theme.tokens(self).muted)
        painter.drawText(
            self._plot(), int(Qt.AlignmentFlag.AlignCenter) | int(Qt.TextFlag.TextWordWrap), words
        )


class DepthChart(Chart):
    """One bar for each level of the tree: how often the accepted path reached it."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(tr("Panel", "Acceptance by depth"), 84, parent)
        self._levels: tuple[DepthAcceptance, ...] = ()

    @property
    def levels(self) -> tuple[DepthAcceptance, ...]:
        return self._levels

    def show_levels(self, levels: Sequence[DepthAcceptance]) -> None:
        levels = tuple(levels)
        if levels != self._levels:
            self._levels = levels
            self.update()

    def describe(self) -> None:
        """Bring the words for screen readers up to date."""
        self.setAccessibleDescription("; ".join(map(_level_words, self._levels)))

    def _bars(self) -> list[QRectF]:
        """The full column of every level."""
        plot = self._plot().adjusted(0, 0, 0, -self.fontMetrics().height() - 2)
        slot = min(plot.width() / max(len(self._levels), 1), 52.0)
        gap = min(6.0, slot * 0.2)
        return [
            QRectF(plot.left() + number * slot, plot.top(), slot - gap, plot.height())
            for number in range(len(self._levels))
        ]

    def event(self, event: QEvent) -> bool:
        if event.type() == QEvent.Type.ToolTip and isinstance(event, QHelpEvent):
            for level, bar in zip(self._levels, self._bars(), strict=True):
                if bar.left() <= event.pos().x() <= bar.right():
                    QToolTip.showText(event.globalPos(), _level_words(level), self)
                    return True
            QToolTip.hideText()
            return True
        return super().event(event)

    def paintEvent(self, _event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        self._paint_title(painter)
        if not self._levels:
            self._paint_nothing(painter, tr("Panel", "Nothing has been guessed yet."))
            painter.end()
            return
        colours = theme.tokens(self)
        line = self.fontMetrics().height()
        roomy = self._bars()[0].width() >= self.fontMetrics().horizontalAdvance("100 %")
        for level, column in zip(self._levels, self._bars(), strict=True):
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(colours.grid)
            painter.drawRoundedRect(column, 3, 3)
            bar = QRectF(column)
            bar.setTop(column.bottom() - column.height() * level.rate)
            painter.setBrush(colours.accepted)
            painter.drawRoundedRect(bar, min(3.0, bar.height() / 2), min(3.0, bar.height() / 2))
            words = f"{level.rate * 100:.0f} %" if roomy else f"{level.rate * 100:.0f}"
            if self.fontMetrics().horizontalAdvance(words) > column.width() + 4:
                words = ""  # it would run into its neighbour; the tooltip and the description say it
            inside = bar.height() >= line + 4
            painter.setPen(self.palette().base().color() if inside else self.palette().windowText().color())
            where = QRectF(column.left() - 4, bar.top() + 1 if inside else bar.top() - line - 1, column.width() + 8, line)
            painter.drawText(where, Qt.AlignmentFlag.AlignCenter, words)
            painter.setPen(colours.muted)
            painter.drawText(
                QRectF(column.left() - 4, column.bottom() + 2, column.width() + 8, line),
                Qt.AlignmentFlag.AlignCenter,
                str(level.depth),
            )
        painter.end()


def _level_words(level: DepthAcceptance) -> str:
    return tr("Panel", "Depth {depth}: accepted in {accepted} of {steps} that guessed this far ({share} %)").format(
        depth=level.depth,
        accepted=level.accepted,
        steps=tr_n("Panel", "%n step", "%n steps", level.proposed),
        share=f"{level.rate * 100:.0f}",
    )
