"""Widgets in a row that goes on in a second one where there is no room: large text, long languages."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QRect, QSize
from PySide6.QtGui import QResizeEvent, QShowEvent
from PySide6.QtWidgets import QSizePolicy, QStyle, QWidget

SPACING = 8


class FlowingWidget(QWidget):
    """Places what is in it by itself (``_arrange``), and is as high as that needs at its width."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        policy = QSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Minimum)
        policy.setHeightForWidth(True)
        self.setSizePolicy(policy)

    def _arrange(self) -> None:
        raise NotImplementedError

    def hasHeightForWidth(self) -> bool:
        return True

    def event(self, event: QEvent) -> bool:
        if event.type() == QEvent.Type.LayoutRequest:  # something was shown, hidden, or has another size
            self.updateGeometry()
            self._arrange()
        return super().event(event)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._arrange()

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self.updateGeometry()
        self._arrange()


class WrappingRow(FlowingWidget):
    """Gives each widget the width that it asks for; its own height follows from its width."""

    def __init__(self, parent: QWidget | None = None, spacing: int = SPACING) -> None:
        super().__init__(parent)
        self._spacing = spacing
        self._widgets: list[QWidget] = []
        self._at_right: set[QWidget] = set()

    def add(self, *widgets: QWidget, to_right: bool = False) -> None:
        """Put widgets behind those that are there. Those ``to_right`` stand at the other end of their row."""
        for widget in widgets:
            widget.setParent(self)
            self._widgets.append(widget)
            if to_right:
                self._at_right.add(widget)
        self._arrange()

    def _rows(self, width: int) -> list[list[tuple[QWidget, QSize]]]:
        """The widgets that are shown, row by row, with their sizes."""
        rows: list[list[tuple[QWidget, QSize]]] = []
        used = 0
        for widget in self._widgets:
            if widget.isHidden():
                continue
            size = widget.sizeHint().expandedTo(widget.minimumSizeHint())
            if rows and used + self._spacing + size.width() <= width:
                rows[-1].append((widget, size))
                used += self._spacing + size.width()
            else:
                rows.append([(widget, size)])
                used = size.width()
        return rows

    def _width_of(self, row: list[tuple[QWidget, QSize]]) -> int:
        return sum(size.width() for _, size in row) + self._spacing * max(0, len(row) - 1)

    def _arrange(self) -> None:
        top = 0
        for row in self._rows(self.width()):
            height = max(size.height() for _, size in row)
            left, spare = 0, max(0, self.width() - self._width_of(row))
            for widget, size in row:
                if widget in self._at_right:
                    left, spare = left + spare, 0
                place = QRect(left, top + (height - size.height()) // 2, min(size.width(), self.width()), size.height())
                widget.setGeometry(QStyle.visualRect(self.layoutDirection(), self.rect(), place))
                left += size.width() + self._spacing
            top += height + self._spacing

    # ------------------------------------------------------------------ Qt

    def heightForWidth(self, width: int) -> int:
        heights = [max(size.height() for _, size in row) for row in self._rows(width)]
        return sum(heights) + self._spacing * max(0, len(heights) - 1)

    def sizeHint(self) -> QSize:
        row = [each for row in self._rows(1 << 20) for each in row]
        return QSize(self._width_of(row), max((size.height() for _, size in row), default=0))

    def minimumSizeHint(self) -> QSize:
        """The widest of them; the height that a narrow row needs is for :meth:`heightForWidth` to tell."""
        sizes = [size for row in self._rows(0) for _, size in row]
        return QSize(max((size.width() for size in sizes), default=0), max((size.height() for size in sizes), default=0))
