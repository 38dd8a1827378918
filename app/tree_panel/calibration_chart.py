"""How fast which size of draft would be on this machine, and which one was chosen."""

from __future__ import annotations

import itertools

from PySide6.QtCore import QEvent, QPointF, QRectF, Qt
from PySide6.QtGui import QHelpEvent, QPainter, QPaintEvent, QPen, QPolygonF
from PySide6.QtWidgets import QToolTip, QWidget

from app import theme
from app.language import tr, tr_n
from app.language.engine_texts import of_engine
from app.language.numbers import decimal
from app.tree_panel.charts import Chart
from engine.protocol import Calibration, CurvePoint


class CalibrationChart(Chart):
    """Expected tokens per second by rows of a pass: a curve, plain decoding as a level, the choice as a ring.

    Hidden until something was measured.
    """

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(tr("Panel", "Speed by size"), 84, parent)
        self._calibration: Calibration | None = None
        self.hide()

    @property
    def calibration(self) -> Calibration | None:
        return self._calibration

    def show_calibration(self, calibration: Calibration | None) -> None:
        """Show what was measured; None hides the chart."""
        self._calibration = calibration
        self.setVisible(calibration is not None)
        self.setAccessibleDescription(self.words().replace("\n", " "))
        self.update()

    def words(self) -> str:
        """The curve and the choice, a line each; plain text that begins with words of ours."""
        found = self._calibration
        if found is None:
            return ""
        lines = [tr("Panel", "Expected on this machine, by rows that the target checks in one pass:")]
        lines += [_point_words(point) for point in found.curve]
        if found.paused:
            lines.append(tr("Panel", "Chosen: no guessing, because it would be slower now."))
        else:
            lines.append(
                tr("Panel", "Chosen: {rows}, {levels}.").format(
                    rows=tr_n("Panel", "up to %n row", "up to %n rows", found.chosen.nodes),
                    levels=tr_n("Panel", "%n level", "%n levels", found.depth),
                )
            )
        if found.notice:
            lines.append(of_engine(found.notice))
        return "\n".join(lines)

    # ------------------------------------------------------------------ painting

    def _area(self) -> QRectF:
        """Where the curve is drawn: above the numbers of rows."""
        return self._plot().adjusted(4, 6, -8, -self.fontMetrics().height() - 2)

    def _points(self) -> list[tuple[CurvePoint, QPointF]]:
        """Points of the curve; sizes stand at equal distances, for they grow by ratios."""
        found = self._calibration
        if found is None or not found.curve:
            return []
        area = self._area()
        top = max(point.tokens_per_second for point in (*found.curve, found.chosen)) or 1.0
        pitch = area.width() / max(1, len(found.curve) - 1)
        return [
            (
                point,
                QPointF(
                    area.left() + number * pitch, area.bottom() - area.height() * point.tokens_per_second / top
                ),
            )
            for number, point in enumerate(found.curve)
        ]

    def _chosen_at(self) -> QPointF | None:
        """The choice, on the curve between its neighbours where it is none of the measured sizes."""
        found = self._calibration
        points = self._points()
        if found is None or not points:
            return None
        nodes = found.chosen.nodes
        for (one, at), (other, to) in itertools.pairwise(points):
            if one.nodes <= nodes <= other.nodes:
                share = (nodes - one.nodes) / max(1, other.nodes - one.nodes)
                return at + (to - at) * share
        return points[0][1] if nodes <= points[0][0].nodes else points[-1][1]

    def event(self, event: QEvent) -> bool:
        if event.type() == QEvent.Type.ToolTip and isinstance(event, QHelpEvent):
            QToolTip.showText(event.globalPos(), self.words(), self)
            return True
        return super().event(event)

    def paintEvent(self, _event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        points = self._points()
        chosen = self._chosen_at()
        if self._calibration is None or chosen is None:
            self._paint_title(painter)
            self._paint_nothing(painter, tr("Panel", "Nothing has been measured yet."))
            painter.end()
            return
        speed = decimal(self._calibration.chosen.tokens_per_second, 0)
        self._paint_title(painter, tr("Panel", "{speed} tokens/s").format(speed=speed))
        colours = theme.tokens(self)
        area = self._area()
        painter.setPen(QPen(colours.grid, 1))
        painter.drawLine(area.bottomLeft(), area.bottomRight())
        plain = points[0][1].y()
        painter.setPen(QPen(colours.muted, 1, Qt.PenStyle.DotLine))
        painter.drawLine(QPointF(area.left(), plain), QPointF(area.right(), plain))
        painter.setPen(QPen(colours.accepted, 1.8))
        painter.drawPolyline(QPolygonF([at for _, at in points]))
        painter.setBrush(colours.accepted)
        painter.setPen(Qt.PenStyle.NoPen)
        for _, at in points:
            painter.drawEllipse(at, 2.2, 2.2)
        self._paint_sizes(painter, points, area, colours)
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.setPen(QPen(colours.accent, 2))
        painter.drawEllipse(chosen, 5.5, 5.5)
        painter.drawLine(QPointF(chosen.x(), chosen.y() + 5.5), QPointF(chosen.x(), area.bottom()))
        painter.end()

    def _paint_sizes(
        self, painter: QPainter, points: list[tuple[CurvePoint, QPointF]], area: QRectF, colours: theme.Tokens
    ) -> None:
        """Numbers of rows below the curve, as many as there is room for."""
        metrics = self.fontMetrics()
        painter.setPen(colours.muted)
        taken = -1.0
        for point, at in points:
            words = str(point.nodes)
            wide = metrics.horizontalAdvance(words)
            left = min(max(at.x() - wide / 2, 0.0), self.width() - wide)
            if left > taken:
                painter.drawText(QPointF(left, area.bottom() + metrics.ascent() + 3), words)
                taken = left + wide + 4


def _point_words(point: CurvePoint) -> str:
    if point.nodes == 1:
        return tr("Panel", "without guessing: {speed} tokens/s").format(speed=decimal(point.tokens_per_second, 1))
    return tr("Panel", "{rows}: {speed} tokens/s, {tokens} tokens a step").format(
        rows=tr_n("Panel", "%n row", "%n rows", point.nodes),
        speed=decimal(point.tokens_per_second, 1),
        tokens=decimal(point.tokens, 2),
    )
