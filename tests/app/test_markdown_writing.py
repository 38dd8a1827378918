"""Blocks in a document: written once, changed only where they differ, and found again by place."""

from __future__ import annotations

import pytest
from PySide6.QtGui import QFontMetricsF, QTextCursor, QTextDocument, QTextImageFormat
from PySide6.QtWidgets import QApplication

from app.markdown.blocks import Kind, Span, displayed, units
from app.markdown.formats import BlockFormats
from app.markdown.growing import GrowingText
from app.markdown.reading import Reader
from app.markdown.writing import DocumentWriter
from tests.app.markdown_samples import FRAGMENTS, cuts, mixture


def make_writer(app: QApplication, pictures: bool = False) -> DocumentWriter:
    document = QTextDocument()
    document.setUndoRedoEnabled(False)
    document.documentLayout()  # without one a document does not tell of its changes

    def picture(_: Span) -> QTextImageFormat | None:
        made = QTextImageFormat()
        made.setName("formula:0")
        return made if pictures else None

    return DocumentWriter(document, BlockFormats(QFontMetricsF(app.font())), picture)


def state(writer: DocumentWriter) -> tuple[str, list[object], list[object]]:
    """Everything a document shows: its text, its rows, and the formats of every stretch."""
    formats: list[object] = []
    block = writer.document.begin()
    while block.isValid():
        stretches: list[tuple[str, int, bool, bool, bool]] = []
        for each in block:
            made = each.fragment().charFormat()
            look = (made.fontWeight(), made.fontItalic(), made.fontFixedPitch(), made.fontStrikeOut())
            if stretches and stretches[-1][1:] == look:
                stretches[-1] = (stretches[-1][0] + each.fragment().text(), *look)
            else:
                stretches.append((each.fragment().text(), *look))
        layout = block.blockFormat()
        formats.append((stretches, layout.indent(), layout.topMargin(), layout.alignment()))
        block = block.next()
    rows = [(row.spans, row.offsets) for row in writer.rows]
    return writer.document.toRawText(), rows, formats


@pytest.mark.parametrize("seed", range(10))
def test_a_document_that_grew_equals_one_written_at_once(qapp: QApplication, seed: int) -> None:
    text = displayed(mixture(seed))
    grown = make_writer(qapp)
    growing = GrowingText()
    for piece in cuts(text, seed, 9):
        grown.update(growing.feed(piece), growing.blocks)
    once = make_writer(qapp)
    once.update(0, [block for top in Reader().read(text) for block in top.blocks])
    assert state(grown) == state(once)


def test_rows_follow_the_documents_blocks(qapp: QApplication) -> None:
    """Every span is in the document where its row says, tables, emoji and empty lines included."""
    writer = make_writer(qapp)
    text = "".join(FRAGMENTS)
    writer.update(0, [block for top in Reader().read(text) for block in top.blocks])
    seen = 0
    for number, row in enumerate(writer.rows):
        block = writer.document.findBlockByNumber(number)
        shown = block.text()
        for place, span in enumerate(row.spans):
            stretch = shown.encode("utf-16-le")[2 * row.offsets[place] : 2 * row.offsets[place + 1]]
            assert stretch.decode("utf-16-le") == span.text.replace("\n", "\u2028")
            assert row.source(row.offsets[place]) == span.start
            if span.length == len(span.text) > 1:
                last = row.offsets[place + 1] - units(span.text[-1])
                assert row.source(last) == span.start + span.length - 1
            seen += 1
    assert seen > 60 and len(writer.rows) <= writer.document.blockCount() <= len(writer.rows) + 1


def test_finished_blocks_are_never_touched_again(qapp: QApplication) -> None:
    writer, growing = make_writer(qapp), GrowingText()
    edits: list[tuple[int, int, int]] = []
    writer.document.contentsChange.connect(lambda *change: edits.append(change))
    settled_end = count = 0
    for piece in cuts(displayed("".join(FRAGMENTS)), 5, 6):
        kept = growing.feed(piece)
        edits.clear()
        writer.update(kept, growing.blocks)
        assert all(position >= settled_end for position, _, _ in edits), (edits, settled_end)
        count += len(edits)
        if growing.settled:
            last = writer.rows_of(growing.settled - 1)[-1]
            block = writer.document.findBlockByNumber(last)
            settled_end = block.position() + block.length() - 1
    assert count > 100 and settled_end > 500


def test_a_growing_paragraph_is_appended_to(qapp: QApplication) -> None:
    writer, growing = make_writer(qapp), GrowingText()
    writer.update(growing.feed("Some **bold** words"), growing.blocks)
    edits: list[tuple[int, int, int]] = []
    writer.document.contentsChange.connect(lambda *change: edits.append(change))
    writer.update(growing.feed(" and more"), growing.blocks)
    assert edits == [(len("Some bold words"), 0, len(" and more"))]


def test_long_code_and_long_tables_are_appended_to(qapp: QApplication) -> None:
    for head, line in (("```\n", "x = 1\n"), ("| a | b |\n|---|---|\n", "| 1 | 2 |\n")):
        writer, growing = make_writer(qapp), GrowingText()
        writer.update(growing.feed(head + line * 30), growing.blocks)
        edits: list[tuple[int, int, int]] = []
        writer.document.contentsChange.connect(lambda *change, edits=edits: edits.append(change))
        before = writer.document.characterCount()
        writer.update(growing.feed(line * 2), growing.blocks)
        assert edits and sum(removed for _, removed, _ in edits) <= 3
        assert writer.document.characterCount() - before <= 30


def test_formulas_come_later(qapp: QApplication) -> None:
    writer = make_writer(qapp)
    blocks = [block for top in Reader().read("a $x$ b\n\n| $y$ |\n|---|\n| z |\n\n$$\nw\n$$\n") for block in top.blocks]
    writer.update(0, blocks)
    assert "$x$" in writer.document.toPlainText()
    ready = make_writer(qapp, pictures=True)
    ready.update(0, blocks)
    writer._picture = ready._picture
    writer.refresh_formulas()
    assert state(writer) == state(ready)
    assert writer.document.toRawText().count("\ufffc") == 3


def test_a_document_is_emptied(qapp: QApplication) -> None:
    writer = make_writer(qapp)
    blocks = [block for top in Reader().read("".join(FRAGMENTS)) for block in top.blocks]
    for _ in range(2):
        writer.update(0, blocks)
        table = next(unit for unit in writer.units if unit.block.kind is Kind.TABLE)
        assert table.table is not None and table.table.rows() == 3
        writer.update(0, [])
        assert writer.document.blockCount() == 1 and not writer.document.toPlainText()
    assert QTextCursor(writer.document).currentTable() is None
