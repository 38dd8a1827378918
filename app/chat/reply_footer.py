"""What stands below a reply: its buttons, and beside them its figures, or below them in a narrow column."""

from __future__ import annotations

from PySide6.QtCore import QRect, QSize
from PySide6.QtWidgets import QLabel, QStyle, QWidget

from app.wrapping_row import FlowingWidget, WrappingRow

TOP, GAP = 2, 6
ROOM = 28
"""Average characters of the figures that there must be room for beside the buttons."""


class ReplyFooter(FlowingWidget):
    """As high as the figures need in the width that there is."""

    def __init__(self, figures: QLabel, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.buttons = WrappingRow(self, spacing=2)
        self._figures = figures
        figures.setParent(self)

    def _places(self, width: int) -> tuple[QRect, QRect]:
        """Where the buttons and the figures stand."""
        row = self.buttons.sizeHint()
        left = row.width() + GAP if row.width() else 0
        metrics = self._figures.fontMetrics()
        wanted = min(self._figures.sizeHint().width(), ROOM * metrics.averageCharWidth())
        if not self._figures.text():
            return QRect(0, TOP, width, self.buttons.heightForWidth(width)), QRect()
        if width - left >= wanted:
            need = self._figures.heightForWidth(width - left)
            height = max(row.height(), need)
            return QRect(0, TOP, row.width(), height), QRect(left, TOP, width - left, height)
        above = self.buttons.heightForWidth(width)
        top = TOP + (above + GAP if above else 0)
        return QRect(0, TOP, width, above), QRect(0, top, width, self._figures.heightForWidth(width))

    def _arrange(self) -> None:
        for widget, place in zip((self.buttons, self._figures), self._places(self.width()), strict=True):
            widget.setGeometry(QStyle.visualRect(self.layoutDirection(), self.rect(), place))

    # ------------------------------------------------------------------ Qt

    def heightForWidth(self, width: int) -> int:
        return max(place.y() + place.height() for place in self._places(width))

    def sizeHint(self) -> QSize:
        width = self.buttons.sizeHint().width() + GAP + self._figures.sizeHint().width()
        return QSize(width, self.heightForWidth(width))

    def minimumSizeHint(self) -> QSize:
        return self.buttons.minimumSizeHint() + QSize(0, TOP)
