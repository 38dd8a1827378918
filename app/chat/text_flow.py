"""A long text in pieces, one under the other; each is built when it comes into sight.

While a text streams in, the last piece grows. When it is long enough its finished part
stays as it is and a new piece goes on.
"""

from __future__ import annotations

from collections.abc import Iterator

from PySide6.QtCore import QRect, Signal
from PySide6.QtWidgets import QVBoxLayout, QWidget

from app.chat.message_text import MessageText
from app.chat.token_marks import TokenMarks
from app.language import numbers, tr
from app.markdown.sections import PIECE, pieces


class TextFlow(QWidget):
    """Shows one stretch of a message."""

    step_clicked = Signal(int, int)
    link_clicked = Signal(str)
    position_shown = Signal(object, QRect)
    """A piece, and the area in it that should be brought into view."""

    def __init__(self, marks: TokenMarks, name: str, literal: bool = False, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._marks = marks
        self._name = name
        self._literal = literal
        self._highlight = True
        self._settled = False
        self.pieces: list[MessageText] = []
        self._layout = QVBoxLayout(self)
        self._layout.setContentsMargins(0, 0, 0, 0)
        self._layout.setSpacing(round(self.fontMetrics().height() * 0.6))

    # ------------------------------------------------------------------ text

    def set_text(self, text: str, start: int) -> None:
        """Replace everything by a text that stands at ``start`` of its message."""
        cuts = [0] if self._literal else pieces(text)
        while len(self.pieces) > len(cuts):
            self._drop(self.pieces.pop())
        for place, cut in enumerate(cuts):
            end = cuts[place + 1] if place + 1 < len(cuts) else len(text)
            piece = self.pieces[place] if place < len(self.pieces) else self._add()
            piece.hold(text[cut:end], start + cut)

    def clear(self) -> None:
        while self.pieces:
            self._drop(self.pieces.pop())

    def feed(self, text: str, start: int) -> None:
        """Add a text, which stands at ``start`` of its message, to the end."""
        if not text:
            return
        if not self.pieces:
            self._add().hold("", start)
        last = self.pieces[-1]
        last.feed(text)
        if not last.is_built and last.end - last.start > PIECE * 3:
            # Nobody looks: the pieces are cut without being read.
            text, start = last.source(), last.start
            cuts = [] if self._literal else pieces(text)[1:]
            for place, cut in enumerate(cuts):
                end = cuts[place + 1] if place + 1 < len(cuts) else len(text)
                self._add().hold(text[cut:end], start + cut)
            if cuts:
                last.hold(text[: cuts[0]], start)
        elif last.end - last.start > PIECE * 3 // 2:
            tail = last.take_tail()
            if tail is not None:
                last.settle()
                piece = self._add()
                piece.hold(tail[1], tail[0])
                if last.is_built:
                    piece.build()

    def settle(self) -> None:
        """The text is complete."""
        for piece in self.pieces[-1:]:
            piece.settle()

    def stops(self) -> list[QWidget]:
        """Where Tab stops in here, from top to bottom."""
        return [stop for piece in self.pieces for stop in piece.stops()]

    @property
    def text(self) -> str:
        """The text as written."""
        return "".join(piece.source() for piece in self.pieces)

    def _add(self) -> MessageText:
        piece = MessageText(self._marks, self._literal)
        name = self._name
        if self.pieces:
            number = numbers.whole(len(self.pieces) + 1)
            name = tr("Reply", "{name}, part {number}").format(name=name, number=number)
        piece.setAccessibleName(name)
        piece.layer.set_visible(self._highlight)
        piece.step_clicked.connect(self.step_clicked)
        piece.link_clicked.connect(self.link_clicked)
        piece.position_shown.connect(lambda area, piece=piece: self.position_shown.emit(piece, area))
        self.pieces.append(piece)
        self._layout.addWidget(piece)
        return piece

    @staticmethod
    def _drop(piece: MessageText) -> None:
        piece.hide()
        piece.deleteLater()

    # ------------------------------------------------------------------ what is seen

    def realise(self, top: int, bottom: int) -> bool:
        """Build the pieces between two heights of this widget; whether any was."""
        built = False
        for piece in self.pieces:
            if piece.y() + piece.height() >= top and piece.y() <= bottom:
                if not piece.is_built:
                    piece.build()
                    piece.settle()
                    built = True
                piece.freshen()
        return built

    def build(self) -> None:
        """Build everything."""
        for piece in self.pieces:
            piece.build()

    def set_highlight(self, visible: bool) -> None:
        self._highlight = visible
        for piece in self.pieces:
            piece.set_highlight(visible)

    def point_at(self, step: int | None, part: tuple[int, int] | None = None) -> None:
        for piece in self.pieces:
            piece.point_at(step, part)

    def code_blocks(self) -> Iterator[str]:
        for piece in self.pieces:
            piece.build()
            yield from piece.code_blocks()
