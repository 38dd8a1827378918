"""A text that streams in: its blocks, and how many of them can no longer change.

Only the tail is read again: the last block of the outermost level, or the last item of a
long list. Lines of code are not read at all but taken over until their fence closes.
No Qt here.
"""

from __future__ import annotations

import re
from dataclasses import replace

from app.markdown.blocks import Block, Line, Span, broken
from app.markdown.reading import Reader, Top

LONG_LIST = 1200
"""Characters of a list from which on its finished items are no longer read."""
_FENCE = re.compile(r"(`{3,}|~{3,})")
_LISTS = ("bullet_list_open", "ordered_list_open")


class _OpenCode:
    """Code whose fence is not closed; it grows line by line."""

    def __init__(self, block: Block, fence: str, partial: str, start: int) -> None:
        self.block = block
        self.fence = fence
        self.partial = partial
        """The last line so far."""
        self.start = start
        """Where that line begins in the source."""

    def feed(self, text: str) -> str | None:
        """Take over lines; what follows the closing fence, ``None`` while it is open."""
        *complete, self.partial = (self.partial + text).split("\n")
        lines: list[Line] = []
        for place, line in enumerate(complete):
            if self._closes(line):
                self.block = replace(self.block, lines=(*self.block.lines, *lines))
                self.start += len(line) + 1
                return "\n".join([*complete[place + 1 :], self.partial])
            lines.extend(broken((Span(line, self.start, len(line)),)) if line else ((),))
            self.start += len(line) + 1
        if lines:
            self.block = replace(self.block, lines=(*self.block.lines, *lines))
        return None

    def _closes(self, line: str) -> bool:
        mark = line.strip()
        indent = len(line) - len(line.lstrip(" "))
        return indent < 4 and len(mark) >= len(self.fence) and not mark.strip(self.fence[0])

    @property
    def shown(self) -> Block:
        """The block with its last line, unless that may become the closing fence."""
        if not self.partial.strip(self.fence[0] + " "):
            return self.block
        span = Span(self.partial, self.start, len(self.partial))
        return replace(self.block, lines=(*self.block.lines, *broken((span,))))


class GrowingText:
    """``blocks`` of all the text fed so far; the first ``settled`` of them are final."""

    def __init__(self, offset: int = 0) -> None:
        self.blocks: list[Block] = []
        self.settled = 0
        self.tail_start = offset
        """Offset in the source of the text that may still be read again."""
        self._reader = Reader()
        self._tail = ""
        self._code: _OpenCode | None = None
        self._number: int | None = None

    @property
    def tail(self) -> str:
        return self._tail

    def feed(self, text: str) -> int:
        """Add text; returns how many of the first blocks are as before."""
        kept = self.settled
        self._tail += text
        if self._code is not None:
            rest = self._code.feed(text)
            if rest is None:
                self.blocks[kept:] = [self._code.shown]
                return kept
            self.blocks[kept:] = [self._code.block]
            self.settled += 1
            self.tail_start, self._tail, self._code = self._code.start, rest, None
        self._read()
        return kept

    def _read(self) -> None:
        tops = self._reader.read(self._tail, self.tail_start, self._number)
        self.blocks[self.settled :] = [block for top in tops for block in top.blocks]
        if not tops:
            return
        # What the last line begins may still turn out to belong to what stands before it.
        whole = self._tail.rfind("\n") + 1
        place = max(0, next((n for n, top in enumerate(tops) if top.start >= whole), len(tops)) - 1)
        last = tops[place]
        self.settled += sum(len(top.blocks) for top in tops[:place])
        cut = last.start
        if place > 0:
            self._number = None
        items = [item for item in last.items if item[0] < whole]
        if last.type in _LISTS and len(items) > 1 and len(self._tail) - cut > LONG_LIST:
            cut, first, number = items[-1]
            self.settled += first
            self._number = number if last.type == "ordered_list_open" else 0
        self.tail_start += cut
        self._tail = self._tail[cut:]
        if last.type == "fence" and last is tops[-1]:
            self._watch_code(last)

    def _watch_code(self, top: Top) -> None:
        """Go on without reading if the fence at the end is still open."""
        head, newline, body = self._tail.partition("\n")
        found = _FENCE.match(head)
        if not newline or found is None:
            return
        code = _OpenCode(replace(top.blocks[0], lines=()), found[1], "", self.tail_start + len(head) + 1)
        if code.feed(body) is None:
            self._code = code
            self.blocks[-1] = code.shown
