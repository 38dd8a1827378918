"""A step laid out and painted: the same for the view on the screen and for exported pictures.

Needs no widget, so a worker thread can use one of its own. Laying out is done once for a
step, painting as often as it is wanted.
"""

from __future__ import annotations

from collections.abc import Collection

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QFont, QFontMetricsF, QPainter, QPainterPath, QPalette, QPen

from app import theme
from app.tree_panel import batches, marks
from app.tree_panel.batches import edge, rect_of
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
        """For each depth where its column ends."""

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
        if tree.ground is not None:
            painter.setPen(QPen(colours.grid, 1))
            painter.setBrush(colours.background_alt)
            painter.drawRoundedRect(rect_of(tree.ground), 6, 6)
        self._paint_captions(painter, colours)
        for stroke in batches.lines(tree, self._ends, colours, exposed):
            stroke.paint(painter)
        self._paint_lit(painter, lit, colours)
        for number in {*lit, *(() if pointed is None else (pointed,))}:
            ink, width = (colours.accent, 2.4) if number == pointed else (self._palette.text().color(), 1.2)
            painter.setPen(QPen(ink, width))
            painter.setBrush(Qt.BrushStyle.NoBrush)
            rect = rect_of(tree.boxes[number]).adjusted(-2.5, -2.5, 2.5, 2.5)
            painter.drawPath(marks.outline(tree.items[number].kind, rect))
        seen = batches.seen(tree, exposed)
        for stroke in batches.boxes(tree, seen, colours, self._palette.base().color()):
            stroke.paint(painter)
        marked = [number for number in seen if tree.items[number].kind is not Kind.WINDOW]
        for stroke in batches.icons(tree, marked, _PAD, colours):
            stroke.paint(painter)
        self._paint_words(painter, seen)

    def _paint_lit(self, painter: QPainter, lit: Collection[int], colours: theme.Tokens) -> None:
        """The lines of items that stand out once more, in the ink of text."""
        tree = self.tree
        painter.setBrush(Qt.BrushStyle.NoBrush)
        for number in lit:
            item = tree.items[number]
            if item.parent >= 0 and number not in tree.loose:
                pen = marks.edge_pen(item.kind, item.draft_probability, colours)
                pen.setColor(self._palette.text().color())
                painter.setPen(pen)
                path = QPainterPath()
                edge(path, tree.boxes[item.parent], self._ends[tree.items[item.parent].depth], tree.boxes[number])
                painter.drawPath(path)

    def _paint_words(self, painter: QPainter, numbers: Collection[int]) -> None:
        """Tokens, then the small numbers beside them, so that the font changes once."""
        small: list[tuple[QPointF, str]] = []
        base = self._writer.small_base
        for number in numbers:
            box, (token, words) = self.tree.boxes[number], self._written[number]
            x = box.x + _PAD
            if self.tree.items[number].kind is not Kind.WINDOW:
                x += marks.ICON + _ICON_GAP
            token.layout.draw(painter, QPointF(x, box.centre_y - token.height / 2))
            if words:
                small.append((QPointF(x + token.width + _CHANCE_GAP, box.centre_y + base), words))
        painter.setFont(self._writer.small_font)
        painter.setPen(theme.tokens(self._palette).muted)
        for at, words in small:
            painter.drawText(at, words)

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
        path = QPainterPath()
        edge(path, _GHOST_BOXES[parent], _GHOST_BOXES[parent].right, _GHOST_BOXES[child])
        painter.drawPath(path)
    for number, box in enumerate(_GHOST_BOXES):
        painter.setPen(pen(number < 3))
        painter.setBrush(colours.background_alt)
        radius = 9.0 if number == 0 else 5.0 if number < 3 else 2.0
        painter.drawRoundedRect(rect_of(box), radius, radius)
    painter.restore()
