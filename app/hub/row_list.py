"""The picker's lists: a name, a line under it, and a verdict in words and colour at the right."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from PySide6.QtCore import (
    QAbstractListModel,
    QModelIndex,
    QPersistentModelIndex,
    QRectF,
    QSize,
    Qt,
    Signal,
)
from PySide6.QtGui import QColor, QFont, QPainter, QPen
from PySide6.QtWidgets import QListView, QStyle, QStyledItemDelegate, QStyleOptionViewItem, QWidget

from app import theme
from app.tool_tip import letter_for_letter

Index = QModelIndex | QPersistentModelIndex
ROW = int(Qt.ItemDataRole.UserRole)
PADDING = 9


class Tone(StrEnum):
    GOOD = "good"
    WARN = "warn"
    BAD = "bad"
    PLAIN = "plain"


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a list. ``key`` is what the list is asked about."""

    key: str
    title: str
    subtitle: str = ""
    badge: str = ""
    tone: Tone = Tone.PLAIN
    value: Any = None
    heading: str = ""
    """Words above the row, where a new group begins."""

    @property
    def spoken(self) -> str:
        return ". ".join(part for part in (self.heading, self.title, self.badge, self.subtitle) if part)


def ink(tone: Tone, widget: QWidget) -> QColor:
    named = theme.tokens(widget)
    return {
        Tone.GOOD: named.accepted,
        Tone.WARN: named.bonus,
        Tone.BAD: named.rejected,
        Tone.PLAIN: named.muted,
    }[tone]


class RowModel(QAbstractListModel):
    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.rows: list[Row] = []

    def rowCount(self, parent: Index | None = None) -> int:
        return 0 if parent is not None and parent.isValid() else len(self.rows)

    def data(self, index: Index, role: int = int(Qt.ItemDataRole.DisplayRole)) -> Any:
        if not index.isValid() or index.row() >= len(self.rows):
            return None
        row = self.rows[index.row()]
        if role == Qt.ItemDataRole.DisplayRole:
            return row.title
        if role == ROW:
            return row
        if role == Qt.ItemDataRole.AccessibleTextRole:
            return row.spoken
        if role == Qt.ItemDataRole.ToolTipRole:
            return letter_for_letter(row.spoken)
        return None

    def replace(self, rows: Sequence[Row]) -> None:
        """Rows of the same number and keys are changed in place, so that nothing jumps."""
        new = list(rows)
        if [row.key for row in new] == [row.key for row in self.rows]:
            self.rows = new
            if new:
                self.dataChanged.emit(self.index(0), self.index(len(new) - 1))
            return
        count = len(self.rows)
        if count and [row.key for row in new[:count]] == [row.key for row in self.rows]:
            # More of the same: whoever reads stays where they are.
            self.beginInsertRows(QModelIndex(), count, len(new) - 1)
            self.rows = new
            self.endInsertRows()
            self.dataChanged.emit(self.index(0), self.index(count - 1))
            return
        self.beginResetModel()
        self.rows = new
        self.endResetModel()


class RowDelegate(QStyledItemDelegate):
    def sizeHint(self, option: QStyleOptionViewItem, index: Index) -> QSize:
        row: Row = index.data(ROW)
        line = option.fontMetrics.height()
        height = 2 * PADDING + line + (line + 3 if row.subtitle else 0)
        return QSize(200, height + (line + 12 if row.heading else 0))

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        row: Row = index.data(ROW)
        widget = option.widget
        assert isinstance(widget, QWidget)
        named, metrics = theme.tokens(widget), option.fontMetrics
        painter.save()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        area = QRectF(option.rect)
        middle = Qt.AlignmentFlag.AlignVCenter
        if row.heading:
            line = metrics.height() + 12
            painter.setPen(named.muted)
            top = QRectF(area.left() + 12, area.top() + 4, area.width() - 20, line - 4)
            painter.drawText(
                top, middle, metrics.elidedText(row.heading, Qt.TextElideMode.ElideRight, int(top.width()))
            )
            area.setTop(area.top() + line)
        area.adjust(4, 1, -4, -1)
        self._background(painter, option, area, named)
        badge_width = self._badge(painter, option, area, row, widget)
        inner = area.adjusted(10, PADDING - 1, -badge_width - 14, -PADDING + 1)
        bold = QFont(option.font)
        bold.setWeight(QFont.Weight.DemiBold)
        painter.setFont(bold)
        painter.setPen(option.palette.text().color())
        line = metrics.height()
        title = painter.fontMetrics().elidedText(row.title, Qt.TextElideMode.ElideMiddle, int(inner.width()))
        painter.drawText(QRectF(inner.left(), inner.top(), inner.width(), line), middle, title)
        if row.subtitle:
            painter.setFont(option.font)
            painter.setPen(named.muted)
            under = QRectF(inner.left(), inner.top() + line + 3, area.right() - 10 - inner.left(), line)
            text = metrics.elidedText(row.subtitle, Qt.TextElideMode.ElideRight, int(under.width()))
            painter.drawText(under, middle, text)
        painter.restore()

    @staticmethod
    def _background(
        painter: QPainter, option: QStyleOptionViewItem, area: QRectF, named: theme.Tokens
    ) -> None:
        state = option.state
        painter.setPen(Qt.PenStyle.NoPen)
        if state & QStyle.StateFlag.State_Selected:
            painter.setBrush(named.accent_fill)
            if state & QStyle.StateFlag.State_HasFocus:
                painter.setPen(QPen(named.accent, 1.4))
            painter.drawRoundedRect(area.adjusted(0.7, 0.7, -0.7, -0.7), 8, 8)
        elif state & QStyle.StateFlag.State_MouseOver:
            painter.setBrush(named.hover)
            painter.drawRoundedRect(area, 8, 8)

    @staticmethod
    def _badge(
        painter: QPainter, option: QStyleOptionViewItem, area: QRectF, row: Row, widget: QWidget
    ) -> float:
        """A dot and a word at the right; the width that they take."""
        if not row.badge:
            return 0.0
        metrics = option.fontMetrics
        width = metrics.horizontalAdvance(row.badge) + 22
        colour = ink(row.tone, widget)
        top, line = area.top() + PADDING - 1, metrics.height()
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(colour)
        left = area.right() - 10 - width
        painter.drawEllipse(QRectF(left + 4, top + line / 2 - 4, 8, 8))
        painter.setPen(colour)
        painter.drawText(QRectF(left + 18, top, width - 16, line), Qt.AlignmentFlag.AlignVCenter, row.badge)
        return float(width)


class RowList(QListView):
    """``chosen`` tells the row that is current, however that came about."""

    chosen = Signal(object)
    activated_row = Signal(object)

    def __init__(self, name: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setAccessibleName(name)
        self.setModel(RowModel(self))
        self.setItemDelegate(RowDelegate(self))
        self.setFrameShape(QListView.Shape.NoFrame)
        self.setMouseTracking(True)
        self.setUniformItemSizes(False)
        self.setVerticalScrollMode(QListView.ScrollMode.ScrollPerPixel)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setResizeMode(QListView.ResizeMode.Adjust)
        self.selectionModel().currentChanged.connect(self._on_current)
        self.activated.connect(lambda index: self.activated_row.emit(index.data(ROW)))
        self._quiet = False

    def row_model(self) -> RowModel:
        model = self.model()
        assert isinstance(model, RowModel)
        return model

    def show_rows(self, rows: Sequence[Row]) -> None:
        """Other rows; the current one stays current, wherever it is now, without being told anew."""
        current = self.current()
        self._quiet = True
        self.row_model().replace(rows)
        self._quiet = False
        if current is not None:
            self.point_at(current.key)

    def current(self) -> Row | None:
        row = self.currentIndex().data(ROW)
        return row if isinstance(row, Row) else None

    def choose(self, key: str) -> bool:
        """Make the row with ``key`` current; False where there is none."""
        return self._set_current(key)

    def point_at(self, key: str) -> bool:
        """As :meth:`choose`, but without telling: the row is known to be chosen."""
        quiet, self._quiet = self._quiet, True
        found = self._set_current(key)
        self._quiet = quiet
        return found

    def _set_current(self, key: str) -> bool:
        for place, row in enumerate(self.row_model().rows):
            if row.key == key:
                self.setCurrentIndex(self.row_model().index(place))
                return True
        return False

    def _on_current(self, index: QModelIndex, _before: QModelIndex) -> None:
        row = index.data(ROW)
        if isinstance(row, Row) and not self._quiet:
            self.chosen.emit(row)
