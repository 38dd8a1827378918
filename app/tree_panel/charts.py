"""Two small charts: acceptance by depth, and the course of the reply."""

from __future__ import annotations

import time
from collections.abc import Sequence

from PySide6.QtCore import QEvent, QPointF, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QColor, QHelpEvent, QMouseEvent, QPainter, QPaintEvent, QPen, QPolygonF
from PySide6.QtWidgets import QSizePolicy, QToolTip, QWidget

from app import theme
from app.tree_panel.description import counted
from app.tree_panel.history import DepthAcceptance, ReplyHistory


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
        super().__init__("Acceptance by depth", 84, parent)
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
            self._paint_nothing(painter, "Nothing has been guessed yet.")
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
    return (
        f"Depth {level.depth}: accepted in {level.accepted} of {counted(level.proposed, 'step')} "
        f"that guessed this far ({level.rate * 100:.0f} %)"
    )


class Timeline(Chart):
    """Tokens of every step as columns, tokens per second as a line; a click goes to a step."""

    position_clicked = Signal(int)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__("Tokens per step", 84, parent)
        self._history: ReplyHistory | None = None
        self._position = -1
        self.paint_seconds = 0.0
        """What the last painting cost."""
        self.setCursor(Qt.CursorShape.PointingHandCursor)

    def show_history(self, history: ReplyHistory | None, position: int) -> None:
        """Draw all steps of ``history`` and mark the one at ``position``."""
        self._history = history
        self._position = position
        self.update()

    def describe(self) -> None:
        history = self._history
        if history is None or not len(history):
            self.setAccessibleDescription("No steps yet")
            return
        count = len(history)
        tokens = [history.tokens_of(number) for number in range(count)]
        self.setAccessibleDescription(
            f"{counted(count, 'step')}, {min(tokens)} to {max(tokens)} tokens each; "
            f"lately {history.recent_speed():.1f} tokens per second"
        )

    def _slot(self) -> tuple[float, int]:
        """Width of a column, and how many steps share one."""
        count = len(self._history) if self._history else 0
        width = self._plot().width()
        if not count:
            return width, 1
        group = max(1, -(-count * 3 // max(int(width), 1)))
        return min(width / -(-count // group), 14.0), group

    def position_at(self, x: float) -> int | None:
        """The step under a point of the plot."""
        if self._history is None or not len(self._history):
            return None
        slot, group = self._slot()
        return min(max(int((x - self._plot().left()) / slot) * group, 0), len(self._history) - 1)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        self._go(event)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        if event.buttons() & Qt.MouseButton.LeftButton:
            self._go(event)

    def _go(self, event: QMouseEvent) -> None:
        at = self.position_at(event.position().x())
        if at is not None and event.buttons() & Qt.MouseButton.LeftButton:
            self.position_clicked.emit(at)

    def event(self, event: QEvent) -> bool:
        if event.type() == QEvent.Type.ToolTip and isinstance(event, QHelpEvent):
            at = self.position_at(event.pos().x())
            if at is not None and self._history is not None:
                tokens = counted(self._history.tokens_of(at), "token")
                number = self._history.step(at).index
                QToolTip.showText(
                    event.globalPos(),
                    f"{f'Step {number}' if number else 'Prompt pass'}: {tokens}, "
                    f"{self._history.recent_speed(at):.1f} tokens per second",
                    self,
                )
            return True
        return super().event(event)

    def paintEvent(self, _event: QPaintEvent) -> None:
        begun = time.perf_counter()
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        if self._history is None or not len(self._history):
            self._paint_title(painter)
            self._paint_nothing(painter, "The course of a reply appears here.")
        else:
            self._paint_course(painter, self._history)
        painter.end()
        self.paint_seconds = time.perf_counter() - begun

    def _paint_course(self, painter: QPainter, history: ReplyHistory) -> None:
        colours = theme.tokens(self)
        plot = self._plot().adjusted(0, 2, 0, -1)
        slot, group = self._slot()
        starts = range(0, len(history), group)
        tallest = max(2, history.most_tokens)
        speeds = [history.recent_speed(min(start + group, len(history)) - 1) for start in starts]
        fastest = max(speeds)
        self._paint_title(painter, f"line: tokens/s, up to {fastest:.0f}" if fastest > 0 else "")
        painter.setPen(QPen(colours.grid, 1))
        for level in range(tallest + 1):
            y = plot.bottom() - plot.height() * level / tallest
            if level in (0, tallest) or plot.height() / tallest >= 9:
                painter.drawLine(QPointF(plot.left(), y), QPointF(plot.right(), y))
        gap = 1.0 if slot >= 4 else 0.0
        painter.setPen(Qt.PenStyle.NoPen)
        pale = QColor(colours.bonus)
        pale.setAlphaF(0.45)
        for column, start in enumerate(starts):
            tokens, free = history.column(start, min(start + group, len(history)) - 1)
            free = min(free, tokens)
            x = plot.left() + column * slot
            unit = plot.height() / tallest
            own = QRectF(x, plot.bottom() - (tokens - free) * unit, slot - gap, (tokens - free) * unit)
            given = QRectF(x, plot.bottom() - tokens * unit, slot - gap, free * unit)
            painter.fillRect(own, pale)
            painter.fillRect(given, colours.accepted)
        if fastest > 0:
            line = QPolygonF(
                [
                    QPointF(plot.left() + (column + 0.5) * slot, plot.bottom() - plot.height() * 0.94 * speed / fastest)
                    for column, speed in enumerate(speeds)
                    if speed > 0
                ]
            )
            halo = self.palette().window().color()
            for pen in (QPen(halo, 3.6), QPen(self.palette().windowText().color(), 1.4)):
                pen.setJoinStyle(Qt.PenJoinStyle.RoundJoin)
                painter.setPen(pen)
                painter.setBrush(Qt.BrushStyle.NoBrush)
                painter.drawPolyline(line)
        if 0 <= self._position < len(history):
            x = plot.left() + (self._position // group + 0.5) * slot
            painter.setPen(QPen(colours.accent, 1.5))
            painter.drawLine(QPointF(x, plot.top() - 3), QPointF(x, plot.bottom()))
            painter.setBrush(colours.accent)
            painter.setPen(Qt.PenStyle.NoPen)
            painter.drawPolygon(
                QPolygonF(
                    [QPointF(x - 4, plot.top() - 5), QPointF(x + 4, plot.top() - 5), QPointF(x, plot.top() + 1)]
                )
            )
