"""What both sides have in common: temperature, seed, length, repeats."""

from __future__ import annotations

from dataclasses import replace

from PySide6.QtCore import Signal
from PySide6.QtWidgets import (
    QCheckBox,
    QDoubleSpinBox,
    QFormLayout,
    QLabel,
    QSpinBox,
    QVBoxLayout,
    QWidget,
)

from app.compare.plan import MOST_REPEATS
from app.language import tr
from app.settings.store import LIMITS
from app.spin_text import indent
from engine.protocol import GenerationSettings

LONGEST = 256
"""Tokens of a reply unless the user wants more: a chat's limit may be far higher."""
ANY = -1


class SharedEditor(QWidget):
    changed = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._settings = GenerationSettings()
        title = QLabel(tr("Compare", "For both sides"), self)
        title.setProperty("textRole", "label")
        self.temperature = QDoubleSpinBox(self)
        self.temperature.setDecimals(2)
        self.temperature.setSingleStep(0.05)
        self.temperature.setRange(*LIMITS["temperature"])
        self.temperature.setToolTip(tr("Compare", "0 takes the likeliest token each time"))
        self.seed = QSpinBox(self)
        self.seed.setRange(ANY, int(LIMITS["seed"][1]))
        self.seed.setSpecialValueText(tr("Compare", "any"))
        self.length = QSpinBox(self)
        self.length.setRange(2, int(LIMITS["max_new_tokens"][1]))
        self.repeats = QSpinBox(self)
        self.repeats.setRange(1, MOST_REPEATS)
        self.repeats.setToolTip(tr("Compare", "The sides take turns as A B, B A, …; more repeats tell the spread"))
        self.adapt = QCheckBox(tr("Compare", "Pause drafting while it loses, as in chats"), self)
        self.adapt.setToolTip(tr("Compare", "Without it a method drafts all the time, also where that is slower"))
        for widget in (self.temperature, self.repeats, self.adapt):
            widget.setAccessibleDescription(widget.toolTip())
        form = QFormLayout()
        form.setRowWrapPolicy(QFormLayout.RowWrapPolicy.WrapLongRows)
        for name, field in (
            (tr("Compare", "Temperature"), self.temperature),
            (tr("Compare", "Seed"), self.seed),
            (tr("Compare", "Longest reply (tokens)"), self.length),
            (tr("Compare", "Repeats"), self.repeats),
        ):
            field.setAccessibleName(name)
            indent(field)
            field.setMaximumWidth(13 * self.fontMetrics().averageCharWidth() + 60)
            form.addRow(name, field)
            field.valueChanged.connect(self.changed)
        self.adapt.toggled.connect(self.changed)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(6)
        column.addWidget(title)
        column.addLayout(form)
        column.addWidget(self.adapt)
        column.addStretch(1)
        self.repeats.setValue(2)

    def fill(self, settings: GenerationSettings) -> None:
        """Begin with a chat's settings; the repeats stay."""
        self._settings = settings
        self.temperature.setValue(settings.temperature)
        self.seed.setValue(ANY if settings.seed is None else settings.seed)
        self.length.setValue(min(settings.max_new_tokens, LONGEST))
        self.adapt.setChecked(settings.adapt)

    def settings(self) -> GenerationSettings:
        seed = self.seed.value()
        return replace(
            self._settings,
            temperature=round(self.temperature.value(), 3),
            seed=None if seed == ANY else seed,
            max_new_tokens=self.length.value(),
            adapt=self.adapt.isChecked(),
        )
