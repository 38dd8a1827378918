"""A piece of a text that is not seen: only the text, and about the room that it will take.

A text widget with its document, scroll bars and buttons costs a hundred times as much, to make as
well as whenever the look of the application changes.
"""

from __future__ import annotations

from PySide6.QtCore import QEvent, Qt, Signal
from PySide6.QtGui import QFocusEvent, QResizeEvent
from PySide6.QtWidgets import QSizePolicy, QWidget

from app.chat.message_text import MessageText, estimated_height


class HeldText(QWidget):
    """Stands in for a :class:`MessageText`. It can be tabbed to, and is then built."""

    wanted = Signal()
    """The keyboard has come here."""

    def __init__(self, text: str, start: int, height: int = 0, parent: QWidget | None = None) -> None:
        """``start`` is the text's place in the message; ``height`` is known of a text that was built before."""
        super().__init__(parent)
        self._text, self._start = text, start
        self._known = (0, height)
        """A width, and the height at it; the width is 0 until there is one."""
        self.became: MessageText | None = None
        """What stands in its place now."""
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Fixed)
        self.setMinimumWidth(80)
        self._fit()

    @property
    def start(self) -> int:
        """Offset of this piece in the message."""
        return self._start

    @property
    def end(self) -> int:
        return self._start + len(self._text)

    @property
    def is_built(self) -> bool:
        return False

    def source(self) -> str:
        """The text as written."""
        return self._text

    def hold(self, text: str, start: int) -> None:
        """Replace the text."""
        self._text, self._start, self._known = text, start, (0, 0)
        self._fit()

    def feed(self, text: str) -> None:
        self._text += text
        self._fit()

    def stops(self) -> list[QWidget]:
        """Where Tab stops in here."""
        return [self]

    def _fit(self) -> None:
        width, height = self._known
        if not height or width not in (0, self.width()):
            height = estimated_height(self._text, self.width(), self.fontMetrics())
        if height != self.height() or self.minimumHeight() != height:
            self.setFixedHeight(height)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        if event.size().width() != event.oldSize().width():
            if self._known[1] and not self._known[0]:
                self._known = (event.size().width(), self._known[1])
            self._fit()

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.FontChange:
            self._known = (0, 0)
            self._fit()

    def focusInEvent(self, event: QFocusEvent) -> None:
        super().focusInEvent(event)
        self.wanted.emit()
