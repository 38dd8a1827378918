"""A step laid out and painted: the same for the view on the screen and for exported pictures.

Needs no widget, so a worker thread can use one of its own. Laying out is done once for a
step, painting as often as it is wanted.
"""

from __future__ import annotations

from collections.abc import Collection

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QFont, QFontMetricsF, QPainter, QPainterPath, QPalette, QPen

from app import theme
from app.tree_panel import marks
from app.tree_panel.description import caption_words
from app.tree_panel.forms import PLACE, place
from app.tree_panel.layout import Box, Item, Kind, Metrics, TreeLayout, items_of
from app.tree_panel.token_text import percent
from app.tree_panel.written import Writer, Written
from engine.protocol import Step

_PAD = 7.0
_ICON_GAP = 5.0
_CHANCE_GAP = 8.0
_TOKEN_WIDTH = 132.0
"""Longest written token, in the picture's units; the rest is elided."""
_WINDOW_TOKEN_WIDTH = 74.0
"""The same within a window, whose rows are long."""
EMPTY = TreeLayout((), (), 0.0, 0.0, ())


class StepPicture:
    """One step at a time."""

    def __init__(self) -> None:
        self.tree = EMPTY
        self._written: list[tuple[Written, str]] = []
        self._writer = Writer()
        self._palette = QPalette()
        self._ends: dict[int, float] = {}

    def clear(self) -> None:
        self.tree = EMPTY

    def lay_out(self, step: Step, font: QFont, palette: QPalette) -> None:
        """Place the tokens of a step and write them."""
        items = items_of(step)
        self._palette = palette
        self._writer.use(font, palette, theme.tokens(palette))
        self._written = [
            (self._writer.token(item.text, item.kind, _token_width(item.kind)), chance(item)) for item in items
        ]
        if all(item.draft_probability == 1.0 for item in items if item.kind is not Kind.BONUS):
            # A method without probabilities: the same number in every box says nothing.
            self._written = [
                (token, words if item.kind is Kind.BONUS else "")
                for item, (token, words) in zip(items, self._written, strict=True)
            ]
        metrics = Metrics(
            height=round(QFontMetricsF(font).height() + 8),
            gap_x=26,
            gap_y=6,
            margin=12,
            line=round(self._writer.small_height),
        )
        widths = [self._width(item.kind, *written) for item, written in zip(items, self._written, strict=True)]
        self.tree = tree = place(step, items, widths, metrics)
        self._ends = {}
        for item, box in zip(tree.items, tree.boxes, strict=True):
            self._ends[item.depth] = max(self._ends.get(item.depth, 0.0), box.right)

    def _width(self, kind: Kind, token: Written, chance: str) -> float:
        width = 2 * _PAD + token.width
        if kind is not Kind.WINDOW:
            width += marks.ICON + _ICON_GAP
        if chance:
            width += _CHANCE_GAP + self._writer.small_width(chance)
        return width + (6 if kind is Kind.BONUS else 0)

    # ------------------------------------------------------------------ painting

    def paint(
        self,
        painter: QPainter,
        exposed: QRectF,
        lit: Collection[int] = (),
        pointed: int | None = None,
    ) -> None:
        """Paint what touches ``exposed``, in the picture's units.

        ``lit`` are items that stand out, ``pointed`` is the one that is marked in the text as well.
        """
        colours = theme.tokens(self._palette)
        tree = self.tree
        spine = set(tree.spine)
        if tree.ground is not None:
            painter.setPen(QPen(colours.grid, 1))
            painter.setBrush(colours.background_alt)
            painter.drawRoundedRect(rect_of(tree.ground), 6, 6)
        self._paint_captions(painter, colours)
        # Rejected first, so that the accepted line lies on top.
        order = sorted(range(len(tree.items)), key=lambda number: (number in spine, number in lit))
        painter.setBrush(Qt.BrushStyle.NoBrush)
        for number in order:
            item = tree.items[number]
            if item.parent < 0 or number in tree.loose:
                continue
            bend = self._ends[tree.items[item.parent].depth]
            edge = _edge(tree.boxes[item.parent], bend, tree.boxes[number])
            if not edge.controlPointRect().adjusted(-3, -3, 3, 3).intersects(exposed):
                continue
            pen = marks.edge_pen(item.kind, item.draft_probability, colours)
            if number in lit:
                pen.setColor(self._palette.text().color())
            painter.setPen(pen)
            painter.drawPath(edge)
        for number in order:
            rect = rect_of(tree.boxes[number])
            if rect.adjusted(-4, -4, 4, 4).intersects(exposed):
                self._paint_item(painter, number, rect, colours, number in lit, number == pointed)

    def _paint_item(
        self, painter: QPainter, number: int, rect: QRectF, colours: theme.Tokens, lit: bool, pointed: bool
    ) -> None:
        item = self.tree.items[number]
        if lit or pointed:
            ink, width = (colours.accent, 2.4) if pointed else (self._palette.text().color(), 1.2)
            painter.setPen(QPen(ink, width))
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.drawPath(marks.outline(item.kind, rect.adjusted(-2.5, -2.5, 2.5, 2.5)))
        marks.draw_box(painter, item.kind, rect, colours, self._palette.base().color())
        x = rect.left() + _PAD
        if item.kind is not Kind.WINDOW:
            marks.draw_icon(painter, item.kind, QPointF(x + marks.ICON / 2, rect.center().y()), colours)
            x += marks.ICON + _ICON_GAP
        token, words = self._written[number]
        token.layout.draw(painter, QPointF(x, rect.center().y() - token.height / 2))
        if words:
            self._small(painter, QRectF(x + token.width + _CHANCE_GAP, rect.top(), rect.width(), rect.height()), words)

    def _paint_captions(self, painter: QPainter, colours: theme.Tokens) -> None:
        for caption in self.tree.captions:
            words = caption_words(caption)
            room = caption.box.width
            if caption.what != PLACE:
                words = self._writer.small_elided(words, room)
            self._small(painter, rect_of(caption.box), words)

    def _small(self, painter: QPainter, rect: QRectF, words: str) -> None:
        painter.setFont(self._writer.small_font)
        painter.setPen(theme.tokens(self._palette).muted)
        painter.drawText(rect, Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignLeft, words)


def _token_width(kind: Kind) -> float:
    return _WINDOW_TOKEN_WIDTH if kind is Kind.WINDOW else _TOKEN_WIDTH


def chance(item: Item) -> str:
    """The probability written into a box: the draft's for a guess, the target's for its own token."""
    if item.kind in (Kind.ROOT, Kind.WINDOW):
        return ""
    if item.kind is Kind.BONUS:
        return "" if item.target_probability is None else percent(item.target_probability)
    return percent(item.draft_probability)


def rect_of(box: Box) -> QRectF:
    return QRectF(box.x, box.y, box.width, box.height)


def _edge(parent: Box, bend: float, child: Box) -> QPainterPath:
    """Straight to the end of the parent's column, then a curve to the child."""
    path = QPainterPath(QPointF(parent.right, parent.centre_y))
    path.lineTo(bend, parent.centre_y)
    middle = (bend + child.x) / 2
    path.cubicTo(
        QPointF(middle, parent.centre_y), QPointF(middle, child.centre_y), QPointF(child.x, child.centre_y)
    )
    return path


_GHOST_BOXES = tuple(Box(x, y, 42, 18) for x, y in ((0, 4), (74, 4), (148, 4), (74, 34), (148, 34), (148, 62)))
GHOST_WIDTH, GHOST_HEIGHT = 190.0, 84.0


def paint_ghost(painter: QPainter, at: QPointF, colours: theme.Tokens) -> None:
    """A small tree without words, for the empty states."""
    painter.save()
    painter.translate(at)

    def pen(strong: bool) -> QPen:
        made = QPen(colours.edge, 1.6 if strong else 1.0)
        if not strong:
            made.setDashPattern([4, 3])
        return made

    for parent, child in ((0, 1), (1, 2), (0, 3), (3, 4), (3, 5)):
        painter.setPen(pen(child < 3))
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.drawPath(_edge(_GHOST_BOXES[parent], _GHOST_BOXES[parent].right, _GHOST_BOXES[child]))
    for number, box in enumerate(_GHOST_BOXES):
        painter.setPen(pen(number < 3))
        painter.setBrush(colours.background_alt)
        radius = 9.0 if number == 0 else 5.0 if number < 3 else 2.0
        painter.drawRoundedRect(rect_of(box), radius, radius)
    painter.restore()
