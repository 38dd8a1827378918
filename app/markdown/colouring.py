"""Words of code and what they are, from Pygments; the colours themselves are the theme's. No Qt here.

Code that streams in is read from a line on at which no string or comment was open. That
can be wrong for a language within another one, so code that is complete is read once as a whole,
a little at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

LONGEST_STRETCH = 3000
"""Characters read again at most with every addition."""
LONGEST_LINE = 2000
"""Of a longer line nothing is coloured."""

Colours = list[tuple[int, int, str]]
"""Start and length in a line, in Python characters, and the kind of the word."""

_KINDS = {
    "Keyword.Constant": "number",
    "Keyword": "keyword",
    "Operator.Word": "keyword",
    "Name.Function": "function",
    "Name.Class": "function",
    "Name.Tag": "keyword",
    "Name.Attribute": "function",
    "Name.Decorator": "special",
    "Name.Builtin": "special",
    "Name.Exception": "special",
    "Name.Variable": "special",
    "Literal.String": "string",
    "Literal.Number": "number",
    "Comment.Preproc": "special",
    "Comment": "comment",
    "Generic.Inserted": "string",
    "Generic.Deleted": "special",
    "Generic.Heading": "keyword",
    "Generic.Subheading": "function",
}


@cache
def kind_of(token: Any) -> str:
    """The kind of a Pygments token type, "" for plain text."""
    parts = list(token)
    while parts:
        kind = _KINDS.get(".".join(parts))
        if kind is not None:
            return kind
        parts.pop()
    return ""


@cache
def lexer(language: str) -> Any:
    """The lexer for what stands behind a fence, ``None`` when there is none."""
    from pygments.lexers import get_lexer_by_name, get_lexer_for_filename
    from pygments.util import ClassNotFound

    name = language.split()[0].strip("{}.").lower() if language.split() else ""
    if not name or len(name) > 40:
        return None
    for find, word in ((get_lexer_by_name, name), (get_lexer_for_filename, language.strip())):
        try:
            return find(word, stripnl=False, ensurenl=False)
        except (ClassNotFound, ValueError):
            continue
    return None


def warm_up() -> None:
    """Load what the first code would have to wait for."""
    for language in ("python", "javascript", "bash", "json", "cpp"):
        lexer(language)


def _split(text: str, lines: int, language: str) -> Iterator[tuple[int, tuple[int, int, str], bool]]:
    """Words as (line, (start, length, kind), whether a string or comment goes on behind it)."""
    row, column = 0, 0
    for _, token, value in lexer(language).get_tokens_unprocessed(text):
        kind = kind_of(token)
        pieces = value.split("\n")
        for place, piece in enumerate(pieces):
            if place:
                row, column = row + 1, 0
                if row >= lines:
                    return
            if piece or place:
                yield row, (column, len(piece), kind), kind in ("string", "comment") and place < len(pieces) - 1
            column += len(piece)


class CodeColours:
    """Colours of a growing list of lines."""

    def __init__(self, language: str) -> None:
        self._language = language
        self._known = lexer(language) is not None
        self._from = 0
        """Line from which on is read again."""

    def colour(self, lines: Sequence[str], changed: int) -> tuple[int, list[Colours]]:
        """Colours after the lines from ``changed`` on are new: the first line they are for, and they."""
        if not self._known:
            return len(lines), []
        begin = self._from = min(self._from, changed)
        text = "\n".join(line if len(line) <= LONGEST_LINE else "" for line in lines[begin:])
        made: list[Colours] = [[] for _ in lines[begin:]]
        open_at: set[int] = set()
        for row, word, goes_on in _split(text, len(made), self._language):
            if word[2] and word[1]:
                made[row].append(word)
            if goes_on:
                open_at.add(row + 1)
        self._advance(lines, begin, open_at, len(text))
        return begin, made

    def _advance(self, lines: Sequence[str], begin: int, open_at: set[int], read: int) -> None:
        """Move on to the last line, but one, that begins something new."""
        for row in range(len(lines) - 2, begin, -1):
            line = lines[row]
            if row - begin not in open_at and line and not line[0].isspace():
                self._from = row
                return
        if read > LONGEST_STRETCH:
            self._from = max(begin, len(lines) - 2)


def whole(lines: Sequence[str], language: str) -> Iterator[tuple[int, Colours] | None]:
    """Colours of complete code, line by line; ``None`` now and then, when it is time to look up."""
    if lexer(language) is None:
        return
    text = "\n".join(line if len(line) <= LONGEST_LINE else "" for line in lines)
    row, colours = 0, Colours()
    for count, (at, word, _) in enumerate(_split(text, len(lines), language), 1):
        while row < at:
            yield row, colours
            row, colours = row + 1, Colours()
        if word[2] and word[1]:
            colours.append(word)
        if count % 100 == 0:
            yield None
    yield row, colours
