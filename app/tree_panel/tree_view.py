"""The draft tree as one painted widget.

The layout is computed when a step is shown and only painted after that, so scrolling, hovering
and zooming cost no layout.
"""

from __future__ import annotations

import time

from PySide6.QtCore import QEvent, QPoint, QPointF, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QFocusEvent, QFontMetricsF, QHelpEvent, QMouseEvent, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QApplication, QToolTip, QWidget

from app import theme
from app.language import tr
from app.tree_panel.batches import rect_of
from app.tree_panel.description import details, summary
from app.tree_panel.layout import TreeLayout
from app.tree_panel.picture import GHOST_HEIGHT, GHOST_WIDTH, StepPicture, paint_ghost
from app.tree_panel.zoom_area import ZoomArea
from engine.protocol import Step

_KEYBOARD = (
    Qt.FocusReason.TabFocusReason,
    Qt.FocusReason.BacktabFocusReason,
    Qt.FocusReason.ShortcutFocusReason,
)


class TreeView(ZoomArea):
    """Shows one step at a time; `show_message` shows words instead."""

    token_clicked = Signal(int)
    """Number of the item that was clicked, not dragged."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._step: Step | None = None
        self._picture = StepPicture()
        self._message = ""
        self._note = ""
        self._hovered: int | None = None
        self._pointed: int | None = None
        self._pressed: QPoint | None = None
        self._by_keyboard = False
        self.paint_seconds = 0.0
        """What the last painting cost."""
        self.setMinimumHeight(150)
        self.setAccessibleName(tr("Panel", "Draft tree"))
        self.horizontalScrollBar().setAccessibleName(tr("Panel", "Scroll the tree sideways"))
        self.verticalScrollBar().setAccessibleName(tr("Panel", "Scroll the tree up and down"))

    def sizeHint(self) -> QSize:
        return QSize(420, 280)

    # ------------------------------------------------------------------ what is shown

    @property
    def step(self) -> Step | None:
        return self._step

    @property
    def tree(self) -> TreeLayout:
        """The layout that is shown, in its own units."""
        return self._picture.tree

    @property
    def message(self) -> str:
        return self._message

    @property
    def note(self) -> str:
        """The words below a step without a tree."""
        return self._note

    @property
    def pointed(self) -> int | None:
        """The item that is marked."""
        return self._pointed

    def show_step(self, step: Step, note: str = "") -> None:
        """Lay out and show a step. ``note`` is written below it, e.g. that nothing is drafted."""
        self._step = step
        self._message = ""
        self._note = note
        self._hovered = self._pointed = None
        self._arrange()

    def point_at(self, number: int | None) -> None:
        """Mark an item and bring it into view."""
        self._pointed = number
        if number is not None:
            self.reveal(rect_of(self.tree.boxes[number]))
        self.viewport().update()

    def show_message(self, text: str) -> None:
        """Show words and no step."""
        self._step = None
        self._message = text
        self._note = ""
        self._hovered = self._pointed = None
        self._picture.clear()
        self.set_content_size(0, 0)
        self.forget_extent()
        self.describe()

    def describe(self) -> None:
        """Tell screen readers what is shown; not done at every frame of a live reply."""
        text = self._message if self._step is None else f"{summary(self._step)} {self._note}".strip()
        self.setAccessibleDescription(text)

    def _arrange(self) -> None:
        assert self._step is not None
        self._picture.lay_out(self._step, self.font(), self.palette())
        self.set_content_size(self.tree.width, self.tree.height)

    def item_rect(self, number: int) -> QRectF:
        """Where an item is in the viewport."""
        return self.to_viewport(rect_of(self.tree.boxes[number]))

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
        return self.tree.at(at.x(), at.y())

    def mousePressEvent(self, event: QMouseEvent) -> None:
        super().mousePressEvent(event)
        if event.button() == Qt.MouseButton.LeftButton:
            self._pressed = event.position().toPoint()

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        super().mouseReleaseEvent(event)
        pressed, self._pressed = self._pressed, None
        if event.button() != Qt.MouseButton.LeftButton or pressed is None:
            return
        moved = (event.position().toPoint() - pressed).manhattanLength()
        number = self._item_at(event.position())
        if number is not None and moved < QApplication.startDragDistance():
            self.token_clicked.emit(number)

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
        return details(self.tree.items, number)

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
            lit = self.tree.ancestry(self._hovered) if self._hovered is not None else ()
            self._picture.paint(painter, exposed, lit, self._pointed)
            painter.restore()
            if self._note:
                self._paint_note(painter)
        if self._by_keyboard and self.hasFocus():
            painter.setPen(QPen(self.palette().highlight().color(), 1))
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.drawRect(QRectF(self.viewport().rect()).adjusted(0.5, 0.5, -0.5, -0.5))
        painter.end()
        self.paint_seconds = time.perf_counter() - begun

    def _paint_note(self, painter: QPainter) -> None:
        painter.setFont(self.font())
        painter.setPen(theme.tokens(self).muted)
        top = self.origin().y() + self.tree.height * self.zoom + 2
        area = QRectF(14, top, self.viewport().width() - 28, self.viewport().height() - top)
        painter.drawText(area, int(Qt.AlignmentFlag.AlignTop) | int(Qt.TextFlag.TextWordWrap), self._note)

    def _paint_message(self, painter: QPainter) -> None:
        """Words below the ghost of a tree, together in the middle."""
        colours = theme.tokens(self)
        area = QRectF(self.viewport().rect()).adjusted(20, 8, -20, -8)
        flags = int(Qt.AlignmentFlag.AlignHCenter | Qt.AlignmentFlag.AlignTop) | int(Qt.TextFlag.TextWordWrap)
        words = QFontMetricsF(self.font()).boundingRect(area, flags, self._message)
        tall = area.height() > GHOST_HEIGHT + 16 + words.height()
        above = GHOST_HEIGHT + 16 if tall else 0.0
        top = area.top() + max(0.0, (area.height() - above - words.height()) / 2)
        if tall:
            paint_ghost(painter, QPointF(area.center().x() - GHOST_WIDTH / 2, top), colours)
        painter.setFont(self.font())
        painter.setPen(colours.muted)
        area.setTop(top + above)
        painter.drawText(area, flags, self._message)
