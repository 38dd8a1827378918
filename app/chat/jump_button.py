"""The round button over the end of a conversation that was scrolled away from."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QScrollArea, QToolButton

from app import icons
from app.language import tr

ABOVE_END = 10


class JumpButton(QToolButton):
    """Stands in the middle above the lower edge of what the area shows."""

    def __init__(self, area: QScrollArea) -> None:
        super().__init__(area)
        self._area = area
        self.setObjectName("jumpToEnd")
        icons.dress(self, "down")
        self.setToolTip(tr("Reply", "Go to the newest text"))
        self.setAccessibleName(tr("Reply", "Go to the newest text"))
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.hide()

    def place(self, shown: bool) -> None:
        self.setVisible(shown)
        size, room = self.sizeHint(), self._area.viewport().geometry()
        left = room.center().x() - size.width() // 2
        self.setGeometry(left, room.bottom() - size.height() - ABOVE_END, size.width(), size.height())
