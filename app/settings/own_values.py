"""Values that a chat or a model may set differently from the settings: a tick and a number each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from PySide6.QtWidgets import (
    QCheckBox,
    QDoubleSpinBox,
    QFormLayout,
    QHBoxLayout,
    QSpinBox,
    QWidget,
)

from app.language import mark, tr
from app.settings.store import LIMITS, fits
from app.spin_text import indent
from engine.protocol import GenerationSettings

FIELDS = (
    (
        "temperature",
        mark("Settings", "Temperature"),
        mark("Settings", "0 takes the likeliest token each time; higher is freer."),
    ),
    (
        "top_p",
        mark("Settings", "Top-p"),
        mark("Settings", "Keeps the likeliest tokens that together have this probability."),
    ),
    (
        "top_k",
        mark("Settings", "Top-k"),
        mark("Settings", "Keeps this many of the likeliest tokens; 0 switches the filter off."),
    ),
    (
        "min_p",
        mark("Settings", "Min-p"),
        mark("Settings", "Drops tokens below this share of the likeliest one's probability; 0 is off."),
    ),
    (
        "repetition_penalty",
        mark("Settings", "Repetition penalty"),
        mark("Settings", "Above 1 makes what was said less likely; 1 is off."),
    ),
    (
        "presence_penalty",
        mark("Settings", "Presence penalty"),
        mark("Settings", "Taken from tokens that the reply has already; 0 is off."),
    ),
    (
        "frequency_penalty",
        mark("Settings", "Frequency penalty"),
        mark("Settings", "The same for each time that it has them; 0 is off."),
    ),
    (
        "no_repeat_ngram",
        mark("Settings", "No repeat of"),
        mark("Settings", "So many tokens in a row never come twice; 0 is off."),
    ),
    ("max_new_tokens", mark("Settings", "Longest reply (tokens)"), ""),
    (
        "seed",
        mark("Settings", "Seed"),
        mark("Settings", "The same seed and settings give the same reply again."),
    ),
)
"""Field of ``GenerationSettings``, its name for people, and what it does."""


class OwnValue(QWidget):
    """A tick box "own value" and a number; without the tick the settings' value applies."""

    def __init__(self, field: str, label: str, common: Any) -> None:
        super().__init__()
        low, high = LIMITS[field]
        self.own = QCheckBox(tr("Settings", "Own value"))
        self.own.setAccessibleName(tr("Settings", "{setting}: own value").format(setting=label))
        self.number: QSpinBox | QDoubleSpinBox
        if isinstance(getattr(GenerationSettings(), field), float):
            self.number = QDoubleSpinBox()
            self.number.setDecimals(2)
            self.number.setSingleStep(0.05)
            self.number.setRange(low, high)
        else:
            self.number = QSpinBox()
            self.number.setRange(int(low), int(high))
        self.number.setAccessibleName(label)
        indent(self.number)
        self._common = common
        self._field = field
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.addWidget(self.own)
        row.addWidget(self.number)
        row.addStretch(1)
        self.setFocusProxy(self.own)
        self.own.toggled.connect(self.number.setEnabled)
        self.set_value(None)

    def value(self) -> float | int | None:
        return round(self.number.value(), 3) if self.own.isChecked() else None

    def set_value(self, value: Any) -> None:
        """``None``, or what does not fit (an imported chat may say anything): as the settings say."""
        value = value if fits(self._field, value) else None
        shown = self._common if value is None else value
        self.own.setChecked(value is not None)
        self.number.setEnabled(value is not None)
        if isinstance(shown, int | float):
            self.number.setValue(shown)  # type: ignore[arg-type]


class OwnValues(QFormLayout):
    """All of them, one under the other."""

    def __init__(self, common: GenerationSettings) -> None:
        super().__init__()
        self.fields: dict[str, OwnValue] = {}
        for field, name, tip in FIELDS:
            shown = tr("Settings", name)
            self.fields[field] = OwnValue(field, shown, getattr(common, field))
            self.fields[field].setToolTip(tr("Settings", tip) if tip else "")
            self.addRow(shown, self.fields[field])

    def fill(self, values: Mapping[str, Any]) -> None:
        for field, widget in self.fields.items():
            widget.set_value(values.get(field))

    def entered(self) -> dict[str, Any]:
        """The values that differ from the settings."""
        return {
            field: value for field, widget in self.fields.items() if (value := widget.value()) is not None
        }
