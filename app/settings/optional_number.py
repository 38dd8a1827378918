"""A whole number that may be left to somebody else: a tick box and a number."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtWidgets import QCheckBox, QHBoxLayout, QSpinBox, QWidget

from app.language import tr
from app.settings.store import LIMITS
from app.spin_text import indent


class OptionalNumber(QWidget):
    """``None`` while the box is ticked. ``changed`` is called after every change."""

    def __init__(
        self, field: str, label: str, automatic: str, fallback: int, changed: Callable[[], object] = lambda: None
    ) -> None:
        """``field`` names the number's limits; ``fallback`` is shown where there is none."""
        super().__init__()
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        self.automatic = QCheckBox(automatic)
        self.automatic.setAccessibleName(
            tr("Settings", "{setting}: {choice}").format(setting=label, choice=automatic)
        )
        self.number = QSpinBox()
        low, high = LIMITS[field]
        self.number.setRange(int(low), int(high))
        self.number.setAccessibleName(label)
        indent(self.number)
        self._fallback = fallback
        row.addWidget(self.automatic)
        row.addWidget(self.number)
        row.addStretch(1)
        self.automatic.toggled.connect(self.number.setDisabled)
        self.automatic.toggled.connect(lambda _: changed())
        self.number.valueChanged.connect(lambda _: changed())

    def value(self) -> int | None:
        return None if self.automatic.isChecked() else self.number.value()

    def set_value(self, value: int | None) -> None:
        self.automatic.setChecked(value is None)
        self.number.setDisabled(value is None)
        shown = self._fallback if value is None else value
        if self.number.value() != shown:  # it would write anew what somebody is typing
            self.number.setValue(shown)
