"""The first-run tour: points out a few parts of the window, one after the other.

It lies over the window but lets nothing wait: the model loads meanwhile, and Escape
or "Skip" ends it at any time.
"""

from __future__ import annotations

from dataclasses import dataclass

from PySide6.QtCore import QEvent, QObject, QPoint, QRect, Qt, Signal
from PySide6.QtGui import QColor, QKeyEvent, QPainter, QPainterPath, QPaintEvent, QPen
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLabel, QPushButton, QVBoxLayout, QWidget

from app import theme
from app.language import tr

LINE_CHARACTERS = 48
"""Width of a card, in average characters."""
GAP = 14
SHADE = QColor(0, 0, 0, 120)


@dataclass(frozen=True)
class Stop:
    """A part of the window and what is to be said about it."""

    target: QWidget
    title: str
    text: str


class Tour(QWidget):
    """Covers its parent; one card at a time beside the part it speaks of."""

    ended = Signal()

    def __init__(self, parent: QWidget, stops: tuple[Stop, ...]) -> None:
        super().__init__(parent)
        self._stops = stops
        self._at = 0
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setAccessibleName(tr("Tour", "Tour of the window"))
        self.card = QFrame(self)
        self.card.setObjectName("tourCard")
        self.card.setAutoFillBackground(True)
        column = QVBoxLayout(self.card)
        column.setContentsMargins(18, 14, 18, 14)
        column.setSpacing(8)
        self.title = QLabel()
        self.title.setProperty("textRole", "heading")
        self.text = QLabel()
        self.text.setWordWrap(True)
        self.place = QLabel()
        self.place.setProperty("textRole", "small")
        self.skip = QPushButton(tr("Tour", "Skip"))
        self.skip.clicked.connect(self.end)
        self.next = QPushButton(tr("Tour", "Next"))
        self.next.setDefault(True)
        self.next.clicked.connect(self.go_on)
        row = QHBoxLayout()
        row.addWidget(self.place)
        row.addStretch(1)
        row.addWidget(self.skip)
        row.addWidget(self.next)
        for part in (self.title, self.text):
            column.addWidget(part)
        column.addLayout(row)
        self.hide()

    def start(self) -> None:
        parent = self.parentWidget()
        assert parent is not None
        parent.installEventFilter(self)
        self.setGeometry(parent.rect())
        self.show()
        self.raise_()
        self._show_stop()

    def go_on(self) -> None:
        self._at += 1
        if self._at >= len(self._stops):
            self.end()
        else:
            self._show_stop()

    def end(self) -> None:
        parent = self.parentWidget()
        if parent is not None:
            parent.removeEventFilter(self)
        self.hide()
        self.deleteLater()
        self.ended.emit()

    def _show_stop(self) -> None:
        stop = self._stops[self._at]
        last = self._at == len(self._stops) - 1
        self.title.setText(stop.title)
        self.text.setText(stop.text)
        place = tr("Tour", "{place} of {stops}")
        self.place.setText(place.format(place=self._at + 1, stops=len(self._stops)))
        self.next.setText(tr("Tour", "Done") if last else tr("Tour", "Next"))
        self.skip.setVisible(not last)
        self.card.setAccessibleName(f"{stop.title}. {stop.text}")
        self._place()
        self.next.setFocus()
        self.update()

    def _hole(self) -> QRect:
        target, parent = self._stops[self._at].target, self.parentWidget()
        if parent is None or not target.isVisible():
            return QRect()
        corner = target.mapTo(parent, QPoint(0, 0))
        return QRect(corner, target.size()).intersected(self.rect())

    def _place(self) -> None:
        """The card goes where there is most room beside the part, within the window."""
        width = min(self.fontMetrics().averageCharWidth() * LINE_CHARACTERS, self.width() - 2 * GAP)
        layout = self.card.layout()
        assert layout is not None
        # Wrapped labels ask for their height only when they are told the width.
        self.card.setFixedSize(width, layout.totalHeightForWidth(width))
        size, hole = self.card.size(), self._hole()
        if hole.isEmpty():
            hole = QRect(self.rect().center(), self.rect().center())
        right, left = self.width() - hole.right(), hole.left()
        wide = hole.width() > hole.height()
        if wide and hole.top() >= size.height() + 2 * GAP:
            spot = QPoint(hole.center().x() - width // 2, hole.top() - size.height() - GAP)
        elif wide:
            spot = QPoint(hole.center().x() - width // 2, hole.bottom() + GAP)
        elif right >= width + 2 * GAP:
            spot = QPoint(hole.right() + GAP, hole.top() + GAP)
        elif left >= width + 2 * GAP:
            spot = QPoint(hole.left() - width - GAP, hole.top() + GAP)
        else:
            spot = QPoint(hole.center().x() - width // 2, hole.center().y())
        x = min(max(spot.x(), GAP), max(GAP, self.width() - width - GAP))
        y = min(max(spot.y(), GAP), max(GAP, self.height() - size.height() - GAP))
        self.card.move(x, y)

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        shade = QPainterPath()
        shade.addRect(self.rect())
        hole = QPainterPath()
        hole.addRoundedRect(self._hole().adjusted(1, 1, -1, -1), 8, 8)
        painter.fillPath(shade.subtracted(hole), SHADE)
        painter.setPen(QPen(theme.tokens(self).accent, 2))
        painter.drawPath(hole)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() == Qt.Key.Key_Escape:
            self.end()
        elif event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter, Qt.Key.Key_Right):
            self.go_on()
        else:
            event.accept()  # nothing under the tour acts meanwhile

    def focusNextPrevChild(self, _forward: bool) -> bool:
        """Tab stays on the card: what lies under the tour cannot be seen to have the focus."""
        other = self.skip if self.next.hasFocus() and not self.skip.isHidden() else self.next
        other.setFocus(Qt.FocusReason.TabFocusReason)
        return True

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() == QEvent.Type.Resize and watched is self.parentWidget():
            parent = self.parentWidget()
            assert parent is not None
            self.setGeometry(parent.rect())
            self._place()
        return super().eventFilter(watched, event)
