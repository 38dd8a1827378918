"""The page on which a comparison is put together."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QBoxLayout, QFrame, QHBoxLayout, QLabel, QPushButton, QVBoxLayout, QWidget

from app.compare.comparison import Which
from app.compare.plan import Plan
from app.compare.prompt_editor import PromptEditor
from app.compare.saved_list import SavedList
from app.compare.shared_editor import SharedEditor
from app.compare.side_editor import SideEditor
from app.compare.sides import PLAIN, SideChoice, from_settings
from app.language import tr, tr_n
from app.wheel import scroll_past
from engine.protocol import GenerationSettings, Load, Message, ModelInfo


class SetupPage(QWidget):
    changed = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._model: ModelInfo | None = None
        """The one whose methods are offered; it stays while none is loaded."""
        self._is_loaded = False
        self._filled: tuple[object, ...] | None = None
        heading = QLabel(tr("Compare", "Compare two settings"), self)
        heading.setProperty("textRole", "heading")
        about = QLabel(
            tr(
                "Compare",
                "Both sides answer the same prompts, one reply at a time. Then you see how much faster one is and "
                "whether the texts are the same.",
            ),
            self,
        )
        about.setWordWrap(True)
        about.setProperty("textRole", "small")
        self.sides = {which: SideEditor(which, self) for which in Which}
        self.swap_button = QPushButton(tr("Compare", "Swap A and B"), self)
        self.swap_button.setAutoDefault(False)
        self.swap_button.clicked.connect(self.swap)
        self.prompts = PromptEditor(self)
        self.shared = SharedEditor(self)
        self.saved = SavedList(self)
        # These two stand below the page, where they are always in view.
        self.summary = QLabel(self)
        self.summary.setWordWrap(True)
        self.summary.setProperty("textRole", "small")
        self.trouble = QLabel(self)
        self.trouble.setTextFormat(Qt.TextFormat.PlainText)
        self.trouble.setWordWrap(True)
        self.trouble.setProperty("textRole", "error")
        self._two = QBoxLayout(QBoxLayout.Direction.LeftToRight)
        self._below = QBoxLayout(QBoxLayout.Direction.LeftToRight)
        for row in (self._two, self._below):
            row.setSpacing(28)
        for editor in self.sides.values():
            self._two.addWidget(editor, 1)
        self._below.addWidget(self.prompts, 3)
        self._below.addWidget(self.shared, 2)
        swap = QHBoxLayout()
        swap.addWidget(self.swap_button)
        swap.addStretch(1)
        column = QVBoxLayout(self)
        column.setContentsMargins(20, 16, 20, 8)
        column.setSpacing(12)
        for part in (heading, about, self._two, swap, self._line(), self._below, self.saved):
            if isinstance(part, QWidget):
                column.addWidget(part)
            else:
                column.addLayout(part)
        column.addStretch(1)
        for editor in self.sides.values():
            editor.changed.connect(self._show)
        self.prompts.changed.connect(self._show)
        self.shared.changed.connect(self._show)
        scroll_past(self)
        self._show()

    def _line(self) -> QWidget:
        line = QFrame(self)
        line.setFrameShape(QFrame.Shape.HLine)
        line.setFrameShadow(QFrame.Shadow.Plain)
        line.setForegroundRole(self.palette().ColorRole.Mid)
        return line

    def set_direction(self, direction: QBoxLayout.Direction) -> None:
        self._two.setDirection(direction)
        self._below.setDirection(direction)

    # ------------------------------------------------------------------ filling

    def fill(
        self,
        model: ModelInfo | None,
        settings: GenerationSettings,
        messages: Sequence[Message],
        conversation: Sequence[Message],
    ) -> None:
        """Offer what there is. What was chosen for the same model and settings stays."""
        key = (model, settings)
        self._is_loaded = model is not None
        if key != self._filled and (model is not None or self._model is None):
            kept = self._model is not None and model is not None and model.path == self._model.path
            choices = {which: editor.choice() for which, editor in self.sides.items()}
            if not kept:
                choices = {Which.A: from_settings(settings, model), Which.B: PLAIN}
            self._model, self._filled = model, key
            for which, editor in self.sides.items():
                editor.fill(model, choices[which])
            self.shared.fill(settings)
        self.prompts.fill(messages, conversation)
        self._show()

    def show_model(self, model: ModelInfo | None) -> None:
        """Another model or head is loaded: what was chosen stays as far as it can."""
        if (model is not None) != self._is_loaded:
            self._is_loaded = model is not None
            self._show()
        if model == self._model or model is None:
            return
        same = self._model is not None and model.path == self._model.path
        self._model = model
        self._filled = None
        for editor in self.sides.values():
            editor.fill(model, editor.choice() if same else SideChoice(drafting=editor.which is Which.A))
        self._show()

    def swap(self) -> None:
        a, b = (self.sides[which].choice() for which in Which)
        self.sides[Which.A].fill(self._model, b)
        self.sides[Which.B].fill(self._model, a)
        self._show()

    # ------------------------------------------------------------------ what was chosen

    def plan(self, load: Load) -> Plan:
        a, b = (self.sides[which].choice() for which in Which)
        return Plan(a, b, self.prompts.prompts(), self.shared.settings(), self.shared.repeats.value(), load)

    def problem(self) -> str:
        """Why this cannot be started, and what to do; or ""."""
        if not self._is_loaded:
            return tr("Compare", "No model is loaded. Load one to compare.")
        for editor in self.sides.values():
            if words := editor.problem():
                return words
        return self.prompts.problem()

    def _show(self) -> None:
        plan = self.plan(Load())
        count = len(plan.prompts)
        parts = [
            tr_n("Compare", "%n prompt", "%n prompts", count),
            tr_n("Compare", "%n repeat", "%n repeats", plan.repeats),
        ]
        said = tr_n("Compare", "{what}: %n reply.", "{what}: %n replies.", 2 * count * plan.repeats).format(
            what=" × ".join(parts)
        )
        if plan.a == plan.b:
            said += " " + tr("Compare", "Both sides are the same: this shows how much a repeat varies.")
        if loads := plan.loads:
            said += " " + tr_n(
                "Compare",
                "A side needs another head: the model is loaded again %n time.",
                "A side needs another head: the model is loaded again %n times.",
                loads,
            )
        self.summary.setText(said)
        problem = self.problem()
        self.trouble.setText(problem)
        self.changed.emit()
