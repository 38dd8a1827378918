"""What is painted under a text: grounds of code, bars of quotes, bullets and rules.

None of it is in the document, so it costs nothing while it is out of sight and follows the
theme by itself.
"""

from __future__ import annotations

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QFont, QPainter, QPalette, QPen

from app import theme
from app.language import tr
from app.markdown.blocks import ITEM, QUOTE, Kind
from app.markdown.formats import STEPS
from app.markdown.writing import DocumentWriter

LONGEST_NAME = 40


def block_area(writer: DocumentWriter, row: int) -> QRectF:
    """Where a text block lies, in the document's coordinates."""
    block = writer.document.findBlockByNumber(row)
    return writer.document.documentLayout().blockBoundingRect(block)


def code_area(writer: DocumentWriter, unit: int) -> QRectF:
    """The ground of a block of code, its bar included."""
    rows = writer.rows_of(unit)
    formats = writer.formats
    first, last = block_area(writer, rows[0]), block_area(writer, rows[-1])
    left = formats.steps(writer.units[unit].block.containers) * formats.step
    top = first.top() - formats.head
    return QRectF(left, top, writer.document.textWidth() - left, last.bottom() + formats.padding - top)


class Ground:
    """Paints what belongs to the blocks in an area."""

    def __init__(self, painter: QPainter, palette: QPalette, font: QFont) -> None:
        self._painter = painter
        self._named = theme.tokens(palette)
        self._text = palette.color(QPalette.ColorRole.Text)
        self._font = font

    def paint(self, writer: DocumentWriter, area: QRectF) -> None:
        layout = writer.document.documentLayout()
        if not writer.units:
            return
        place = layout.hitTest(QPointF(0, max(0.0, area.top() - writer.formats.em)), Qt.HitTestAccuracy.FuzzyHit)
        row = writer.document.findBlock(max(0, place)).blockNumber()
        self._painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        for number in range(max(0, writer.unit_of(row) - 1), len(writer.units)):
            rows = writer.rows_of(number)
            if block_area(writer, rows[0]).top() - writer.formats.head > area.bottom():
                break
            self._unit(writer, number, rows)

    def _unit(self, writer: DocumentWriter, number: int, rows: range) -> None:
        block = writer.units[number].block
        if QUOTE in block.containers:
            self._bars(writer, number, rows)
        if block.kind is Kind.CODE:
            self._code(writer, number)
        elif block.kind is Kind.RULE:
            area = block_area(writer, rows[0])
            self._painter.setPen(QPen(self._named.edge, 1))
            middle = round(area.center().y()) + 0.5
            self._painter.drawLine(QPointF(area.left(), middle), QPointF(writer.document.textWidth(), middle))
        if block.marker:
            self._marker(writer, block.marker, block.containers, rows[0])

    def _bars(self, writer: DocumentWriter, number: int, rows: range) -> None:
        containers = writer.units[number].block.containers
        first, last = block_area(writer, rows[0]), block_area(writer, rows[-1])
        top, bottom = first.top(), last.bottom()
        unit = writer.units[number]
        if unit.table is not None:
            bottom = max(block_area(writer, row).bottom() for row in rows)
        if unit.block.kind is Kind.CODE:
            top, bottom = top - writer.formats.head, bottom + writer.formats.padding
        if number and QUOTE in writer.units[number - 1].block.containers:
            # One bar through the gap between two blocks of a quote.
            above = block_area(writer, writer.rows_of(number - 1)[-1]).bottom()
            top = above if unit.table is None else top
        right = writer.document.firstBlock().textDirection() == Qt.LayoutDirection.RightToLeft
        at = 0.0
        self._painter.setPen(Qt.PenStyle.NoPen)
        self._painter.setBrush(self._named.edge)
        for letter in containers:
            if letter == QUOTE:
                left = writer.document.textWidth() - at - 3 if right else at
                self._painter.drawRect(QRectF(left, top, 3, bottom - top))
            at += STEPS[letter] * writer.formats.step

    def _code(self, writer: DocumentWriter, number: int) -> None:
        area = code_area(writer, number)
        formats = writer.formats
        self._painter.setPen(QPen(self._named.grid, 1))
        self._painter.setBrush(self._named.background_alt)
        self._painter.drawRoundedRect(area.adjusted(0.5, 0.5, -0.5, -0.5), 8, 8)
        bar = area.top() + formats.head - formats.padding / 2
        self._painter.drawLine(QPointF(area.left() + 1, round(bar) + 0.5), QPointF(area.right() - 1, round(bar) + 0.5))
        name = writer.units[number].block.language or tr("Reply", "text")
        font = QFont(self._font)
        font.setPointSizeF(font.pointSizeF() * 0.88)
        self._painter.setFont(font)
        self._painter.setPen(self._named.muted)
        space = QRectF(area.left() + formats.padding, area.top(), area.width() * 0.6, bar - area.top())
        name = self._painter.fontMetrics().elidedText(
            name[:LONGEST_NAME], Qt.TextElideMode.ElideRight, round(space.width())
        )
        self._painter.drawText(space, Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignLeft, name)

    def _marker(self, writer: DocumentWriter, marker: str, containers: str, row: int) -> None:
        block = writer.document.findBlockByNumber(row)
        line = block.layout().lineAt(0)
        if not line.isValid():
            return
        formats = writer.formats
        origin = block.layout().position()
        base = origin.y() + line.y() + line.ascent()
        steps = formats.steps(containers) * formats.step
        right = block.textDirection() == Qt.LayoutDirection.RightToLeft
        gap = formats.em * 0.45
        self._painter.setFont(self._font)
        self._painter.setPen(self._text if marker in "•◦▪" else self._named.muted)
        width = self._painter.fontMetrics().horizontalAdvance(marker)
        width_of_text = writer.document.textWidth()
        at = width_of_text - steps + gap if right else max(0.0, steps - gap - width)
        if ITEM in containers:
            self._painter.drawText(QPointF(at, base), marker)
