"""Colours of the application: two palettes and a small set of named tokens.

Widgets paint with palette roles; what a palette has no role for (an accepted
token, an edge of the draft tree) is a field of :class:`Tokens`. Nothing else in
the application names a colour. Whether the light or the dark set applies is read
from the palette itself, so a widget needs no reference to the settings:

    ink = theme.tokens(self).accepted
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from PySide6.QtCore import Qt
from PySide6.QtGui import QColor, QGuiApplication, QPalette
from PySide6.QtWidgets import QWidget


class ThemeChoice(StrEnum):
    SYSTEM = "system"
    LIGHT = "light"
    DARK = "dark"


@dataclass(frozen=True, slots=True)
class Tokens:
    """Named colours. Inks reach 4.5:1 on the palette's Base and Window; fills lie under text."""

    accepted: QColor
    """Drafted by the head and accepted by the target."""
    bonus: QColor
    """Chosen by the target itself after the last accepted node."""
    rejected: QColor
    root: QColor
    edge: QColor
    """Lines between nodes, and outlines that must be seen."""
    grid: QColor
    """Hairlines and separators."""
    muted: QColor
    """Secondary text."""
    background_alt: QColor
    """A surface set off from Base: code, cards, the side bar."""
    error: QColor
    accent: QColor
    on_accent: QColor
    """Text on ``accent``."""
    accepted_fill: QColor
    """Background of accepted tokens in running text."""
    step_fill: QColor
    """Background of the step that is pointed at."""
    accent_fill: QColor
    """Background of what is selected or switched on."""
    error_fill: QColor
    hover: QColor
    """Background under the pointer."""


LIGHT = Tokens(
    accepted=QColor("#0b7457"),
    bonus=QColor("#8f5400"),
    rejected=QColor("#ad3f4e"),
    root=QColor("#4650b8"),
    edge=QColor("#a9b0b8"),
    grid=QColor("#e3e4e1"),
    muted=QColor("#5f666e"),
    background_alt=QColor("#f1f1ee"),
    error=QColor("#b3261e"),
    accent=QColor("#2457b8"),
    on_accent=QColor("#ffffff"),
    accepted_fill=QColor("#e0f3ea"),
    step_fill=QColor("#ffe9a8"),
    accent_fill=QColor("#e3ebfa"),
    error_fill=QColor("#fdecea"),
    hover=QColor("#e9e9e5"),
)

DARK = Tokens(
    accepted=QColor("#5fd3ab"),
    bonus=QColor("#efb45c"),
    rejected=QColor("#f08c98"),
    root=QColor("#a5afff"),
    edge=QColor("#5b636d"),
    grid=QColor("#2e3238"),
    muted=QColor("#9ea6b0"),
    background_alt=QColor("#22262b"),
    error=QColor("#ff8f86"),
    accent=QColor("#86abff"),
    on_accent=QColor("#10151f"),
    accepted_fill=QColor("#1d3a31"),
    step_fill=QColor("#5a4a12"),
    accent_fill=QColor("#26344f"),
    error_fill=QColor("#3b2222"),
    hover=QColor("#2a2e34"),
)


def is_dark(palette: QPalette) -> bool:
    return palette.color(QPalette.ColorRole.Window).lightness() < 128


def colours(dark: bool) -> Tokens:
    return DARK if dark else LIGHT


def tokens(source: QWidget | QPalette) -> Tokens:
    """The colours that suit a widget's palette, or a palette."""
    return colours(is_dark(source.palette() if isinstance(source, QWidget) else source))


def palette(dark: bool) -> QPalette:
    """The application palette of either theme, every role set."""
    named = colours(dark)
    window, base, text = ("#17191d", "#1c1f24", "#e7e9ec") if dark else ("#f8f8f6", "#ffffff", "#1b1f23")
    button = "#262a30" if dark else "#f1f1ee"
    role = QPalette.ColorRole
    made = QPalette(QColor(button), QColor(window))
    for which, colour in (
        (role.Window, window),
        (role.WindowText, text),
        (role.Base, base),
        (role.AlternateBase, named.background_alt),
        (role.Text, text),
        (role.Button, button),
        (role.ButtonText, text),
        (role.BrightText, named.error),
        (role.PlaceholderText, named.muted),
        (role.Highlight, named.accent),
        (role.HighlightedText, named.on_accent),
        (role.Accent, named.accent),
        (role.Link, named.accent),
        (role.LinkVisited, named.root),
        (role.ToolTipBase, "#30353c" if dark else "#23272c"),
        (role.ToolTipText, "#f2f3f5"),
        (role.Light, "#3a4048" if dark else "#ffffff"),
        (role.Midlight, "#31363d" if dark else "#ececea"),
        (role.Mid, named.grid),
        (role.Dark, "#0f1114" if dark else "#c2c5c4"),
        (role.Shadow, "#000000" if dark else "#8d9196"),
    ):
        made.setColor(which, QColor(colour))
    faded = QColor(text)
    faded.setAlphaF(0.45)
    for which in (role.WindowText, role.Text, role.ButtonText, role.HighlightedText):
        made.setColor(QPalette.ColorGroup.Disabled, which, faded)
    made.setColor(QPalette.ColorGroup.Disabled, role.Highlight, named.grid)
    return made


def wants_dark(choice: ThemeChoice) -> bool:
    """Whether a choice means dark now; the system is asked for ``SYSTEM``."""
    if choice is ThemeChoice.SYSTEM:
        return QGuiApplication.styleHints().colorScheme() == Qt.ColorScheme.Dark
    return choice is ThemeChoice.DARK
