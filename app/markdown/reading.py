"""Reads Markdown into blocks. No Qt here, no HTML anywhere: tags are text like any other.

The parser tells the lines of a block but not where a word of it stood. That is found
again: the words of a block come in the order of its source, so each is looked for from the
end of the one before.
"""

from __future__ import annotations

import logging
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass

from markdown_it import MarkdownIt
from markdown_it.token import Token

from app.markdown import maths_rules
from app.markdown.blocks import (
    BOLD,
    CODE,
    DISPLAY,
    IMAGE,
    ITALIC,
    ITEM,
    LINK,
    MATHS,
    QUOTE,
    STRIKE,
    Block,
    Kind,
    Line,
    Span,
    broken,
)

log = logging.getLogger(__name__)

DEEPEST = 60
"""Levels of quotes and lists; the parser leaves out what lies deeper, so that is shown as written."""
LONGEST_LEAF = 20_000
"""Characters of one paragraph; in a longer one marks are left as they stand."""
_MARKS = {"strong": BOLD, "em": ITALIC, "s": STRIKE}
_BULLETS = "•◦▪"
_BOXES = {"[ ] ": "☐", "[x] ": "☑", "[X] ": "☑"}


def make_parser() -> MarkdownIt:
    """CommonMark with tables, struck text and formulas; without HTML and link definitions.

    Definitions may follow what they define, so text that was finished would change.
    """
    parser = MarkdownIt("commonmark", {"html": False, "maxNesting": DEEPEST})
    parser.enable(["table", "strikethrough"])
    parser.disable(["html_block", "html_inline", "reference"])
    maths_rules.install(parser)
    parser.core.ruler.disable(["inline", "text_join"])
    return parser


@dataclass(frozen=True, slots=True)
class Top:
    """A block of the outermost level and everything in it."""

    start: int
    """Offset of its first line in the text that was read."""
    blocks: tuple[Block, ...]
    type: str
    """The parser's name of it: "fence", "bullet_list_open" …"""
    markup: str = ""
    items: tuple[tuple[int, int, int], ...] = ()
    """Of a list: offset, first block and number of every item."""


class Reader:
    """Reads texts one after the other; what stands in both is not read twice."""

    def __init__(self) -> None:
        self._parser = make_parser()
        self._known: dict[tuple[str, int], Line] = {}
        self._used: dict[tuple[str, int], Line] = {}

    def read(self, text: str, offset: int = 0, number: int | None = None) -> list[Top]:
        """The blocks of ``text``, which stands at ``offset`` of the whole source.

        ``number``: the text goes on with a list, whose first item has this number; 0 for bullets.
        """
        self._used = {}
        try:
            tops = list(self._tops(text, offset, number))
        except (RecursionError, IndexError, ValueError):
            log.exception("a text could not be read as Markdown")
            span = Span(text, offset, len(text))
            tops = [Top(0, (Block(Kind.PARAGRAPH, ((span,),)),), "literal")]
        self._known = self._used
        return tops

    def _tops(self, text: str, offset: int, number: int | None) -> Iterator[Top]:
        starts = [0]
        for line in text.split("\n"):
            starts.append(starts[-1] + len(line) + 1)
        tokens = self._parser.parse(text)
        begin = depth = 0
        for place, token in enumerate(tokens):
            depth += token.nesting
            if depth == 0 and token.nesting <= 0:
                group = tokens[begin : place + 1]
                walk = _Walk(self, text, starts, offset, number)
                walk.run(group)
                first = group[0]
                line = first.map[0] if first.map else 0
                blocks = walk.blocks
                if first.map and (not blocks or any(each.level > DEEPEST - 4 for each in group)):
                    stretch = text[starts[first.map[0]] : starts[first.map[1]]].rstrip("\n")
                    blocks = [Block(Kind.PARAGRAPH, ((Span(stretch, offset + starts[line], len(stretch)),),))]
                yield Top(starts[line], tuple(blocks), first.type, first.markup, tuple(walk.items))
                begin, number = place + 1, None

    def spans(self, content: str, where: _Places) -> Line:
        """The spans of a paragraph's text; kept from one reading to the next."""
        key = (content, where.first)
        line = self._known.get(key)
        if line is None:
            if len(content) > LONGEST_LEAF:
                line = tuple(where.plain(content))
            else:
                tokens: list[Token] = []
                self._parser.inline.parse(content, self._parser, {}, tokens)
                line = tuple(_inline(tokens, content, where))
        self._used[key] = line
        return line


class _Places:
    """Where the characters of a block's text stand in the source."""

    def __init__(self, content: str, text: str, starts: list[int], lines: tuple[int, int], offset: int) -> None:
        self._content_starts: list[int] = []
        self._source_starts: list[int] = []
        position = 0
        for place, line in enumerate(content.split("\n")):
            row = min(lines[0] + place, lines[1] - 1)
            begin, end = starts[row], starts[row + 1] - 1
            # What a container puts in front of a line, and white space, has been taken away.
            found = text.rfind(line.rstrip(), begin, end)
            self._content_starts.append(position)
            self._source_starts.append(offset + (found if found >= 0 else begin))
            position += len(line) + 1

    @property
    def first(self) -> int:
        return self._source_starts[0]

    def source(self, position: int) -> int:
        line = max(0, bisect_right(self._content_starts, position) - 1)
        return self._source_starts[line] + position - self._content_starts[line]

    def plain(self, content: str) -> Iterator[Span]:
        position = 0
        for place, line in enumerate(content.split("\n")):
            if place:
                yield Span("\n", self.source(position - 1), 1)
            if line:
                yield Span(line, self.source(position), len(line))
            position += len(line) + 1


class _CellPlace(_Places):
    """A cell's text stands somewhere in its row."""

    def __init__(self, start: int) -> None:
        self._content_starts, self._source_starts = [0], [start]


def _inline(tokens: list[Token], content: str, where: _Places) -> Iterator[Span]:
    """Spans of the parser's inline tokens. ``at`` follows them through ``content``."""
    at = look = 0
    links: list[str] = []

    def seek(text: str) -> int:
        found = content.find(text, at)
        return found if found >= 0 else at

    for token in tokens:
        kind = token.type
        name, _, part = kind.rpartition("_")
        if kind == "text":
            if token.content:
                begin = seek(token.content)
                at = begin + len(token.content)
                yield Span(token.content, where.source(begin), len(token.content), look, "".join(links[-1:]))
        elif kind == "text_special":
            begin = seek(token.markup)
            at = begin + len(token.markup)
            yield Span(token.content, where.source(begin), len(token.markup), look, "".join(links[-1:]))
        elif kind in ("softbreak", "hardbreak"):
            begin = seek("\n")
            at = begin + 1
            yield Span("\n", where.source(begin), 1, look)
        elif kind == "code_inline":
            opened = seek(token.markup) + len(token.markup)
            found = content.find(token.content, opened)
            begin = found if found >= 0 else opened
            at = begin + len(token.content)
            at = seek(token.markup) + len(token.markup)
            yield Span(
                token.content, where.source(begin), len(token.content), look | CODE, "".join(links[-1:])
            )
        elif kind == maths_rules.INLINE:
            begin = seek(token.info)
            at = begin + len(token.info)
            style = MATHS | DISPLAY if token.meta["display"] else MATHS
            yield Span(token.info, where.source(begin), len(token.info), look | style)
        elif kind == "image":
            begin = seek("![")
            at = begin + 2
            address = str(token.attrs.get("src", ""))
            at = seek("](") + 2
            at = seek(")") + 1
            words = token.content or address
            yield Span(words, where.source(begin), at - begin, look | IMAGE, address)
        elif kind == "link_open":
            links.append(str(token.attrs.get("href", "")))
            look |= LINK
            at = seek("<" if token.markup == "autolink" else "[") + 1
        elif kind == "link_close":
            links.pop()
            look &= ~LINK
            at = seek(")") + 1 if token.markup != "autolink" else seek(">") + 1
        elif name in _MARKS:
            at = seek(token.markup) + len(token.markup)
            look = look | _MARKS[name] if part == "open" else look & ~_MARKS[name]
        elif token.content:
            begin = seek(token.content)
            at = begin + len(token.content)
            yield Span(token.content, where.source(begin), len(token.content), look)


class _Walk:
    """Goes through the parser's tokens of one outermost block."""

    def __init__(
        self, reader: Reader, text: str, starts: list[int], offset: int, number: int | None
    ) -> None:
        self._reader, self._text, self._starts, self._offset = reader, text, starts, offset
        self._number = number
        self.blocks: list[Block] = []
        self.items: list[tuple[int, int, int]] = []
        self._containers = ""
        self._lists: list[int | None] = []
        """Next number of every list that is open; ``None`` for bullets."""
        self._marker = ""
        self._level = 0
        self._tight = False
        self._opens = False
        """The next block is the first of an outermost list: it stands apart from what is before."""
        self._cells: list[Line] = []
        self._aligns: list[str] = []
        self._row_at = 0

    def run(self, tokens: list[Token]) -> None:
        for token in tokens:
            kind = token.type
            if kind == "inline":
                self._leaf(token)
            elif kind in ("fence", "code_block"):
                self._code(token)
            elif kind == maths_rules.BLOCK:
                where = self._places(token.info, token.map)
                span = Span(token.info, where.first, len(token.info), MATHS | DISPLAY)
                self._add(Kind.FORMULA, ((span,),), level=int(token.meta["closed"]))
            elif kind == "hr":
                self._add(Kind.RULE, ((),))
            elif kind == "paragraph_open":
                self._tight = token.hidden
            elif kind == "heading_open":
                self._level = int(token.tag[1:])
            elif kind == "blockquote_open":
                self._containers += QUOTE
            elif kind in ("blockquote_close", "list_item_close"):
                if self._marker and kind == "list_item_close":
                    self._add(Kind.PARAGRAPH, ((),), tight=not self._opens)
                    self._opens = False
                self._containers = self._containers[:-1]
            elif kind in ("bullet_list_open", "ordered_list_open"):
                first = int(token.attrs.get("start", 1)) if kind == "ordered_list_open" else None
                if not self._lists:
                    self._opens = self._number is None
                    if self._number and first is not None:
                        first = self._number
                self._lists.append(first)
            elif kind in ("bullet_list_close", "ordered_list_close"):
                self._lists.pop()
            elif kind == "list_item_open":
                self._item(token)
            elif kind == "table_open":
                self._cells, self._aligns = [], []
            elif kind == "tr_open":
                self._row_at = self._starts[token.map[0]] if token.map else self._row_at
            elif kind == "th_open":
                self._aligns.append(str(token.attrs.get("style", "")).rpartition(":")[2])
            elif kind == "table_close":
                self._add(
                    Kind.TABLE, tuple(self._cells), level=max(1, len(self._aligns)), aligns=tuple(self._aligns)
                )
                self._aligns = []

    def _item(self, token: Token) -> None:
        number = self._lists[-1]
        if number is None:
            self._marker = _BULLETS[min(len(self._lists), len(_BULLETS)) - 1]
        else:
            self._marker = f"{number}{token.markup}"
            self._lists[-1] = number + 1
        self._containers += ITEM
        if len(self._lists) == 1 and len(self._containers) == 1 and token.map:
            self.items.append((self._starts[token.map[0]], len(self.blocks), number or 0))

    def _places(self, content: str, lines: list[int] | None) -> _Places:
        first, last = lines or (0, 1)
        return _Places(content, self._text, self._starts, (first, max(last, first + 1)), self._offset)

    def _leaf(self, token: Token) -> None:
        if self._aligns:
            found = self._text.find(token.content, self._row_at)
            begin = found if found >= 0 else self._row_at
            self._row_at = begin + len(token.content)
            self._cells.append(self._reader.spans(token.content, _CellPlace(self._offset + begin)))
            return
        line = self._reader.spans(token.content, self._places(token.content, token.map))
        if self._level:
            self._add(Kind.HEADING, (line,), level=self._level)
            self._level = 0
            return
        if self._marker and line and line[0].text[:4] in _BOXES:
            head = line[0]
            self._marker = _BOXES[head.text[:4]]
            rest = Span(head.text[4:], head.start + 4, head.length - 4, head.look, head.link)
            line = (rest, *line[1:]) if rest.text else line[1:]
        for place, each in enumerate(broken(line)):
            self._add(Kind.PARAGRAPH, (each,), tight=place > 0 or (self._tight and not self._opens))
        self._opens = False

    def _code(self, token: Token) -> None:
        content = token.content[:-1] if token.content.endswith("\n") else token.content
        row = (token.map[0] if token.map else 0) + (1 if token.type == "fence" else 0)
        lines: list[Line] = []
        for line in content.split("\n") if token.content else []:
            begin = self._starts[row] if row < len(self._starts) else self._starts[-1]
            end = self._starts[row + 1] - 1 if row + 1 < len(self._starts) else begin
            found = self._text.rfind(line, begin, end)
            start = self._offset + (found if found >= 0 else begin)
            lines.extend(broken((Span(line, start, len(line)),)) if line else ((),))
            row += 1
        self._add(Kind.CODE, tuple(lines), language=token.info.strip())

    def _add(
        self,
        kind: Kind,
        lines: tuple[Line, ...],
        level: int = 0,
        language: str = "",
        aligns: tuple[str, ...] = (),
        tight: bool = False,
    ) -> None:
        marker, self._marker = self._marker, ""
        self.blocks.append(
            Block(kind, lines, self._containers, marker, level, language, aligns, tight)
        )
