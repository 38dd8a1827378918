"""The look: Fusion, a palette of :mod:`app.theme`, and one style sheet made from its tokens.

Widgets say what they are with two dynamic properties, and the sheet does the rest:

- ``textRole``: "small", "label", "heading" or "display";
- ``look``: "primary", "plain", "flat", "card" or "switch" for buttons; "surface" for frames.

Sizes follow the chosen font size, so a larger text gets a larger button.
"""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from PySide6.QtCore import Qt
from PySide6.QtGui import QColor, QFont, QFontDatabase, QPalette
from PySide6.QtWidgets import QApplication

from app import garbage, theme
from app.theme import ThemeChoice, Tokens

SCHEMES = {
    ThemeChoice.SYSTEM: Qt.ColorScheme.Unknown,
    ThemeChoice.LIGHT: Qt.ColorScheme.Light,
    ThemeChoice.DARK: Qt.ColorScheme.Dark,
}


def monospace() -> QFont:
    """The system's fixed-width font."""
    return QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont)


def system_point_size() -> float:
    """Points of the system's interface font, at least a size that can be read."""
    return max(10.0, QFontDatabase.systemFont(QFontDatabase.SystemFont.GeneralFont).pointSizeF())


def apply(app: QApplication, choice: ThemeChoice, font_size: int | None) -> None:
    """Put theme and font size in force for every widget, now and for those to come."""
    # Window frames drawn by the system follow the hint; the palette is our own either way.
    app.styleHints().setColorScheme(SCHEMES[choice])
    dark = theme.wants_dark(choice)
    font = app.font()
    font.setPointSizeF(float(font_size) if font_size else system_point_size())
    sheet = style_sheet(dark, font.pointSizeF())
    # Each of these tells every widget, and what our widgets do then may set off a collection.
    with garbage.held():
        if font != app.font():
            app.setFont(font)
        app.setPalette(theme.palette(dark))
        if sheet != app.styleSheet():
            app.setStyleSheet(sheet)


def _css(colour: QColor) -> str:
    return colour.name()


def _picture(name: str, dark: bool) -> str:
    """Path of a picture that a style sheet cannot colour by itself."""
    return (Path(str(files("resources"))) / "icons" / f"{name}-{'dark' if dark else 'light'}.svg").as_posix()


def style_sheet(dark: bool, points: float) -> str:
    """The sheet for a theme and a base font size in points."""
    named, palette = theme.colours(dark), theme.palette(dark)
    c = {name: _css(getattr(named, name)) for name in Tokens.__slots__}
    role = QPalette.ColorRole
    small, label, heading, display = points * 0.88, points * 0.94, points * 1.2, points * 1.75
    dot = round(points * 0.6)  # half a radio button's indicator, in pixels
    return f"""
    *[textRole="small"] {{ font-size: {small:.2f}pt; color: {c["muted"]}; }}
    *[textRole="label"] {{ font-size: {label:.2f}pt; font-weight: 600; }}
    *[textRole="heading"] {{ font-size: {heading:.2f}pt; font-weight: 600; }}
    *[textRole="display"] {{ font-size: {display:.2f}pt; font-weight: 600; }}
    *[textRole="error"] {{ color: {c["error"]}; }}

    QMainWindow::separator {{ width: 1px; background: {c["grid"]}; }}
    QSplitter::handle {{ background: {c["grid"]}; }}
    QSplitter::handle:hover, QSplitter::handle:focus {{ background: {c["accent"]}; }}
    QToolBar {{ border: none; border-bottom: 1px solid {c["grid"]}; padding: 5px 8px; spacing: 4px;
               background: palette(window); }}
    QToolBar::separator {{ width: 1px; margin: 6px 4px; background: {c["grid"]}; }}
    QStatusBar {{ border-top: 1px solid {c["grid"]}; background: palette(window); }}
    QStatusBar::item {{ border: none; }}
    QMenuBar {{ background: palette(window); padding: 2px 6px; }}
    QMenuBar::item {{ padding: 4px 9px; border-radius: 6px; background: transparent; }}
    QMenuBar::item:selected {{ background: {c["hover"]}; color: palette(text); }}

    QToolButton {{ border: 1px solid transparent; border-radius: 7px; padding: 5px 7px; background: transparent; }}
    QToolButton:hover {{ background: {c["hover"]}; }}
    QToolButton:pressed {{ background: {c["grid"]}; }}
    QToolButton:focus {{ border-color: {c["accent"]}; }}
    QToolButton:checked {{ background: {c["accent_fill"]}; color: {c["accent"]}; }}
    QToolButton:disabled {{ color: {c["muted"]}; background: transparent; }}
    QToolButton[look="small"] {{ padding: 3px 4px; }}
    QToolButton[look="menu"] {{ padding: 5px 3px; }}
    QToolButton[look="menu"]::menu-indicator {{ image: none; }}
    QToolButton[look="fold"] {{ padding: 3px 8px 3px 2px; }}
    QToolButton[look="fold"]:checked {{ background: transparent; color: {c["muted"]}; }}
    QToolButton[look="fold"]:hover {{ background: {c["hover"]}; }}
    QToolButton[look="switch"] {{ padding: 5px 12px 5px 9px; border-color: {c["grid"]}; font-weight: 600; }}
    QToolButton[look="switch"]:checked {{ border-color: {c["accent"]}; }}
    QToolButton[look="switch"]:focus {{ border-color: {c["accent"]}; }}

    QToolButton#send {{ background: {c["accent"]}; border: 2px solid {c["accent"]}; border-radius: 11px; padding: 5px; }}
    QToolButton#send:hover, QToolButton#send:focus {{ border-color: palette(text); }}
    QToolButton#send:disabled {{ background: {c["grid"]}; border-color: {c["grid"]}; }}
    QToolButton#jumpToEnd {{ background: palette(base); border: 1px solid {c["edge"]}; border-radius: 14px;
                            padding: 5px; }}
    QToolButton#jumpToEnd:hover {{ background: {c["hover"]}; }}

    QDialogButtonBox {{ dialogbuttonbox-buttons-have-icons: 0; }}
    QPushButton {{ border: 1px solid {c["edge"]}; border-radius: 7px; padding: 5px 14px;
                  background: palette(base); min-height: 1.25em; }}
    QPushButton:hover {{ background: {c["hover"]}; }}
    QPushButton:pressed {{ background: {c["grid"]}; }}
    QPushButton:focus {{ border: 2px solid {c["accent"]}; padding: 4px 13px; }}
    QPushButton:disabled {{ color: {c["muted"]}; border-color: {c["grid"]}; background: palette(window); }}
    QPushButton[look="primary"] {{ background: {c["accent"]}; color: {c["on_accent"]}; border-color: {c["accent"]};
                                  font-weight: 600; }}
    QPushButton[look="primary"]:hover {{ border-color: palette(text); }}
    QPushButton[look="primary"]:focus {{ border: 2px solid palette(text); padding: 4px 13px; }}
    QPushButton[look="primary"]:disabled {{ background: {c["grid"]}; color: {c["muted"]}; border-color: {c["grid"]}; }}
    QPushButton[look="plain"] {{ border-color: transparent; background: transparent; text-align: left; }}
    QPushButton[look="plain"]:hover {{ background: {c["hover"]}; }}
    QPushButton[look="plain"]:focus {{ border-color: {c["accent"]}; }}
    QPushButton[look="card"] {{ border-color: {c["grid"]}; border-radius: 11px; background: palette(base);
                               padding: 13px 16px; text-align: left; }}
    QPushButton[look="card"]:hover {{ border-color: {c["accent"]}; background: palette(base); }}
    QPushButton[look="card"]:focus {{ border: 2px solid {c["accent"]}; padding: 12px 15px; }}

    QAbstractSpinBox, QComboBox, QLineEdit {{ border: 1px solid {c["edge"]}; border-radius: 6px;
        padding: 3px 6px; background: palette(base); selection-background-color: {c["accent"]}; }}
    QAbstractSpinBox {{ padding: 3px 1.2em 3px 6px; }}
    QAbstractSpinBox:focus, QComboBox:focus, QLineEdit:focus {{ border-color: {c["accent"]}; }}
    QAbstractSpinBox:disabled, QComboBox:disabled {{ color: {c["muted"]}; border-color: {c["grid"]};
        background: palette(window); }}
    QAbstractSpinBox::up-button {{ subcontrol-origin: border; subcontrol-position: top right; width: 1.4em;
        border: none; margin: 1px 1px 0 0; border-top-right-radius: 5px; }}
    QAbstractSpinBox::down-button {{ subcontrol-origin: border; subcontrol-position: bottom right; width: 1.4em;
        border: none; margin: 0 1px 1px 0; border-bottom-right-radius: 5px; }}
    QAbstractSpinBox::up-button:hover, QAbstractSpinBox::down-button:hover {{ background: {c["hover"]}; }}
    QAbstractSpinBox::up-arrow {{ image: url("{_picture("up", dark)}"); width: 0.75em; height: 0.75em; }}
    QAbstractSpinBox::down-arrow, QComboBox::down-arrow {{ image: url("{_picture("down", dark)}");
        width: 0.75em; height: 0.75em; }}
    QAbstractSpinBox::up-arrow:off, QAbstractSpinBox::down-arrow:off {{ image: none; }}
    QComboBox {{ padding-right: 1.7em; }}
    QComboBox::drop-down {{ subcontrol-origin: border; subcontrol-position: center right; width: 1.7em; border: none; }}
    QComboBox QAbstractItemView {{ border: 1px solid {c["edge"]}; background: palette(base); outline: none; padding: 3px; }}
    QCheckBox {{ spacing: 0.5em; padding: 1px; border: 1px solid transparent; border-radius: 5px; }}
    QCheckBox:focus {{ border-color: {c["accent"]}; }}
    QCheckBox::indicator {{ width: 1.05em; height: 1.05em; border: 1px solid {c["muted"]}; border-radius: 4px;
        background: palette(base); }}
    QCheckBox::indicator:hover {{ border-color: {c["accent"]}; }}
    QCheckBox::indicator:checked {{ background: {c["accent"]}; border-color: {c["accent"]};
        image: url("{_picture("tick", dark)}"); }}
    QCheckBox::indicator:disabled {{ border-color: {c["grid"]}; background: palette(window); }}

    QRadioButton {{ spacing: 0.5em; padding: 1px; border: 1px solid transparent; border-radius: 5px; }}
    QRadioButton:focus {{ border-color: {c["accent"]}; }}
    QRadioButton::indicator {{ width: {2 * dot}px; height: {2 * dot}px; border: 1px solid {c["muted"]};
        border-radius: {dot + 1}px; background: palette(base); }}
    QRadioButton::indicator:hover {{ border-color: {c["accent"]}; }}
    QRadioButton::indicator:checked {{ border-color: {c["accent"]}; background: qradialgradient(cx: 0.5, cy: 0.5,
        radius: 0.5, fx: 0.5, fy: 0.5, stop: 0 {c["accent"]}, stop: 0.5 {c["accent"]},
        stop: 0.6 {_css(palette.color(role.Base))}); }}
    QRadioButton::indicator:disabled {{ border-color: {c["grid"]}; background: palette(window); }}

    QListView#chatList {{ border: none; background: transparent; outline: none; }}
    QListView#chatList::item {{ padding: 7px 10px; margin: 1px 8px; border-radius: 8px; border: 1px solid transparent; }}
    QListView#chatList::item:hover {{ background: {c["hover"]}; }}
    QListView#chatList::item:selected {{ background: {c["accent_fill"]}; color: palette(text); }}
    QListView#chatList:focus::item:selected {{ border-color: {c["accent"]}; }}

    QProgressBar#loadingBar {{ border: none; background: {c["grid"]}; border-radius: 2px;
                              max-height: 4px; min-height: 4px; }}
    QProgressBar#loadingBar::chunk {{ background: {c["accent"]}; border-radius: 2px; }}

    QScrollBar:vertical {{ width: 12px; background: transparent; margin: 0; border: none; }}
    QScrollBar:horizontal {{ height: 12px; background: transparent; margin: 0; border: none; }}
    QScrollBar::handle {{ background: {c["edge"]}; border-radius: 3px; border: none; }}
    QScrollBar::handle:vertical {{ min-height: 36px; margin: 2px 3px; }}
    QScrollBar::handle:horizontal {{ min-width: 36px; margin: 3px 2px; }}
    QScrollBar::handle:hover {{ background: {c["muted"]}; }}
    QScrollBar::add-line, QScrollBar::sub-line {{ width: 0; height: 0; }}
    QScrollBar::add-page, QScrollBar::sub-page {{ background: transparent; }}

    QMenu {{ background: palette(base); border: 1px solid {c["edge"]}; padding: 5px; }}
    QMenu::item {{ padding: 5px 26px 5px 26px; border-radius: 5px; }}
    QMenu::item:selected {{ background: {c["accent_fill"]}; color: palette(text); }}
    QMenu::item:disabled {{ color: {c["muted"]}; background: transparent; }}
    QMenu::separator {{ height: 1px; background: {c["grid"]}; margin: 5px 8px; }}
    QMenu::indicator {{ width: 14px; height: 14px; left: 7px; }}

    QToolTip {{ border: none; padding: 5px 8px; background: {_css(palette.color(role.ToolTipBase))};
               color: {_css(palette.color(role.ToolTipText))}; }}
    """
