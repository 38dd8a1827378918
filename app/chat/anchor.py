"""What is read, to be kept in its place while texts above it get another height."""

from __future__ import annotations

from PySide6.QtCore import QPointF, Qt
from PySide6.QtGui import QTextBlock, QTextCursor
from PySide6.QtWidgets import QWidget
from shiboken6 import isValid

from app.chat.held_text import HeldText
from app.chat.message_text import MessageText


class Anchor:
    """A widget of the transcript, or the first paragraph of its text that begins in what is seen.

    A widget's upper edge is no hold for its text: pictures of formulas that come late make it
    higher above what is read, too.
    """

    def __init__(self, widget: QWidget, offset: int, height: int) -> None:
        """``offset`` is the widget's from the top of what is seen, which is ``height`` pixels high."""
        self._widget, self._offset = widget, offset
        self._paragraph: QTextCursor | None = None
        self._below = self._begin = 0
        if isinstance(widget, MessageText) and widget.is_built and offset < 0:
            self._hold(widget, height)

    def _hold(self, text: MessageText, height: int) -> None:
        document, top = text.document(), -self._offset
        at = document.documentLayout().hitTest(QPointF(0, top), Qt.HitTestAccuracy.FuzzyHit)
        block = document.findBlock(max(0, at))
        following = block.next()
        if _top(block, text) < top and following.isValid() and _top(following, text) < top + height:
            block = following
        self._paragraph = QTextCursor(block)
        self._paragraph.setKeepPositionOnInsert(True)
        self._begin = block.position()
        self._below = _top(block, text) + self._offset

    @property
    def widget(self) -> QWidget | None:
        """``None`` once it is gone."""
        if isinstance(self._widget, HeldText) and self._widget.became is not None:
            self._widget = self._widget.became
        return self._widget if isValid(self._widget) else None

    def value(self, top: int) -> int:
        """Where the scroll bar must stand for it to be where it was; ``top`` is the widget's in the column."""
        held, widget = self._paragraph, self._widget
        # A text that is written anew has lost its paragraphs.
        if held is not None and isinstance(widget, MessageText) and (held.position() or not self._begin):
            return top + _top(held.block(), widget) - self._below
        return top - self._offset


def _top(block: QTextBlock, text: MessageText) -> int:
    return round(text.document().documentLayout().blockBoundingRect(block).top())
