"""Lines, boxes and icons of a step put together by style.

A tree of a hundred tokens is then drawn in some twenty strokes. One by one they were a
thousand calls from Python, three times what the strokes themselves cost.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QBrush, QColor, QPainter, QPainterPath, QPen

from app.theme import Tokens
from app.tree_panel import marks
from app.tree_panel.layout import Box, Kind, TreeLayout

SHADES = 12
"""Widths of lines between "impossible" and "sure": a quarter of a unit apart, which no eye tells from none."""


@dataclass(frozen=True, slots=True)
class Stroke:
    """Shapes of one style."""

    path: QPainterPath
    pen: QPen
    fills: tuple[QColor, ...] = ()
    """Laid over each other below the lines."""

    def paint(self, painter: QPainter) -> None:
        for fill in self.fills[:-1]:
            painter.fillPath(self.path, fill)
        painter.setPen(self.pen)
        painter.setBrush(QBrush(self.fills[-1]) if self.fills else Qt.BrushStyle.NoBrush)
        painter.drawPath(self.path)


def edge(path: QPainterPath, parent: Box, bend: float, child: Box) -> None:
    """Add a line: straight to the end of the parent's column, then a curve to the child."""
    begin, end = parent.centre_y, child.centre_y
    middle = (bend + child.x) / 2
    path.moveTo(parent.right, begin)
    path.lineTo(bend, begin)
    path.cubicTo(middle, begin, middle, end, child.x, end)


def lines(tree: TreeLayout, ends: Mapping[int, float], colours: Tokens, area: QRectF) -> list[Stroke]:
    """The lines to parents in an area; those of the accepted path come last and so lie on top.

    ``ends`` tells for each depth where its column ends.
    """
    left, top, right, bottom = area.left() - 3, area.top() - 3, area.right() + 3, area.bottom() + 3
    spine, placed = set(tree.spine), tree.boxes
    found: dict[tuple[bool, Kind, int], QPainterPath] = {}
    for number, item in enumerate(tree.items):
        if item.parent < 0 or number in tree.loose:
            continue
        parent, child = placed[item.parent], placed[number]
        one, other = parent.centre_y, child.centre_y
        if child.x < left or parent.right > right or max(one, other) < top or min(one, other) > bottom:
            continue
        key = (number in spine, item.kind, shade(item.draft_probability))
        path = found.get(key)
        if path is None:
            path = found[key] = QPainterPath()
        edge(path, parent, ends[tree.items[item.parent].depth], child)
    groups = sorted(found.items(), key=lambda group: group[0][0])
    return [Stroke(path, marks.edge_pen(kind, sure / SHADES, colours)) for (_, kind, sure), path in groups]


def seen(tree: TreeLayout, area: QRectF) -> list[int]:
    """The items whose boxes reach into an area."""
    left, top, right, bottom = area.left() - 4, area.top() - 4, area.right() + 4, area.bottom() + 4
    return [
        number
        for number, box in enumerate(tree.boxes)
        if box.x <= right and box.right >= left and box.y <= bottom and box.bottom >= top
    ]


def shade(probability: float | None) -> int:
    """The nearest of the widths."""
    sure = 0.5 if probability is None else min(max(probability, 0.0), 1.0)
    return round(sure * SHADES)


def boxes(tree: TreeLayout, numbers: Iterable[int], colours: Tokens, base: QColor) -> list[Stroke]:
    """Boxes with their grounds and borders; they do not lie over each other."""
    found: dict[Kind, QPainterPath] = {}
    for number in numbers:
        kind = tree.items[number].kind
        path = found.get(kind)
        if path is None:
            path = found[kind] = QPainterPath()
        marks.add_outline(path, kind, rect_of(tree.boxes[number]))
    return [Stroke(path, marks.border(kind, colours), marks.fills(kind, colours, base)) for kind, path in found.items()]


def icons(tree: TreeLayout, numbers: Iterable[int], inset: float, colours: Tokens) -> list[Stroke]:
    """The icons of boxes, each ``inset`` behind its box's left side."""
    found: dict[Kind, QPainterPath] = {}
    for number in numbers:
        kind, box = tree.items[number].kind, tree.boxes[number]
        path = found.get(kind)
        if path is None:
            path = found[kind] = QPainterPath()
        marks.add_icon(path, kind, QPointF(box.x + inset + marks.ICON / 2, box.centre_y), marks.ICON)
    return [Stroke(path, *marks.icon_style(kind, colours)) for kind, path in found.items()]


def rect_of(box: Box) -> QRectF:
    return QRectF(box.x, box.y, box.width, box.height)
