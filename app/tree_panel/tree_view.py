"""The draft tree as one painted widget.

The layout is computed when a step is shown and only painted after that, so scrolling, hovering
and zooming cost no layout.
"""

from __future__ import annotations

import time

from PySide6.QtCore import QEvent, QPointF, QRectF, QSize, Qt
from PySide6.QtGui import (
    QFocusEvent,
    QFontMetricsF,
    QHelpEvent,
    QPainter,
    QPainterPath,
    QPaintEvent,
    QPen,
)
from PySide6.QtWidgets import QToolTip, QWidget

from app import theme
from app.tree_panel import marks
from app.tree_panel.description import details, summary
from app.tree_panel.layout import Box, Item, Kind, Metrics, TreeLayout, arrange, items_of
from app.tree_panel.token_text import percent
from app.tree_panel.written import Writer, Written
from app.tree_panel.zoom_area import ZoomArea
from engine.protocol import Step

_PAD = 7.0
_ICON_GAP = 5.0
_CHANCE_GAP = 8.0
_TOKEN_WIDTH = 132.0
"""Longest written token, in the tree's units; the rest is elided."""
_KEYBOARD = (
    Qt.FocusReason.TabFocusReason,
    Qt.FocusReason.BacktabFocusReason,
    Qt.FocusReason.ShortcutFocusReason,
)
_EMPTY = TreeLayout((), (), 0.0, 0.0, ())


class TreeView(ZoomArea):
    """Shows one step at a time; `show_message` shows words instead."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._step: Step | None = None
        self._tree = _EMPTY
        self._message = ""
        self._note = ""
        self._hovered: int | None = None
        self._by_keyboard = False
        self._written: list[tuple[Written, str]] = []
        self.paint_seconds = 0.0
        """What the last painting cost."""
        self._writer = Writer()
        self.setMinimumHeight(150)
        self.setAccessibleName("Draft tree")
        self.horizontalScrollBar().setAccessibleName("Scroll the tree sideways")
        self.verticalScrollBar().setAccessibleName("Scroll the tree up and down")

    def sizeHint(self) -> QSize:
        return QSize(420, 280)

    # ------------------------------------------------------------------ what is shown

    @property
    def step(self) -> Step | None:
        return self._step

    @property
    def tree(self) -> TreeLayout:
        """The layout that is shown, in its own units."""
        return self._tree

    @property
    def message(self) -> str:
        return self._message

    @property
    def note(self) -> str:
        """The words below a step without a tree."""
        return self._note

    def show_step(self, step: Step, note: str = "") -> None:
        """Lay out and show a step. ``note`` is written below it, e.g. that EAGLE is off."""
        self._step = step
        self._message = ""
        self._note = note
        self._hovered = None
        self._arrange()

    def show_message(self, text: str) -> None:
        """Show words and no step."""
        self._step = None
        self._message = text
        self._note = ""
        self._hovered = None
        self._tree = _EMPTY
        self.set_content_size(0, 0)
        self.forget_extent()
        self.describe()

    def describe(self) -> None:
        """Tell screen readers what is shown; not done at every frame of a live reply."""
        text = self._message if self._step is None else f"{summary(self._step)} {self._note}".strip()
        self.setAccessibleDescription(text)

    def _arrange(self) -> None:
        assert self._step is not None
        items = items_of(self._step)
        self._writer.use(self.font(), self.palette(), theme.tokens(self))
        self._written = [
            (self._writer.token(item.text, item.kind, _TOKEN_WIDTH), _chance(item)) for item in items
        ]
        height = round(QFontMetricsF(self.font()).height() + 8)
        metrics = Metrics(height=height, gap_x=26, gap_y=6, margin=12)
        widths = [self._width(item.kind, *written) for item, written in zip(items, self._written, strict=True)]
        self._tree = arrange(items, widths, metrics)
        self.set_content_size(self._tree.width, self._tree.height)

    def _width(self, kind: Kind, token: Written, chance: str) -> float:
        width = 2 * _PAD + marks.ICON + _ICON_GAP + token.width
        if chance:
            width += _CHANCE_GAP + self._writer.small_width(chance)
        return width + (6 if kind is Kind.BONUS else 0)

    def item_rect(self, number: int) -> QRectF:
        """Where an item is in the viewport."""
        return self.to_viewport(_rect(self._tree.boxes[number]))

    # ------------------------------------------------------------------ events

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        kinds = (QEvent.Type.FontChange, QEvent.Type.PaletteChange, QEvent.Type.StyleChange)
        if event.type() in kinds and self._step is not None:
            self._arrange()
            self.forget_extent()

    def focusInEvent(self, event: QFocusEvent) -> None:
        if event.reason() != Qt.FocusReason.ActiveWindowFocusReason:
            self._by_keyboard = event.reason() in _KEYBOARD
        super().focusInEvent(event)
        self.viewport().update()

    def focusOutEvent(self, event: QFocusEvent) -> None:
        super().focusOutEvent(event)
        self.viewport().update()

    def pointed_at(self, point: QPointF) -> None:
        self._hover(self._item_at(point))

    def _item_at(self, point: QPointF) -> int | None:
        at = self.to_content(point)
        return self._tree.at(at.x(), at.y())

    def _hover(self, number: int | None) -> None:
        if number != self._hovered:
            self._hovered = number
            self.viewport().update()

    def viewportEvent(self, event: QEvent) -> bool:
        if event.type() == QEvent.Type.ToolTip and isinstance(event, QHelpEvent):
            number = self._item_at(QPointF(event.pos()))
            if number is None:
                QToolTip.hideText()
            else:
                rect = self.item_rect(number).toAlignedRect()
                QToolTip.showText(event.globalPos(), self.tooltip_text(number), self.viewport(), rect)
            return True
        if event.type() == QEvent.Type.Leave:
            self._hover(None)
        return super().viewportEvent(event)

    def tooltip_text(self, number: int) -> str:
        """What the tooltip of an item says; plain text."""
        return details(self._tree.items, number)

    # ------------------------------------------------------------------ painting

    def paintEvent(self, event: QPaintEvent) -> None:
        begun = time.perf_counter()
        painter = QPainter(self.viewport())
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.fillRect(self.viewport().rect(), self.palette().base())
        if self._step is None:
            self._paint_message(painter)
        else:
            painter.save()
            painter.translate(self.origin())
            painter.scale(self.zoom, self.zoom)
            exposed = QRectF(
                self.to_content(QPointF(event.rect().topLeft())),
                self.to_content(QPointF(event.rect().bottomRight()) + QPointF(1, 1)),
            )
            self._paint_tree(painter, exposed)
            painter.restore()
            if self._note:
                self._paint_note(painter)
        if self._by_keyboard and self.hasFocus():
            painter.setPen(QPen(self.palette().highlight().color(), 1))
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.drawRect(QRectF(self.viewport().rect()).adjusted(0.5, 0.5, -0.5, -0.5))
        painter.end()
        self.paint_seconds = time.perf_counter() - begun

    def _paint_tree(self, painter: QPainter, exposed: QRectF) -> None:
        colours = theme.tokens(self)
        tree = self._tree
        lit = set(tree.ancestry(self._hovered)) if self._hovered is not None else set()
        spine = set(tree.spine)
        ends: dict[int, float] = {}
        for item, box in zip(tree.items, tree.boxes, strict=True):
            ends[item.depth] = max(ends.get(item.depth, 0.0), box.right)
        # Rejected first, so that the accepted line lies on top.
        order = sorted(range(len(tree.items)), key=lambda number: (number in spine, number in lit))
        painter.setBrush(Qt.BrushStyle.NoBrush)
        for number in order:
            item = tree.items[number]
            if item.parent < 0:
                continue
            bend = ends[tree.items[item.parent].depth]
            edge = _edge(tree.boxes[item.parent], bend, tree.boxes[number])
            if not edge.controlPointRect().adjusted(-3, -3, 3, 3).intersects(exposed):
                continue
            pen = marks.edge_pen(item.kind, item.draft_probability, colours)
            if number in lit:
                pen.setColor(self.palette().text().color())
            painter.setPen(pen)
            painter.drawPath(edge)
        for number in order:
            rect = _rect(tree.boxes[number])
            if rect.intersects(exposed):
                self._paint_item(painter, number, rect, colours, number in lit)

    def _paint_item(
        self, painter: QPainter, number: int, rect: QRectF, colours: theme.Tokens, lit: bool
    ) -> None:
        item = self._tree.items[number]
        if lit:
            painter.setPen(QPen(self.palette().text().color(), 1.2))
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.drawPath(marks.outline(item.kind, rect.adjusted(-2.5, -2.5, 2.5, 2.5)))
        marks.draw_box(painter, item.kind, rect, colours, self.palette().base().color())
        x = rect.left() + _PAD
        marks.draw_icon(painter, item.kind, QPointF(x + marks.ICON / 2, rect.center().y()), colours)
        x += marks.ICON + _ICON_GAP
        token, chance = self._written[number]
        token.layout.draw(painter, QPointF(x, rect.center().y() - token.height / 2))
        if chance:
            painter.setFont(self._writer.small_font)
            painter.setPen(colours.muted)
            painter.drawText(
                QRectF(x + token.width + _CHANCE_GAP, rect.top(), rect.width(), rect.height()),
                Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignLeft,
                chance,
            )

    def _paint_note(self, painter: QPainter) -> None:
        painter.setFont(self.font())
        painter.setPen(theme.tokens(self).muted)
        top = self.origin().y() + self._tree.height * self.zoom + 2
        area = QRectF(14, top, self.viewport().width() - 28, self.viewport().height() - top)
        painter.drawText(area, int(Qt.AlignmentFlag.AlignTop) | int(Qt.TextFlag.TextWordWrap), self._note)

    def _paint_message(self, painter: QPainter) -> None:
        """Words below the ghost of a tree, together in the middle."""
        colours = theme.tokens(self)
        area = QRectF(self.viewport().rect()).adjusted(20, 8, -20, -8)
        flags = int(Qt.AlignmentFlag.AlignHCenter | Qt.AlignmentFlag.AlignTop) | int(Qt.TextFlag.TextWordWrap)
        words = QFontMetricsF(self.font()).boundingRect(area, flags, self._message)
        tall = area.height() > _GHOST.height() + 16 + words.height()
        above = _GHOST.height() + 16 if tall else 0.0
        top = area.top() + max(0.0, (area.height() - above - words.height()) / 2)
        if tall:
            _paint_ghost(painter, QPointF(area.center().x() - _GHOST.width() / 2, top), colours)
        painter.setFont(self.font())
        painter.setPen(colours.muted)
        area.setTop(top + above)
        painter.drawText(area, flags, self._message)


def _chance(item: Item) -> str:
    """The probability written into a box: the head's for a guess, the target's for its own token."""
    if item.kind is Kind.ROOT:
        return ""
    if item.kind is Kind.BONUS:
        return "" if item.target_probability is None else percent(item.target_probability)
    return percent(item.draft_probability)


def _rect(box: Box) -> QRectF:
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


_GHOST = QSize(190, 84)
_GHOST_BOXES = tuple(Box(x, y, 42, 18) for x, y in ((0, 4), (74, 4), (148, 4), (74, 34), (148, 34), (148, 62)))


def _paint_ghost(painter: QPainter, at: QPointF, colours: theme.Tokens) -> None:
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
        painter.drawRoundedRect(_rect(box), radius, radius)
    painter.restore()
