"""The order in which Tab goes through widgets, where it is not the one they were made in.

Qt puts a new widget at the end of its window's order. What is made later than its
neighbours (a message, a download) or built from the inside out has to be put into its place.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QTabWidget, QWidget


def in_order(stops: Iterable[QWidget]) -> None:
    """Let Tab go through ``stops`` one after the other, from where the first of them is.

    Those that take no focus are left out: Qt gives them no place in the order. All must be in one
    window; a compound widget is named by the part that has the focus.
    """
    reached = [each for each in stops if each.focusPolicy() & Qt.FocusPolicy.TabFocus]
    for before, after in pairwise(reached):
        QWidget.setTabOrder(before, after)


def leave_to_bar(tabs: QTabWidget) -> None:
    """Let Tab stop at the bar of ``tabs`` alone.

    The widget stands in the order, too, and hands the focus to its bar: what is between the two is
    jumped over.
    """
    tabs.setFocusProxy(None)  # type: ignore[arg-type]
    tabs.setFocusPolicy(Qt.FocusPolicy.NoFocus)


def insert_before(place: QWidget, stops: Iterable[QWidget]) -> None:
    """Put ``stops`` in front of ``place``, which stays where it is."""
    in_order([place, *stops, place])
