"""What a text consists of once it is read: blocks of spans. No Qt here.

Every span knows which stretch of the source it stands for, so that whatever is known of
the source (which step wrote a token) can be found again in what is shown.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

BOLD, ITALIC, STRIKE, CODE, MATHS, DISPLAY, LINK, IMAGE = (1 << bit for bit in range(8))
"""Looks of a span; they add up."""

QUOTE, ITEM = "q", "l"
"""Letters of :attr:`Block.containers`."""


class Kind(StrEnum):
    PARAGRAPH = "paragraph"
    HEADING = "heading"
    CODE = "code"
    RULE = "rule"
    TABLE = "table"
    FORMULA = "formula"


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of one look: ``text`` as shown, for formulas their TeX."""

    text: str
    start: int
    """Offset in the source of the stretch it stands for."""
    length: int
    """Characters of the source; differs from ``len(text)`` for entities and formulas."""
    look: int = 0
    link: str = ""
    """Address, exactly as written; it is shown before anything is opened."""


Line = tuple[Span, ...]


@dataclass(frozen=True, slots=True)
class Block:
    """One piece of the text from top to bottom.

    ``lines`` holds one line for a paragraph, a heading and a formula, the lines of code, and
    the cells of a table row by row.
    """

    kind: Kind
    lines: tuple[Line, ...]
    containers: str = ""
    """The quotes and list items it lies in, outermost first."""
    marker: str = ""
    """Bullet or number in front of it, on the first block of a list item."""
    level: int = 0
    """Rank of a heading; columns of a table."""
    language: str = ""
    """What stands behind the opening fence."""
    aligns: tuple[str, ...] = ()
    """"", "left", "center" or "right" for every column of a table."""
    tight: bool = False
    """Close to the block before it, as in a list without blank lines."""


LONGEST_ROW = 4000
"""Characters. A longer line is laid out in several rows: what Qt needs for one grows with its square."""
_BREAK = 300
"""How far before that a space is looked for to break at."""


def broken(line: Line) -> list[Line]:
    """A line in rows of a length that can be laid out; together they stand for the same source."""
    if sum(len(span.text) for span in line) <= LONGEST_ROW:
        return [line]
    rows: list[Line] = []
    row: list[Span] = []
    room = LONGEST_ROW
    for span in line:
        while len(span.text) > room and span.length == len(span.text):
            space = span.text.rfind(" ", max(0, room - _BREAK), room)
            at = space + 1 if space >= 0 else room
            row.append(Span(span.text[:at], span.start, at, span.look, span.link))
            rows.append(tuple(row))
            span = Span(span.text[at:], span.start + at, span.length - at, span.look, span.link)
            row, room = [], LONGEST_ROW
        row.append(span)
        room = max(1, room - len(span.text))
    return [*rows, tuple(row)]


def goes_on(before: Line, line: Line) -> bool:
    """Whether a row belongs to the same line of the source as the one before it."""
    return bool(before and line) and before[-1].start + before[-1].length == line[0].start


def joined(lines: Sequence[Line]) -> str:
    """The text of lines, one under the other, as they were before they were broken."""
    out: list[str] = []
    before: Line | None = None
    for line in lines:
        if before is not None and not goes_on(before, line):
            out.append("\n")
        out.extend(span.text for span in line)
        before = line
    return "".join(out)


_REPLACED = {
    "\r": " ",
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
    """A text as a document can hold it, character for character: offsets stay what they are."""
    return text.translate(_TABLE)


def units(text: str) -> int:
    """Length in a document's positions (UTF-16 units)."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le")) // 2


def literal(text: str, start: int = 0) -> list[Block]:
    """A text as written, one paragraph a line; only fences of code are read.

    For what the user typed: its marks are meant as they stand.
    """
    blocks: list[Block] = []
    code: list[Line] | None = None
    fence = language = ""
    position = start
    for line in text.split("\n"):
        span = Span(line, position, len(line))
        content: Line = (span,) if line else ()
        mark = line.strip()
        position += len(line) + 1
        if code is not None:
            if mark.startswith(fence) and not mark.strip(fence[0]):
                blocks.append(Block(Kind.CODE, tuple(code), language=language))
                code = None
            else:
                code.extend(broken(content))
        elif mark.startswith(("```", "~~~")):
            rest = mark.lstrip(mark[0])
            fence, language = mark[: len(mark) - len(rest)], rest.strip()
            code = []
            if blocks and not any(blocks[-1].lines):
                # Code stands apart by itself.
                blocks.pop()
        elif content or not blocks or blocks[-1].kind is not Kind.CODE:
            for row in broken(content):
                blocks.append(Block(Kind.PARAGRAPH, (row,), tight=not blocks or blocks[-1].kind is not Kind.CODE))
    if code is not None:
        blocks.append(Block(Kind.CODE, tuple(code), language=language))
    return blocks
