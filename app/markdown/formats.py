"""Formats of blocks and spans in a document: sizes and shapes, no colours.

Colours lie in a layer on top (:mod:`app.chat.highlight`), so that another theme changes
nothing in a document. Sizes are relative to the document's font.
"""

from __future__ import annotations

from functools import cache

from PySide6.QtCore import Qt
from PySide6.QtGui import (
    QFontMetricsF,
    QTextBlockFormat,
    QTextCharFormat,
    QTextFormat,
    QTextFrameFormat,
    QTextLength,
    QTextTableFormat,
)

from app import style
from app.markdown.blocks import BOLD, CODE, ITALIC, ITEM, MATHS, STRIKE, Block, Kind

TEXT_LINE = 138
"""Height of a line of text in per cent of the font's own."""
CODE_LINE = 122
UNIT = 0.25
"""One step of indentation, in heights of the font."""
STEPS = {ITEM: 6, "q": 4}
"""Steps of indentation of a list item and a quote."""
_SIZES = {1: 2, 2: 1, 3: 1}
"""Steps of the font's size (x 1.2, x 1.5) by rank of a heading."""


@cache
def span_format(look: int, level: int = 0) -> QTextCharFormat:
    """How a span is set; ``level`` is the rank of a heading it is in."""
    made = QTextCharFormat()
    if look & CODE:
        made.setFontFamilies(style.monospace().families())
        made.setFontFixedPitch(True)
    if look & MATHS:
        made.setFontFamilies(["serif"])
    if look & BOLD or level:
        made.setFontWeight(700)
    if look & (ITALIC | MATHS):
        made.setFontItalic(True)
    if look & STRIKE:
        made.setFontStrikeOut(True)
    if level in _SIZES:
        made.setProperty(QTextFormat.Property.FontSizeAdjustment, _SIZES[level])
    return made


class BlockFormats:
    """Formats of blocks for one size of the font."""

    def __init__(self, metrics: QFontMetricsF) -> None:
        self.em = metrics.height()
        self.step = self.em * UNIT
        """Width of one step of indentation; to be the document's."""
        self.head = round(self.em * 1.9)
        """Height of the bar above code."""
        self.padding = round(self.em * 0.6)
        """Between code and the edge of its ground."""
        self._made: dict[tuple[object, ...], QTextBlockFormat] = {}

    @staticmethod
    def steps(containers: str) -> int:
        return sum(STEPS[letter] for letter in containers)

    def block(self, block: Block, before: Block | None) -> QTextBlockFormat:
        """Of a block's first line; ``before`` is the block above it."""
        after = before.kind if before is not None else None
        key = (block.kind, block.containers, block.tight, block.level, after)
        made = self._made.get(key)
        if made is None:
            made = self._made[key] = self._make(block, after)
        return made

    def code_line(self, block: Block) -> QTextBlockFormat:
        """Of the lines of code after the first."""
        key = (block.kind, block.containers)
        made = self._made.get(key)
        if made is None:
            made = self._made[key] = self._make(block, None)
            made.setTopMargin(0)
        return made

    def _make(self, block: Block, after: Kind | None) -> QTextBlockFormat:
        made = QTextBlockFormat()
        made.setIndent(self.steps(block.containers))
        gap = 0.0 if after in (None, Kind.TABLE) else self.em * (0.12 if block.tight else 0.6)
        if block.kind is Kind.HEADING and after is not None:
            gap = self.em * (0.9 if after is not Kind.HEADING else 0.5)
        if after is Kind.CODE:
            gap += self.padding
        height = TEXT_LINE
        if block.kind is Kind.FORMULA:
            height = 100
            made.setAlignment(Qt.AlignmentFlag.AlignHCenter)
        if block.kind is Kind.CODE:
            gap += self.head if after is not None else 0  # the first one's room is the document's
            height = CODE_LINE
            made.setLayoutDirection(Qt.LayoutDirection.LeftToRight)
            made.setLeftMargin(self.padding)
            made.setRightMargin(self.padding)
        made.setTopMargin(gap)
        made.setLineHeight(height, QTextBlockFormat.LineHeightTypes.ProportionalHeight.value)
        return made

    def table(self, block: Block, before: Block | None) -> QTextTableFormat:
        made = QTextTableFormat()
        made.setCellPadding(self.em * 0.3)
        made.setCellSpacing(0)
        made.setBorderCollapse(True)
        made.setBorder(1)
        made.setBorderStyle(QTextFrameFormat.BorderStyle.BorderStyle_Solid)
        gap = 0.0 if before is None else self.em * 0.6
        made.setTopMargin(gap + (self.padding if before is not None and before.kind is Kind.CODE else 0))
        made.setBottomMargin(self.em * 0.7)
        made.setLeftMargin(self.steps(block.containers) * self.step)
        made.setHeaderRowCount(1)
        made.setWidth(QTextLength(QTextLength.Type.VariableLength, 0))
        return made
