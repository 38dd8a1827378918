"""The text of one message: literal, selectable, appended to and never rebuilt.

A model's output is untrusted: it is inserted as plain text and shown as written,
markup included. Only one thing is read from it, lines that open or close a fence
of code, which switch to the fixed-width font.
"""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QEvent, QMimeData, QPoint, QRect, QSize, Qt, Signal
from PySide6.QtGui import (
    QMouseEvent,
    QTextBlockFormat,
    QTextCharFormat,
    QTextCursor,
    QTextOption,
    QWheelEvent,
)
from PySide6.QtWidgets import QFrame, QSizePolicy, QTextEdit, QWidget

from app import style, theme
from app.chat.conversation import Run
from app.chat.highlight import Mark, MarkLayer
from engine.protocol import Origin

FENCES = ("```", "~~~")
LINE_HEIGHT = 138
"""Per cent of the font's own."""

_REPLACED = {
    "\r": None,
    "\u2028": "\n",
    "\u2029": "\n",
    # Qt gives these a meaning of its own inside a document.
    "\0": "\ufffd",
    "\ufdd0": "\ufffd",
    "\ufdd1": "\ufffd",
    "\ufffc": "\ufffd",
}
_TABLE = str.maketrans(_REPLACED) | {code: "\ufffd" for code in range(0xD800, 0xE000)}


def displayed(text: str) -> str:
    """A text as a document can hold it: one separator per line, no characters special to Qt."""
    return text.translate(_TABLE)


def units(text: str) -> int:
    """Length in a document's positions (UTF-16 units)."""
    return len(text.encode("utf-16-le")) // 2


class MessageText(QTextEdit):
    """As high as its text; the area around it scrolls."""

    position_shown = Signal(QRect)
    """A stretch of text should be brought into view; in this widget's coordinates."""

    step_clicked = Signal(int)
    """A token of this step was clicked."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._length = 0
        self._line = ""
        self._fence = ""
        self._shown = ""
        self.setReadOnly(True)
        self.setAcceptRichText(False)
        self.setUndoRedoEnabled(False)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setWordWrapMode(QTextOption.WrapMode.WrapAtWordBoundaryOrAnywhere)
        self.setTabChangesFocus(True)
        self.setTextInteractionFlags(
            Qt.TextInteractionFlag.TextSelectableByMouse | Qt.TextInteractionFlag.TextSelectableByKeyboard
        )
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Fixed)
        self.viewport().setAutoFillBackground(False)
        self.document().setDocumentMargin(0)
        self._layer = MarkLayer(self.document(), self.palette())
        self._writer = QTextCursor(self.document())
        self._writer.setBlockFormat(self._block_format(code=False))
        self.document().documentLayout().documentSizeChanged.connect(self._fit)
        self._fit()

    # ------------------------------------------------------------------ text

    @property
    def layer(self) -> MarkLayer:
        return self._layer

    def plain_text(self) -> str:
        """The text as shown."""
        return self._shown

    def set_text(self, text: str, runs: Sequence[Run] = ()) -> None:
        """Replace everything."""
        self._layer.clear()
        self._length, self._line, self._fence, self._shown = 0, "", "", ""
        self.document().clear()
        self._writer = QTextCursor(self.document())
        self._writer.setBlockFormat(self._block_format(code=False))
        self.append_text(text, runs)

    def append_text(self, text: str, runs: Sequence[Run] = (), offset: int = 0) -> None:
        """Add to the end, as one edit.

        ``runs`` say where stretches of ``text`` came from; they are positions in the whole
        message, of which ``text`` is the part from ``offset`` on.
        """
        if not text:
            return
        position = self._length
        done = 0
        for run in runs:
            begin, end = run.start - offset, run.end - offset
            position += units(displayed(text[done:begin]))
            length = units(displayed(text[begin:end]))
            self._layer.add(Mark(position, position + length, run.origin is Origin.DRAFT, run.step))
            position += length
            done = end
        clean = displayed(text)
        self._writer.movePosition(QTextCursor.MoveOperation.End)
        self._writer.beginEditBlock()
        first, *others = clean.split("\n")
        self._insert(first)
        for line in others:
            self._end_line()
            self._writer.insertBlock(self._block_format(bool(self._fence)))
            self._insert(line)
        self._writer.endEditBlock()
        self._shown += clean
        self._length += units(clean)

    def _insert(self, text: str) -> None:
        if text:
            self._writer.insertText(text, self._char_format(bool(self._fence)))
            if len(self._line) < 80:
                self._line += text[:80]

    def _end_line(self) -> None:
        """See whether the line that is now complete opens or closes a fence."""
        line, self._line = self._line.strip(), ""
        if not self._fence and line.startswith(FENCES):
            self._fence = line[:3]
            self._writer.setBlockFormat(self._block_format(code=True))
            self._writer.select(QTextCursor.SelectionType.BlockUnderCursor)
            self._writer.setCharFormat(self._char_format(code=True))
            self._writer.movePosition(QTextCursor.MoveOperation.End)
        elif self._fence and line.startswith(self._fence) and not line.strip(self._fence[0]):
            self._fence = ""

    def _char_format(self, code: bool) -> QTextCharFormat:
        made = QTextCharFormat()
        if code:
            made.setFontFamilies(style.monospace().families())
            made.setFontFixedPitch(True)
        return made

    def _block_format(self, code: bool) -> QTextBlockFormat:
        made = QTextBlockFormat()
        if not code:
            # Lines of code keep the font's own height: their ground would show through the gaps.
            made.setLineHeight(LINE_HEIGHT, QTextBlockFormat.LineHeightTypes.ProportionalHeight.value)
        else:
            made.setBackground(theme.tokens(self).background_alt)
            made.setLeftMargin(self.fontMetrics().averageCharWidth())
        return made

    # ------------------------------------------------------------------ marks

    def point_at(self, step: int | None) -> None:
        """Mark the text of a step and ask for it to be shown."""
        position = self._layer.point_at(step)
        if position is not None:
            cursor = QTextCursor(self.document())
            cursor.setPosition(position)
            self.position_shown.emit(self.cursorRect(cursor))

    # ------------------------------------------------------------------ Qt

    def _fit(self) -> None:
        height = max(self.fontMetrics().height(), round(self.document().size().height() + 0.5))
        if height != self.height() or self.minimumHeight() != height:
            self.setFixedHeight(height)

    def sizeHint(self) -> QSize:
        return QSize(super().sizeHint().width(), self.minimumHeight())

    def minimumSizeHint(self) -> QSize:
        return QSize(80, self.minimumHeight())

    def createMimeDataFromSelection(self) -> QMimeData:
        """Copy what is written, and nothing of how it looks."""
        cursor = self.textCursor()
        begin, end = cursor.selectionStart(), cursor.selectionEnd()
        data = QMimeData()
        data.setText(self._shown.encode("utf-16-le")[2 * begin : 2 * end].decode("utf-16-le", "replace"))
        return data

    def wheelEvent(self, event: QWheelEvent) -> None:
        event.ignore()

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.PaletteChange and hasattr(self, "_layer"):
            self._layer.set_palette(self.palette())
            self._recolour_code()
        elif event.type() == QEvent.Type.FontChange and hasattr(self, "_layer"):
            self._fit()

    def _recolour_code(self) -> None:
        background = theme.tokens(self).background_alt
        block = self.document().begin()
        while block.isValid():
            made = block.blockFormat()
            if made.hasProperty(QTextBlockFormat.Property.BackgroundBrush):
                made.setBackground(background)
                QTextCursor(block).setBlockFormat(made)
            block = block.next()

    def _mark_at(self, point: QPoint) -> Mark | None:
        position = self.document().documentLayout().hitTest(point, Qt.HitTestAccuracy.ExactHit)
        return self._layer.at(position) if position >= 0 else None

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        super().mouseReleaseEvent(event)
        if event.button() == Qt.MouseButton.LeftButton and not self.textCursor().hasSelection():
            mark = self._mark_at(event.position().toPoint())
            if mark is not None:
                self.step_clicked.emit(mark.step)

    def explain(self, point: QPoint) -> str:
        """What is known of the token at a point, in words."""
        mark = self._mark_at(point)
        if mark is None:
            return ""
        source = "drafted by the head, accepted by the target" if mark.accepted else "chosen by the target"
        return f"Step {mark.step}: {source}"
