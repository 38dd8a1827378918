"""Parts of a message: what the model thought, what it answered, and pieces of a size to build at once.

No Qt here.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass

TAGS = ("think", "thinking")
PIECE = 3000
"""Characters that are built at once; a longer text is shown in several pieces."""
LONG_LINE = 6000
"""Characters from which on a paragraph without a line's end is cut."""

_OPENING = re.compile(r"\s*<(think|thinking)>")
_CLOSING = re.compile(r"</(?:think|thinking)>")
_LONGEST_TAG = len("</thinking>")
_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})(.*)$|^(\$\$|\\\[)|(\$\$|\\\])[ \t]*$", re.MULTILINE)
_PARAGRAPH = re.compile(r" {0,3}[^\s>*+\-|#`~$]")
_IN_LINE = tuple(
    map(
        re.compile,
        (r"[.!?。！？]\s*(?=[^\W\d_])", r"\s(?=[^\W\d_])", r".(?=[^\s>*+\-|#`~$=_\d])", r".(?=\d{10})"),
    )
)
"""Best first. Ten digits are no number of a list."""
_CUT = re.compile(r"\n[ \t]*\n+(?=[^\s>*+\-\d|])")


@dataclass(frozen=True, slots=True)
class Sections:
    """Stretches of a message: the thoughts and the answer. ``thought_end`` 0 means that there are none."""

    thought_start: int = 0
    thought_end: int = 0
    answer_start: int = 0
    thinking: bool = False
    """The thoughts go on at the end of the text."""

    @property
    def has_thoughts(self) -> bool:
        return self.thinking or self.thought_end > self.thought_start


class SectionFinder:
    """Tells the thoughts from the answer while a text grows.

    Templates of some models write the opening tag themselves, so that the reply only has the
    closing one: everything before it is then what was thought.
    """

    def __init__(self) -> None:
        self._sections: Sections | None = None
        self._searched = 0

    def find(self, text: str) -> tuple[Sections, int]:
        """Sections of the text so far, and up to where it can be shown: a tag may have just begun."""
        found = self._sections
        if found is None:
            opening = _OPENING.match(text)
            if opening is not None:
                found = Sections(opening.end(), opening.end(), 0, thinking=True)
            elif not any(f"<{tag}>".startswith(text.lstrip()) for tag in TAGS):
                found = Sections()
            else:
                return Sections(), 0
            self._sections = found
            self._searched = found.thought_start
        if found.thinking or not found.has_thoughts:
            closing = _CLOSING.search(text, max(self._searched - _LONGEST_TAG, found.thought_start))
            if closing is not None and (found.thinking or not _in_code(text, closing.start())):
                found = Sections(found.thought_start, closing.start(), closing.end())
                self._sections = found
            self._searched = len(text)
        return found, len(text) - _begun_tag(text)


def _in_code(text: str, position: int) -> bool:
    """Whether a tag without its opening one stands in code, where it is only written about."""
    line = text.rfind("\n", 0, position) + 1
    return text.count("`", line, position) % 2 == 1 or text.count("\n```", 0, position) % 2 == 1


def _begun_tag(text: str) -> int:
    """Length of a closing tag's beginning at the very end."""
    place = text.rfind("<", max(0, len(text) - _LONGEST_TAG))
    if place >= 0 and any(f"</{tag}>".startswith(text[place:]) for tag in TAGS):
        return len(text) - place
    return 0


def pieces(text: str, size: int = PIECE) -> list[int]:
    """Offsets at which a finished text can be cut, about every ``size`` characters, 0 first.

    Between two outermost blocks: behind an empty line and before one that begins at the
    margin with neither a list's mark nor a quote's, outside fences and formulas. A line of more than
    :data:`LONG_LINE` characters is cut as well, see :func:`cut_in_line`.
    """
    cuts = [0]
    if len(text) <= size * 3 // 2:
        return cuts
    closed = _outside(text)
    begins = [begin for begin, _ in closed]

    def is_open(at: int) -> bool:
        span = bisect_right(begins, at) - 1
        return span >= 0 and at <= closed[span][1]

    place = size
    while place < len(text) - size // 2:
        within = cut_in_line(text, place) if is_open(place) else None
        found = _CUT.search(text, place) if within is None else None
        if within is None and found is None:
            break
        at = within if within is not None else found.end() if found is not None else 0
        if is_open(at):
            cuts.append(at)
            place = at + size
        else:
            place = at
    return cuts


def cut_in_line(text: str, place: int) -> int | None:
    """Where the line with ``place`` can be cut; ``None`` unless it is a paragraph's and too long to be laid out at once.

    Behind a sentence or else a word where there is one, and always so that what follows is a paragraph again.
    """
    begin = text.rfind("\n", 0, place) + 1
    end = text.find("\n", place)
    end = len(text) if end < 0 else end
    if end - begin <= LONG_LINE or not _PARAGRAPH.match(text, begin):
        return None
    for cut in _IN_LINE:
        found = cut.search(text, place, min(end, place + LONG_LINE // 4))
        if found is not None:
            return found.end()
    return None


def _outside(text: str) -> list[tuple[int, int]]:
    """Stretches between fences of code and formulas."""
    stretches: list[tuple[int, int]] = []
    begin, fence = 0, ""
    for found in _FENCE.finditer(text):
        mark = found[1] or ""
        if not fence and mark:
            stretches.append((begin, found.start()))
            fence = mark
        elif fence and mark.startswith(fence) and not found[2].strip():
            begin, fence = found.end(), ""
    if not fence:
        stretches.append((begin, len(text)))
    return stretches
