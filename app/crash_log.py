"""One log for everything that goes wrong: exceptions, Qt's messages, hard crashes.

Nothing leaves the machine. A crash of the interpreter itself is written by
``faulthandler`` to a file of its own, which the next start reads.
"""

from __future__ import annotations

import asyncio
import faulthandler
import logging
import sys
import threading
from collections.abc import Callable
from logging.handlers import RotatingFileHandler
from pathlib import Path
from types import TracebackType
from typing import Any, TextIO

from PySide6.QtCore import QMessageLogContext, QtMsgType, qInstallMessageHandler

from app.language import tr

log = logging.getLogger("eyrie")

LEVELS = {
    QtMsgType.QtDebugMsg: logging.DEBUG,
    QtMsgType.QtInfoMsg: logging.INFO,
    QtMsgType.QtWarningMsg: logging.WARNING,
    QtMsgType.QtCriticalMsg: logging.ERROR,
    QtMsgType.QtFatalMsg: logging.CRITICAL,
}


class CrashLog:
    """Installs the handlers. ``on_exception`` is called with a text for the user, once there is a window."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "logs"
        self.folder.mkdir(parents=True, exist_ok=True)
        self.last_crash = ""
        """What a hard crash of the session before has left."""
        self.on_exception: Callable[[str, str], None] | None = None
        self._faults: TextIO | None = None

    @property
    def engine_log(self) -> Path:
        return self.folder / "engine.log"

    def install(self, verbose: bool = False) -> None:
        handler = RotatingFileHandler(
            self.folder / "eyrie.log", maxBytes=1_000_000, backupCount=3, encoding="utf-8"
        )
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
        root = logging.getLogger()
        root.addHandler(handler)
        root.setLevel(logging.DEBUG if verbose else logging.INFO)
        if verbose:
            root.addHandler(logging.StreamHandler())
        sys.excepthook = self._on_exception
        threading.excepthook = lambda args: self._on_exception(
            args.exc_type, args.exc_value or args.exc_type(), args.exc_traceback
        )
        qInstallMessageHandler(_on_qt_message)

    def watch_faults(self) -> None:
        """Read what a hard crash has left, and have the next one written there.

        Only for the session that has the data folder: the file is emptied.
        """
        path = self.folder / "faults.log"
        try:
            self.last_crash = path.read_text(encoding="utf-8", errors="replace").strip()
        except OSError:
            self.last_crash = ""
        if self.last_crash:
            log.error("the session before crashed:\n%s", self.last_crash)
        self._faults = open(path, "w", encoding="utf-8")  # noqa: SIM115 - faulthandler needs it open
        faulthandler.enable(self._faults)

    def watch_loop(self, loop: asyncio.AbstractEventLoop) -> None:
        loop.set_exception_handler(self._on_loop_exception)

    def close(self) -> None:
        """Take the fault file back: a normal end leaves none."""
        if self._faults is not None:
            faulthandler.disable()
            self._faults.close()
            (self.folder / "faults.log").unlink(missing_ok=True)
        qInstallMessageHandler(None)

    def _on_exception(
        self, kind: type[BaseException], error: BaseException, trace: TracebackType | None
    ) -> None:
        if issubclass(kind, KeyboardInterrupt):
            sys.__excepthook__(kind, error, trace)
            return
        log.error("unexpected error", exc_info=(kind, error, trace))
        sys.__excepthook__(kind, error, trace)
        if self.on_exception is not None and threading.current_thread() is threading.main_thread():
            formatted = logging.Formatter().formatException((kind, error, trace))
            text = tr("Notices", "Something unexpected went wrong: {kind}.").format(kind=kind.__name__)
            self.on_exception(text, formatted)

    def _on_loop_exception(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if isinstance(error, BaseException):
            self._on_exception(type(error), error, error.__traceback__)
        else:
            log.error("event loop: %s", context.get("message"))


def _on_qt_message(kind: QtMsgType, context: QMessageLogContext, message: str) -> None:
    logging.getLogger("qt").log(LEVELS.get(kind, logging.WARNING), "%s", message)
