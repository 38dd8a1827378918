"""All steps of a reply as an animated GIF."""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO

from PIL import Image
from PySide6.QtGui import QColor, QImage, QPalette

from app import theme
from app.tree_panel import marks
from app.tree_panel.exports import MOST_FRAMES, Source, painted
from app.tree_panel.figure import StepFigure
from app.tree_panel.layout import Kind
from app.whole_files import Progress

FRAME_MS, LAST_MS = 700, 2500
"""How long a step is seen, and the last one."""
LARGEST = (1000.0, 720.0)
"""Pixels. Larger pictures are scaled down."""
_SHADES = 11
"""Steps from a colour to the ground, for smooth edges."""


def frames_of(count: int, position: int) -> range:
    """Positions that go into the animation of a reply of ``count`` steps."""
    if count <= MOST_FRAMES:
        return range(count)
    end = max(position + 1, MOST_FRAMES)
    return range(end - MOST_FRAMES, end)


def write_gif(source: Source, file: IO[bytes], progress: Progress) -> int:
    """Every step is one frame; all have the size of the largest. Returns the number of frames."""
    positions = frames_of(len(source.history), source.position)
    figure = StepFigure(source.look)
    width = height = 0.0
    total = 2 * len(positions)
    for done, position in enumerate(positions):
        progress(done, total)
        source.lay_out(figure, position)
        width, height = max(width, figure.width), max(height, figure.height)
    scale = min(1.0, LARGEST[0] / width, LARGEST[1] / height)
    palette = palette_image(source.look.palette)

    def frames() -> Iterator[Image.Image]:
        for done, position in enumerate(positions, len(positions)):
            progress(done, total)
            source.lay_out(figure, position)
            picture = as_pillow(painted(figure, scale, width, height))
            yield picture.quantize(palette=palette, dither=Image.Dither.NONE)

    made = frames()
    first = next(made)
    durations = [FRAME_MS] * (len(positions) - 1) + [LAST_MS]
    first.save(file, format="GIF", save_all=True, append_images=made, duration=durations, loop=0)
    return len(positions)


def as_pillow(image: QImage) -> Image.Image:
    """``image`` in RGB888, copied."""
    size = (image.width(), image.height())
    return Image.frombytes("RGB", size, bytes(image.constBits()), "raw", "RGB", image.bytesPerLine())


def palette_image(palette: QPalette) -> Image.Image:
    """The theme's colours, each in shades down to the ground: what all frames are painted with."""
    named = theme.tokens(palette)
    base = palette.base().color()
    inks = [palette.text().color(), named.accepted, named.bonus, named.rejected, named.root, named.edge, named.muted]
    fills = [marks.fill(kind, named, base) for kind in (Kind.ROOT, Kind.BONUS)]
    grounds = [named.accepted_fill, named.background_alt, named.grid]
    grounds += [blend(base, fill, fill.alphaF()) for fill in fills]
    colours = [base, *grounds]
    for ink in inks:
        colours += [blend(base, ink, (step + 1) / _SHADES) for step in range(_SHADES)]
    for ground in grounds:
        colours += [blend(ground, palette.text().color(), step / _SHADES) for step in range(1, _SHADES)]
        colours += [blend(ground, named.muted, step / _SHADES) for step in range(1, _SHADES)]
    flat = [part for colour in colours[:256] for part in (colour.red(), colour.green(), colour.blue())]
    made = Image.new("P", (1, 1))
    made.putpalette(flat)
    return made


def blend(ground: QColor, ink: QColor, share: float) -> QColor:
    return QColor(
        *(
            round(below + (above - below) * share)
            for below, above in zip(ground.getRgb()[:3], ink.getRgb()[:3], strict=True)
        )
    )
