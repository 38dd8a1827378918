"""The text of a spin box, which style sheets do not reach."""

from __future__ import annotations

from PySide6.QtWidgets import QAbstractSpinBox, QLineEdit


def indent(box: QAbstractSpinBox) -> None:
    """Give the line edit inside its margin."""
    edit = box.findChild(QLineEdit)
    if edit is not None:
        edit.setTextMargins(4, 0, 0, 0)
