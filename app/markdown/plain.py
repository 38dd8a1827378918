"""Markdown without its marks, for the clipboard: what is read, not how it looks. No Qt here."""

from __future__ import annotations

from app.markdown.blocks import Block, Kind, Line, displayed, goes_on, joined
from app.markdown.reading import Reader


def plain_text(source: str) -> str:
    """The words of a text: lists keep their marks, tables become tabs, formulas stay as written."""
    out: list[str] = []
    before: Block | None = None
    for top in Reader().read(displayed(source)):
        for block in top.blocks:
            if before is not None:
                close = block.tight or (block.marker and before.containers and before.kind is Kind.PARAGRAPH)
                out.append("" if _goes_on(before, block) else "\n" if close else "\n\n")
            if block.marker:
                out.append("  " * (len(block.containers) - 1) + block.marker + " ")
            out.append(_content(block))
            before = block
    return "".join(out)


def _goes_on(before: Block, block: Block) -> bool:
    """Whether both are of one paragraph, which is too long for one."""
    same = before.kind is block.kind is Kind.PARAGRAPH and not block.marker
    return same and goes_on(before.lines[-1] if before.lines else (), block.lines[0] if block.lines else ())


def _content(block: Block) -> str:
    if block.kind is Kind.TABLE:
        cells = [_words(line) for line in block.lines]
        rows = [cells[place : place + block.level] for place in range(0, len(cells), block.level)]
        return "\n".join("\t".join(row) for row in rows)
    if block.kind is Kind.RULE:
        return "---"
    return joined(block.lines)


def _words(line: Line) -> str:
    return "".join(span.text for span in line)
