"""Line icons from ``resources/icons``, drawn in a colour of the widget they are for.

:func:`dress` remembers which icon a button or an action wears, and
:func:`redress` draws all of them again after the theme has changed.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from PySide6.QtCore import QByteArray, QObject, QRectF, QSize, Qt
from PySide6.QtGui import QAction, QColor, QIcon, QPainter, QPalette, QPixmap
from PySide6.QtSvg import QSvgRenderer
from PySide6.QtWidgets import QAbstractButton, QWidget

from app import theme

SIZE = 20
SCALES = (1.0, 1.5, 2.0, 3.0)
_NAME, _INK = "eyrieIcon", "eyrieInk"


@cache
def _source(name: str) -> str:
    return (files("resources") / "icons" / f"{name}.svg").read_text(encoding="utf-8")


def pixmap(name: str, colour: QColor, size: int = SIZE, scale: float = 1.0) -> QPixmap:
    """An icon as a picture of ``size`` logical pixels."""
    drawn = QPixmap(round(size * scale), round(size * scale))
    drawn.fill(Qt.GlobalColor.transparent)
    renderer = QSvgRenderer(QByteArray(_source(name).replace("currentColor", colour.name()).encode()))
    painter = QPainter(drawn)
    renderer.render(painter, QRectF(0, 0, drawn.width(), drawn.height()))
    painter.end()
    drawn.setDevicePixelRatio(scale)
    return drawn


def make(name: str, palette: QPalette, ink: str = "text") -> QIcon:
    """``ink`` is "text" or the name of a token."""
    colour = palette.color(QPalette.ColorRole.ButtonText)
    if ink != "text":
        colour = getattr(theme.tokens(palette), ink)
    return _made(name, colour.name(), theme.tokens(palette).edge.name())


@cache
def _made(name: str, colour: str, faded: str) -> QIcon:
    icon = QIcon()
    for scale in SCALES:
        icon.addPixmap(pixmap(name, QColor(colour), scale=scale))
        icon.addPixmap(pixmap(name, QColor(faded), scale=scale), QIcon.Mode.Disabled)
    return icon


def size_for(widget: QWidget) -> QSize:
    """The size of an icon beside text of the widget's font."""
    side = max(SIZE, round(widget.fontMetrics().height() * 1.1))
    return QSize(side, side)


def dress(
    target: QAbstractButton | QAction, name: str, ink: str = "text", palette: QPalette | None = None
) -> None:
    """Give a button or an action an icon that follows the theme."""
    target.setProperty(_NAME, name)
    target.setProperty(_INK, ink)
    if palette is None:
        holder = target if isinstance(target, QWidget) else target.parent()
        palette = holder.palette() if isinstance(holder, QWidget) else QPalette()
    target.setIcon(make(name, palette, ink))
    if isinstance(target, QAbstractButton):
        target.setIconSize(size_for(target))


def redress(root: QWidget) -> None:
    """Draw every icon under ``root`` again, in the colours of its palette."""
    palette = root.palette()
    found: list[QObject] = [*root.findChildren(QAbstractButton), *root.findChildren(QAction)]
    for target in found:
        name = target.property(_NAME)
        if name and isinstance(target, QAbstractButton | QAction):
            dress(target, name, target.property(_INK), palette)


def application_icon() -> QIcon:
    return QIcon(str(files("resources") / "icons" / "eyrie.svg"))
