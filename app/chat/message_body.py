"""The text of one message: its thoughts, folded, and its answer.

It is given the message's text again and again as it grows and passes on what is new.
"""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QPoint, QRect, Signal
from PySide6.QtWidgets import QVBoxLayout, QWidget

from app.chat.conversation import Run
from app.chat.text_flow import Piece, TextFlow
from app.chat.thinking_fold import ThinkingFold
from app.chat.token_marks import TokenMarks
from app.language import tr
from app.markdown.sections import SectionFinder, Sections

TAIL = 32
"""Characters compared to see that a text has only grown."""


class MessageBody(QWidget):
    """Thoughts and answer, in pieces that are built when they are seen."""

    step_clicked = Signal(int, int)
    """Step of a token that was clicked, and its place in the message."""
    link_clicked = Signal(str)
    position_shown = Signal(object, QRect)

    def __init__(
        self, name: str, literal: bool = False, parent: QWidget | None = None, thoughts: str = ""
    ) -> None:
        """``name`` is what a screen reader calls the text, and ``thoughts`` what was thought before it."""
        super().__init__(parent)
        self._thoughts_name = thoughts or tr("Reply", "Thoughts of the model")
        self._literal = literal
        self._highlight = True
        self._step: int | None = None
        self.marks = TokenMarks()
        self._finder = SectionFinder()
        self._sections = Sections()
        self._text = ""
        self._runs = 0
        self._fed = 0
        self.thoughts: ThinkingFold | None = None
        self.answer = TextFlow(self.marks, name, literal)
        self._layout = QVBoxLayout(self)
        self._layout.setContentsMargins(0, 0, 0, 0)
        self._layout.setSpacing(0)
        self._layout.addWidget(self.answer)
        self._wire(self.answer)

    def _wire(self, flow: TextFlow) -> None:
        flow.step_clicked.connect(self.step_clicked)
        flow.link_clicked.connect(self.link_clicked)
        flow.position_shown.connect(self.position_shown)
        flow.set_highlight(self._highlight)

    # ------------------------------------------------------------------ text

    @property
    def sections(self) -> Sections:
        return self._sections

    def plain_text(self) -> str:
        """The text as it was written."""
        return self._text

    def show_text(self, text: str, runs: Sequence[Run] = (), running: bool = False) -> None:
        """Show a text of which more may follow while it is ``running``.

        ``runs`` say where stretches of the text came from.
        """
        begin = len(self._text)
        grown = len(runs) >= self._runs and text.startswith(self._text[-TAIL:], max(0, begin - TAIL))
        if not grown:
            self._restart()
        fresh = not self._fed and not running
        self.marks.follow(runs, self._runs)
        self._text, self._runs = text, len(runs)
        if self._literal:
            self.answer.set_text(text, 0)
            self._fed = len(text)
            return
        sections, ready = self._finder.find(text)
        if sections.has_thoughts and not self._sections.has_thoughts and self._fed:
            # The closing tag says that what was shown so far were thoughts.
            self._fed = 0
            self.answer.clear()
        self._sections = sections
        self._feed(text, ready if running else len(text), fresh)
        if not running:
            for flow in self._flows():
                flow.settle()

    def _feed(self, text: str, ready: int, fresh: bool) -> None:
        sections = self._sections
        answer = sections.answer_start
        if sections.has_thoughts:
            if self.thoughts is None:
                self.thoughts = ThinkingFold(self.marks, self._thoughts_name)
                self._layout.insertWidget(0, self.thoughts)
                self._wire(self.thoughts.flow)
            begin = max(self._fed, sections.thought_start)
            end = ready if sections.thinking else sections.thought_end
            if begin < end:
                self._add(self.thoughts.flow, text, begin, end, fresh)
            if sections.thinking:
                answer = ready
        begin = max(self._fed, answer)
        if begin < ready:
            self._add(self.answer, text, begin, ready, fresh)
        self._fed = max(self._fed, ready)

    @staticmethod
    def _add(flow: TextFlow, text: str, begin: int, end: int, fresh: bool) -> None:
        if fresh and not flow.pieces:
            flow.set_text(text[begin:end], begin)
        else:
            flow.feed(text[begin:end], begin)

    def _restart(self) -> None:
        """Another text: nothing of what is shown stays."""
        self._text, self._runs, self._fed = "", 0, 0
        self._finder, self._sections = SectionFinder(), Sections()
        self.marks.follow((), 0)
        for flow in self._flows():
            flow.clear()
        if self.thoughts is not None:
            self.thoughts.hide()
            self.thoughts.deleteLater()
            self.thoughts = None

    def stops(self) -> list[QWidget]:
        """Where Tab stops in here, from top to bottom."""
        return [*(self.thoughts.stops() if self.thoughts is not None else ()), *self.answer.stops()]

    def pieces(self) -> list[Piece]:
        """The pieces that are not folded, from top to bottom."""
        return [piece for flow in self._flows() if flow.isVisibleTo(self) for piece in flow.pieces]

    def _flows(self) -> list[TextFlow]:
        return [self.answer] if self.thoughts is None else [self.thoughts.flow, self.answer]

    # ------------------------------------------------------------------ what is seen

    def realise(self, top: int, bottom: int) -> bool:
        """Build what lies between two heights of this widget; whether anything was built."""
        built = False
        for flow in self._flows():
            if flow.isVisibleTo(self):
                place = flow.mapTo(self, QPoint(0, 0)).y()
                built = flow.realise(top - place, bottom - place) or built
        return built

    @property
    def highlight(self) -> bool:
        """Whether accepted tokens are marked."""
        return self._highlight

    def set_highlight(self, visible: bool) -> None:
        self._highlight = visible
        for flow in self._flows():
            flow.set_highlight(visible)

    @property
    def step(self) -> int | None:
        """The step that is pointed at."""
        return self._step

    def point_at(self, step: int | None, part: tuple[int, int] | None = None) -> None:
        """Mark the text of a step, and ``part`` of it more strongly, and ask for it to be shown."""
        self._step = step
        stretch = self.marks.stretch(step)
        if self.thoughts is not None and stretch is not None and stretch[1] <= self._sections.thought_end:
            self.thoughts.open()
        for flow in self._flows():
            flow.point_at(step, part)

    def code_blocks(self) -> list[str]:
        """The code in the answer, block by block."""
        return list(self.answer.code_blocks())
