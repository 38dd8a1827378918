"""A piece of a message's text: selectable, appended to, finished blocks never written again.

A model's output is untrusted. It reaches the document as plain text with formats made
here; there are no anchors and no images but pictures of formulas, and nothing is loaded.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

from PySide6.QtCore import QEvent, QMimeData, QPoint, QPointF, QRect, QRectF, QSize, Qt, QTimer, QUrl, Signal
from PySide6.QtGui import (
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
from app.chat.token_marks import TokenMarks
from app.language import numbers, tr
from app.markdown.blocks import IMAGE, LINK, Kind, Span, displayed, literal
from app.markdown.formats import BlockFormats
from app.markdown.growing import GrowingText
from app.markdown.painting import Ground
from app.markdown.writing import DocumentWriter
from engine.protocol import Origin

SLOW_READING = 0.005
"""Seconds. A tail that takes longer to read is read less often, but still often enough to look smooth."""
SMOOTH = 0.03
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
        self._stale = False
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
        if growing is None or self._literal or not growing.settled or growing.tail_start <= self._start:
            return None
        self._read()
        cut = growing.tail_start
        tail = self._text[cut - self._start :]
        self._text = self._text[: cut - self._start]
        self.writer.update(growing.settled, growing.blocks[: growing.settled])
        self._code.complete(len(self.writer.units))
        self._fit()
        return cut, tail

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
            self._next_reading = begun + spent + min(4 * spent, SMOOTH if spent < HEAVY_READING else 0.4)
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
        if self._stale and self._growing is not None:
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
        cursor.setPosition(self.position_of(max(begin, self._start), row))
        self.position_shown.emit(self.cursorRect(cursor))

    def position_of(self, source: int, row: int) -> int:
        """The document's position of a place in the source that stands in ``row`` or behind it."""
        shown = self.writer.rows[row]
        block = self.document().findBlockByNumber(row)
        for place, span in enumerate(shown.spans):
            if span.start + span.length > source:
                head = max(0, source - span.start) if span.length == len(span.text) else 0
                head = min(head, shown.offsets[place + 1] - shown.offsets[place])
                return block.position() + shown.offsets[place] + head
        return block.position()

    # ------------------------------------------------------------------ clicks

    def _hit(self, point: QPoint) -> int:
        return self.document().documentLayout().hitTest(QPointF(point), Qt.HitTestAccuracy.ExactHit)

    def _span_at(self, position: int) -> Span | None:
        block = self.document().findBlock(position)
        rows = self.writer.rows
        if position < 0 or not block.isValid() or block.blockNumber() >= len(rows):
            return None
        return rows[block.blockNumber()].span(position - block.position())

    def _token_at(self, position: int) -> tuple[int, bool, int] | None:
        """Step of a token, whether it was drafted, and the place in the message."""
        block = self.document().findBlock(position)
        rows = self.writer.rows
        if position < 0 or not block.isValid() or block.blockNumber() >= len(rows):
            return None
        source = rows[block.blockNumber()].source(position - block.position())
        run = self._marks.at(source) if source is not None else None
        if run is None or source is None:
            return None
        return run.step, run.origin is Origin.DRAFT, source

    def _activate(self, position: int) -> bool:
        span = self._span_at(position)
        if span is not None and span.look & (LINK | IMAGE) and span.link:
            self.link_clicked.emit(span.link)
            return True
        found = self._token_at(position)
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
            span = self._span_at(self._hit(event.position().toPoint()))
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
        position = self._hit(point)
        span = self._span_at(position)
        if span is not None and span.link:
            return tr("Reply", "Opens only after you confirm: {address}").format(address=span.link[:300])
        found = self._token_at(position)
        if found is None:
            return ""
        words = tr("Reply", "Step {number}: chosen by the target")
        if found[1]:
            words = tr("Reply", "Step {number}: drafted, and accepted by the target")
        return words.format(number=numbers.whole(found[0]))

    # ------------------------------------------------------------------ Qt

    def _fit(self) -> None:
        if self._growing is None:
            height = self._estimate()
        else:
            height = max(self.fontMetrics().height(), round(self.document().size().height() + 0.5))
            if self.writer.units and self.writer.units[-1].block.kind is Kind.CODE:
                height += self.writer.formats.padding
        if height != self.height() or self.minimumHeight() != height:
            self.setFixedHeight(height)
        self._code.place()

    def _estimate(self) -> int:
        """About the height the text will need."""
        metrics = self.fontMetrics()
        characters = max(20, self.width() // max(1, metrics.averageCharWidth()))
        lines = self._text.count("\n") + 1 + len(self._text) // characters
        return max(metrics.height(), round(lines * metrics.height() * 1.3))

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
            self._layer.set_palette(self.palette())
            self._code.set_palette(self.palette())
            self._formulas.repaint()
            self.writer.set_line(theme.tokens(self).edge)
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
                yield "\n".join(line[0].text if line else "" for line in unit.block.lines)
