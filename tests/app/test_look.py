"""Contrast, themes, names for screen readers, and room for large text."""

from __future__ import annotations

import gc
from dataclasses import fields

import pytest
from PySide6.QtCore import QEvent, Qt
from PySide6.QtGui import QAccessible, QColor, QPalette, QTextLayout
from PySide6.QtWidgets import QAbstractButton, QAbstractSpinBox, QApplication, QComboBox, QLabel, QWidget
from pytestqt.qtbot import QtBot

from app import icons, style, theme
from app.chat import figures
from app.chat.conversation import ChatMessage
from app.main_window import MainWindow
from app.settings.dialog import SettingsDialog
from app.settings.store import SettingsStore
from app.theme import ThemeChoice
from engine.protocol import Role
from tests.app.conftest import OpenWindow

INKS = ("accepted", "bonus", "rejected", "root", "muted", "error", "accent")
FILLS = ("accepted_fill", "step_fill", "accent_fill", "error_fill", "hover", "background_alt")


def luminance(colour: QColor) -> float:
    def linear(value: float) -> float:
        return value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4

    return 0.2126 * linear(colour.redF()) + 0.7152 * linear(colour.greenF()) + 0.0722 * linear(colour.blueF())


def contrast(one: QColor, other: QColor) -> float:
    """WCAG 2.2 contrast ratio, 1 to 21."""
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("dark", [False, True])
def test_inks_can_be_read(dark: bool) -> None:
    named, palette = theme.colours(dark), theme.palette(dark)
    for ground in (QPalette.ColorRole.Base, QPalette.ColorRole.Window, QPalette.ColorRole.AlternateBase):
        for ink in INKS:
            assert contrast(getattr(named, ink), palette.color(ground)) >= 4.5, (ink, ground)
    for fill in FILLS:
        assert contrast(palette.color(QPalette.ColorRole.Text), getattr(named, fill)) >= 4.5, fill
    assert contrast(named.on_accent, named.accent) >= 4.5
    assert contrast(named.muted, named.background_alt) >= 4.5


@pytest.mark.parametrize("dark", [False, True])
def test_every_token_and_role_is_set(dark: bool) -> None:
    for field in fields(theme.Tokens):
        assert getattr(theme.colours(dark), field.name).isValid(), field.name
    assert theme.is_dark(theme.palette(dark)) is dark
    assert theme.tokens(theme.palette(dark)) is theme.colours(dark)


def test_the_theme_follows_the_settings(look: QApplication, store: SettingsStore) -> None:
    from app.application import follow_settings

    follow_settings(look, store)
    store.update(theme=ThemeChoice.DARK)
    assert theme.is_dark(look.palette())
    store.update(theme=ThemeChoice.LIGHT, font_size=17)
    assert not theme.is_dark(look.palette())
    assert look.font().pointSizeF() == 17
    store.update(font_size=None)
    assert look.font().pointSizeF() == style.system_point_size()


def test_icons_follow_the_theme(look: QApplication) -> None:
    light = icons.make("send", theme.palette(False)).pixmap(20, 20).toImage()
    dark = icons.make("send", theme.palette(True)).pixmap(20, 20).toImage()
    assert light != dark and not light.isNull()


def name_of(widget: QWidget) -> str:
    interface = QAccessible.queryAccessibleInterface(widget)
    return interface.text(QAccessible.Text.Name) if interface is not None else ""


def test_every_control_has_a_name_and_can_be_reached(qtbot: QtBot, open_window: OpenWindow) -> None:
    window = open_window()
    window.send_prompt("Hello?")
    qtbot.waitUntil(lambda: window.replies.running is None, timeout=20000)
    nameless, unreachable, seen = [], [], 0
    for widget in window.findChildren(QWidget):
        if not widget.isVisible() or widget.objectName().startswith("qt_"):
            continue
        if isinstance(widget, QAbstractButton | QComboBox | QAbstractSpinBox):
            seen += 1
            if not name_of(widget):
                nameless.append(widget)
            if not widget.focusPolicy() & Qt.FocusPolicy.TabFocus and widget.isEnabled():
                unreachable.append((widget, name_of(widget)))
    assert nameless == [] and unreachable == []
    assert seen >= 15, "the walk has seen the window's controls"


def test_tab_walks_from_the_chats_to_the_prompt(qtbot: QtBot, open_window: OpenWindow) -> None:
    window = open_window()
    window.activateWindow()
    chain, widget = [], window.chat_list.new_button.nextInFocusChain()
    while widget is not window.chat_list.new_button:
        if widget in (window.chat_list.view, window.composer.edit, window.composer.send_button):
            chain.append(widget)
        widget = widget.nextInFocusChain()
    assert chain == [window.chat_list.view, window.composer.edit, window.composer.send_button]


def test_the_settings_dialog_names_its_fields(qtbot: QtBot, look: QApplication, store: SettingsStore) -> None:
    dialog = SettingsDialog(store)
    qtbot.addWidget(dialog)
    dialog.show()
    for widget in dialog.findChildren(QWidget):
        if isinstance(widget, QAbstractButton | QComboBox | QAbstractSpinBox) and widget.isVisible():
            assert name_of(widget), widget


@pytest.mark.parametrize("points", [10, 15, 20])
def test_texts_are_not_cut_at_any_size(
    qtbot: QtBot, open_window: OpenWindow, look: QApplication, store: SettingsStore, points: int
) -> None:
    """At 150 % of the font and beyond labels and buttons get the room that they ask for."""
    window: MainWindow = open_window()
    style.apply(look, ThemeChoice.LIGHT, points)
    window.book.current.add([ChatMessage(Role.USER, "A prompt"), ChatMessage(Role.ASSISTANT, "A reply")])
    window.composer.set_text("typed")
    window.commands.panel.setChecked(False)
    window.resize(1300, 800)
    qtbot.wait(100)
    cut = []
    for widget in window.findChildren(QWidget):
        if not widget.isVisible() or not isinstance(widget, QLabel | QAbstractButton) or not widget.text():
            continue
        wanted = widget.fontMetrics().height()
        if widget.height() < wanted - 1:
            cut.append((widget, widget.text(), widget.height(), wanted))
        if isinstance(widget, QAbstractButton) and widget.width() < widget.sizeHint().width() - 1:
            cut.append((widget, widget.text(), widget.width(), widget.sizeHint().width()))
    assert cut == []
    edit = window.composer.edit
    assert edit.height() >= edit.fontMetrics().lineSpacing()


def test_nothing_is_collected_while_the_look_changes(qtbot: QtBot, look: QApplication) -> None:
    """Qt goes through all widgets then, and one that is deleted meanwhile brings the program down."""
    collected: list[bool] = []

    class Collecting(QWidget):
        def changeEvent(self, event: QEvent) -> None:
            collected.append(gc.isenabled())

    widget = Collecting()
    qtbot.addWidget(widget)
    widget.show()
    collected.clear()
    style.apply(look, ThemeChoice.DARK, 15)
    assert collected and not any(collected)
    assert gc.isenabled()


def test_icons_follow_the_size_of_the_text(qtbot: QtBot, look: QApplication, open_window: OpenWindow) -> None:
    """Also those of parts that get the new font after the window has it."""
    window = open_window()
    buttons = [window.chat_list.new_button, window.composer.attach_button]
    for points in (24, 9):
        style.apply(look, ThemeChoice.LIGHT, points)
        qtbot.waitUntil(lambda: not window._dresser.isActive(), timeout=20000)
        assert window.top_bar.iconSize() == icons.size_for(window)
        assert [each.iconSize() for each in buttons] == [icons.size_for(each) for each in buttons], points


def test_the_line_of_figures_breaks_between_its_parts_only(qtbot: QtBot) -> None:
    """Chinese and Japanese may break at every character, where nothing forbids it."""
    parts = ["60 トークン", "29.2 トークン/秒", "最初のトークンまで 0.43 秒", "τ 2.46", "长度上限"]
    label = QLabel(figures.line(parts))
    qtbot.addWidget(label)
    layout = QTextLayout(label.text(), label.font())
    layout.beginLayout()
    rows = []
    while (row := layout.createLine()).isValid():
        row.setLineWidth(label.fontMetrics().horizontalAdvance(parts[2]) * 1.3)
        rows.append(label.text()[row.textStart() : row.textStart() + row.textLength()])
    layout.endLayout()
    plain = [" ".join(text.replace("\u2060", "").replace("\u00a0", " ").split()) for text in rows]
    assert len(rows) > 2 and all(any(part in text for text in plain) for part in parts), plain
    assert figures.line(["4 tokens", "τ 2"]).isascii() is False and "\u2060" not in figures.line(["4 tokens", "τ 2"])
