"""What an empty chat shows: a word of welcome and four prompts to begin with."""

from __future__ import annotations

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtWidgets import (
    QFrame,
    QGridLayout,
    QLabel,
    QPushButton,
    QScrollArea,
    QSizePolicy,
    QVBoxLayout,
    QWidget,
)

from app import icons
from app.chat.column import MessageColumn
from app.language import mark, tr

EXAMPLES = (
    (mark("Examples", "Ask a fact"), mark("Examples", "What is the capital of Peru?")),
    (mark("Examples", "Make a list"), mark("Examples", "Name the planets of the solar system in order.")),
    (mark("Examples", "Translate"), mark("Examples", "Translate to French: The weather is beautiful today.")),
    (
        mark("Examples", "Tell a story"),
        mark("Examples", "Tell a short story about a fox who finds a lantern in the snow."),
    ),
)
"""Short questions with one kind of answer: what a small model without instruction tuning can follow."""
NARROWEST = 140
"""Width of a card that is still read with ease."""


class EmptyState(QScrollArea):
    """Centred in the transcript's place; scrolls where there is no room for it."""

    chosen = Signal(str)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWidgetResizable(True)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        page = MessageColumn()
        outer = QVBoxLayout(page)
        outer.setContentsMargins(24, 24, 24, 24)
        outer.setSpacing(6)
        outer.addStretch(3)
        mark = QLabel()
        mark.setPixmap(icons.application_icon().pixmap(56, 56))
        mark.setAccessibleName("Eyrie")
        outer.addWidget(mark, 0, Qt.AlignmentFlag.AlignHCenter)
        outer.addSpacing(10)
        self._title = QLabel(tr("Examples", "What shall we write?"))
        self._title.setProperty("textRole", "display")
        self._title.setAlignment(Qt.AlignmentFlag.AlignHCenter)
        self._title.setWordWrap(True)
        outer.addWidget(self._title)
        hint = QLabel(
            tr(
                "Examples",
                "Replies stream with their draft tree: what the head guessed, and what the target accepted.",
            )
        )
        hint.setProperty("textRole", "small")
        hint.setWordWrap(True)
        hint.setAlignment(Qt.AlignmentFlag.AlignHCenter)
        outer.addWidget(hint)
        outer.addSpacing(22)
        cards = QWidget()
        cards.setMaximumWidth(760)
        cards.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Minimum)
        grid = QGridLayout(cards)
        grid.setContentsMargins(0, 0, 0, 0)
        grid.setSpacing(12)
        self.buttons = []
        for place, (kind, prompt) in enumerate(EXAMPLES):
            asked = tr("Examples", prompt)
            button = _Card(tr("Examples", kind), asked)
            button.clicked.connect(lambda _=False, text=asked: self.chosen.emit(text))
            grid.addWidget(button, place // 2, place % 2)
            self.buttons.append(button)
        grid.setColumnStretch(0, 1)
        grid.setColumnStretch(1, 1)
        outer.addWidget(cards, 0)
        outer.setAlignment(cards, Qt.AlignmentFlag(0))
        outer.addStretch(4)
        self.setWidget(page)


class _Card(QPushButton):
    """A button with a small heading and a prompt that wraps."""

    def __init__(self, kind: str, prompt: str) -> None:
        super().__init__()
        self.setProperty("look", "card")
        self.setAccessibleName(f"{kind}: {prompt}")
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Minimum)
        inner = QVBoxLayout(self)
        inner.setContentsMargins(17, 13, 17, 14)
        inner.setSpacing(3)
        for text, role in ((kind, "small"), (prompt, "")):
            label = QLabel(text)
            label.setTextFormat(Qt.TextFormat.PlainText)
            label.setWordWrap(True)
            label.setProperty("textRole", role)
            label.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
            label.setAlignment(Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignTop)
            inner.addWidget(label, 1 if not role else 0)

    def sizeHint(self):  # type: ignore[no-untyped-def]
        layout = self.layout()
        return layout.sizeHint() if layout is not None else super().sizeHint()

    def minimumSizeHint(self) -> QSize:
        """Narrow: the height follows from the width."""
        return QSize(NARROWEST, self.fontMetrics().lineSpacing())

    def hasHeightForWidth(self) -> bool:
        return True

    def heightForWidth(self, width: int) -> int:
        layout = self.layout()
        return layout.heightForWidth(width) if layout is not None else -1
