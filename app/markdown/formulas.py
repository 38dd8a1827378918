"""Pictures of formulas, set by another process and kept here.

:meth:`FormulaSetter.formula` answers at once: with the picture, or with ``None`` while it is
being set or when it cannot be set; the source then stands in its place. Setting a formula
takes 5 to 50 ms of Python, which the window does not have.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import logging
import os
import queue
import re
import subprocess
import sys
import threading
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from PySide6.QtCore import QByteArray, QElapsedTimer, QObject, QRectF, Qt, QTimer, Signal
from PySide6.QtGui import QColor, QImage, QPainter
from PySide6.QtSvg import QSvgRenderer

from app.markdown.formula_process import INK, SIZE

log = logging.getLogger(__name__)

PROJECT_ROOT = Path(__file__).resolve().parent.parent.parent
POLL_MS = 15
SLOWEST_MS = 4000
"""A formula that takes longer is given up, with the process."""
IDLE_MS = 60_000
"""The process ends when nothing was asked of it for so long."""
MOST_KEPT = 2000
_ALLOWED = re.compile(r"<(?!/?(?:svg|path|rect|g|line)\b)")
"""Anything but the shapes of a formula."""


@dataclass(frozen=True, slots=True)
class Formula:
    """A formula as shapes, in the units of its process (``SIZE`` an em)."""

    svg: str
    width: float
    height: float
    depth: float
    """Part of the height that lies below the base line."""

    def placed(self, em: float, descent: float, x_height: float) -> Placed:
        """Its sizes in a line of a font of ``em`` logical pixels.

        Qt sets a picture either with the font's descent below the base line or around the middle
        of the small letters; room is added at the top or bottom so that the base lines meet.
        """
        factor = em / SIZE
        width, height, depth = self.width * factor, self.height * factor, self.depth * factor
        if depth <= descent:
            return Placed(width, height, 0.0, descent - depth, middle=False)
        above, axis = height - depth, x_height / 2
        return Placed(width, height, max(0.0, depth + axis - above), max(0.0, above - axis - depth), middle=True)

    def image(self, placed: Placed, ink: QColor, scale: float) -> QImage:
        """The picture, on a screen of ``scale`` pixels to a logical one."""
        image = QImage(
            max(1, round(placed.width * scale)),
            max(1, round(placed.whole_height * scale)),
            QImage.Format.Format_ARGB32_Premultiplied,
        )
        image.fill(Qt.GlobalColor.transparent)
        painter = QPainter(image)
        renderer = QSvgRenderer(QByteArray(self.svg.replace(INK, ink.name()).encode()))
        renderer.render(painter, QRectF(0, placed.above * scale, image.width(), placed.height * scale))
        painter.end()
        image.setDevicePixelRatio(scale)
        return image


@dataclass(frozen=True, slots=True)
class Placed:
    """Sizes of a formula in a line, in logical pixels."""

    width: float
    height: float
    above: float
    """Empty room above, and below, that brings the base line to where Qt takes it to be."""
    below: float
    middle: bool
    """Whether it is set around the middle of the small letters."""

    @property
    def whole_height(self) -> float:
        return self.above + self.height + self.below


@dataclass(slots=True)
class _Child:
    process: subprocess.Popen[str]
    answers: queue.SimpleQueue[str | None] = field(default_factory=queue.SimpleQueue)

    def read(self) -> None:
        assert self.process.stdout is not None
        with contextlib.suppress(OSError, ValueError):
            for line in self.process.stdout:
                self.answers.put(line)
        self.answers.put(None)

    def end(self) -> None:
        if self.process.stdin is not None and not self.process.stdin.closed:
            with contextlib.suppress(OSError):
                self.process.stdin.close()
        self.process.kill()
        self.process.wait(2)
        if self.process.stdout is not None:
            self.process.stdout.close()


class FormulaSetter(QObject):
    """Asks for formulas and keeps them. One for the application: :func:`setter`."""

    ready = Signal()
    """Formulas have come since the last time."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._known: dict[tuple[str, bool], Formula | None] = {}
        self._waiting: dict[int, tuple[str, bool]] = {}
        self._asked: set[tuple[str, bool]] = set()
        self._child: _Child | None = None
        self._number = 0
        self._broken = 0
        self._since = QElapsedTimer()
        self._timer = QTimer(self)
        self._timer.setInterval(POLL_MS)
        self._timer.timeout.connect(self._poll)
        self._idle = QTimer(self)
        self._idle.setSingleShot(True)
        self._idle.setInterval(IDLE_MS)
        self._idle.timeout.connect(self.close)
        atexit.register(self.close)

    @property
    def is_busy(self) -> bool:
        return bool(self._waiting)

    def formula(self, tex: str, display: bool) -> Formula | None:
        """The formula, or ``None``; if it is only not there yet, ``ready`` follows."""
        key = (tex, display)
        if key in self._known:
            return self._known[key]
        if key not in self._asked:
            self._ask(key)
        return None

    def close(self) -> None:
        """End the process; it is started again when it is needed."""
        child, self._child = self._child, None
        if child is not None:
            child.end()

    def _ask(self, key: tuple[str, bool]) -> None:
        if self._broken > 3:
            self._known[key] = None
            return
        if not self._waiting:
            self._since.start()
        self._number += 1
        self._waiting[self._number] = key
        self._asked.add(key)
        self._send(self._number, key)
        self._timer.start()
        self._idle.start()

    def _send(self, number: int, key: tuple[str, bool]) -> None:
        if self._child is None:
            self._start()
        if self._child is None or self._child.process.stdin is None:
            return
        try:
            self._child.process.stdin.write(json.dumps({"id": number, "tex": key[0], "display": key[1]}) + "\n")
            self._child.process.stdin.flush()
        except OSError as error:
            log.warning("formulas cannot be set: %s", error)

    def _start(self) -> None:
        environment = dict(os.environ, PYTHONUTF8="1")
        paths = [str(PROJECT_ROOT), environment.get("PYTHONPATH", "")]
        environment["PYTHONPATH"] = os.pathsep.join(path for path in paths if path)
        try:
            process = subprocess.Popen(
                [sys.executable, "-m", "app.markdown.formula_process"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                encoding="utf-8",
                env=environment,
                creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
            )
        except OSError as error:
            log.warning("formulas cannot be set: %s", error)
            self._broken += 1
            return
        self._child = _Child(process)
        threading.Thread(target=self._child.read, name="formula-reader", daemon=True).start()

    def _poll(self) -> None:
        child, came = self._child, False
        while child is not None:
            try:
                line = child.answers.get_nowait()
            except queue.Empty:
                break
            if line is None:
                self._lost()
                return
            came = True
            self._take(json.loads(line))
            self._since.restart()
        if self._waiting and (child is None or self._since.hasExpired(SLOWEST_MS)):
            self._lost()
            return
        if not self._waiting:
            self._timer.stop()
        if came:
            self.ready.emit()

    def _take(self, answer: dict[str, object]) -> None:
        key = self._waiting.pop(int(str(answer["id"])), None)
        if key is None:
            return
        self._asked.discard(key)
        while len(self._known) >= MOST_KEPT:
            del self._known[next(iter(self._known))]
        svg = str(answer.get("svg", ""))
        if not svg or _ALLOWED.search(svg):
            self._known[key] = None
            return
        sizes = [float(str(answer[name])) for name in ("width", "height", "depth")]
        self._known[key] = Formula(svg, *sizes)

    def _lost(self) -> None:
        """The process hung or died over the oldest formula: give that one up, and ask for the others again."""
        self.close()
        self._broken += 1
        number = next(iter(self._waiting), None)
        if number is not None:
            key = self._waiting.pop(number)
            self._asked.discard(key)
            self._known[key] = None
        self._since.restart()
        for waiting, key in list(self._waiting.items()):
            if self._broken > 3:
                self._known[self._waiting.pop(waiting)] = None
            else:
                self._send(waiting, key)
        if not self._waiting:
            self._timer.stop()


@cache
def setter() -> FormulaSetter:
    return FormulaSetter()
