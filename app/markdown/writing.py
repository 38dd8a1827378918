"""Writes blocks into a document and rewrites only what differs from what is there.

A document is a row of text blocks; ``rows`` holds for each of them which spans it shows and
where, in the same order, so that a place in the text and a place in the source can be found
from each other without anything of it being kept in the document.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from PySide6.QtCore import Qt
from PySide6.QtGui import QColor, QTextBlockFormat, QTextCursor, QTextDocument, QTextImageFormat, QTextTable

from app.markdown.blocks import BOLD, CODE, MATHS, Block, Kind, Line, Span, units
from app.markdown.formats import BlockFormats, span_format

Picture = Callable[[Span], QTextImageFormat | None]
"""Gives the picture of a formula, ``None`` while there is none."""

_ALIGNS = {
    "left": Qt.AlignmentFlag.AlignLeft,
    "center": Qt.AlignmentFlag.AlignHCenter,
    "right": Qt.AlignmentFlag.AlignRight,
}
_PLAIN = Block(Kind.PARAGRAPH, ())


@dataclass(slots=True)
class Row:
    """What one text block of the document shows."""

    spans: Line = ()
    offsets: list[int] = field(default_factory=list)
    """Where each span begins in the text block, in UTF-16 units; one more entry for the end."""
    pictures: tuple[bool, ...] = ()
    """Whether a span is shown as a picture, one unit long."""
    colours: list[tuple[int, int, str]] = field(default_factory=list)
    """Of code: start, length and kind of its words."""

    def source(self, offset: int) -> int | None:
        """The place in the source of what stands at an offset of the text block."""
        place = bisect_right(self.offsets, offset) - 1
        if not 0 <= place < len(self.spans):
            return None
        span = self.spans[place]
        if self.pictures[place] or span.length != len(span.text):
            return span.start
        return span.start + len(_head(span.text, offset - self.offsets[place]))

    def span(self, offset: int) -> Span | None:
        place = bisect_right(self.offsets, offset) - 1
        return self.spans[place] if 0 <= place < len(self.spans) else None


def _head(text: str, length: int) -> str:
    """The first ``length`` UTF-16 units of a text."""
    return text[:length] if text.isascii() else text.encode("utf-16-le")[: 2 * length].decode("utf-16-le", "ignore")


@dataclass(slots=True)
class Unit:
    """A block in the document."""

    block: Block
    row: int
    """Its first row."""
    table: QTextTable | None = None


class DocumentWriter:
    """Keeps a document in step with a list of blocks."""

    def __init__(self, document: QTextDocument, formats: BlockFormats, picture: Picture) -> None:
        self.document = document
        self.formats = formats
        self.rows: list[Row] = []
        self.units: list[Unit] = []
        self.line = QColor(Qt.GlobalColor.gray)
        """Of the lines in tables: the one colour that a document has to hold."""
        self._picture = picture
        self._fresh = True
        """The document's last text block is empty and belongs to nothing yet."""

    # ------------------------------------------------------------------ the whole

    def update(self, kept: int, blocks: Sequence[Block]) -> int:
        """Show ``blocks``, of which the first ``kept`` are known to be shown already.

        One edit of the document. Returns the number of units that were not touched.
        """
        place, most = kept, min(len(self.units), len(blocks))
        while place < most and self.units[place].block == blocks[place]:
            place += 1
        if place == len(self.units) == len(blocks):
            return place
        cursor = QTextCursor(self.document)
        cursor.beginEditBlock()
        untouched = place
        if place < most:
            self._cut(cursor, place + 1)
            if self._change(cursor, self.units[place], blocks[place]):
                place += 1
            else:
                self._cut(cursor, place)
        else:
            self._cut(cursor, place)
        for block in blocks[place:]:
            self._write(cursor, block)
        self._trim(cursor)
        self._lower(blocks)
        cursor.endEditBlock()
        return untouched

    def _lower(self, blocks: Sequence[Block]) -> None:
        """Leave room above a document that begins with code: Qt leaves out its first block's own margin."""
        margin = self.formats.head if blocks and blocks[0].kind is Kind.CODE else 0
        frame = self.document.rootFrame()
        made = frame.frameFormat()
        if made.topMargin() != margin:
            made.setTopMargin(margin)
            frame.setFrameFormat(made)

    def set_line(self, colour: QColor) -> None:
        self.line = colour
        for unit in self.units:
            if unit.table is not None:
                made = unit.table.format().toTableFormat()
                made.setBorderBrush(colour)
                unit.table.setFormat(made)

    def clear(self) -> None:
        self.rows.clear()
        self.units.clear()
        self.document.clear()
        self._fresh = True

    def unit_of(self, row: int) -> int:
        """Number of the unit a row belongs to."""
        return bisect_right(self.units, row, key=lambda unit: unit.row) - 1

    def rows_of(self, number: int) -> range:
        end = self.units[number + 1].row if number + 1 < len(self.units) else len(self.rows)
        return range(self.units[number].row, end)

    def _cut(self, cursor: QTextCursor, count: int) -> None:
        """Take everything after the first ``count`` units away."""
        if count >= len(self.units):
            return
        row = self.units[count].row
        del self.units[count:]
        del self.rows[row:]
        cursor.setPosition(self.document.findBlockByNumber(row).position())
        cursor.movePosition(QTextCursor.MoveOperation.End, QTextCursor.MoveMode.KeepAnchor)
        cursor.removeSelectedText()
        self._fresh = True

    def _trim(self, cursor: QTextCursor) -> None:
        """Take away an empty text block at the end, but for the one that has to follow a table."""
        if not self._fresh or not self.units or self.units[-1].table is not None:
            return
        cursor.movePosition(QTextCursor.MoveOperation.End)
        last = cursor.block().previous()
        made, chars = last.blockFormat(), last.charFormat()
        cursor.deletePreviousChar()
        # An empty text block takes over the formats of what was behind it.
        cursor.setBlockFormat(made)
        cursor.setBlockCharFormat(chars)
        self._fresh = False

    # ------------------------------------------------------------------ a new block

    def _begin(self, cursor: QTextCursor, made: QTextBlockFormat) -> None:
        cursor.movePosition(QTextCursor.MoveOperation.End)
        if self._fresh:
            cursor.setBlockFormat(made)
            cursor.setBlockCharFormat(span_format(0))
            self._fresh = False
        else:
            cursor.insertBlock(made, span_format(0))

    def _write(self, cursor: QTextCursor, block: Block) -> None:
        before = self.units[-1].block if self.units else None
        unit = Unit(block, len(self.rows))
        if block.kind is Kind.TABLE:
            self._write_table(cursor, unit, before)
        else:
            self._begin(cursor, self.formats.block(block, before))
            self.rows.append(self._spans(cursor, block.lines[0] if block.lines else (), block))
            if block.kind is Kind.CODE:
                self._write_lines(cursor, block, 1)
        self.units.append(unit)

    def _write_lines(self, cursor: QTextCursor, block: Block, first: int) -> None:
        """Lines of code from ``first`` on, in one insertion."""
        lines = block.lines[first:]
        if not lines:
            return
        code = span_format(CODE)
        cursor.movePosition(QTextCursor.MoveOperation.End)
        cursor.insertBlock(self.formats.code_line(block), code)
        cursor.insertText("\n".join(line[0].text if line else "" for line in lines), code)
        self.rows.extend(_code_row(line) for line in lines)

    def _spans(self, cursor: QTextCursor, spans: Line, block: Block, head: int = 0) -> Row:
        """Insert spans at the cursor, the document's offset ``head`` of their text block."""
        offsets = [head]
        pictures: list[bool] = []
        style = CODE if block.kind is Kind.CODE else 0
        level = block.level if block.kind is Kind.HEADING else 0
        for span in spans:
            image = self._picture(span) if span.look & MATHS else None
            pictures.append(image is not None)
            if image is not None:
                cursor.insertImage(image)
                head += 1
            else:
                cursor.insertText(span.text.replace("\n", "\u2028"), span_format(span.look | style, level))
                head += units(span.text)
            offsets.append(head)
        return Row(spans, offsets, tuple(pictures))

    # ------------------------------------------------------------------ a block that changed

    def _change(self, cursor: QTextCursor, unit: Unit, new: Block) -> bool:
        """Turn the last unit into ``new`` by changing what differs; ``False`` where that cannot be done."""
        old = unit.block
        if (old.kind, old.containers, old.marker, old.level, old.language, old.aligns, old.tight) != (
            new.kind, new.containers, new.marker, new.level, new.language, new.aligns, new.tight
        ):  # fmt: skip
            return False
        if new.kind is Kind.CODE:
            done = self._change_code(cursor, unit, new)
        elif new.kind is Kind.TABLE:
            done = self._change_table(cursor, unit, new)
        else:
            self._change_row(cursor, unit.row, new.lines[0], new)
            done = True
        if done:
            unit.block = new
        return done

    def _change_row(self, cursor: QTextCursor, number: int, spans: Line, block: Block) -> None:
        row = self.rows[number]
        same = 0
        while same < min(len(spans), len(row.spans)) and spans[same] == row.spans[same]:
            same += 1
        if same == len(spans) == len(row.spans):
            return
        at = self.document.findBlockByNumber(number)
        begin = row.offsets[same]
        head: tuple[Line, list[int], tuple[bool, ...]] = spans[:same], row.offsets[:same], row.pictures[:same]
        if same < min(len(spans), len(row.spans)) and _has_grown(row.spans[same], spans[same]):
            # Its beginning stays as it is.
            old, new = row.spans[same], spans[same]
            begin += units(old.text)
            grown = Span(new.text[len(old.text) :], new.start, new.length, new.look, new.link)
            self._replace(cursor, at.position() + begin, at.position() + at.length() - 1)
            rest = self._spans(cursor, (grown, *spans[same + 1 :]), block, begin)
            offsets = [*head[1], row.offsets[same], *rest.offsets[1:]]
            self.rows[number] = Row(spans, offsets, (*head[2], *rest.pictures))
            return
        self._replace(cursor, at.position() + begin, at.position() + at.length() - 1)
        rest = self._spans(cursor, spans[same:], block, begin)
        self.rows[number] = Row(spans, [*head[1], *rest.offsets], (*head[2], *rest.pictures))

    @staticmethod
    def _replace(cursor: QTextCursor, begin: int, end: int) -> None:
        cursor.setPosition(begin)
        if end > begin:
            cursor.setPosition(end, QTextCursor.MoveMode.KeepAnchor)
            cursor.removeSelectedText()

    def _change_code(self, cursor: QTextCursor, unit: Unit, new: Block) -> bool:
        old = unit.block.lines
        if not old or not new.lines:
            return False
        same, most = 0, min(len(old), len(new.lines))
        while same < most and (old[same] is new.lines[same] or old[same] == new.lines[same]):
            same += 1
        if same < most:
            self._change_row(cursor, unit.row + same, new.lines[same], new)
            same += 1
        if same < len(old):
            last = self.document.findBlockByNumber(unit.row + same - 1)
            made = last.blockFormat()
            self._replace(cursor, last.position() + last.length() - 1, self.document.characterCount() - 1)
            cursor.setBlockFormat(made)
            del self.rows[unit.row + same :]
        self._write_lines(cursor, new, same)
        return True

    # ------------------------------------------------------------------ tables

    def _write_table(self, cursor: QTextCursor, unit: Unit, before: Block | None) -> None:
        """A table stands between two text blocks: an empty one, and one that what follows begins in."""
        block = unit.block
        self._begin(cursor, QTextBlockFormat())
        self.rows.append(Row())
        height = max(1, len(block.lines) // block.level)
        made = self.formats.table(block, before)
        made.setBorderBrush(self.line)
        unit.table = cursor.insertTable(height, block.level, made)
        self._fill(cursor, unit, block, 0)
        self._fresh = True

    def _fill(self, cursor: QTextCursor, unit: Unit, block: Block, begin: int) -> None:
        table = unit.table
        assert table is not None
        for place in range(begin, table.rows() * block.level):
            line = block.lines[place] if place < len(block.lines) else ()
            at = table.cellAt(*divmod(place, block.level)).firstCursorPosition()
            made = QTextBlockFormat()
            made.setAlignment(_ALIGNS.get(block.aligns[place % block.level], Qt.AlignmentFlag.AlignLeading))
            at.setBlockFormat(made)
            self.rows.append(self._spans(at, self._cell(line, place < block.level), _PLAIN))

    @staticmethod
    def _cell(line: Line, head: bool) -> Line:
        if not head:
            return line
        return tuple(Span(each.text, each.start, each.length, each.look | BOLD, each.link) for each in line)

    def _change_table(self, cursor: QTextCursor, unit: Unit, new: Block) -> bool:
        table, old = unit.table, unit.block
        if table is None or len(new.lines) < len(old.lines):
            return False
        for place, line in enumerate(old.lines):
            if line != new.lines[place]:
                cell = self._cell(new.lines[place], place < new.level)
                self._change_row(cursor, unit.row + 1 + place, cell, _PLAIN)
        more = len(new.lines) // new.level - table.rows()
        if more > 0:
            table.appendRows(more)
            self._fill(cursor, unit, new, len(old.lines))
        return True

    # ------------------------------------------------------------------ formulas

    def refresh_formulas(self) -> None:
        """Put the pictures in that have become available."""
        cursor = QTextCursor(self.document)
        cursor.beginEditBlock()
        for unit_number, unit in enumerate(self.units):
            for number in self.rows_of(unit_number):
                row = self.rows[number]
                for place, span in enumerate(row.spans):
                    if span.look & MATHS and not row.pictures[place] and self._picture(span) is not None:
                        at = self.document.findBlockByNumber(number)
                        self._replace(
                            cursor, at.position() + row.offsets[place], at.position() + at.length() - 1
                        )
                        rest = self._spans(cursor, row.spans[place:], unit.block, row.offsets[place])
                        self.rows[number] = Row(
                            row.spans, [*row.offsets[:place], *rest.offsets], (*row.pictures[:place], *rest.pictures)
                        )
                        break
        cursor.endEditBlock()


def _has_grown(old: Span, new: Span) -> bool:
    same = (old.look, old.start) == (new.look, new.start) and not new.look & MATHS
    return same and new.text.startswith(old.text)


def _code_row(line: Line) -> Row:
    if not line:
        return Row((), [0])
    return Row(line, [0, units(line[0].text)], (False,))
