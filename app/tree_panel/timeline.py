"""The course of a reply: tokens of every step, τ, tokens per second, and what was said on the way."""

from __future__ import annotations

import time
from collections.abc import Iterable

from PySide6.QtCore import QEvent, QPointF, QRectF, Qt, Signal
from PySide6.QtGui import QColor, QHelpEvent, QMouseEvent, QPainter, QPaintEvent, QPen, QPolygonF
from PySide6.QtWidgets import QToolTip, QWidget

from app import theme
from app.language import tr, tr_n
from app.language.engine_texts import of_engine
from app.language.numbers import decimal
from app.tree_panel.charts import Chart
from app.tree_panel.history import ReplyHistory

_SAMPLE = 16.0
"""Length of a line in the legend."""


class Timeline(Chart):
    """Tokens of every step as columns, with two lines over them; a click goes to a step.

    The dashed line is τ on the columns' own scale, the full one tokens per second, both over the
    last two seconds. A small flag stands where the engine had something to say.
    """

    position_clicked = Signal(int)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(tr("Panel", "Tokens per step"), 84, parent)
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
            self.setAccessibleDescription(tr("Panel", "No steps yet"))
            return
        count = len(history)
        said = tr(
            "Panel", "{steps}, {least} to {most} tokens each; lately τ {tau} and {speed} tokens per second"
        ).format(
            steps=tr_n("Panel", "%n step", "%n steps", count),
            least=history.least_tokens,
            most=history.most_tokens,
            tau=decimal(history.recent_length(), 2),
            speed=decimal(history.recent_speed(), 1),
        )
        notices = [_notice_words(history, position) for position in history.notices]
        self.setAccessibleDescription(". ".join([said, *notices]))

    # ------------------------------------------------------------------ pointing and clicking

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
            if at is not None:
                QToolTip.showText(event.globalPos(), self.tooltip_text(at), self)
            return True
        return super().event(event)

    def tooltip_text(self, position: int) -> str:
        """What is known of the steps that share a column; plain text, its first line ours."""
        history = self._history
        assert history is not None
        number = history.step(position).index
        lines = [
            tr("Panel", "{step}: {tokens}").format(
                step=tr("Panel", "Step {step}").format(step=number) if number else tr("Panel", "Prompt pass"),
                tokens=tr_n("Panel", "%n token", "%n tokens", history.tokens_of(position)),
            ),
            tr("Panel", "Over the last 2 seconds: τ {tau}, {speed} tokens per second").format(
                tau=decimal(history.recent_length(position), 2), speed=decimal(history.recent_speed(position), 1)
            ),
        ]
        group = self._slot()[1]
        near = [place for place in history.notices if position - group < place < position + group]
        return "\n".join([*lines, *(_notice_words(history, place) for place in near)])

    # ------------------------------------------------------------------ painting

    def paintEvent(self, _event: QPaintEvent) -> None:
        begun = time.perf_counter()
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        if self._history is None or not len(self._history):
            self._paint_title(painter)
            self._paint_nothing(painter, tr("Panel", "The course of a reply appears here."))
        else:
            self._paint_course(painter, self._history)
        painter.end()
        self.paint_seconds = time.perf_counter() - begun

    def _paint_course(self, painter: QPainter, history: ReplyHistory) -> None:
        colours = theme.tokens(self)
        plot = self._plot().adjusted(0, 2, 0, -1)
        slot, group = self._slot()
        starts = range(0, len(history), group)
        ends = [min(start + group, len(history)) - 1 for start in starts]
        tallest = max(2, history.most_tokens)
        speeds = [history.recent_speed(end) for end in ends]
        lengths = [history.recent_length(end) for end in ends]
        fastest = max(speeds)
        self._paint_grid(painter, plot, tallest, colours)
        self._paint_columns(painter, history, plot, list(zip(starts, ends, strict=True)), tallest, colours)
        middle = [plot.left() + (column + 0.5) * slot for column in range(len(ends))]

        def line(values: Iterable[float], top: float) -> QPolygonF:
            return QPolygonF(
                [
                    QPointF(x, plot.bottom() - plot.height() * value / top)
                    for x, value in zip(middle, values, strict=True)
                    if value > 0
                ]
            )

        self._paint_line(painter, line(lengths, tallest), self._tau_pen(colours))
        if fastest > 0:
            self._paint_line(painter, line(speeds, fastest / 0.94), self._speed_pen())
        self._paint_legend(painter, lengths[-1], fastest)
        for place in history.notices:
            self._paint_flag(painter, plot, middle[place // group], colours.bonus, False)
        if 0 <= self._position < len(history):
            self._paint_flag(painter, plot, middle[self._position // group], colours.accent, True)

    @staticmethod
    def _paint_grid(painter: QPainter, plot: QRectF, tallest: int, colours: theme.Tokens) -> None:
        painter.setPen(QPen(colours.grid, 1))
        for level in range(tallest + 1):
            y = plot.bottom() - plot.height() * level / tallest
            if level in (0, tallest) or plot.height() / tallest >= 9:
                painter.drawLine(QPointF(plot.left(), y), QPointF(plot.right(), y))

    def _paint_columns(
        self,
        painter: QPainter,
        history: ReplyHistory,
        plot: QRectF,
        spans: list[tuple[int, int]],
        tallest: int,
        colours: theme.Tokens,
    ) -> None:
        slot = self._slot()[0]
        gap = 1.0 if slot >= 4 else 0.0
        unit = plot.height() / tallest
        pale = QColor(colours.bonus)
        pale.setAlphaF(0.45)
        own: list[QRectF] = []
        given: list[QRectF] = []
        for column, (start, end) in enumerate(spans):
            tokens, free = history.column(start, end)
            free = min(free, tokens)
            x = plot.left() + column * slot
            own.append(QRectF(x, plot.bottom() - (tokens - free) * unit, slot - gap, (tokens - free) * unit))
            given.append(QRectF(x, plot.bottom() - tokens * unit, slot - gap, free * unit))
        painter.save()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)
        painter.setPen(Qt.PenStyle.NoPen)
        for rects, ink in ((own, pale), (given, colours.accepted)):
            painter.setBrush(ink)
            painter.drawRects(rects)
        painter.restore()

    @staticmethod
    def _tau_pen(colours: theme.Tokens) -> QPen:
        pen = QPen(colours.root, 1.6)
        pen.setDashPattern([3.0, 2.0])
        return pen

    def _speed_pen(self) -> QPen:
        return QPen(self.palette().windowText().color(), 1.4)

    def _paint_line(self, painter: QPainter, line: QPolygonF, pen: QPen) -> None:
        for each in (QPen(self.palette().window().color(), 3.6), pen):
            each.setJoinStyle(Qt.PenJoinStyle.RoundJoin)
            painter.setPen(each)
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.drawPolyline(line)

    def _paint_legend(self, painter: QPainter, length: float, fastest: float) -> None:
        """Which line is which, at the right of the title; as much of it as there is room for."""
        self._paint_title(painter)
        metrics = self.fontMetrics()
        tau, speed = self._tau_pen(theme.tokens(self)), self._speed_pen()
        up_to = tr("Panel", "tokens/s, up to {speed}").format(speed=decimal(fastest, 0))
        room = self.width() - metrics.horizontalAdvance(self._title) - 12
        for entries in (
            ((tau, f"τ {decimal(length, 2)}"), (speed, up_to)),
            ((tau, "τ"), (speed, tr("Panel", "tokens/s"))),
        ):
            if sum(metrics.horizontalAdvance(words) + _SAMPLE + 17 for _, words in entries) - 12 <= room:
                break
        else:
            return
        x = float(self.width())
        for pen, words in reversed(entries):
            wide = metrics.horizontalAdvance(words)
            x -= wide
            painter.setPen(theme.tokens(self).muted)
            painter.drawText(
                QRectF(x, 0, wide + 2, metrics.height() + 2), Qt.AlignmentFlag.AlignVCenter, words
            )
            x -= _SAMPLE + 5
            painter.setPen(pen)
            y = metrics.height() / 2 + 1
            painter.drawLine(QPointF(x, y), QPointF(x + _SAMPLE, y))
            x -= 12

    @staticmethod
    def _paint_flag(painter: QPainter, plot: QRectF, x: float, ink: QColor, here: bool) -> None:
        """The step that is shown: a full line under a triangle; a notice: a dotted one under a flag."""
        painter.setPen(QPen(ink, 1.5 if here else 1.2, Qt.PenStyle.SolidLine if here else Qt.PenStyle.DotLine))
        painter.drawLine(QPointF(x, plot.top() - 3), QPointF(x, plot.bottom()))
        painter.setBrush(ink)
        painter.setPen(Qt.PenStyle.NoPen)
        top = plot.top()
        if here:
            painter.drawPolygon(QPolygonF([QPointF(x - 4, top - 5), QPointF(x + 4, top - 5), QPointF(x, top + 1)]))
        else:
            painter.drawRect(QRectF(x, top - 5, 7, 6))


def _notice_words(history: ReplyHistory, position: int) -> str:
    return tr("Panel", "At step {step}: {notice}").format(
        step=history.step(position).index, notice=of_engine(history.notice_of(position))
    )
