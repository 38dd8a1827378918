"""Where a prompt is typed. Enter sends, Shift+Enter makes a new line.

Typing is possible at any time; what keeps a prompt from being sent is said in the
line below it. Text files are attached with the button, dropped or pasted; they are part of
the prompt's text (:mod:`app.chat.attachments`).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from PySide6.QtCore import QEvent, QMimeData, QRectF, Qt, Signal
from PySide6.QtGui import (
    QDragEnterEvent,
    QDragLeaveEvent,
    QDropEvent,
    QFocusEvent,
    QKeyEvent,
    QPainter,
    QPaintEvent,
    QPalette,
    QPen,
    QResizeEvent,
)
from PySide6.QtWidgets import (
    QFileDialog,
    QFrame,
    QHBoxLayout,
    QLabel,
    QPlainTextEdit,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from app import icons, theme
from app.chat import attachments
from app.chat.attachment_row import AttachmentRow
from app.language import mark, numbers, tr
from app.tab_order import in_order

MOST_LINES = 8
HINT = mark("Composer", "Enter sends, Shift+Enter starts a new line")


def local_files(data: QMimeData) -> list[Path]:
    return [Path(url.toLocalFile()) for url in data.urls() if url.isLocalFile()]


class PromptEdit(QPlainTextEdit):
    """Grows with its text up to eight lines, then scrolls."""

    submitted = Signal()
    focus_changed = Signal()
    files_given = Signal(list)
    """Paths of files that were dropped or pasted."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setTabChangesFocus(True)
        self.setPlaceholderText(tr("Composer", "Write a prompt…"))
        self.setAccessibleName(tr("Composer", "Prompt"))
        self.setAccessibleDescription(tr("Composer", HINT))
        self.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.viewport().setAutoFillBackground(False)
        self.document().setDocumentMargin(2)
        self.document().documentLayout().documentSizeChanged.connect(lambda _: self._fit())
        self._fit()

    def _fit(self) -> None:
        """The layout of a plain text document counts its height in lines."""
        layout, block = self.document().documentLayout(), self.document().firstBlock()
        for _ in range(MOST_LINES):
            layout.blockBoundingRect(block)  # counts its lines, which is put off after a change of the width
            block = block.next()
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

    def canInsertFromMimeData(self, source: QMimeData) -> bool:
        return bool(local_files(source)) or source.hasText()

    def insertFromMimeData(self, source: QMimeData) -> None:
        if files := local_files(source):
            self.files_given.emit(files)
        elif source.hasText():
            self.insertPlainText(source.text())

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit()

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
        self._obstacle = self._later = ""
        self._running = False
        self._refused = ""
        self._where = ""
        self.setAcceptDrops(True)
        outer = QVBoxLayout(self)
        outer.setContentsMargins(0, 0, 0, 0)
        outer.setSpacing(5)
        self._frame = _Frame()
        column = QVBoxLayout(self._frame)
        column.setContentsMargins(9, 9, 9, 9)
        column.setSpacing(2)
        self.files = AttachmentRow()
        self.files.changed.connect(self._on_text)
        self.files.changed.connect(lambda: in_order([self.attach_button, *self.stops()]))
        column.addWidget(self.files)
        row = QHBoxLayout()
        row.setSpacing(8)
        column.addLayout(row)
        self.attach_button = QToolButton()
        self.attach_button.setProperty("look", "small")
        icons.dress(self.attach_button, "attach", "muted")
        self.attach_button.setAccessibleName(tr("Composer", "Attach text files"))
        self.attach_button.setToolTip(
            tr("Composer", "Attach text files (UTF-8, up to {most} kB each); or drop them here").format(
                most=numbers.whole(attachments.MOST_BYTES // 1024)
            )
        )
        self.attach_button.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.attach_button.clicked.connect(self.ask_for_files)
        row.addWidget(self.attach_button, 0, Qt.AlignmentFlag.AlignBottom)
        self.edit = PromptEdit()
        self.edit.submitted.connect(self._submit)
        self.edit.textChanged.connect(self._on_text)
        self.edit.focus_changed.connect(self._frame.update)
        self.edit.files_given.connect(self.attach)
        self._frame.edit = self.edit
        row.addWidget(self.edit, 1, Qt.AlignmentFlag.AlignVCenter)
        self.send_button = QToolButton()
        self.send_button.setObjectName("send")
        self.send_button.clicked.connect(self._on_button)
        row.addWidget(self.send_button, 0, Qt.AlignmentFlag.AlignBottom)
        outer.addWidget(self._frame)
        self.hint = QLabel(tr("Composer", HINT))
        self.hint.setTextFormat(Qt.TextFormat.PlainText)
        self.hint.setProperty("textRole", "small")
        self.hint.setAlignment(Qt.AlignmentFlag.AlignHCenter)
        self.hint.setWordWrap(True)
        outer.addWidget(self.hint)
        self.setFocusProxy(self.edit)
        self._update()

    @property
    def text(self) -> str:
        """What was typed, and the attached files behind it."""
        return "\n\n".join(part for part in (self.edit.toPlainText(), self.files.blocks) if part)

    def stops(self) -> list[QWidget]:
        """Where Tab stops in here."""
        return [*(chip.button for chip in self.files.chips), self.attach_button, self.edit, self.send_button]

    def set_text(self, text: str) -> None:
        if text != self.text:
            typed, files = attachments.parted(text)
            self._refused = ""
            self.files.show_files(files)
            self.edit.setPlainText(typed)
            self.edit.moveCursor(self.edit.textCursor().MoveOperation.End)

    def set_state(self, obstacle: str, running: bool, where: str = "", later: str = "") -> None:
        """``obstacle`` says why nothing can be sent, "" when it can. ``running``: Stop replaces Send.

        ``later`` says why what is sent is not answered at once.

        ``where`` is the title of the chat in which a reply is being written, "" when it is the one shown.
        """
        self._obstacle, self._running = obstacle, running
        self._where, self._later = where, later
        self._show_hint()
        self._update()

    def _show_hint(self) -> None:
        self.hint.setText(self._refused or self._obstacle or self._later or self._usual_hint())

    def _usual_hint(self) -> str:
        if not self._running:
            return tr("Composer", HINT)
        if not self._where:
            return tr("Composer", "A reply is being written. Esc stops it.")
        return tr("Composer", "A reply is being written in “{chat}”. Esc stops it.").format(chat=self._where)

    def _update(self) -> None:
        button = self.send_button
        name = tr("Composer", "Stop the reply (Esc)") if self._running else tr("Composer", "Send (Enter)")
        enabled = self._running or (not self._obstacle and bool(self.text.strip()))
        icons.dress(button, "stop" if self._running else "send", "on_accent", self.palette())
        button.setAccessibleName(name)
        button.setToolTip(name if enabled or not self._obstacle else self._obstacle)
        button.setEnabled(enabled)

    def _on_text(self) -> None:
        if self._refused:
            self._refused = ""
            self._show_hint()
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

    # ------------------------------------------------------------------ files

    def ask_for_files(self) -> None:
        dialog = QFileDialog(self, tr("Composer", "Attach text files"))
        dialog.setFileMode(QFileDialog.FileMode.ExistingFiles)
        dialog.filesSelected.connect(lambda paths: self.attach([Path(path) for path in paths]))
        dialog.finished.connect(lambda _: dialog.deleteLater())
        dialog.open()

    def attach(self, paths: Sequence[Path]) -> None:
        """Add files; what cannot be added is said below the field."""
        files, refused = self.files.attachments, []
        for path in paths:
            try:
                files.append(attachments.read(path))
            except attachments.AttachmentError as error:
                refused.append(str(error))
        self.files.show_files(files)
        self._refused = " ".join(refused[:2])
        self._show_hint()
        self.edit.setFocus()

    def dragEnterEvent(self, event: QDragEnterEvent) -> None:
        if local_files(event.mimeData()):
            event.acceptProposedAction()
            self._frame.set_awaiting(True)

    def dragLeaveEvent(self, event: QDragLeaveEvent) -> None:
        self._frame.set_awaiting(False)

    def dropEvent(self, event: QDropEvent) -> None:
        self._frame.set_awaiting(False)
        if files := local_files(event.mimeData()):
            event.acceptProposedAction()
            self.attach(files)

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.PaletteChange and hasattr(self, "send_button"):
            self._update()


class _Frame(QWidget):
    """The rounded ground of the field; its outline shows the focus."""

    edit: QWidget | None = None
    _awaiting = False

    def set_awaiting(self, awaiting: bool) -> None:
        """Whether files are held over it."""
        self._awaiting = awaiting
        self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        named = theme.tokens(self)
        focused = self._awaiting or (self.edit is not None and self.edit.hasFocus())
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(QPen(named.accent if focused else named.edge, 1.6 if focused else 1.0))
        painter.setBrush(self.palette().color(QPalette.ColorRole.Base))
        painter.drawRoundedRect(QRectF(self.rect()).adjusted(1, 1, -1, -1), 16, 16)
