"""Colours over a message's text: a layer of formats, never part of the document.

The layer is a syntax highlighter's: Qt keeps its formats beside the document, so copying,
searching and the text itself know nothing of them, and only what changed is coloured again.
Three things lie in it: the words of code and links, the accepted draft tokens, and the step
that is pointed at.

Accepted tokens get a background and a dotted underline (told apart without colour as well);
the step that is pointed at gets a stronger background and an underline of its own, and one
token of it can stand out in reversed colours.
"""

from __future__ import annotations

from collections.abc import Iterator

from PySide6.QtGui import QPalette, QSyntaxHighlighter, QTextCharFormat, QTextDocument

from app import theme
from app.chat.token_marks import TokenMarks
from app.markdown.blocks import CODE, IMAGE, LINK, MATHS, Span, units
from app.markdown.writing import Row
from engine.protocol import Origin

Stretch = tuple[int, int, str]
"""Start, length and kind of what is coloured in one text block, in UTF-16 units."""

INKS = {
    "keyword": "root",
    "string": "accepted",
    "number": "bonus",
    "comment": "muted",
    "function": "accent",
    "special": "rejected",
    "link": "accent",
    "maths": "muted",
}
"""The ink of :class:`app.theme.Tokens` for every kind."""


def without_margins(text: str, first: int, last: int) -> tuple[int, int]:
    """Leave out white space at both ends: marked, it only looks ragged.

    Positions are UTF-16 units; where those are not Python's, the stretch is left as it is.
    """
    if not text.isascii() and any(ord(letter) > 0xFFFF for letter in text):
        return first, last
    while first < last and text[first].isspace():
        first += 1
    while last > first and text[last - 1].isspace():
        last -= 1
    return first, last


def overlaid(base: list[Stretch], first: int, last: int) -> Iterator[tuple[int, int, str]]:
    """``first`` to ``last`` cut where the kind below changes: start, end and that kind."""
    at = first
    for start, length, kind in base:
        if start + length <= at or start >= last:
            continue
        if start > at:
            yield at, start, ""
        end = min(last, start + length)
        yield max(at, start), end, kind
        at = end
    if at < last:
        yield at, last, ""


class MarkLayer(QSyntaxHighlighter):
    """Colours the text blocks of a document by their rows."""

    def __init__(
        self, document: QTextDocument, rows: list[Row], marks: TokenMarks, palette: QPalette
    ) -> None:
        self._rows = rows
        self._marks = marks
        self._visible = True
        self._step: int | None = None
        self._palette = palette
        self._part: tuple[int, int] | None = None
        self._formats: dict[tuple[str, bool, bool], QTextCharFormat] = {}
        super().__init__(document)

    @property
    def visible(self) -> bool:
        """Whether accepted tokens are marked."""
        return self._visible

    @property
    def step(self) -> int | None:
        """The step that is pointed at."""
        return self._step

    def set_visible(self, visible: bool) -> bool:
        """Returns whether the document has to be coloured again."""
        changed, self._visible = visible != self._visible, visible
        return changed and bool(self._marks.runs)

    def set_palette(self, palette: QPalette) -> bool:
        """Returns whether the document has to be coloured again: Qt tells of one new theme several times."""
        old, self._palette = self._palette, palette
        if theme.is_dark(old) == theme.is_dark(palette) and old.text().color() == palette.text().color():
            return False
        self._formats.clear()
        return True

    def point_at(self, step: int | None, part: tuple[int, int] | None = None) -> int | None:
        """Show a step, and ``part`` of it; returns the first row with their text, if there is any here."""
        if (step, part) == (self._step, self._part):
            return None
        old, self._step, self._part = self._step, step, part
        if old != step:
            self._recolour(self._marks.stretch(old))
        first = self._recolour(self._marks.stretch(step))
        row = self._row_at(part[0]) if part is not None else None
        return first if row is None else row

    def _row_at(self, place: int) -> int | None:
        """The row that holds a place of the message."""
        for number, row in enumerate(self._rows):
            if row.spans and row.spans[0].start <= place < row.spans[-1].start + row.spans[-1].length:
                return number
        return None

    def _recolour(self, stretch: tuple[int, int] | None) -> int | None:
        if stretch is None:
            return None
        begin, end = stretch
        first = None
        for number, row in enumerate(self._rows):
            if row.spans and row.spans[0].start < end and row.spans[-1].start + row.spans[-1].length > begin:
                self.rehighlightBlock(self.document().findBlockByNumber(number))
                first = number if first is None else first
        return first

    # ------------------------------------------------------------------ colouring

    def highlightBlock(self, text: str) -> None:
        number = self.currentBlock().blockNumber()
        if number >= len(self._rows):
            return
        row = self._rows[number]
        base = list(_base(row))
        for start, length, kind in base:
            self.setFormat(start, length, self._format(kind, False, False))
        for place, span in enumerate(row.spans):
            begin, end = row.offsets[place], row.offsets[place + 1]
            whole = row.pictures[place] or span.length != len(span.text)
            self._mark_runs(text, span, (begin, end), whole, base)
            if self._part is not None and not whole:
                first = begin + units(span.text[: max(0, self._part[0] - span.start)])
                last = begin + units(span.text[: max(0, self._part[1] - span.start)])
                if last > first:
                    self.setFormat(first, last - first, self._reversed())

    def _mark_runs(
        self, text: str, span: Span, room: tuple[int, int], whole: bool, base: list[Stretch]
    ) -> None:
        """Colour the accepted tokens and the step that is pointed at in one span, which lies in ``room``."""
        begin, end = room
        for run in self._marks.between(span.start, span.start + span.length):
            accepted, pointed = run.origin is Origin.DRAFT and self._visible, run.step == self._step
            if not accepted and not pointed:
                continue
            first, last = begin, end
            if not whole:
                first = begin + units(span.text[: max(0, run.start - span.start)])
                last = begin + units(span.text[: max(0, run.end - span.start)])
            if not pointed:
                first, last = without_margins(text, first, last)
            for one, other, kind in overlaid(base, first, last):
                self.setFormat(one, other - one, self._format(kind, accepted, pointed))

    def _reversed(self) -> QTextCharFormat:
        """The token that is pointed at."""
        named = theme.tokens(self._palette)
        made = QTextCharFormat()
        made.setBackground(named.accent)
        made.setForeground(named.on_accent)
        return made

    def _format(self, kind: str, accepted: bool, pointed: bool) -> QTextCharFormat:
        key = (kind, accepted, pointed)
        made = self._formats.get(key)
        if made is not None:
            return made
        named = theme.tokens(self._palette)
        made = self._formats[key] = QTextCharFormat()
        if kind == "code":
            made.setBackground(named.background_alt)
        elif kind in INKS:
            made.setForeground(getattr(named, INKS[kind]))
            made.setFontUnderline(kind == "link")
        if accepted or pointed:
            made.setBackground(named.step_fill if pointed else named.accepted_fill)
            style = QTextCharFormat.UnderlineStyle
            made.setUnderlineStyle(style.DotLine if accepted else style.SingleUnderline)
            made.setUnderlineColor(named.accepted if accepted else named.bonus)
        return made


def _base(row: Row) -> Iterator[Stretch]:
    if row.colours:
        text = row.spans[0].text if row.spans else ""
        for start, length, kind in row.colours:
            if text.isascii():
                yield start, length, kind
            else:
                first = units(text[:start])
                yield first, units(text[start : start + length]), kind
        return
    for place, span in enumerate(row.spans):
        kind = ""
        if span.look & (LINK | IMAGE):
            kind = "link"
        elif span.look & CODE:
            kind = "code"
        elif span.look & MATHS and not row.pictures[place]:
            kind = "maths"
        if kind:
            yield row.offsets[place], row.offsets[place + 1] - row.offsets[place], kind
