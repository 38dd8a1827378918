"""The steps of a reply as files: JSON with everything, SVG, PNG, and an animated GIF.

Everything here may run in a worker thread. A file appears under its name only when it is
complete, in the place of one that had the name before.
"""

from __future__ import annotations

import dataclasses
import errno
import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import IO, Any

from PySide6.QtCore import QBuffer, QIODevice, QRectF, QSize
from PySide6.QtGui import QImage, QPainter
from PySide6.QtSvg import QSvgGenerator

from app.language import tr
from app.tree_panel.figure import Look, StepFigure
from app.tree_panel.history import ReplyHistory
from app.whole_files import Progress, replacing, unwatched

FORMAT, VERSION = "eyrie-steps", 1
PNG_SCALE = 2.0
"""Pixels of a PNG for each unit of the figure."""
MOST_FRAMES = 200
"""Steps of an animation. Longer replies are cut to the last so many up to the step that is shown: all
frames are held in memory until the file is complete."""
LARGEST_SIDE = 8000
"""Pixels. A larger picture is scaled down."""


class ExportError(Exception):
    """A file could not be written: what happened, and what the user can do."""

    def __init__(self, message: str, next_step: str) -> None:
        super().__init__(f"{message} {next_step}")
        self.message = message
        self.next_step = next_step


class Form(StrEnum):
    JSON = "json"
    SVG = "svg"
    PNG = "png"
    GIF = "gif"


@dataclass(frozen=True, slots=True)
class Source:
    """What is exported: a reply that does not change any more, and the step that is shown."""

    history: ReplyHistory
    position: int
    look: Look
    method_name: Callable[[str], str]

    def lay_out(self, figure: StepFigure, position: int) -> None:
        figure.lay_out(self.history, position, self.method_name(self.history.step(position).method))


def write(form: Form, source: Source, path: Path, progress: Progress = unwatched) -> int:
    """Write a file; returns how many steps are in it.

    :raises ExportError: it cannot be written
    :raises Cancelled: ``progress`` raised it; nothing is left behind
    """
    from app.tree_panel.animation import write_gif

    writers = {Form.JSON: write_json, Form.SVG: write_svg, Form.PNG: write_png, Form.GIF: write_gif}
    try:
        with replacing(path) as file:
            return writers[form](source, file, progress)
    except OSError as error:
        raise problem(error, path) from error


def problem(error: OSError, path: Path) -> ExportError:
    """An error of the system in words for people."""
    if error.errno in (errno.ENOSPC, getattr(errno, "EDQUOT", None)):
        return ExportError(
            tr("Panel", "There is no room left on the disk for “{name}”.").format(name=path.name),
            tr("Panel", "Free some space, or choose another disk."),
        )
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return ExportError(
            tr("Panel", "Nothing may be written into the folder “{folder}”.").format(folder=path.parent),
            tr("Panel", "Choose another folder."),
        )
    if error.errno in (errno.ENOENT, errno.ENOTDIR):
        return ExportError(
            tr("Panel", "There is no folder “{folder}”.").format(folder=path.parent),
            tr("Panel", "Choose another folder."),
        )
    reason = error.strerror or str(error)
    return ExportError(
        tr("Panel", "“{name}” could not be written: {reason}.").format(name=path.name, reason=reason.rstrip(".")),
        tr("Panel", "Choose another file or folder."),
    )


def free_name(folder: Path, stem: str, form: Form) -> Path:
    """A name in ``folder`` that nothing has yet."""
    path = folder / f"{stem}.{form}"
    number = 2
    while path.exists():
        path = folder / f"{stem}-{number}.{form}"
        number += 1
    return path


# --------------------------------------------------------------------------- JSON


def write_json(source: Source, file: IO[bytes], progress: Progress) -> int:
    """All steps, a line each, with every field of the protocol's `Step`."""
    history = source.history
    count = len(history)
    head: dict[str, Any] = {"format": FORMAT, "version": VERSION, "request_id": history.request_id}
    if history.finished is not None:
        finished = dataclasses.asdict(history.finished)
        head["reason"], head["stats"] = finished["reason"], finished["stats"]
    # All fields but the last bracket; the steps come one by one, so that none of it is held twice.
    file.write(_json(head)[:-1] + b',\n"steps": [')
    for position in range(count):
        progress(position, count)
        step = dataclasses.asdict(history.step(position))
        del step["request_id"]
        if history.dropped_tree(position):
            step["nodes_dropped"] = True
        file.write((b",\n" if position else b"\n") + _json(step))
    file.write(b"\n]}\n")
    return count


def _json(value: dict[str, Any]) -> bytes:
    clean = _finite(value)
    try:
        return json.dumps(clean, ensure_ascii=False, allow_nan=False).encode("utf-8")
    except UnicodeEncodeError:  # half a character in a token
        return json.dumps(clean, ensure_ascii=True, allow_nan=False).encode("ascii")


def _finite(value: Any) -> Any:
    """JSON knows no infinity and nothing that is not a number."""
    if isinstance(value, dict):
        return {name: _finite(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


# --------------------------------------------------------------------------- pictures of one step


def write_svg(source: Source, file: IO[bytes], progress: Progress) -> int:
    """The step that is shown. Words stay words, so the picture can be searched and read out."""
    figure = StepFigure(source.look)
    source.lay_out(figure, source.position)
    progress(0, 1)
    buffer = QBuffer()
    generator = QSvgGenerator()
    generator.setOutputDevice(buffer)
    generator.setSize(QSize(math.ceil(figure.width), math.ceil(figure.height)))
    generator.setViewBox(QRectF(0, 0, figure.width, figure.height))
    generator.setTitle(figure.title)
    generator.setDescription(figure.words)
    painter = QPainter(generator)
    figure.paint(painter)
    painter.end()
    file.write(buffer.data().data())
    return 1


def write_png(source: Source, file: IO[bytes], progress: Progress) -> int:
    """The step that is shown, at twice its size."""
    figure = StepFigure(source.look)
    source.lay_out(figure, source.position)
    progress(0, 1)
    scale = min(PNG_SCALE, LARGEST_SIDE / max(figure.width, figure.height))
    buffer = QBuffer()
    buffer.open(QIODevice.OpenModeFlag.WriteOnly)
    painted(figure, scale, figure.width, figure.height).save(buffer, "PNG")
    file.write(buffer.data().data())
    return 1


def painted(figure: StepFigure, scale: float, width: float, height: float) -> QImage:
    """A figure on a ground of ``width`` by ``height`` units."""
    image = QImage(math.ceil(width * scale), math.ceil(height * scale), QImage.Format.Format_RGB888)
    painter = QPainter(image)
    painter.setRenderHint(QPainter.RenderHint.TextAntialiasing)
    painter.scale(scale, scale)
    figure.paint(painter, image.width() / scale, image.height() / scale)
    painter.end()
    return image
