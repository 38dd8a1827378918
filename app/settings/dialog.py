"""The settings. Every change applies at once; "Restore defaults" takes all back."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import Qt
from PySide6.QtGui import QShowEvent
from PySide6.QtWidgets import (
    QAbstractSpinBox,
    QCheckBox,
    QComboBox,
    QDialog,
    QDialogButtonBox,
    QDoubleSpinBox,
    QFormLayout,
    QFrame,
    QLabel,
    QScrollArea,
    QSpinBox,
    QVBoxLayout,
    QWidget,
)

from app.language import installing, mark, tr
from app.language.choice import OWN_NAMES, Language
from app.settings.optional_number import OptionalNumber
from app.settings.own_values import FIELDS
from app.settings.store import LIMITS, Settings, SettingsStore
from app.spin_text import indent
from app.theme import ThemeChoice
from app.wheel import scroll_past

LONGEST_LABEL = mark("Settings", "Longest reply (tokens)")
THEMES = (
    (ThemeChoice.SYSTEM, mark("Settings", "Follow the system")),
    (ThemeChoice.LIGHT, mark("Settings", "Light")),
    (ThemeChoice.DARK, mark("Settings", "Dark")),
)


class SettingsDialog(QDialog):
    """Shows and changes a :class:`SettingsStore`."""

    def __init__(self, store: SettingsStore, parent: QWidget | None = None, follows: bool = False) -> None:
        """``follows``: the window changes its language by itself."""
        super().__init__(parent)
        self._store = store
        self._follows = follows
        self._filling = False
        self.setWindowTitle(tr("Settings", "Settings"))
        outer = QVBoxLayout(self)
        outer.setContentsMargins(0, 0, 0, 0)
        scroll = QScrollArea()
        scroll.setWidgetResizable(True)
        scroll.setFrameShape(QFrame.Shape.NoFrame)
        page = QWidget()
        column = QVBoxLayout(page)
        column.setContentsMargins(26, 20, 26, 20)
        column.setSpacing(8)
        self._build_generation(column)
        self._build_tree(column)
        self._build_memory(column)
        self._build_look(column)
        column.addStretch(1)
        scroll.setWidget(page)
        self._page = page
        self._scroll = scroll
        outer.addWidget(scroll, 1)
        self.problem = QLabel()
        self.problem.setTextFormat(Qt.TextFormat.PlainText)
        self.problem.setProperty("textRole", "error")
        self.problem.setWordWrap(True)
        self.problem.setContentsMargins(26, 0, 26, 0)
        self.problem.hide()
        outer.addWidget(self.problem)
        box = QDialogButtonBox()
        box.setContentsMargins(26, 6, 26, 18)
        self.restore = box.addButton(
            tr("Settings", "Restore defaults"), QDialogButtonBox.ButtonRole.ResetRole
        )
        self.close_button = box.addButton(tr("Settings", "Close"), QDialogButtonBox.ButtonRole.AcceptRole)
        self.close_button.setDefault(True)
        self.restore.clicked.connect(store.restore_defaults)
        box.accepted.connect(self.accept)
        outer.addWidget(box)
        self._unsubscribe = store.changed.subscribe(self._fill)
        self.finished.connect(lambda _: self._on_finished())
        self._fill(store.current)
        scroll_past(self)

    # ------------------------------------------------------------------ building

    def _section(self, column: QVBoxLayout, title: str, note: str = "") -> QFormLayout:
        if column.count():
            column.addSpacing(12)
        heading = QLabel(title)
        heading.setProperty("textRole", "heading")
        column.addWidget(heading)
        if note:
            text = QLabel(note)
            text.setProperty("textRole", "small")
            text.setWordWrap(True)
            column.addWidget(text)
        form = QFormLayout()
        form.setContentsMargins(0, 4, 0, 0)
        form.setHorizontalSpacing(22)
        form.setVerticalSpacing(9)
        form.setFieldGrowthPolicy(QFormLayout.FieldGrowthPolicy.FieldsStayAtSizeHint)
        column.addLayout(form)
        return form

    def _row(self, form: QFormLayout, label: str, widget: QWidget, tip: str = "") -> None:
        widget.setToolTip(tip)
        if not widget.accessibleName():
            widget.setAccessibleName(label)
        caption = QLabel(label)
        caption.setBuddy(widget)
        caption.setMinimumWidth(self.fontMetrics().horizontalAdvance(tr("Settings", LONGEST_LABEL)))
        form.addRow(caption, widget)

    def _build_generation(self, column: QVBoxLayout) -> None:
        form = self._section(
            column, tr("Settings", "Replies"), tr("Settings", "Used from the next reply on.")
        )
        self.temperature = _real("temperature", 0.1, self._changed)
        self.temperature.setSpecialValueText(tr("Settings", "0 (greedy)"))
        self.top_p = _real("top_p", 0.05, self._changed)
        self.top_k = _whole("top_k", self._changed)
        self.top_k.setSpecialValueText(tr("Settings", "off"))
        self.more: dict[str, QDoubleSpinBox | QSpinBox] = {
            "min_p": _real("min_p", 0.01, self._changed),
            "repetition_penalty": _real("repetition_penalty", 0.05, self._changed),
            "presence_penalty": _real("presence_penalty", 0.1, self._changed),
            "frequency_penalty": _real("frequency_penalty", 0.1, self._changed),
            "no_repeat_ngram": _whole("no_repeat_ngram", self._changed),
        }
        self.max_new_tokens = _whole("max_new_tokens", self._changed)
        self.max_new_tokens.setSingleStep(64)
        self.seed = OptionalNumber(
            "seed", tr("Settings", "Seed"), tr("Settings", "Different each time"), 1, self._changed
        )
        boxes = {
            "temperature": self.temperature,
            "top_p": self.top_p,
            "top_k": self.top_k,
            **self.more,
            "max_new_tokens": self.max_new_tokens,
            "seed": self.seed,
        }
        for field, label, tip in FIELDS:
            self._row(form, tr("Settings", label), boxes[field], tr("Settings", tip) if tip else "")

    def _build_tree(self, column: QVBoxLayout) -> None:
        form = self._section(
            column,
            tr("Settings", "Draft tree"),
            tr(
                "Settings",
                "How far the EAGLE head guesses ahead: changes the speed, not what the model would choose.",
            ),
        )
        nodes, depth, automatic = (
            tr("Settings", "Nodes"),
            tr("Settings", "Depth"),
            tr("Settings", "Automatic"),
        )
        self.tree_nodes = OptionalNumber("tree_nodes", nodes, automatic, 8, self._changed)
        self.tree_depth = OptionalNumber("tree_depth", depth, automatic, 4, self._changed)
        self._row(
            form,
            nodes,
            self.tree_nodes,
            tr("Settings", "Tokens checked in one pass of the target, the root included."),
        )
        self._row(form, depth, self.tree_depth, tr("Settings", "Levels below the root."))
        self.highlight = QCheckBox(tr("Settings", "Mark accepted draft tokens in replies"))
        self.highlight.toggled.connect(lambda _: self._changed())
        form.addRow(self.highlight)

    def _build_look(self, column: QVBoxLayout) -> None:
        form = self._section(column, tr("Settings", "Appearance"))
        self.theme = QComboBox()
        for choice, text in THEMES:
            self.theme.addItem(tr("Settings", text), choice)
        self.theme.currentIndexChanged.connect(lambda _: self._changed())
        size = tr("Settings", "Font size")
        self.font_size = OptionalNumber("font_size", size, tr("Settings", "As the system"), 11, self._changed)
        self.font_size.number.setSuffix(tr("Settings", " pt"))
        self.language = QComboBox()
        self.language.addItem(tr("Settings", "Follow the system"), Language.SYSTEM)
        for language, own_name in OWN_NAMES.items():
            self.language.addItem(own_name, language)
        self.language.currentIndexChanged.connect(lambda _: self._changed())
        self.restart_note = QLabel(
            tr("Settings", "The window speaks it once these settings are closed and nothing is being written.")
            if self._follows
            else tr("Settings", "Eyrie speaks it when it is started the next time.")
        )
        self.restart_note.setProperty("textRole", "small")
        self.restart_note.setWordWrap(True)
        self.restart_note.hide()
        self._row(form, tr("Settings", "Theme"), self.theme)
        self._row(form, size, self.font_size)
        self._row(form, tr("Settings", "Language"), self.language)
        form.addRow("", self.restart_note)
        self.reduced_motion = QCheckBox(
            tr("Settings", "Reduce motion: show new text and trees a few times a second")
        )
        self.reduced_motion.toggled.connect(lambda _: self._changed())
        form.addRow(self.reduced_motion)

    def _build_memory(self, column: QVBoxLayout) -> None:
        form = self._section(
            column,
            tr("Settings", "Memory"),
            tr("Settings", "An unloaded model comes back with the next prompt."),
        )
        self.idle_unload = OptionalNumber(
            "idle_unload_minutes",
            tr("Settings", "Unload after"),
            tr("Settings", "Never"),
            30,
            self._changed,
        )
        self.idle_unload.number.setSuffix(tr("Settings", " min"))
        self._row(
            form,
            tr("Settings", "Unload without use"),
            self.idle_unload,
            tr("Settings", "Gives the GPU back when nothing was asked for so long."),
        )

    # ------------------------------------------------------------------ values

    def _fill(self, settings: Settings) -> None:
        self._filling = True
        _show(self.temperature, settings.temperature)
        _show(self.top_p, settings.top_p)
        _show(self.top_k, settings.top_k)
        for field, box in self.more.items():
            _show(box, getattr(settings, field))
        _show(self.max_new_tokens, settings.max_new_tokens)
        self.seed.set_value(settings.seed)
        self.tree_nodes.set_value(settings.tree_nodes)
        self.tree_depth.set_value(settings.tree_depth)
        self.highlight.setChecked(settings.highlight)
        self.theme.setCurrentIndex(self.theme.findData(settings.theme))
        self.font_size.set_value(settings.font_size)
        self.language.setCurrentIndex(self.language.findData(settings.language))
        self._note_language(settings.language)
        self.reduced_motion.setChecked(settings.reduced_motion)
        self.idle_unload.set_value(settings.idle_unload_minutes)
        self._filling = False

    def _changed(self) -> None:
        if self._filling:
            return
        self._store.update(
            temperature=round(self.temperature.value(), 3),
            top_p=round(self.top_p.value(), 3),
            top_k=self.top_k.value(),
            **{
                field: round(box.value(), 3) if isinstance(box, QDoubleSpinBox) else box.value()
                for field, box in self.more.items()
            },
            max_new_tokens=self.max_new_tokens.value(),
            seed=self.seed.value(),
            tree_nodes=self.tree_nodes.value(),
            tree_depth=self.tree_depth.value(),
            highlight=self.highlight.isChecked(),
            theme=ThemeChoice(self.theme.currentData()),
            language=Language(self.language.currentData()),
            font_size=self.font_size.value(),
            reduced_motion=self.reduced_motion.isChecked(),
            idle_unload_minutes=self.idle_unload.value(),
        )

    def _note_language(self, choice: Language) -> None:
        """The texts on the screen stay; say when the others come."""
        self.restart_note.setVisible(installing.language_of(choice) is not installing.shown())

    def say_problem(self, text: str) -> None:
        self.problem.setText(text)
        self.problem.setVisible(bool(text))

    def _on_finished(self) -> None:
        self._unsubscribe()
        if not self._store.save():
            self.say_problem(self._store.problem)

    def showEvent(self, event: QShowEvent) -> None:
        """Open as large as the page wants, and the screen allows."""
        super().showEvent(event)
        wanted = self._page.sizeHint()
        room = self.screen().availableGeometry().size() * 0.9
        self.resize(min(wanted.width() + 40, room.width()), min(wanted.height() + 90, room.height()))


def _show(box: QSpinBox | QDoubleSpinBox, value: float) -> None:
    """Not where it stands already: that would write anew what somebody is typing, "0.8" as "0.80"."""
    if round(box.value(), 3) != round(value, 3):
        box.setValue(value)  # type: ignore[arg-type]  # a whole number where the box takes only those


def _real(field: str, step: float, changed: Callable[[], None]) -> QDoubleSpinBox:
    box = QDoubleSpinBox()
    box.setRange(*LIMITS[field])
    box.setDecimals(2)
    box.setSingleStep(step)
    box.setStepType(QAbstractSpinBox.StepType.DefaultStepType)
    box.valueChanged.connect(lambda _: changed())
    indent(box)
    return box


def _whole(field: str, changed: Callable[[], None]) -> QSpinBox:
    box = QSpinBox()
    low, high = LIMITS[field]
    box.setRange(int(low), int(high))
    box.valueChanged.connect(lambda _: changed())
    indent(box)
    return box
