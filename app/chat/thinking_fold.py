"""What a model thought before its answer: folded, with its length and the time it took."""

from __future__ import annotations

from PySide6.QtCore import QRectF, Qt
from PySide6.QtGui import QPainter, QPaintEvent
from PySide6.QtWidgets import QSizePolicy, QToolButton, QVBoxLayout, QWidget

from app import theme
from app.chat import figures
from app.chat.conversation import ChatMessage
from app.chat.text_flow import TextFlow
from app.chat.token_marks import TokenMarks
from app.language import numbers, tr, tr_n


def thought_seconds(message: ChatMessage, start: int, end: int) -> float:
    """About how long the model wrote ``text[start:end]``, from the steps it took; 0 when that is not known."""
    stats = message.stats
    if stats is None or not message.runs or stats.decode_seconds <= 0:
        return 0.0
    inside = [run.step for run in message.runs if run.start < end and run.end > start]
    last = message.runs[-1].step
    if not inside:
        return 0.0
    return stats.decode_seconds * min(1.0, (inside[-1] - inside[0] + 1) / (last + 1))


class ThinkingFold(QWidget):
    """A button that says what was thought about how long, and the thoughts below it."""

    def __init__(self, marks: TokenMarks, name: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.flow = TextFlow(marks, name)
        self._words = 0
        self._counted = 0
        self.button = QToolButton()
        self.button.setProperty("look", "fold")
        self.button.setProperty("textRole", "small")
        self.button.setCheckable(True)
        self.button.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
        self.button.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.button.setSizePolicy(QSizePolicy.Policy.Maximum, QSizePolicy.Policy.Fixed)
        self.button.toggled.connect(self._on_toggled)
        self._inner = QWidget()
        inside = QVBoxLayout(self._inner)
        inside.setContentsMargins(18, 2, 0, 8)
        inside.addWidget(self.flow)
        self._inner.hide()
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 6)
        layout.setSpacing(2)
        layout.addWidget(self.button)
        layout.addWidget(self._inner)
        self._on_toggled(False)

    @property
    def is_open(self) -> bool:
        return self.button.isChecked()

    def stops(self) -> list[QWidget]:
        return [self.button, *self.flow.stops()]

    def open(self) -> None:
        self.button.setChecked(True)

    def _on_toggled(self, open_: bool) -> None:
        self._inner.setVisible(open_)
        self.button.setArrowType(Qt.ArrowType.DownArrow if open_ else Qt.ArrowType.RightArrow)

    def show_words(self, running: bool, seconds: float) -> None:
        """Bring the button's words up to date."""
        text = self.flow.text
        # A word that is cut in two counts twice at most.
        self._words += len(text[self._counted :].split())
        self._counted = len(text)
        length = tr_n("Reply", "{count} word", "{count} words", self._words).format(
            count=numbers.whole(self._words)
        )
        if running:
            words = tr("Reply", "Thinking… {length}").format(length=length)
        elif seconds > 0:
            words = tr("Reply", "Thought for about {time} · {length}").format(
                time=figures.seconds(seconds), length=length
            )
        else:
            words = tr("Reply", "Thoughts · {length}").format(length=length)
        if words != self.button.text():
            self.button.setText(words)
            self.button.setAccessibleName(words)
            self.button.setToolTip(tr("Reply", "Show or hide what the model thought before it answered"))

    def paintEvent(self, event: QPaintEvent) -> None:
        """A line beside the thoughts sets them off from the answer."""
        if self.is_open:
            painter = QPainter(self)
            area = self._inner.geometry()
            painter.fillRect(QRectF(7, area.top(), 2, area.height() - 8), theme.tokens(self).grid)
