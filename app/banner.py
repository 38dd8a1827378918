"""Strips under the tool bar that say something and offer what to do about it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from PySide6.QtCore import QEvent, QRectF, Qt, QTimer, Signal
from PySide6.QtGui import QGuiApplication, QPainter, QPaintEvent, QResizeEvent
from PySide6.QtWidgets import QBoxLayout, QHBoxLayout, QLabel, QPushButton, QSizePolicy, QToolButton, QWidget

from app import icons, theme
from app.language import tr
from app.redaction import without_secrets
from app.tab_order import insert_before

TOAST_MS = 8000


@dataclass(frozen=True)
class Offer:
    """A button on a strip."""

    text: str
    act: Callable[[], object]
    closes: bool = True


LEAST_CHARACTERS = 30
"""Of a banner's text on a line, on an average."""


class Banner(QWidget):
    """A dismissable strip with text and buttons; hidden until something is to be said."""

    dismissed = Signal()

    def __init__(self, error: bool = False, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._error = error
        self._details = ""
        row = QHBoxLayout(self)
        row.setContentsMargins(16, 8, 8, 8)
        row.setSpacing(10)
        self._icon = QLabel()
        row.addWidget(self._icon, 0, Qt.AlignmentFlag.AlignVCenter)
        self.label = QLabel()
        self.label.setTextFormat(Qt.TextFormat.PlainText)
        self.label.setWordWrap(True)
        self.label.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        self.label.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self._middle = QBoxLayout(QBoxLayout.Direction.LeftToRight)
        self._middle.setSpacing(8)
        self._middle.addWidget(self.label, 1)
        self._buttons = QHBoxLayout()
        self._buttons.setSpacing(8)
        self._middle.addLayout(self._buttons)
        self._middle.setAlignment(self._buttons, Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter)
        row.addLayout(self._middle, 1)
        self._close = QToolButton()
        icons.dress(self._close, "close", "muted")
        self._close.setAccessibleName(tr("Notices", "Dismiss"))
        self._close.setToolTip(tr("Notices", "Dismiss"))
        self._close.clicked.connect(self._dismiss)
        row.addWidget(self._close)
        self._redraw()
        self.hide()

    def offers(self) -> list[QPushButton]:
        return [
            widget
            for place in range(self._buttons.count())
            if (item := self._buttons.itemAt(place)) is not None
            and isinstance(widget := item.widget(), QPushButton)
        ]

    def stops(self) -> list[QWidget]:
        """Where Tab stops in here."""
        return [*self.offers(), self._close]

    def say(self, text: str, offers: tuple[Offer, ...] = (), details: str = "") -> None:
        """Show a text with buttons. ``details`` adds "Copy details"."""
        self.label.setText(text)
        self.setAccessibleName(text)
        self._details = details
        while (item := self._buttons.takeAt(0)) is not None:
            if (widget := item.widget()) is not None:
                widget.hide()
                widget.deleteLater()
        for offer in offers:
            button = QPushButton(offer.text)
            button.clicked.connect(lambda _=False, offer=offer: self._take(offer))
            self._buttons.addWidget(button)
        if details:
            button = QPushButton(tr("Notices", "Copy details"))
            button.clicked.connect(self._copy)
            self._buttons.addWidget(button)
        insert_before(self._close, self.offers())
        self._arrange()
        self.show()

    def _arrange(self) -> None:
        """The buttons stand below the text where they would leave it too little room."""
        beside = sum(button.sizeHint().width() + self._buttons.spacing() for button in self.offers())
        others = self._icon.sizeHint().width() + self._close.sizeHint().width() + 60
        room = self.width() - others - beside
        narrow = bool(beside) and room < LEAST_CHARACTERS * self.fontMetrics().averageCharWidth()
        way = QBoxLayout.Direction.TopToBottom if narrow else QBoxLayout.Direction.LeftToRight
        if way != self._middle.direction():
            self._middle.setDirection(way)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._arrange()

    def _take(self, offer: Offer) -> None:
        if offer.closes:
            self.hide()
        offer.act()

    def _copy(self) -> None:
        QGuiApplication.clipboard().setText(without_secrets(f"{self.label.text()}\n\n{self._details}"))

    def _dismiss(self) -> None:
        self.hide()
        self.dismissed.emit()

    def _redraw(self) -> None:
        named = theme.tokens(self)
        name, colour = ("warning", named.error) if self._error else ("info", named.accent)
        self._icon.setPixmap(icons.pixmap(name, colour, 20, max(1.0, self.devicePixelRatioF())))

    def paintEvent(self, event: QPaintEvent) -> None:
        named = theme.tokens(self)
        painter = QPainter(self)
        painter.fillRect(self.rect(), named.error_fill if self._error else named.accent_fill)
        painter.fillRect(0, self.height() - 1, self.width(), 1, named.grid)

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.PaletteChange and hasattr(self, "_close"):
            icons.redress(self)
            self._redraw()


class Toast(QWidget):
    """A short message just above another widget that may offer an undo and goes by itself."""

    def __init__(self, parent: QWidget, above: QWidget) -> None:
        super().__init__(parent)
        self._above = above
        row = QHBoxLayout(self)
        row.setContentsMargins(16, 9, 10, 9)
        row.setSpacing(14)
        self.label = QLabel()
        self.label.setTextFormat(Qt.TextFormat.PlainText)
        row.addWidget(self.label)
        self.button = QPushButton(tr("Notices", "Undo"))
        self.button.clicked.connect(self._on_button)
        row.addWidget(self.button)
        self._act: Callable[[], object] | None = None
        self._timer = QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.timeout.connect(self._on_timeout)
        self.hide()

    def say(self, text: str, button: str = "", act: Callable[[], object] | None = None) -> None:
        """``button`` offers to ``act``; without it the text stands alone."""
        self.label.setText(text)
        self.button.setText(button)
        self.button.setVisible(bool(button))
        self.setAccessibleName(text)
        self._act = act
        self.adjustSize()
        self.place()
        self.show()
        self.raise_()
        self._timer.start(TOAST_MS)

    def place(self) -> None:
        """Keep to the middle, over the widget it belongs to."""
        holder = self.parentWidget()
        assert holder is not None
        self.move((holder.width() - self.width()) // 2, self._above.y() - self.height() - 6)

    def _on_button(self) -> None:
        self.hide()
        if self._act is not None:
            self._act()

    def _on_timeout(self) -> None:
        if self.button.hasFocus() or self.underMouse():
            self._timer.start(TOAST_MS)
        else:
            self.hide()

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(theme.tokens(self).edge)
        painter.setBrush(self.palette().base())
        painter.drawRoundedRect(QRectF(self.rect()).adjusted(0.5, 0.5, -0.5, -0.5), 10, 10)
