"""Where a prompt is typed. Enter sends, Shift+Enter makes a new line.

Typing is possible at any time; what keeps a prompt from being sent is said in the
line below it.
"""

from __future__ import annotations

from PySide6.QtCore import QEvent, QMimeData, QRectF, Qt, Signal
from PySide6.QtGui import QFocusEvent, QKeyEvent, QPainter, QPaintEvent, QPalette, QPen
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLabel, QPlainTextEdit, QToolButton, QVBoxLayout, QWidget

from app import icons, theme

MOST_LINES = 8
HINT = "Enter sends, Shift+Enter starts a new line"


class PromptEdit(QPlainTextEdit):
    """Grows with its text up to eight lines, then scrolls."""

    submitted = Signal()
    focus_changed = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setTabChangesFocus(True)
        self.setPlaceholderText("Write a prompt…")
        self.setAccessibleName("Prompt")
        self.setAccessibleDescription(HINT)
        self.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.viewport().setAutoFillBackground(False)
        self.document().setDocumentMargin(2)
        self.document().documentLayout().documentSizeChanged.connect(lambda _: self._fit())
        self._fit()

    def _fit(self) -> None:
        """The layout of a plain text document counts its height in lines."""
        lines = max(1, round(self.document().size().height()))
        line = self.fontMetrics().lineSpacing()
        height = min(lines, MOST_LINES) * line + 2 * round(self.document().documentMargin()) + 2
        scrolls = (
            Qt.ScrollBarPolicy.ScrollBarAsNeeded
            if lines > MOST_LINES
            else Qt.ScrollBarPolicy.ScrollBarAlwaysOff
        )
        if self.verticalScrollBarPolicy() != scrolls:
            self.setVerticalScrollBarPolicy(scrolls)
        if height != self.height():
            self.setFixedHeight(height)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            if not event.modifiers() & Qt.KeyboardModifier.ShiftModifier:
                self.submitted.emit()
                event.accept()
                return
            # The default makes a line separator, which is not a newline when the text is read.
            self.textCursor().insertBlock()
            self.ensureCursorVisible()
            return
        if event.key() == Qt.Key.Key_Escape:
            event.ignore()
            return
        super().keyPressEvent(event)

    def insertFromMimeData(self, source: QMimeData) -> None:
        if source.hasText():
            self.insertPlainText(source.text())

    def focusInEvent(self, event: QFocusEvent) -> None:
        super().focusInEvent(event)
        self.focus_changed.emit()

    def focusOutEvent(self, event: QFocusEvent) -> None:
        super().focusOutEvent(event)
        self.focus_changed.emit()

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.FontChange:
            self._fit()


class Composer(QWidget):
    """The prompt's field with Send or Stop, and a line that says what can be done."""

    submitted = Signal(str)
    stop_requested = Signal()
    text_changed = Signal(str)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._obstacle = ""
        self._running = False
        outer = QVBoxLayout(self)
        outer.setContentsMargins(0, 0, 0, 0)
        outer.setSpacing(5)
        self._frame = _Frame()
        row = QHBoxLayout(self._frame)
        row.setContentsMargins(15, 9, 9, 9)
        row.setSpacing(8)
        self.edit = PromptEdit()
        self.edit.submitted.connect(self._submit)
        self.edit.textChanged.connect(self._on_text)
        self.edit.focus_changed.connect(self._frame.update)
        self._frame.edit = self.edit
        row.addWidget(self.edit, 1, Qt.AlignmentFlag.AlignVCenter)
        self.send_button = QToolButton()
        self.send_button.setObjectName("send")
        self.send_button.clicked.connect(self._on_button)
        row.addWidget(self.send_button, 0, Qt.AlignmentFlag.AlignBottom)
        outer.addWidget(self._frame)
        self.hint = QLabel(HINT)
        self.hint.setProperty("textRole", "small")
        self.hint.setAlignment(Qt.AlignmentFlag.AlignHCenter)
        self.hint.setWordWrap(True)
        outer.addWidget(self.hint)
        self.setFocusProxy(self.edit)
        self._update()

    @property
    def text(self) -> str:
        return self.edit.toPlainText()

    def set_text(self, text: str) -> None:
        if text != self.text:
            self.edit.setPlainText(text)
            self.edit.moveCursor(self.edit.textCursor().MoveOperation.End)

    def set_state(self, obstacle: str, running: bool, where: str = "") -> None:
        """``obstacle`` says why nothing can be sent, "" when it can. ``running``: Stop replaces Send."""
        self._obstacle, self._running = obstacle, running
        self.hint.setText(
            obstacle or (f"A reply is being written{where}. Esc stops it." if running else HINT)
        )
        self._update()

    def _update(self) -> None:
        button = self.send_button
        name = "Stop the reply (Esc)" if self._running else "Send (Enter)"
        enabled = self._running or (not self._obstacle and bool(self.text.strip()))
        icons.dress(button, "stop" if self._running else "send", "on_accent", self.palette())
        button.setAccessibleName(name)
        button.setToolTip(name if enabled or not self._obstacle else self._obstacle)
        button.setEnabled(enabled)

    def _on_text(self) -> None:
        self._update()
        self.text_changed.emit(self.text)

    def _on_button(self) -> None:
        if self._running:
            self.stop_requested.emit()
        else:
            self._submit()

    def _submit(self) -> None:
        text = self.text.strip()
        if text and not self._obstacle and not self._running:
            self.submitted.emit(text)

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.PaletteChange and hasattr(self, "send_button"):
            self._update()


class _Frame(QWidget):
    """The rounded ground of the field; its outline shows the focus."""

    edit: QWidget | None = None

    def paintEvent(self, event: QPaintEvent) -> None:
        named = theme.tokens(self)
        focused = self.edit is not None and self.edit.hasFocus()
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(QPen(named.accent if focused else named.edge, 1.6 if focused else 1.0))
        painter.setBrush(self.palette().color(QPalette.ColorRole.Base))
        painter.drawRoundedRect(QRectF(self.rect()).adjusted(1, 1, -1, -1), 16, 16)
