"""The order in which Tab goes through widgets, where it is not the one they were made in.

Qt puts a new widget at the end of its window's order. What is made later than its
neighbours (a message, a download) or built from the inside out has to be put into its place.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

from PySide6.QtWidgets import QWidget


def in_order(stops: Iterable[QWidget]) -> None:
    """Let Tab go through ``stops`` one after the other, from where the first of them is.

    A widget that takes no focus can stand in the order as well, to keep a place for what is
    made later. All must be in one window; a compound widget is named by the part that has the focus.
    """
    for before, after in pairwise(stops):
        QWidget.setTabOrder(before, after)
