"""A view that scrolls, zooms and can be dragged about; what it shows is its subclass's matter."""

from __future__ import annotations

from enum import StrEnum

from PySide6.QtCore import QPoint, QPointF, QRectF, Qt, Signal
from PySide6.QtGui import QKeyEvent, QMouseEvent, QResizeEvent, QWheelEvent
from PySide6.QtWidgets import QAbstractScrollArea, QFrame, QWidget

SMALLEST, LARGEST = 0.25, 2.5
"""Limits of the zoom."""
LEGIBLE = 0.75
"""Automatic zoom never goes below this: content that is larger still scrolls."""

LEFT_TO_PANEL = (Qt.Key.Key_Left, Qt.Key.Key_Right, Qt.Key.Key_Home, Qt.Key.Key_End, Qt.Key.Key_Space)
"""Keys that walk through the reply, whichever part of the panel has the focus."""


class Zoom(StrEnum):
    AUTO = "auto"
    """As much as stays legible."""
    FIT = "fit"
    """All of it, however small."""
    HAND = "hand"


class ZoomArea(QAbstractScrollArea):
    """Content of `content_size` units, drawn by the subclass from `origin` on at `zoom`.

    The view scrolls by itself, so nothing is resized when the content changes, and in the two
    automatic modes it goes by the largest content since `forget_extent`: it shrinks while a
    reply grows and then stays calm.
    """

    zoom_changed = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._mode = Zoom.AUTO
        self._zoom = 1.0
        self._size = (0.0, 0.0)
        self._extent = (0.0, 0.0)
        self._grip: QPoint | None = None
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setCornerWidget(QWidget(self))
        self.viewport().setMouseTracking(True)
        for bar in (self.horizontalScrollBar(), self.verticalScrollBar()):
            bar.setSingleStep(24)

    @property
    def zoom(self) -> float:
        return self._zoom

    @property
    def zoom_mode(self) -> Zoom:
        return self._mode

    def set_content_size(self, width: float, height: float) -> None:
        """Say how large the content is now, in its own units."""
        self._size = (width, height)
        self._extent = (max(self._extent[0], width), max(self._extent[1], height))
        self._settle()

    def forget_extent(self) -> None:
        """Let the automatic modes go by the content of now alone."""
        self._extent = self._size
        self._settle()

    def set_zoom_mode(self, mode: Zoom) -> None:
        self._mode = mode
        if mode is Zoom.HAND:
            self.zoom_changed.emit()
            return
        self._extent = self._size
        self._settle()
        self.zoom_changed.emit()

    def set_zoom(self, zoom: float, about: QPointF | None = None) -> None:
        """Zoom by hand about a point of the viewport, its top left corner if none is given."""
        about = about or QPointF(0, 0)
        held = self.to_content(about)
        self._mode = Zoom.HAND
        self._zoom = min(max(zoom, SMALLEST), LARGEST)
        self._update_bars()
        self.horizontalScrollBar().setValue(round(held.x() * self._zoom - about.x()))
        self.verticalScrollBar().setValue(round(held.y() * self._zoom - about.y()))
        self.viewport().update()
        self.zoom_changed.emit()

    def zoom_in(self) -> None:
        self.set_zoom(self._zoom * 1.25)

    def zoom_out(self) -> None:
        self.set_zoom(self._zoom / 1.25)

    def _settle(self) -> None:
        if self._mode is not Zoom.HAND and self._extent[0] > 0:
            # Without scroll bars, so that one appearing does not shrink the content that needs it.
            room = self.maximumViewportSize()
            wanted = min(room.width() / self._extent[0], room.height() / self._extent[1])
            floor = LEGIBLE if self._mode is Zoom.AUTO else SMALLEST
            self._zoom = min(max(wanted, floor), 1.0)
        self._update_bars()
        self.viewport().update()

    def _update_bars(self) -> None:
        room = self.maximumViewportSize()
        wide = self._size[0] * self._zoom - 0.5 > room.width()
        tall = self._size[1] * self._zoom - 0.5 > room.height()
        side, below = self.verticalScrollBar().sizeHint().width(), self.horizontalScrollBar().sizeHint().height()
        across = room.width() - (side if tall else 0)
        down = room.height() - (below if wide else 0)
        for bar, length, space in (
            (self.horizontalScrollBar(), self._size[0], across),
            (self.verticalScrollBar(), self._size[1], down),
        ):
            bar.setPageStep(max(1, space))
            bar.setRange(0, max(0, round(length * self._zoom) - space))

    def origin(self) -> QPointF:
        """Where the content's top left corner is in the viewport; low content hangs near the top."""
        free = self.viewport().height() - self._size[1] * self._zoom
        top = min(free / 2, 32.0) if free > 0 else -float(self.verticalScrollBar().value())
        return QPointF(-float(self.horizontalScrollBar().value()), top)

    def to_content(self, point: QPointF) -> QPointF:
        """A point of the viewport in the content's units."""
        return (point - self.origin()) / self._zoom

    def to_viewport(self, rect: QRectF) -> QRectF:
        """A rectangle of the content in the viewport's pixels."""
        return QRectF(self.origin() + rect.topLeft() * self._zoom, rect.size() * self._zoom)

    def reveal(self, rect: QRectF) -> None:
        """Scroll as little as is needed to see a rectangle of the content."""
        seen = self.to_viewport(rect).adjusted(-12, -12, 12, 12)
        view = QRectF(self.viewport().rect())
        for bar, near, far in (
            (self.horizontalScrollBar(), seen.left() - view.left(), seen.right() - view.right()),
            (self.verticalScrollBar(), seen.top() - view.top(), seen.bottom() - view.bottom()),
        ):
            if near < 0 or far > 0:
                bar.setValue(bar.value() + round(near if near < 0 else min(far, near)))

    # ------------------------------------------------------------------ events

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._settle()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        control = bool(event.modifiers() & Qt.KeyboardModifier.ControlModifier)
        if control and event.key() in (Qt.Key.Key_Plus, Qt.Key.Key_Equal):
            self.zoom_in()
        elif control and event.key() == Qt.Key.Key_Minus:
            self.zoom_out()
        elif control and event.key() == Qt.Key.Key_0:
            self.set_zoom_mode(Zoom.AUTO)
        elif event.key() in LEFT_TO_PANEL:
            event.ignore()
        else:
            super().keyPressEvent(event)

    def wheelEvent(self, event: QWheelEvent) -> None:
        if event.modifiers() & Qt.KeyboardModifier.ControlModifier:
            self.set_zoom(self._zoom * 1.0015 ** event.angleDelta().y(), event.position())
            event.accept()
        elif any(bar.maximum() > 0 for bar in (self.horizontalScrollBar(), self.verticalScrollBar())):
            super().wheelEvent(event)
        else:
            event.ignore()  # nothing to scroll here, but perhaps around it

    def mousePressEvent(self, event: QMouseEvent) -> None:
        if event.button() == Qt.MouseButton.LeftButton:
            self._grip = event.position().toPoint()
            self.viewport().setCursor(Qt.CursorShape.ClosedHandCursor)
            event.accept()
        else:
            super().mousePressEvent(event)

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        if event.button() == Qt.MouseButton.LeftButton:
            self._grip = None
            self.viewport().unsetCursor()
            event.accept()
        else:
            super().mouseReleaseEvent(event)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        if self._grip is None:
            self.pointed_at(event.position())
            return
        point = event.position().toPoint()
        moved = point - self._grip
        self._grip = point
        self.horizontalScrollBar().setValue(self.horizontalScrollBar().value() - moved.x())
        self.verticalScrollBar().setValue(self.verticalScrollBar().value() - moved.y())

    def pointed_at(self, point: QPointF) -> None:
        """The pointer is over this point of the viewport and drags nothing."""
