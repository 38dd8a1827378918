"""The arrows under a message that has versions: "‹ 2/3 ›"."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QHBoxLayout, QLabel, QToolButton, QWidget

from app import icons
from app.language import numbers, tr


class VersionSwitch(QWidget):
    """Hidden while there is one version only."""

    stepped = Signal(int)
    """-1 for the version before, +1 for the one after."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(1)
        self.before = self._button("chevron-left", tr("Reply", "Version before"), -1)
        self.label = QLabel()
        self.label.setProperty("textRole", "small")
        self.after = self._button("chevron-right", tr("Reply", "Version after"), 1)
        for part in (self.before, self.label, self.after):
            row.addWidget(part)
        self.hide()

    def _button(self, icon: str, name: str, step: int) -> QToolButton:
        button = QToolButton()
        button.setProperty("look", "small")
        icons.dress(button, icon, "muted")
        button.setToolTip(name)
        button.setAccessibleName(name)
        button.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        button.clicked.connect(lambda: self.stepped.emit(step))
        return button

    def show_versions(self, place: int, count: int, enabled: bool) -> None:
        """``place`` counts from 1; ``enabled``: nothing is being written in this chat."""
        self.setVisible(count > 1)
        shown = {"place": numbers.whole(place), "count": numbers.whole(count)}
        self.label.setText("{place}/{count}".format(**shown))
        self.label.setAccessibleName(tr("Reply", "Version {place} of {count}").format(**shown))
        self.before.setEnabled(enabled and place > 1)
        self.after.setEnabled(enabled and place < count)
