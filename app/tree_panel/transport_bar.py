"""Walking through the steps of a reply: first, back, pause, forward, last and a slider."""

from __future__ import annotations

from PySide6.QtCore import QSignalBlocker, Qt, Signal
from PySide6.QtWidgets import QHBoxLayout, QLabel, QSizePolicy, QSlider, QVBoxLayout, QWidget

from app.language import tr
from app.tree_panel.glyphs import Glyph, GlyphButton


class TransportBar(QWidget):
    """Shows where the panel stands and asks it to go elsewhere; it decides nothing itself."""

    position_requested = Signal(int)
    live_requested = Signal(bool)
    """True: follow the reply; False: hold the step that is shown."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._position = -1
        self._count = 0
        self._live = True
        self.first = GlyphButton(Glyph.FIRST, tr("Panel", "First step (Home)"), self)
        self.back = GlyphButton(Glyph.BACK, tr("Panel", "One step back (Left)"), self)
        self.pause = GlyphButton(Glyph.PAUSE, tr("Panel", "Pause (Space)"), self)
        self.forward = GlyphButton(Glyph.FORWARD, tr("Panel", "One step forward (Right)"), self)
        self.last = GlyphButton(Glyph.LAST, tr("Panel", "Last step (End)"), self)
        self.slider = QSlider(Qt.Orientation.Horizontal, self)
        self.slider.setAccessibleName(tr("Panel", "Step of the reply"))
        self.slider.setPageStep(10)
        self.label = QLabel(self)
        self.label.setTextFormat(Qt.TextFormat.PlainText)
        self.label.setProperty("textRole", "small")
        self.label.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)

        buttons = QHBoxLayout()
        buttons.setSpacing(2)
        for button in (self.first, self.back, self.pause, self.forward, self.last):
            buttons.addWidget(button)
        buttons.addSpacing(6)
        buttons.addWidget(self.label, 1)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(2)
        column.addWidget(self.slider)
        column.addLayout(buttons)

        self.first.clicked.connect(lambda: self.position_requested.emit(0))
        self.back.clicked.connect(lambda: self.position_requested.emit(self._position - 1))
        self.forward.clicked.connect(lambda: self.position_requested.emit(self._position + 1))
        self.last.clicked.connect(lambda: self.position_requested.emit(self._count - 1))
        self.pause.clicked.connect(lambda: self.live_requested.emit(not self._live))
        self.slider.valueChanged.connect(self.position_requested)
        self.show_state(-1, 0, live=True, finished=False, label="")

    def show_state(self, position: int, count: int, *, live: bool, finished: bool, label: str) -> None:
        """Show position ``position`` of ``count`` steps; -1 and 0 while there are none."""
        self._position, self._count, self._live = position, count, live
        with QSignalBlocker(self.slider):
            self.slider.setRange(0, max(0, count - 1))
            self.slider.setValue(max(0, position))
        self.slider.setEnabled(count > 1)
        self.first.setEnabled(position > 0)
        self.back.setEnabled(position > 0)
        self.forward.setEnabled(0 <= position < count - 1)
        self.last.setEnabled(0 <= position < count - 1)
        self.pause.setEnabled(count > 0 and not finished)
        if live or finished:
            self.pause.set_glyph(Glyph.PAUSE)
            self.pause.rename(tr("Panel", "Pause (Space)"))
        else:
            waiting = count - 1 - position
            self.pause.set_glyph(Glyph.LIVE)
            live_words = tr("Panel", "Live +{count}").format(count=waiting) if waiting else tr("Panel", "Live")
            self.pause.rename(tr("Panel", "Follow the reply again (Space)"), live_words)
        if label != self.label.text():
            self.label.setText(label)
            self.label.setToolTip(label)
