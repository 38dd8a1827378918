"""The files attached to the prompt that is being written, each with a button to take it away."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QRectF, Qt, Signal
from PySide6.QtGui import QPainter, QPaintEvent
from PySide6.QtWidgets import (
    QFrame,
    QHBoxLayout,
    QLabel,
    QScrollArea,
    QSizePolicy,
    QToolButton,
    QVBoxLayout,
    QWidget,
)

from app import icons, theme
from app.chat.attachments import Attachment, joined
from app.language import tr
from app.tool_tip import letter_for_letter

LONGEST_NAME = 44
MOST_SHOWN = 4
"""Chips that are seen at once."""


class Chip(QWidget):
    """One file: its name, its size, and the button."""

    removed = Signal()

    def __init__(self, attachment: Attachment, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        row = QHBoxLayout(self)
        row.setContentsMargins(10, 2, 3, 2)
        row.setSpacing(7)
        name = attachment.name
        if len(name) > LONGEST_NAME:
            name = f"{name[: LONGEST_NAME // 2]}…{name[-LONGEST_NAME // 2 :]}"
        self.label = QLabel(name)
        self.label.setTextFormat(Qt.TextFormat.PlainText)
        self.label.setToolTip(letter_for_letter(attachment.name))
        size = QLabel(attachment.size)
        size.setProperty("textRole", "small")
        self.button = QToolButton()
        self.button.setProperty("look", "small")
        icons.dress(self.button, "close", "muted")
        words = tr("Composer", "Take {name} away").format(name=attachment.name)
        self.button.setToolTip(letter_for_letter(words))
        self.button.setAccessibleName(words)
        self.button.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.button.clicked.connect(self.removed)
        for part in (self.label, size, self.button):
            row.addWidget(part)
        self.setSizePolicy(QSizePolicy.Policy.Maximum, QSizePolicy.Policy.Fixed)

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(theme.tokens(self).grid)
        painter.setBrush(theme.tokens(self).background_alt)
        painter.drawRoundedRect(QRectF(self.rect()).adjusted(0.5, 0.5, -0.5, -0.5), 9, 9)


class AttachmentRow(QScrollArea):
    """The chips, one under the other, scrolled where they are many; hidden while there are none."""

    changed = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._attachments: list[Attachment] = []
        self.blocks = ""
        """The files as they stand behind what was typed; made once, since it is asked for at every key."""
        self.chips: list[Chip] = []
        inner = QWidget()
        self._column = QVBoxLayout(inner)
        self._column.setContentsMargins(0, 2, 0, 4)
        self._column.setSpacing(4)
        self.setWidget(inner)
        self.setWidgetResizable(True)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.verticalScrollBar().setAccessibleName(tr("Composer", "Attached files"))
        for ground in (self.viewport(), inner):
            ground.setAutoFillBackground(False)  # it lies on the field's own
        self.setAccessibleName(tr("Composer", "Attached files"))
        self.hide()

    @property
    def attachments(self) -> list[Attachment]:
        return list(self._attachments)

    def show_files(self, attachments: list[Attachment]) -> None:
        """Replace all of them."""
        if attachments == self._attachments:
            return
        self._attachments = list(attachments)
        self.blocks = joined("", self._attachments)
        for chip in self.chips:
            chip.hide()
            chip.deleteLater()
        self.chips = []
        for number, attachment in enumerate(attachments):
            chip = Chip(attachment)
            chip.removed.connect(lambda number=number: self._remove(number))
            self._column.addWidget(chip, 0, Qt.AlignmentFlag.AlignLeft)
            self.chips.append(chip)
        self._fit()
        self.setVisible(bool(attachments))
        self.changed.emit()

    def _fit(self) -> None:
        """As high as the chips, or as some of them and half of the next one, which tells that there are more."""
        chip = self.chips[0].sizeHint().height() + self._column.spacing() if self.chips else 0
        rows = len(self.chips) if len(self.chips) <= MOST_SHOWN else MOST_SHOWN - 0.5
        self.setFixedHeight(round(rows * chip) + 6)

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.FontChange and hasattr(self, "chips"):
            self._fit()

    def _remove(self, number: int) -> None:
        self.show_files(self._attachments[:number] + self._attachments[number + 1 :])
