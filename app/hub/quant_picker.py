"""Which of a repository's GGUF files is meant: each with its size and whether it fits, one of them suggested."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QComboBox, QHBoxLayout, QLabel, QSizePolicy, QVBoxLayout, QWidget

from app.hub import words
from app.language import tr
from app.language.engine_texts import of_engine
from app.wheel import scroll_past
from engine.protocol.hub import Quantisation


class QuantPicker(QWidget):
    """Hidden where there is nothing to choose."""

    chosen = Signal(str)
    """The first file of a quantisation, when the user chose it."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._paths: tuple[str, ...] = ()
        name = tr("Hub", "Quantisation")
        self.box = QComboBox(self)
        self.box.setAccessibleName(name)
        self.box.setAccessibleDescription(name)
        self.box.setToolTip(tr("Hub", "Files of the same model in different precisions; one is downloaded"))
        self.box.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon)
        self.box.setMinimumContentsLength(12)  # names of files may be long
        self.box.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.box.activated.connect(lambda place: self.chosen.emit(self._paths[place]))
        self.reason = QLabel(self)
        self.reason.setTextFormat(Qt.TextFormat.PlainText)
        self.reason.setProperty("textRole", "small")
        self.reason.setWordWrap(True)
        title = QLabel(name, self)
        title.setProperty("textRole", "label")
        title.setBuddy(self.box)
        line = QHBoxLayout()
        line.setSpacing(8)
        line.addWidget(title)
        line.addWidget(self.box, 1)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 2, 0, 2)
        column.setSpacing(4)
        column.addLayout(line)
        column.addWidget(self.reason)
        scroll_past(self)
        self.hide()

    def show_choices(self, choices: Sequence[Quantisation], file: str, reason: str) -> None:
        """``file`` is the one that is meant now; ``reason`` says why, where nobody chose it."""
        self._paths = tuple(each.paths[0] for each in choices)
        self.box.clear()
        self.box.addItems([_line(each) for each in choices])
        if file in self._paths:
            self.box.setCurrentIndex(self._paths.index(file))
        self.reason.setText(of_engine(reason))
        self.reason.setVisible(bool(reason))
        self.setVisible(bool(choices))


def _line(choice: Quantisation) -> str:
    if not choice.has_room:
        verdict = tr("Hub", "no room on the disk")
    else:
        verdict = tr("Hub", words.FIT_WORDS[choice.fit.verdict]) if choice.fit else ""
    return words.joined(choice.label, words.size(choice.size), verdict)
