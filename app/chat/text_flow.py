"""A long text in pieces, one under the other; only those that are seen, or nearly, are built.

While a text streams in, the last piece grows. When it is long enough its finished part
stays as it is and a new piece goes on.
"""

from __future__ import annotations

from collections.abc import Iterator

from PySide6.QtCore import QRect, QTimer, Signal
from PySide6.QtGui import QAccessible
from PySide6.QtWidgets import QApplication, QVBoxLayout, QWidget

from app.chat.held_text import HeldText
from app.chat.message_text import MessageText
from app.chat.token_marks import TokenMarks
from app.language import numbers, tr
from app.markdown.sections import PIECE, pieces

FAR = 5000
"""Pixels from what is seen, from which on a finished piece is only held."""

Piece = MessageText | HeldText


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
        self._step: int | None = None
        self._spare: MessageText | None = None
        """For the next piece of a text that streams in: made when there is time."""
        self._complete = False
        self.pieces: list[Piece] = []
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
            if place < len(self.pieces):
                self.pieces[place].hold(text[cut:end], start + cut)
            else:
                self._add(text[cut:end], start + cut)

    def clear(self) -> None:
        while self.pieces:
            self._drop(self.pieces.pop())

    def feed(self, text: str, start: int) -> None:
        """Add a text, which stands at ``start`` of its message, to the end."""
        if not text:
            return
        self._complete = False
        if not self.pieces:
            self._add("", start)
        last = self.pieces[-1]
        last.feed(text)
        if isinstance(last, HeldText) or not last.is_built:
            if last.end - last.start > PIECE * 3:
                # Nobody looks: the pieces are cut without being read.
                text, start = last.source(), last.start
                cuts = [] if self._literal else pieces(text)[1:]
                for place, cut in enumerate(cuts):
                    end = cuts[place + 1] if place + 1 < len(cuts) else len(text)
                    self._add(text[cut:end], start + cut)
                if cuts:
                    last.hold(text[: cuts[0]], start)
        elif last.end - last.start > PIECE * 3 // 2:
            tail = last.take_tail()
            if tail is not None:
                last.settle()
                self._add(tail[1], tail[0])
                self._build(len(self.pieces) - 1)
        elif last.end - last.start > PIECE and self._spare is None:
            QTimer.singleShot(0, self, self._prepare)

    def settle(self) -> None:
        """The text is complete."""
        self._complete = True
        if self._spare is not None:
            self._drop(self._spare)
            self._spare = None
        for piece in self.pieces[-1:]:
            if isinstance(piece, MessageText):
                piece.settle()

    def stops(self) -> list[QWidget]:
        """Where Tab stops in here, from top to bottom."""
        return [stop for piece in self.pieces for stop in piece.stops()]

    @property
    def text(self) -> str:
        """The text as written."""
        return "".join(piece.source() for piece in self.pieces)

    # ------------------------------------------------------------------ pieces

    def _add(self, text: str, start: int) -> None:
        piece = HeldText(text, start)
        piece.setAccessibleName(self._name_of(len(self.pieces)))
        self._wire(piece)
        self.pieces.append(piece)
        self._layout.addWidget(piece)

    def _name_of(self, place: int) -> str:
        if not place:
            return self._name
        number = numbers.whole(place + 1)
        return tr("Reply", "{name}, part {number}").format(name=self._name, number=number)

    def _wire(self, piece: HeldText) -> None:
        piece.wanted.connect(lambda: self._build(self.pieces.index(piece)))

    def _make(self) -> MessageText:
        made, self._spare = self._spare or MessageText(self._marks, self._literal, self), None
        return made

    def _prepare(self) -> None:
        if self._spare is None and not self._complete:
            self._spare = self._make()
            self._spare.setAccessibleName(self._name)
            self._spare.hide()
            self._spare.ensurePolished()

    def _build(self, place: int) -> MessageText:
        """Have a piece built, in a widget that can show it."""
        held = self.pieces[place]
        if isinstance(held, MessageText):
            held.build()
            return held
        focused = held.hasFocus()
        made = self._make()
        made.setAccessibleName(self._name_of(place))
        made.layer.set_visible(self._highlight)
        made.layer.point_at(self._step)
        made.step_clicked.connect(self.step_clicked)
        made.link_clicked.connect(self.link_clicked)
        made.position_shown.connect(lambda area: self.position_shown.emit(made, area))
        made.hold(held.source(), held.start)
        made.setGeometry(held.geometry())
        self._put(place, made)
        made.build()
        if place < len(self.pieces) - 1:
            made.settle()
        held.became = made
        if focused:
            made.setFocus()
        self._drop(held)
        return made

    def _put(self, place: int, piece: Piece) -> None:
        """Let a piece take the place of another, in the layout and in the order of Tab."""
        old = self.pieces[place]
        QWidget.setTabOrder(old.stops()[-1], piece)
        self.pieces[place] = piece
        at = self._layout.indexOf(old)
        self._layout.removeWidget(old)
        self._layout.insertWidget(at, piece)
        piece.show()

    def _release(self, place: int) -> None:
        """Let go of a finished piece that is far from being seen."""
        piece = self.pieces[place]
        assert isinstance(piece, MessageText)
        held = HeldText(piece.source(), piece.start, piece.height(), self)
        held.setAccessibleName(piece.accessibleName())
        held.setGeometry(piece.geometry())
        self._wire(held)
        self._put(place, held)
        self._drop(piece)

    def _can_release(self, place: int, piece: Piece) -> bool:
        if not isinstance(piece, MessageText) or not piece.is_built or place >= len(self.pieces) - 1:
            return False
        focus = QApplication.focusWidget()
        busy = piece.textCursor().hasSelection() or (focus is not None and piece.isAncestorOf(focus)) or piece is focus
        return not busy and not QAccessible.isActive()

    @staticmethod
    def _drop(piece: Piece) -> None:
        piece.hide()
        piece.deleteLater()

    # ------------------------------------------------------------------ what is seen

    def realise(self, top: int, bottom: int) -> bool:
        """Build the pieces between two heights of this widget; whether any was.

        One that is far from there is let go of.
        """
        built = released = False
        for place, piece in enumerate(self.pieces):
            if piece.y() + piece.height() >= top and piece.y() <= bottom:
                if isinstance(piece, HeldText) or not piece.is_built:
                    piece = self._build(place)
                    piece.settle()
                    built = True
                piece.freshen()
            elif not released and (piece.y() + piece.height() < top - FAR or piece.y() > bottom + FAR):
                released = self._can_release(place, piece)
                if released:
                    self._release(place)
        return built

    def build(self) -> None:
        """Build everything."""
        for place in range(len(self.pieces)):
            self._build(place)

    def set_highlight(self, visible: bool) -> None:
        self._highlight = visible
        for piece in self.pieces:
            if isinstance(piece, MessageText):
                piece.set_highlight(visible)

    def point_at(self, step: int | None, part: tuple[int, int] | None = None) -> None:
        """Mark the text of a step, and ``part`` of it, and ask for it to be shown."""
        stretch = self._marks.stretch(step)
        for place, piece in enumerate(self.pieces):
            if stretch is not None and stretch[0] < piece.end and stretch[1] > piece.start:
                piece = self._build(place)
            if isinstance(piece, MessageText):
                piece.point_at(step, part)
        self._step = step

    def code_blocks(self) -> Iterator[str]:
        for place in range(len(self.pieces)):
            yield from self._build(place).code_blocks()
