"""Tokens as laid-out text, measured once and kept while font and colours stay the same."""

from __future__ import annotations

from dataclasses import dataclass

from PySide6.QtCore import Qt
from PySide6.QtGui import (
    QColor,
    QFont,
    QFontMetricsF,
    QPalette,
    QTextCharFormat,
    QTextLayout,
    QTextOption,
)

from app.theme import Tokens
from app.tree_panel.layout import Kind
from app.tree_panel.token_text import MARK_CHARACTERS, visible

_KEPT = 4096
"""Tokens remembered; the same few hundred come again and again in a reply."""


@dataclass(frozen=True, slots=True)
class Written:
    layout: QTextLayout
    width: float
    height: float


class Writer:
    """Lays out tokens: white-space marks stand back, too long ones are elided."""

    def __init__(self) -> None:
        self._font = QFont()
        self._metrics = QFontMetricsF(self._font)
        self.small_font = QFont()
        self._small = QFontMetricsF(self.small_font)
        self._text = self._quiet = self._marks = QPalette().text().color()
        self._key: tuple[object, ...] = ()
        self._kept: dict[tuple[str, bool, float], Written] = {}
        self._widths: dict[str, float] = {}

    def use(self, font: QFont, palette: QPalette, colours: Tokens) -> None:
        """Set font and colours; forgets everything when they differ from the last ones."""
        key = (font.key(), palette.text().color().rgba(), colours.muted.rgba())
        if key == self._key:
            return
        self._key = key
        self._kept.clear()
        self._widths.clear()
        self._font = QFont(font)
        self._metrics = QFontMetricsF(self._font)
        self.small_font = QFont(font)
        size = font.pointSizeF()
        if size > 0:
            self.small_font.setPointSizeF(size * 0.85)
        else:
            self.small_font.setPixelSize(max(1, round(font.pixelSize() * 0.85)))
        self._small = QFontMetricsF(self.small_font)
        self._text = palette.text().color()
        self._quiet = colours.muted
        self._marks = colours.muted

    def small_width(self, text: str) -> float:
        """Kept: a picture is full of the same few percentages."""
        width = self._widths.get(text)
        if width is None:
            width = self._widths[text] = self._small.horizontalAdvance(text)
        return width

    @property
    def small_height(self) -> float:
        return self._small.height()

    @property
    def small_base(self) -> float:
        """From the middle of a line of small text down to its base line."""
        return (self._small.ascent() - self._small.descent()) / 2

    def small_elided(self, text: str, room: float) -> str:
        """Small text on one line of at most ``room`` units."""
        return self._small.elidedText(text, Qt.TextElideMode.ElideRight, room)

    def token(self, text: str, kind: Kind, limit: float) -> Written:
        """The token on one line of at most ``limit`` units."""
        quiet = kind in (Kind.UNREACHED, Kind.WINDOW)
        key = (text, quiet, limit)
        found = self._kept.get(key)
        if found is None:
            if len(self._kept) >= _KEPT:
                self._kept.clear()
            found = self._kept[key] = self._write(visible(text), quiet, limit)
        return found

    def _write(self, shown: str, quiet: bool, limit: float) -> Written:
        line_text = self._metrics.elidedText(shown, Qt.TextElideMode.ElideRight, limit)
        layout = QTextLayout(line_text, self._font)
        option = QTextOption(Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignAbsolute)
        option.setWrapMode(QTextOption.WrapMode.NoWrap)
        layout.setTextOption(option)
        layout.setFormats(self._formats(line_text, quiet))
        layout.beginLayout()
        line = layout.createLine()
        line.setLineWidth(limit + 64)
        layout.endLayout()
        return Written(layout, line.naturalTextWidth(), line.height())

    def _formats(self, text: str, quiet: bool) -> list[QTextLayout.FormatRange]:
        """The ink of the whole, then of each run of marks. Positions are UTF-16 units, as Qt counts."""
        ranges: list[QTextLayout.FormatRange] = []

        def add(start: int, length: int, ink: QColor) -> None:
            style = QTextCharFormat()
            style.setForeground(ink)
            made = QTextLayout.FormatRange()
            made.start, made.length, made.format = start, length, style
            ranges.append(made)

        add(0, _units(text), self._quiet if quiet else self._text)
        at = 0
        for character in text:
            if character in MARK_CHARACTERS:
                add(at, 1, self._marks)
            at += _units(character)
        return ranges


def _units(text: str) -> int:
    return len(text.encode("utf-16-le", "surrogatepass")) // 2
