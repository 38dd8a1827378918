"""The text of a selection: what is seen, with the marks of lists, and formulas as their source."""

from __future__ import annotations

from PySide6.QtGui import QTextCursor

from app.markdown.blocks import Kind, goes_on
from app.markdown.writing import DocumentWriter, Row


def selected_text(writer: DocumentWriter, cursor: QTextCursor) -> str:
    """Plain text between the ends of a cursor's selection."""
    begin, end = cursor.selectionStart(), cursor.selectionEnd()
    if begin >= end or not writer.rows:
        return ""
    document = writer.document
    first, last = document.findBlock(begin).blockNumber(), document.findBlock(end).blockNumber()
    out: list[str] = []
    for number in range(first, min(last, len(writer.rows) - 1) + 1):
        block = document.findBlockByNumber(number)
        low = max(0, begin - block.position())
        high = min(block.length() - 1, end - block.position())
        text = _row_text(writer.rows[number], low, high)
        unit = writer.unit_of(number)
        shown = writer.units[unit].block
        at_start = number == writer.units[unit].row
        if shown.kind is Kind.TABLE and at_start:
            # The empty line before the table's first cell.
            continue
        if out and not goes_on(writer.rows[number - 1].spans, writer.rows[number].spans):
            out.append(_gap(writer, unit, number, at_start))
        if at_start and low == 0 and shown.marker:
            out.append("  " * (len(shown.containers) - 1) + shown.marker + " ")
        out.append(text)
    return "".join(out)


def _gap(writer: DocumentWriter, unit: int, number: int, at_start: bool) -> str:
    block = writer.units[unit].block
    if block.kind is Kind.TABLE:
        cell = number - writer.units[unit].row - 1
        if cell > 0:
            return "\t" if cell % block.level else "\n"
        return "\n\n"
    if not at_start or block.tight:
        return "\n"
    before = writer.units[unit - 1].block
    return "\n" if block.marker and before.containers and before.kind is Kind.PARAGRAPH else "\n\n"


def _row_text(row: Row, low: int, high: int) -> str:
    """The characters of a text block from ``low`` to ``high``, in UTF-16 units."""
    out: list[str] = []
    for place, span in enumerate(row.spans):
        begin, end = row.offsets[place], row.offsets[place + 1]
        if end <= low or begin >= high:
            continue
        if row.pictures[place]:
            out.append(span.text)
        else:
            coded = span.text.encode("utf-16-le")
            cut = coded[2 * max(0, low - begin) : 2 * (min(high, end) - begin)]
            out.append(cut.decode("utf-16-le", "replace"))
    return "".join(out)
