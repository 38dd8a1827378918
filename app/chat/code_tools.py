"""What comes with the code in a text: its colours, and a button to copy each block."""

from __future__ import annotations

import time
from collections.abc import Iterator

from PySide6.QtCore import QObject, Qt, QTimer
from PySide6.QtGui import QGuiApplication, QPalette, QSyntaxHighlighter
from PySide6.QtWidgets import QTextEdit, QToolButton

from app import icons
from app.language import tr
from app.markdown.blocks import Kind, joined
from app.markdown.colouring import CodeColours, Colours, whole
from app.markdown.painting import code_area
from app.markdown.writing import DocumentWriter

SLICE = 0.003
"""Seconds spent on colours at a time."""
COPIED_MS = 1200


def _lines(writer: DocumentWriter, unit: int) -> list[str]:
    return [line[0].text if line else "" for line in writer.units[unit].block.lines]


class CodeTools(QObject):
    """Follows the code of one document."""

    def __init__(self, edit: QTextEdit, writer: DocumentWriter, layer: QSyntaxHighlighter) -> None:
        super().__init__(edit)
        self._edit = edit
        self._writer = writer
        self._layer = layer
        self._open: tuple[int, CodeColours] | None = None
        """The unit that grows, and its colours."""
        self._complete = 0
        """Units before this one are coloured, or wait for it."""
        self._waiting: list[int] = []
        self._work: Iterator[tuple[int, Colours] | None] | None = None
        self._buttons: dict[int, QToolButton] = {}
        self._timer = QTimer(self)
        self._timer.setInterval(0)
        self._timer.timeout.connect(self._go_on)

    def clear(self) -> None:
        self._open, self._complete, self._work = None, 0, None
        self._waiting.clear()
        self._timer.stop()
        self._drop_buttons(0)

    def follow(self, untouched: int, settled: int) -> None:
        """Units from ``untouched`` on are new or changed; those before ``settled`` are final."""
        units = self._writer.units
        self._complete = min(self._complete, untouched)
        self._drop_buttons(untouched)
        for number in range(untouched, len(units)):
            if units[number].block.kind is Kind.CODE:
                self._add_button(number)
        self.complete(settled)
        last = len(units) - 1
        if last >= settled and units[last].block.kind is Kind.CODE:
            self._colour_open(last)

    def complete(self, settled: int) -> None:
        """Colour the code of finished units for good."""
        for number in range(self._complete, settled):
            if self._writer.units[number].block.kind is Kind.CODE:
                self._waiting.append(number)
        self._complete = max(self._complete, settled)
        if self._waiting or self._work is not None:
            self._go_on()

    def _colour_open(self, number: int) -> None:
        lines = _lines(self._writer, number)
        if self._open is None or self._open[0] != number:
            self._open = (number, CodeColours(self._writer.units[number].block.language))
        first, made = self._open[1].colour(lines, max(0, len(lines) - 1))
        for place, colours in enumerate(made):
            self._paint(self._writer.units[number].row + first + place, colours)

    def _paint(self, row: int, colours: Colours) -> None:
        if row < len(self._writer.rows) and self._writer.rows[row].colours != colours:
            self._writer.rows[row].colours = colours
            self._layer.rehighlightBlock(self._writer.document.findBlockByNumber(row))

    def _go_on(self) -> None:
        """Colour for a moment, and go on later if that was not enough."""
        until = time.perf_counter() + SLICE
        while time.perf_counter() < until:
            if self._work is None:
                if not self._waiting:
                    break
                number = self._waiting.pop(0)
                if number >= len(self._writer.units) or self._writer.units[number].block.kind is not Kind.CODE:
                    continue
                block = self._writer.units[number].block
                self._row = self._writer.units[number].row
                self._work = whole(_lines(self._writer, number), block.language)
            for found in self._work:
                if found is None:
                    if time.perf_counter() >= until:
                        break
                else:
                    self._paint(self._row + found[0], found[1])
            else:
                self._work = None
        if self._work is None and not self._waiting:
            self._timer.stop()
        elif not self._timer.isActive():
            self._timer.start()

    # ------------------------------------------------------------------ buttons

    @property
    def buttons(self) -> list[QToolButton]:
        return [self._buttons[number] for number in sorted(self._buttons)]

    def _add_button(self, number: int) -> None:
        button = self._buttons.get(number)
        if button is None:
            button = self._buttons[number] = QToolButton(self._edit.viewport())
            button.setProperty("look", "small")
            button.setCursor(Qt.CursorShape.ArrowCursor)
            button.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
            button.clicked.connect(lambda _=False, number=number: self.copy(number))
            icons.dress(button, "copy", "muted", self._edit.palette())
            before = [each for key, each in self._buttons.items() if key < number]
            QTextEdit.setTabOrder(before[-1] if before else self._edit, button)
        language = self._writer.units[number].block.language[:40]
        name = tr("Reply", "Copy this code")
        if language:
            name = tr("Reply", "Copy this code ({language})").format(language=language)
        button.setAccessibleName(name)
        button.setToolTip(name)
        button.show()

    def _drop_buttons(self, first: int) -> None:
        for number in [each for each in self._buttons if each >= first]:
            units = self._writer.units
            if number >= len(units) or units[number].block.kind is not Kind.CODE:
                button = self._buttons.pop(number)
                button.hide()
                button.deleteLater()

    def place(self) -> None:
        """Put every button into the bar above its code."""
        for number, button in self._buttons.items():
            if number >= len(self._writer.units):
                continue
            area = code_area(self._writer, number)
            formats = self._writer.formats
            size = button.sizeHint()
            bar = formats.head - formats.padding / 2
            side = min(size.height(), round(bar) - 2)
            button.setGeometry(
                round(area.right()) - size.width() - 4, round(area.top() + (bar - side) / 2) + 1, size.width(), side
            )

    def set_palette(self, palette: QPalette) -> None:
        for button in self._buttons.values():
            icons.dress(button, "copy", "muted", palette)

    def copy(self, number: int) -> None:
        """Put a block of code on the clipboard."""
        QGuiApplication.clipboard().setText(joined(self._writer.units[number].block.lines))
        button = self._buttons.get(number)
        if button is not None:
            palette = self._edit.palette()
            icons.dress(button, "check", "accepted", palette)
            QTimer.singleShot(COPIED_MS, button, lambda: icons.dress(button, "copy", "muted", palette))
