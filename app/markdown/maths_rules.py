r"""Rules for markdown-it that find formulas: ``$…$``, ``$$…$$``, ``\(…\)`` and ``\[…\]``.

A dollar sign is mostly money. One opens a formula only before a character that is not
white space, and closes one only behind such a character and not before a digit, the
convention of Pandoc (Markdown extension ``tex_math_dollars``).
"""

from __future__ import annotations

from markdown_it import MarkdownIt
from markdown_it.rules_block import StateBlock
from markdown_it.rules_inline import StateInline

INLINE, BLOCK = "maths_inline", "maths_block"
LONGEST = 4000
"""Characters of one formula; more is text."""

_CLOSING = {"$$": "$$", "\\[": "\\]", "\\(": "\\)"}


def install(parser: MarkdownIt) -> None:
    parser.inline.ruler.before("escape", INLINE, _inline)
    parser.block.ruler.before(
        "fence", BLOCK, _block, {"alt": ["paragraph", "reference", "blockquote", "list"]}
    )


def _inline(state: StateInline, silent: bool) -> bool:
    source, at = state.src, state.pos
    first = source[at]
    if first not in "$\\":
        return False
    opening = source[at : at + 2]
    if opening in _CLOSING:
        closing = _CLOSING[opening]
        end = source.find(closing, at + 2, at + LONGEST)
        begin, display = at + 2, opening != "\\("
        if end < 0 or not source[begin:end].strip():
            return False
    elif first == "$":
        opening = closing = "$"
        begin, display = at + 1, False
        end = _dollar_end(source, begin, min(state.posMax, at + LONGEST))
        if end < 0:
            return False
    else:
        return False
    if not silent:
        token = state.push(INLINE, "math", 0)
        token.content = source[begin:end].strip()
        token.markup = opening
        token.info = source[at : end + len(closing)]
        token.meta = {"display": display}
    state.pos = end + len(closing)
    return True


def _dollar_end(source: str, begin: int, limit: int) -> int:
    if begin >= limit or source[begin].isspace():
        return -1
    end = begin
    while True:
        end = source.find("$", end, limit)
        if end < 0:
            return -1
        before, after = source[end - 1], source[end + 1 : end + 2]
        if end > begin and not before.isspace() and before != "\\" and not after.isdigit():
            return end
        end += 1


def _block(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """A formula of its own: lines from ``$$`` to ``$$``. One that is not closed yet lasts to the end."""
    if state.is_code_block(start):
        return False
    begin = state.bMarks[start] + state.tShift[start]
    opening = state.src[begin : begin + 2]
    if opening not in ("$$", "\\["):
        return False
    closing = _CLOSING[opening]
    line, position = start, begin + 2
    closed = False
    while line < end:
        text = state.src[position : state.eMarks[line]]
        if line > start and (not text.strip() or state.sCount[line] < state.blkIndent):
            return False
        stop = text.find(closing)
        if stop >= 0:
            if text[stop + 2 :].strip():
                return False
            closed = True
            line += 1
            break
        line += 1
        if line < end:
            position = state.bMarks[line] + state.tShift[line]
    if not closed and state.eMarks[line - 1] < len(state.src.rstrip("\n")):
        return False
    content = state.getLines(start, line, state.blkIndent, False).strip()
    inner = content[2:-2] if closed else content[2:]
    if len(content) > LONGEST or (closed and not inner.strip()):
        return False
    if silent:
        return True
    token = state.push(BLOCK, "math", 0)
    token.block = True
    token.content = inner.strip()
    token.info = content
    token.markup = opening
    token.meta = {"closed": closed}
    token.map = [start, line]
    state.line = line
    return True
