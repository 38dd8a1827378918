"""Starts the application, in this order.

1. The command line is read; ``--version`` ends here.
2. The data folder is found or made (``--data-dir``, ``EYRIE_DATA_DIR``, the system's),
   or a throw-away one with ``--temp-data-dir``.
3. The log is opened and the hooks for exceptions, Qt's messages and crashes are put in.
4. ``QApplication`` is made: Fusion, our palette, exact scale factors, the desktop file's name.
5. The data folder is claimed; when a window has it already, that one is shown and this start ends.
   Only then is the file of the last crash read, which the next one is written into.
6. The settings are read, the language is put in force, then the chats are read.
7. asyncio runs on Qt's event loop (qasync); PySide6 is imported first, so that qasync finds it.
8. The window is shown, then the engine's process is started: the window never waits for it.
9. Once the engine says it is ready, the model asked for is loaded.

Quitting runs backwards: the window goes from the screen and refuses the close
event, a task waits until the engine has ended (it is forced after a moment), and
only then does the event loop end.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import signal
import tempfile
from collections.abc import Iterator, Sequence
from enum import IntEnum
from pathlib import Path

from PySide6.QtCore import Qt, QTimer
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QApplication

from app import icons, qt_guard, style
from app.client import EngineClient
from app.crash_log import CrashLog
from app.diagnostics import version
from app.folders import data_folder
from app.garbage import CalmGarbage
from app.language import installing, mark, tr
from app.language.choice import Language
from app.main_window import MainWindow
from app.refusal import IN_USE, UNUSABLE, refuse
from app.settings.loading import last_command
from app.settings.store import Settings, SettingsStore
from app.single_instance import SingleInstance
from app.stage import Stage
from app.theme import ThemeChoice
from app.transport import ProcessTransport
from engine.protocol import Failed, Load

DESKTOP_ID = "io.github.eyrie.Eyrie"
CRASHED = mark("Notices", "Eyrie did not end properly last time.")
GO_ON = mark("Notices", "You can go on; the log has the details.")
TOUR_MS = 600
"""The window is on the screen before the tour begins."""


class Exit(IntEnum):
    OK = 0
    ERROR = 2
    INIT = 4
    IN_USE = 5
    """Another Eyrie has the data folder and does not answer."""


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="eyrie", description="A local chat that shows speculative decoding at work."
    )
    parser.add_argument("--version", action="version", version=f"Eyrie {version()}")
    folder = parser.add_mutually_exclusive_group()
    folder.add_argument("--data-dir", metavar="DIR", help="keep settings, chats and logs here")
    folder.add_argument("--temp-data-dir", action="store_true", help="use a throw-away data folder")
    parser.add_argument(
        "--model",
        metavar="PATH",
        help="model to load: 'demo', a folder or a GGUF file; by default the last one used",
    )
    parser.add_argument("--head", metavar="DIR", help="EAGLE head to use; 'none' loads none")
    parser.add_argument(
        "--language",
        choices=[each.value for each in Language],
        help="speak this language now, whatever the settings say",
    )
    parser.add_argument("--verbose", action="store_true", help="log more, and to the terminal as well")
    parser.add_argument("--screenshots", metavar="DIR", help="save pictures of the window in DIR and end")
    return parser.parse_args(arguments)


def load_command(options: argparse.Namespace, settings: Settings) -> Load:
    """What to load. Paths are made absolute: the engine runs in a folder of its own."""

    def absolute(path: str) -> str:
        there = Path(os.path.expanduser(path))
        return str(there.absolute()) if there.exists() else path

    head = options.head
    if head is not None:
        head = "" if head == "none" else absolute(head)
    if options.model is None:
        last = last_command(settings)
        return last if head is None else Load(last.model, head)
    return Load("demo" if options.model == "demo" else absolute(options.model), head)


@contextlib.contextmanager
def chosen_folder(options: argparse.Namespace) -> Iterator[Path]:
    if options.temp_data_dir:
        with tempfile.TemporaryDirectory(prefix="eyrie-data-", ignore_cleanup_errors=True) as folder:
            yield Path(folder)
    else:
        yield data_folder(options.data_dir)


def make_application(arguments: Sequence[str] = ()) -> QApplication:
    """The ``QApplication``, once per process."""
    qt_guard.protect_immortals()
    QGuiApplication.setHighDpiScaleFactorRoundingPolicy(Qt.HighDpiScaleFactorRoundingPolicy.PassThrough)
    QGuiApplication.setDesktopFileName(DESKTOP_ID)
    app = QApplication(["eyrie", *arguments])
    app.setApplicationName("eyrie")
    app.setApplicationDisplayName("Eyrie")
    app.setApplicationVersion(version())
    app.setStyle("Fusion")
    app.setWindowIcon(icons.application_icon())
    app.setQuitOnLastWindowClosed(False)
    return app


def follow_settings(app: QApplication, store: SettingsStore) -> None:
    """Keep theme and font size as the settings say, and the theme as the system's if they say so."""

    def apply() -> None:
        style.apply(app, store.current.theme, store.current.font_size)

    def on_system_change() -> None:
        if store.current.theme is ThemeChoice.SYSTEM:
            apply()

    apply()
    store.changed.subscribe(lambda _: apply())
    app.styleHints().colorSchemeChanged.connect(lambda _: on_system_change())


def run(app: QApplication, folder: Path, crash_log: CrashLog, options: argparse.Namespace) -> int:
    """From the settings to the end of the event loop."""
    import qasync

    installing.install(app, Language.SYSTEM)  # for what is said before the settings are read, and of them
    instance = SingleInstance(folder, app)
    if instance.taken:
        if instance.knock():
            print("Eyrie runs already; its window is shown.")
            return Exit.OK
        refuse(IN_USE)
        return Exit.IN_USE
    crash_log.watch_faults()
    store = SettingsStore(folder)
    installing.install(app, Language(options.language) if options.language else store.current.language)
    follow_settings(app, store)
    client = EngineClient(lambda: ProcessTransport(log_path=crash_log.engine_log))
    stage = Stage(
        app, store, client, load_command(options, store.current),
        lambda client, load: MainWindow(client, store, folder, load), follows=not options.language,
    )  # fmt: skip
    instance.asked_to_show.connect(lambda: stage.window.come_forward())

    CalmGarbage(app, lambda: stage.window.replies.running is not None)

    def report(message: str, detail: str) -> None:
        stage.window.notices.show_failure(Failed(message, tr("Notices", GO_ON), detail=detail))

    crash_log.on_exception = report
    if crash_log.last_crash:
        words = tr("Notices", CRASHED) + " " + tr("Notices", GO_ON)
        stage.window.notices.crash.say(words, details=crash_log.last_crash)

    async def live() -> None:
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[None] = loop.create_future()

        def on_gone() -> None:
            if not ended.done():
                ended.set_result(None)

        stage.gone.connect(on_gone)
        stage.window.show()
        stage.window.start()
        if not store.current.tour_seen:
            QTimer.singleShot(TOUR_MS, stage, lambda: stage.window.dialogs.start_tour())
        await ended

    loop = qasync.QEventLoop(app)
    crash_log.watch_loop(loop)
    with loop, _interrupts(stage):
        loop.run_until_complete(live())
    stage.window.client.wait_closed()
    instance.release()
    return Exit.OK


@contextlib.contextmanager
def _interrupts(stage: Stage) -> Iterator[None]:
    """Ctrl+C, a session's end and that of a terminal close the window properly."""
    before = {}
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):  # the last one is not everywhere
        number = getattr(signal, name, None)
        if number is None or signal.getsignal(number) is signal.SIG_IGN:  # as nohup does
            continue
        before[number] = signal.signal(number, lambda *_: stage.window.close())
    # Python runs its signal handlers only between two bytecodes: give it some now and then.
    timer = QTimer(stage)
    timer.timeout.connect(lambda: None)
    timer.start(250)
    try:
        yield
    finally:
        timer.stop()
        for number, handler in before.items():
            signal.signal(number, handler)


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse(arguments)
    if options.screenshots:
        from app.screenshots import make_screenshots

        return make_screenshots(Path(options.screenshots), Language(options.language or Language.ENGLISH))
    with contextlib.ExitStack() as stack:
        try:
            folder = stack.enter_context(chosen_folder(options))
            crash_log = CrashLog(folder)
            crash_log.install(options.verbose)
        except (OSError, RuntimeError) as error:  # the second: a home folder that nobody has
            refuse(UNUSABLE, error)
            return Exit.INIT
        stack.callback(crash_log.close)
        os.environ.setdefault("QT_API", "pyside6")
        return run(make_application(), folder, crash_log, options)
