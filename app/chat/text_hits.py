"""What stands at a place of a text: its span, and the token that wrote it."""

from __future__ import annotations

from PySide6.QtGui import QTextBlock

from app.chat.token_marks import TokenMarks
from app.language import numbers, tr
from app.markdown.blocks import Span
from app.markdown.writing import DocumentWriter, Row
from engine.protocol import Origin


class TextHits:
    """Looks into one document. Positions are the document's, -1 for none."""

    def __init__(self, writer: DocumentWriter, marks: TokenMarks) -> None:
        self._writer = writer
        self._marks = marks

    def _row(self, position: int) -> tuple[QTextBlock, Row] | None:
        block = self._writer.document.findBlock(position)
        rows = self._writer.rows
        if position < 0 or not block.isValid() or block.blockNumber() >= len(rows):
            return None
        return block, rows[block.blockNumber()]

    def span(self, position: int) -> Span | None:
        found = self._row(position)
        return found[1].span(position - found[0].position()) if found is not None else None

    def token(self, position: int) -> tuple[int, bool, int] | None:
        """Step of a token, whether it was drafted, and the place in the message."""
        found = self._row(position)
        source = found[1].source(position - found[0].position()) if found is not None else None
        run = self._marks.at(source) if source is not None else None
        if run is None or source is None:
            return None
        return run.step, run.origin is Origin.DRAFT, source

    def explain(self, position: int) -> str:
        """What is known of the token, in words."""
        span = self.span(position)
        if span is not None and span.link:
            return tr("Reply", "Opens only after you confirm: {address}").format(address=span.link[:300])
        found = self.token(position)
        if found is None:
            return ""
        words = tr("Reply", "Step {number}: chosen by the target")
        if found[1]:
            words = tr("Reply", "Step {number}: drafted, and accepted by the target")
        return words.format(number=numbers.whole(found[0]))

    def position_of(self, source: int, row: int) -> int:
        """The document's position of a place in the source that stands in ``row`` or behind it."""
        shown = self._writer.rows[row]
        block = self._writer.document.findBlockByNumber(row)
        for place, span in enumerate(shown.spans):
            if span.start + span.length > source:
                head = max(0, source - span.start) if span.length == len(span.text) else 0
                head = min(head, shown.offsets[place + 1] - shown.offsets[place])
                return block.position() + shown.offsets[place] + head
        return block.position()
