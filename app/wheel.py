"""The wheel scrolls the page: a number or a list under the pointer is not changed by it on the way.

Qt lets them take the wheel wherever the pointer happens to be, so that scrolling through a form
changes what it passes, unseen. Here they take it only while they have the focus.
"""

from __future__ import annotations

from PySide6.QtCore import QEvent, QObject, Qt
from PySide6.QtWidgets import QAbstractSpinBox, QComboBox, QWidget


class _Guard(QObject):
    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() == QEvent.Type.Wheel and isinstance(watched, QWidget) and not watched.hasFocus():
            event.ignore()  # and what it stands in gets it
            return True
        return False


def scroll_past(root: QWidget) -> None:
    """Guard every number and list in ``root``; those made later need a call of their own."""
    guard = _Guard(root)
    for box in [*root.findChildren(QAbstractSpinBox), *root.findChildren(QComboBox)]:
        box.setFocusPolicy(Qt.FocusPolicy.StrongFocus)  # not by the wheel
        box.installEventFilter(guard)
