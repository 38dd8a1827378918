"""A piece of a message's text: selectable, appended to, finished blocks never written again.

A model's output is untrusted. It reaches the document as plain text with formats made
here; there are no anchors and no images but pictures of formulas, and nothing is loaded.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

from PySide6.QtCore import QEvent, QMimeData, QPoint, QPointF, QRect, QRectF, QSize, Qt, QTimer, QUrl, Signal
from PySide6.QtGui import (
    QFontMetrics,
    QFontMetricsF,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QResizeEvent,
    QTextCursor,
    QTextOption,
    QWheelEvent,
)
from PySide6.QtWidgets import QFrame, QSizePolicy, QTextEdit, QWidget

from app import theme
from app.chat.code_tools import CodeTools
from app.chat.formula_pictures import FormulaPictures
from app.chat.highlight import MarkLayer
from app.chat.selection import selected_text
from app.chat.text_hits import TextHits
from app.chat.token_marks import TokenMarks
from app.markdown.blocks import IMAGE, LINK, Kind, displayed, joined, literal
from app.markdown.formats import BlockFormats
from app.markdown.growing import GrowingText
from app.markdown.painting import Ground
from app.markdown.sections import PIECE, cut_in_line
from app.markdown.writing import DocumentWriter

SLOW_READING = 0.005
"""Seconds. A tail that takes longer to read is read less often, but still often enough to look smooth."""
SMOOTH = 0.024
"""From one reading to the next. The tree is drawn in between, and together they must stay below 50 ms."""
LEAST_REST = 0.004
HEAVY_READING = 0.1
LONG_UNREAD = 1000
"""Characters."""


class MessageText(QTextEdit):
    """As high as its text; the area around it scrolls.

    Until :meth:`build` is called it only holds its text and the room that it will need.
    """

    position_shown = Signal(QRect)
    """A stretch of text should be brought into view; in this widget's coordinates."""
    step_clicked = Signal(int, int)
    """A token was clicked: the step that wrote it, and its place in the message."""
    link_clicked = Signal(str)
    """The address of a link or an image that was clicked, as the model wrote it."""

    def __init__(self, marks: TokenMarks, literal: bool = False, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._marks = marks
        self._literal = literal
        self._text = ""
        self._start = 0
        self._unread = ""
        self._next_reading = 0.0
        self._growing: GrowingText | None = None
        self._stale = self._repaint = False
        """Whether the text has to be coloured again, and what is in the document itself as well."""
        self.setReadOnly(True)
        self.setAcceptRichText(False)
        self.setUndoRedoEnabled(False)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setTabChangesFocus(True)
        self.setTextInteractionFlags(
            Qt.TextInteractionFlag.TextSelectableByMouse | Qt.TextInteractionFlag.TextSelectableByKeyboard
        )
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Fixed)
        self.viewport().setAutoFillBackground(False)
        self.viewport().setMouseTracking(True)
        self.document().setDocumentMargin(0)
        option = QTextOption()
        option.setWrapMode(QTextOption.WrapMode.WrapAtWordBoundaryOrAnywhere)
        option.setTextDirection(Qt.LayoutDirection.LayoutDirectionAuto)
        self.document().setDefaultTextOption(option)
        self._formulas = FormulaPictures(self)
        self.writer = DocumentWriter(
            self.document(), BlockFormats(QFontMetricsF(self.font())), self._formulas.picture
        )
        self.writer.line = theme.tokens(self).edge
        self._formulas.writer = self.writer
        self._layer = MarkLayer(self.document(), self.writer.rows, marks, self.palette())
        self._hits = TextHits(self.writer, marks)
        self._code = CodeTools(self, self.writer, self._layer)
        self._late = QTimer(self)
        self._late.setSingleShot(True)
        self._late.timeout.connect(self._read)
        self.document().documentLayout().documentSizeChanged.connect(self._fit)
        self._fit()

    # ------------------------------------------------------------------ text

    @property
    def layer(self) -> MarkLayer:
        return self._layer

    @property
    def start(self) -> int:
        """Offset of this piece in the message."""
        return self._start

    @property
    def end(self) -> int:
        return self._start + len(self._text)

    @property
    def is_built(self) -> bool:
        return self._growing is not None

    def stops(self) -> list[QWidget]:
        """Where Tab stops in here: the text, and the button of each code."""
        return [self, *self._code.buttons]

    def source(self) -> str:
        """The text as written."""
        return self._text

    def hold(self, text: str, start: int) -> None:
        """Replace everything by a text that stands at ``start`` of its message; build it later."""
        self._late.stop()
        self._text, self._start, self._unread = text, start, ""
        self._growing = None
        self.writer.clear()
        self._code.clear()
        self._formulas.clear()
        self._fit()

    def build(self) -> None:
        """Make the document, if it has not been made."""
        if self._growing is not None:
            return
        self.writer.formats = BlockFormats(QFontMetricsF(self.font()))
        self.writer.line = theme.tokens(self).edge
        self._stale = self._repaint = False
        self.document().setIndentWidth(self.writer.formats.step)
        self._growing = GrowingText(self._start)
        self._unread = self._text
        self._read()
        self._fit()

    def feed(self, text: str) -> None:
        """Add to the end, as one edit."""
        self._text += text
        if self._growing is None:
            self._fit()
            return
        self._unread += text
        wait = self._next_reading - time.perf_counter()
        if wait <= 0:
            self._read()
        elif not self._late.isActive():
            self._late.start(round(wait * 1000) + 1)

    def settle(self) -> None:
        """Nothing follows any more."""
        if self._growing is not None:
            self._read()
            self._code.complete(len(self.writer.units))

    def take_tail(self) -> tuple[int, str] | None:
        """Give up what can still change, for the next piece to go on with it."""
        growing = self._growing
        if len(self._unread) > LONG_UNREAD:
            self._read()
        if growing is None or self._literal:
            return None
        if not growing.settled or growing.tail_start <= self._start:
            return self._take_half()
        self._read()
        cut = growing.tail_start
        tail = self._text[cut - self._start :]
        self._text = self._text[: cut - self._start]
        self.writer.update(growing.settled, growing.blocks[: growing.settled])
        self._code.complete(len(self.writer.units))
        self._fit()
        return cut, tail

    def _take_half(self) -> tuple[int, str] | None:
        """The same where all is one endless line, which would be laid out again with every word."""
        growing = self._growing
        plain = growing is not None and all(
            block.kind is Kind.PARAGRAPH and not block.containers for block in growing.blocks
        )
        cut = cut_in_line(self._text, PIECE) if plain else None
        if cut is None:
            return None
        start, text = self._start, self._text
        self.hold(text[:cut], start)
        self.build()
        return start + cut, text[cut:]

    def _read(self) -> None:
        growing = self._growing
        if growing is None or (not self._unread and self.writer.units):
            return
        begun = time.perf_counter()
        text, self._unread = displayed(self._unread), ""
        if self._literal:
            untouched = self.writer.update(0, literal(displayed(self._text), self._start))
            settled = len(self.writer.units)
        else:
            untouched = self.writer.update(growing.feed(text), growing.blocks)
            settled = growing.settled
        self._code.follow(untouched, settled)
        spent = time.perf_counter() - begun
        if spent > SLOW_READING:
            rest = max(SMOOTH - spent, LEAST_REST) if spent < HEAVY_READING else 0.4
            self._next_reading = begun + spent + min(4 * spent, rest)
        last = self.writer.units[-1].block.kind if self.writer.units else None
        if last is Kind.CODE:
            self._fit()

    # ------------------------------------------------------------------ marks

    def set_highlight(self, visible: bool) -> None:
        if self._layer.set_visible(visible):
            self.recolour()

    def recolour(self) -> None:
        """Colour the text again, at once where it is seen and else when it comes into sight."""
        self._stale = True
        if self._growing is not None and not self.visibleRegion().isEmpty():
            self.freshen()

    def freshen(self) -> None:
        """Bring the colours up to date: done when the text is seen."""
        if self._growing is None:
            return
        if self._repaint:
            self._repaint = False
            self._formulas.repaint()
            self.writer.set_line(theme.tokens(self).edge)
        if self._stale:
            self._stale = False
            self._layer.rehighlight()

    def point_at(self, step: int | None, part: tuple[int, int] | None = None) -> None:
        """Mark the text of a step and ask for it to be shown.

        ``part`` is a token of it, by its start and end in the message, which is marked more strongly.
        """
        stretch = self._marks.stretch(step)
        if stretch is not None and stretch[0] < self.end and stretch[1] > self._start:
            self.build()
        row = self._layer.point_at(step, part)
        if row is None or stretch is None:
            return
        cursor = QTextCursor(self.document())
        begin = stretch[0] if part is None else part[0]
        cursor.setPosition(self._hits.position_of(max(begin, self._start), row))
        self.position_shown.emit(self.cursorRect(cursor))

    # ------------------------------------------------------------------ clicks

    def _hit(self, point: QPoint) -> int:
        return self.document().documentLayout().hitTest(QPointF(point), Qt.HitTestAccuracy.ExactHit)

    def _activate(self, position: int) -> bool:
        span = self._hits.span(position)
        if span is not None and span.look & (LINK | IMAGE) and span.link:
            self.link_clicked.emit(span.link)
            return True
        found = self._hits.token(position)
        if found is not None:
            self.step_clicked.emit(found[0], found[2])
        return found is not None

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        super().mouseReleaseEvent(event)
        if event.button() == Qt.MouseButton.LeftButton and not self.textCursor().hasSelection():
            self._activate(self._hit(event.position().toPoint()))

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        super().mouseMoveEvent(event)
        if not event.buttons():
            span = self._hits.span(self._hit(event.position().toPoint()))
            link = span is not None and bool(span.link)
            self.viewport().setCursor(
                Qt.CursorShape.PointingHandCursor if link else Qt.CursorShape.IBeamCursor
            )

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Enter does at the caret what a click does."""
        if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter) and self._activate(self.textCursor().position()):
            event.accept()
            return
        super().keyPressEvent(event)

    def explain(self, point: QPoint) -> str:
        """What is known of the token at a point, in words."""
        return self._hits.explain(self._hit(point))

    # ------------------------------------------------------------------ Qt

    def _fit(self) -> None:
        if self._growing is None:
            height = estimated_height(self._text, self.width(), self.fontMetrics())
        else:
            height = max(self.fontMetrics().height(), round(self.document().size().height() + 0.5))
            if self.writer.units and self.writer.units[-1].block.kind is Kind.CODE:
                height += self.writer.formats.padding
        if height != self.height() or self.minimumHeight() != height:
            self.setFixedHeight(height)
        self._code.place()

    def sizeHint(self) -> QSize:
        return QSize(super().sizeHint().width(), self.minimumHeight())

    def minimumSizeHint(self) -> QSize:
        return QSize(80, self.minimumHeight())

    def paintEvent(self, event: QPaintEvent) -> None:
        if self._growing is not None and self.writer.units:
            painter = QPainter(self.viewport())
            Ground(painter, self.palette(), self.font()).paint(self.writer, QRectF(event.rect()))
            painter.end()
        super().paintEvent(event)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        if event.size().width() != event.oldSize().width():
            self._fit()

    def createMimeDataFromSelection(self) -> QMimeData:
        """Copy what is written, and nothing of how it looks."""
        data = QMimeData()
        data.setText(selected_text(self.writer, self.textCursor()))
        return data

    def loadResource(self, _kind: int, _name: QUrl | str) -> object:
        """Nothing is ever loaded: pictures of formulas are put in by hand."""
        return None

    def wheelEvent(self, event: QWheelEvent) -> None:
        event.ignore()

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if not hasattr(self, "_late"):
            return
        if event.type() == QEvent.Type.PaletteChange:
            if self._layer.set_palette(self.palette()):
                self._code.set_palette(self.palette())
                self._repaint = True
                self.recolour()
        elif event.type() == QEvent.Type.FontChange:
            if self._growing is not None:
                # What is out of sight is written again when it comes into sight.
                self.hold(self._text, self._start)
                if not self.visibleRegion().isEmpty():
                    self.build()
                    self.settle()
            self._fit()

    def code_blocks(self) -> Iterator[str]:
        """The code in it, block by block."""
        for unit in self.writer.units:
            if unit.block.kind is Kind.CODE:
                yield joined(unit.block.lines)


def estimated_height(text: str, width: int, metrics: QFontMetrics) -> int:
    """About the height that a text will need."""
    characters = max(20, width // max(1, metrics.averageCharWidth()))
    lines = text.count("\n") + 1 + len(text) // characters
    return max(metrics.height(), round(lines * metrics.height() * 1.3))
