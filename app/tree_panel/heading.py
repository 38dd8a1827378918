"""The top of the panel: its title, the method at work, and an explanation that can be opened."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Qt, Signal, Slot
from PySide6.QtWidgets import QHBoxLayout, QLabel, QVBoxLayout, QWidget

from app.elided_label import ElidedLabel
from app.language import tr
from app.language.engine_texts import of_engine
from app.tree_panel.explanation import explanation
from app.tree_panel.glyphs import Glyph, GlyphButton
from engine.protocol import MethodInfo, Shape, Step


class Heading(QWidget):
    """Follows the step that is shown: the explanation tells of the form in which it is drawn."""

    shape_changed = Signal(object)
    """The `Shape` that is explained now."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._methods: dict[str, MethodInfo] = {}
        self._explained: tuple[Shape, str] | None = None
        title = QLabel(tr("Panel", "Draft tree"), self)
        title.setProperty("textRole", "heading")
        self.method = ElidedLabel(self)
        self.method.setProperty("textRole", "small")
        words = tr("Panel", "What am I looking at?")
        self.button = GlyphButton(Glyph.CLOSED, words, self, words)
        self.button.setCheckable(True)
        self.button.toggled.connect(self._open)
        self.explanation = QLabel(self)
        self.explanation.setTextFormat(Qt.TextFormat.PlainText)
        self.explanation.setWordWrap(True)
        self.explanation.setTextInteractionFlags(
            Qt.TextInteractionFlag.TextSelectableByMouse | Qt.TextInteractionFlag.TextSelectableByKeyboard
        )
        self.explanation.setAccessibleName(words)
        self.explanation.setContentsMargins(2, 0, 2, 6)
        self.explanation.hide()
        row = QHBoxLayout()
        row.addWidget(title)
        row.addSpacing(4)
        row.addWidget(self.method, 1)
        row.addWidget(self.button)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(9)
        column.addLayout(row)
        column.addWidget(self.explanation)
        self.show_step(None)

    def set_methods(self, methods: Sequence[MethodInfo]) -> None:
        """The methods of the loaded model: what they are called and how they explain themselves."""
        self._methods = {method.id: method for method in methods}
        if self._explained is not None:
            self._explain(*self._explained)

    def method_name(self, method: str) -> str:
        """A method's name for people, its id where it is not known."""
        known = self._methods.get(method)
        return of_engine(known.name) if known is not None else method

    def show_step(self, step: Step | None) -> None:
        """Explain a step; one without guesses leaves what is explained as it is, None begins anew."""
        if step is None:
            self._explain(Shape.TREE, "")
        elif (step.nodes or step.window) and self._explained != (step.shape, step.method):
            self._explain(step.shape, step.method)

    def _explain(self, shape: Shape, method: str) -> None:
        self._explained = (shape, method)
        self.explanation.setText(explanation(shape, self._methods.get(method)))
        self.method.show_text(self.method_name(method))
        self.shape_changed.emit(shape)

    @Slot(bool)
    def _open(self, shown: bool) -> None:
        self.explanation.setVisible(shown)
        self.button.set_glyph(Glyph.OPEN if shown else Glyph.CLOSED)
