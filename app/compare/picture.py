"""A comparison as a picture to share: both settings, figures, texts and what it was measured on.

It is laid out in units of one size for every screen and painted at twice that, or as SVG. Texts
of the model are drawn as plain characters.
"""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import QBuffer, QByteArray, QIODevice, QPointF, QRect, QRectF, QSaveFile, QSize, Qt
from PySide6.QtGui import (
    QColor,
    QFont,
    QGuiApplication,
    QImage,
    QPainter,
    QPalette,
    QPen,
    QTextLayout,
    QTextOption,
)
from PySide6.QtSvg import QSvgGenerator

from app import theme
from app.compare import words
from app.compare.comparison import Which
from app.compare.record import Record
from app.compare.spread import speed, speed_up
from app.language import tr
from app.tree_panel.token_text import visible

WIDTH = 920
SIDE = 32
SCALE = 2
LINES = 9
"""Of a reply that are shown."""
CHARACTERS = 420


def shortened(text: str) -> str:
    """The beginning of a reply with its line breaks, and nothing that could turn the writing round."""
    lines = [
        "".join(each if each == " " else visible(each) for each in line.expandtabs(4)[: CHARACTERS + 1]).rstrip()
        for line in text.strip().splitlines()
    ]
    lines = [line for place, line in enumerate(lines) if line or (place and lines[place - 1])]
    joined = "\n".join(lines[:LINES])
    cut = joined[:CHARACTERS]
    return cut.rstrip() + "…" if len(cut) < len("\n".join(lines)) else cut


class _Sheet:
    """Writes from top to bottom; without a painter it only measures."""

    def __init__(self, painter: QPainter | None, palette: QPalette) -> None:
        self._painter = painter
        self.palette = palette
        self.colours = theme.tokens(palette)
        self.ink = palette.text().color()
        self.y = 26.0

    def font(self, pixels: int, bold: bool = False) -> QFont:
        font = QFont(QGuiApplication.font())
        font.setPixelSize(pixels)
        font.setWeight(QFont.Weight.DemiBold if bold else QFont.Weight.Normal)
        return font

    def _layout(self, text: str, font: QFont, width: float) -> tuple[QTextLayout, float]:
        """The text in lines of this width, and their height."""
        layout = QTextLayout(text.replace("\n", "\u2028"), font)
        option = QTextOption()
        option.setWrapMode(QTextOption.WrapMode.WrapAtWordBoundaryOrAnywhere)
        layout.setTextOption(option)
        layout.beginLayout()
        height = 0.0
        while (line := layout.createLine()).isValid():
            line.setLineWidth(width)
            line.setPosition(QPointF(0, height))
            height += line.height() * 1.08
        layout.endLayout()
        return layout, height

    def height(self, text: str, font: QFont, width: float) -> float:
        return self._layout(text, font, width)[1]

    def text(self, x: float, y: float, width: float, text: str, font: QFont, ink: QColor) -> float:
        """Write a text; returns its height."""
        layout, height = self._layout(text, font, width)
        if self._painter is not None:
            self._painter.setPen(ink)
            layout.draw(self._painter, QPointF(x, y))
        return height

    def line(self, text: str, font: QFont, ink: QColor, gap: float = 4.0) -> None:
        """Write a text over the whole width, and go below it."""
        if text:
            self.y += self.text(SIDE, self.y, WIDTH - 2 * SIDE, text, font, ink) + gap

    def box(self, rect: QRectF, fill: QColor, edge: QColor | None = None, radius: float = 8.0) -> None:
        if self._painter is not None:
            self._painter.setPen(QPen(edge, 1) if edge is not None else Qt.PenStyle.NoPen)
            self._painter.setBrush(fill)
            self._painter.drawRoundedRect(rect, radius, radius)


def _lay_out(record: Record, sheet: _Sheet, prompt: int) -> float:
    """Draw everything; returns the height."""
    small, plain, label = sheet.font(13), sheet.font(14), sheet.font(15, bold=True)
    colours, ink = sheet.colours, sheet.ink
    sheet.line(tr("Compare", "Eyrie compared two settings"), small, colours.muted)
    for which in Which:
        sheet.line(f"{words.letter(which)}  {record.side(which).name}", label, ink)
    sheet.y += 8
    _figures(record, sheet)
    sheet.line(words.verdict(record), label, ink)
    answers = record.answers[prompt]
    sheet.line(words.difference_words(record, answers), plain, ink)
    if record.problem:
        sheet.line(record.problem, plain, colours.error)
    elif record.stopped:
        sheet.line(tr("Compare", "It was stopped: this is what was complete by then."), plain, colours.muted)
    sheet.y += 8
    asked = visible(answers.prompt, 200).replace("␣", " ")
    if len(record.answers) > 1:
        asked = tr("Compare", "Prompt {number} of {count}: {text}").format(
            number=prompt + 1, count=len(record.answers), text=asked
        )
    else:
        asked = tr("Compare", "Prompt: {text}").format(text=asked)
    sheet.line(asked, plain, colours.muted, gap=8)
    _texts(record, sheet, prompt)
    sheet.line(" · ".join(words.conditions(record)), small, colours.muted)
    return sheet.y + 18


def _figures(record: Record, sheet: _Sheet) -> None:
    """The factor at the left, both speeds as bars at the right."""
    found = speed_up(record)
    display, plain, small = sheet.font(40, bold=True), sheet.font(14), sheet.font(13)
    top, left = sheet.y, 300.0
    y = top
    if found is not None:
        y += sheet.text(SIDE, y, left - 20, words.times(found.factor), display, sheet.ink)
        y += sheet.text(SIDE, y, left - 20, words.factor_words(found.factor), plain, sheet.ink) + 2
        y += sheet.text(SIDE, y, left - 20, words.spread_words(found), small, sheet.colours.muted)
    speeds = [speed(record, which) for which in Which]
    most = max((each.median for each in speeds if each is not None), default=0.0)
    begin, room = SIDE + left + 26, WIDTH - 2 * SIDE - left - 26
    for row, (which, each) in enumerate(zip(Which, speeds, strict=True)):
        at = top + 8 + row * 46
        sheet.text(SIDE + left, at, 24, words.letter(which), sheet.font(15, bold=True), sheet.ink)
        if each is None or not most:
            continue
        fill = sheet.colours.accepted if row == 0 else sheet.colours.edge
        sheet.box(QRectF(begin, at + 2, max(4.0, room * each.median / most), 14), fill, radius=4)
        sheet.text(begin, at + 19, room, words.figures(record, which), plain, sheet.ink)
    sheet.y = max(y, top + 8 + 2 * 46) + 14


def _texts(record: Record, sheet: _Sheet, prompt: int) -> None:
    """Both replies beside each other, shortened."""
    plain, label = sheet.font(14), sheet.font(14, bold=True)
    column = (WIDTH - 2 * SIDE - 16) / 2
    inner = column - 28
    texts = [shortened(record.answers[prompt].text(which)) or "–" for which in Which]
    height = 44 + max(sheet.height(text, plain, inner) for text in texts)
    for place, (which, text) in enumerate(zip(Which, texts, strict=True)):
        left = SIDE + place * (column + 16)
        sheet.box(QRectF(left, sheet.y, column, height), sheet.colours.background_alt, sheet.colours.grid)
        sheet.text(left + 14, sheet.y + 10, inner, words.letter(which), label, sheet.colours.muted)
        sheet.text(left + 14, sheet.y + 32, inner, text, plain, sheet.ink)
    sheet.y += height + 14


def _size(record: Record, palette: QPalette, prompt: int) -> QSize:
    return QSize(WIDTH, round(_lay_out(record, _Sheet(None, palette), prompt)))


def _paint(painter: QPainter, record: Record, palette: QPalette, prompt: int, size: QSize) -> None:
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    painter.fillRect(QRect(0, 0, size.width(), size.height()), palette.base())
    _lay_out(record, _Sheet(painter, palette), prompt)


def as_image(record: Record, palette: QPalette, prompt: int = 0) -> QImage:
    """The picture in the colours of ``palette``, with two pixels a unit; ``prompt``: whose texts it shows."""
    size = _size(record, palette, prompt)
    image = QImage(size * SCALE, QImage.Format.Format_RGB32)
    image.setDevicePixelRatio(SCALE)
    painter = QPainter(image)
    _paint(painter, record, palette, prompt, size)
    painter.end()
    image.setText("Software", "Eyrie")
    return image


def as_svg(record: Record, palette: QPalette, prompt: int = 0) -> bytes:
    size = _size(record, palette, prompt)
    held = QByteArray()
    buffer = QBuffer(held)
    buffer.open(QIODevice.OpenModeFlag.WriteOnly)
    generator = QSvgGenerator()
    generator.setOutputDevice(buffer)
    generator.setSize(size)
    generator.setViewBox(QRect(0, 0, size.width(), size.height()))
    generator.setTitle(words.title(record))
    painter = QPainter(generator)
    _paint(painter, record, palette, prompt, size)
    painter.end()
    buffer.close()
    return bytes(held.data())


def save_picture(record: Record, palette: QPalette, path: Path, prompt: int = 0) -> None:
    """Write PNG, or SVG where the name ends so; the file is whole or not there.

    :raises OSError: it cannot be written.
    """
    if path.suffix.lower() == ".svg":
        content = as_svg(record, palette, prompt)
    else:
        held = QByteArray()
        buffer = QBuffer(held)
        buffer.open(QIODevice.OpenModeFlag.WriteOnly)
        as_image(record, palette, prompt).save(buffer, "PNG")  # type: ignore[call-overload]
        content = bytes(held.data())
    file = QSaveFile(str(path))
    if not file.open(QIODevice.OpenModeFlag.WriteOnly):
        raise OSError(file.errorString())
    file.write(content)
    if not file.commit():
        raise OSError(file.errorString())
