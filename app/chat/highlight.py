"""Marks on a message's text: a layer of formats over it, never part of it.

The layer is a syntax highlighter's: Qt keeps its formats beside the document, so
copying, searching and the text itself know nothing of them, and only the blocks
that changed are marked again.

Accepted draft tokens get a background and a dotted underline (told apart without
colour as well); the step that is pointed at gets a stronger background and an
underline of its own.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass

from PySide6.QtGui import QPalette, QSyntaxHighlighter, QTextCharFormat, QTextDocument

from app import theme


@dataclass(frozen=True, slots=True)
class Mark:
    """A stretch of the document, in its positions (UTF-16 units)."""

    start: int
    end: int
    accepted: bool
    step: int


def _without_margins(text: str, first: int, last: int) -> tuple[int, int]:
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


class MarkLayer(QSyntaxHighlighter):
    """Draws :class:`Mark` ranges over a document. Marks come in ascending order."""

    def __init__(self, document: QTextDocument, palette: QPalette) -> None:
        self._marks: list[Mark] = []
        self._starts: list[int] = []
        self._visible = True
        self._step: int | None = None
        self._formats: dict[tuple[bool, bool], QTextCharFormat] = {}
        self._make_formats(palette)
        super().__init__(document)

    @property
    def marks(self) -> tuple[Mark, ...]:
        return tuple(self._marks)

    @property
    def visible(self) -> bool:
        return self._visible

    @property
    def step(self) -> int | None:
        """The step that is pointed at."""
        return self._step

    def add(self, mark: Mark) -> None:
        """Register a mark before its text is inserted: the insertion draws it."""
        self._marks.append(mark)
        self._starts.append(mark.start)

    def clear(self) -> None:
        self._marks.clear()
        self._starts.clear()
        self._step = None

    def at(self, position: int) -> Mark | None:
        place = bisect_right(self._starts, position) - 1
        if place >= 0 and position < self._marks[place].end:
            return self._marks[place]
        return None

    def set_visible(self, visible: bool) -> None:
        if visible != self._visible:
            self._visible = visible
            self.rehighlight()

    def set_palette(self, palette: QPalette) -> None:
        self._make_formats(palette)
        if self._marks:
            self.rehighlight()

    def point_at(self, step: int | None) -> int | None:
        """Show a step; returns the position where it begins, if it has text here."""
        if step == self._step:
            return None
        old, self._step = self._step, step
        begin = None
        for mark in self._marks:
            if mark.step in (old, step):
                if mark.step == step and begin is None:
                    begin = mark.start
                block = self.document().findBlock(mark.start)
                while block.isValid() and block.position() < mark.end:
                    self.rehighlightBlock(block)
                    block = block.next()
        return begin

    def highlightBlock(self, text: str) -> None:
        if not self._marks:
            return
        begin = self.currentBlock().position()
        end = begin + self.currentBlock().length() - 1
        place = max(0, bisect_right(self._starts, begin) - 1)
        while place < len(self._marks) and self._marks[place].start < end:
            mark = self._marks[place]
            place += 1
            wanted = (mark.accepted and self._visible, mark.step == self._step)
            if mark.end > begin and wanted in self._formats:
                first, last = max(mark.start, begin) - begin, min(mark.end, end) - begin
                if not wanted[1]:
                    first, last = _without_margins(text, first, last)
                self.setFormat(first, last - first, self._formats[wanted])

    def _make_formats(self, palette: QPalette) -> None:
        named = theme.tokens(palette)
        accepted = QTextCharFormat()
        accepted.setBackground(named.accepted_fill)
        accepted.setUnderlineStyle(QTextCharFormat.UnderlineStyle.DotLine)
        accepted.setUnderlineColor(named.accepted)
        pointed = QTextCharFormat()
        pointed.setBackground(named.step_fill)
        pointed.setUnderlineStyle(QTextCharFormat.UnderlineStyle.SingleUnderline)
        pointed.setUnderlineColor(named.bonus)
        both = QTextCharFormat(pointed)
        both.setUnderlineStyle(QTextCharFormat.UnderlineStyle.DotLine)
        both.setUnderlineColor(named.accepted)
        self._formats = {(True, False): accepted, (False, True): pointed, (True, True): both}
