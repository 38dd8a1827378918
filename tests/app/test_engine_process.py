"""The engine as a child process: started from anywhere, killed, and never left behind."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import pytest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app.client import EngineClient, EngineState
from app.main_window import MainWindow
from app.settings.store import SettingsStore
from app.transport import ProcessTransport
from engine.protocol import FinishReason, Generate, Load, Message, Role
from tests.app.busy_machine import allowed

pytestmark = pytest.mark.alone

COMMAND = [sys.executable, "-m", "tests.app.fake_engine", "--load-seconds", "0.05"]


class Launcher:
    """Makes process transports and remembers them."""

    def __init__(self, folder: Path, command: list[str]) -> None:
        self.made: list[ProcessTransport] = []
        self._log = folder / "logs" / "engine.log"
        self._command = command

    def __call__(self) -> ProcessTransport:
        self.made.append(ProcessTransport(self._command, self._log))
        return self.made[-1]

    @property
    def pid(self) -> int:
        pid = self.made[-1].pid
        assert pid is not None
        return pid


def gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


@pytest.fixture
def window(
    qtbot: QtBot,
    look: QApplication,
    clients: list[EngineClient],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> MainWindow:
    """A window over a real child process, with its data in a folder that is not ASCII."""
    folder = tmp_path / "Données d’Élodie 鷲"
    folder.mkdir()
    launcher = Launcher(folder, COMMAND)
    client = EngineClient(launcher)
    clients.append(client)
    store = SettingsStore(folder)
    store.update(licences_seen=("Gemma Terms of Use",))
    window = MainWindow(client, store, folder)
    window.launcher = launcher  # type: ignore[attr-defined]
    qtbot.addWidget(window, before_close_func=lambda _: client.wait_closed())
    monkeypatch.chdir(tmp_path)
    window.show()
    window.start()
    qtbot.waitUntil(lambda: client.model is not None, timeout=20000)
    return window


def write(qtbot: QtBot, window: MainWindow, prompt: str) -> None:
    window.send_prompt(prompt)
    reply = window.replies.running
    assert reply is not None
    qtbot.waitUntil(lambda: len(reply.text) > 20, timeout=20000)


def test_a_reply_over_a_real_pipe(qtbot: QtBot, window: MainWindow) -> None:
    window.send_prompt("Hello?")
    reply = window.replies.running
    assert reply is not None
    qtbot.waitUntil(lambda: window.replies.running is None, timeout=20000)
    assert reply.reason is FinishReason.EOS and reply.text.startswith("The quick brown fox")


def test_a_killed_engine_leaves_the_text_and_can_be_restarted(qtbot: QtBot, window: MainWindow) -> None:
    write(qtbot, window, "/long")
    reply = window.replies.running
    assert reply is not None
    os.kill(window.launcher.pid, signal.SIGTERM if os.name == "nt" else signal.SIGKILL)  # type: ignore[attr-defined]
    qtbot.waitUntil(lambda: window.client.state is EngineState.DEAD, timeout=20000)
    qtbot.wait(50)
    kept = reply.text
    assert kept and reply.reason is FinishReason.ERROR
    view = window.transcript.view_of(reply)
    assert view is not None and view.body.plain_text() == kept and view.remark("problem")
    bar = window.notices.error
    restart, _details = bar.offers()
    assert restart.text() == "Restart engine" and "stopped unexpectedly" in bar.label.text()
    assert "Restart" in window.composer.hint.text()
    restart.click()
    qtbot.waitUntil(lambda: window.client.model is not None, timeout=20000)
    assert not bar.isVisible() and reply.text == kept
    write(qtbot, window, "/slow again")


def test_a_crash_is_explained_in_the_details(qtbot: QtBot, window: MainWindow) -> None:
    window.send_prompt("/crash")
    with qtbot.waitSignal(window.client.engine_died, timeout=20000) as died:
        pass
    assert "exit code 9" in died.args[0]


@pytest.mark.parametrize("prompt", ["/long", "/deaf /long"])
def test_closing_while_generating_takes_less_than_two_seconds(
    qtbot: QtBot, window: MainWindow, prompt: str
) -> None:
    write(qtbot, window, prompt)
    pid = window.launcher.pid  # type: ignore[attr-defined]
    begun = time.perf_counter()
    with qtbot.waitSignal(window.gone, timeout=12000):
        window.close()
        assert not window.isVisible() and time.perf_counter() - begun < allowed(0.5), (
            "the window goes at once"
        )
    assert time.perf_counter() - begun < allowed(2.0)
    assert gone(pid)


def test_a_program_that_ends_at_once_is_noticed(
    qtbot: QtBot, clients: list[EngineClient], tmp_path: Path
) -> None:
    program = [sys.executable, "-c", "import sys; print('no such module'); sys.exit(3)"]
    client = EngineClient(Launcher(tmp_path, program))
    clients.append(client)
    with qtbot.waitSignal(client.engine_died, timeout=20000) as died:
        client.start()
    assert "exit code 3" in died.args[0] and "no such module" in died.args[0]


def test_a_program_that_is_not_there_is_noticed(
    qtbot: QtBot, clients: list[EngineClient], tmp_path: Path
) -> None:
    client = EngineClient(Launcher(tmp_path, [str(tmp_path / "nothing")]))
    clients.append(client)
    with qtbot.waitSignal(client.engine_died, timeout=20000) as died:
        client.start()
    assert "nothing" in died.args[0]


def test_closing_before_the_engine_has_connected(
    qtbot: QtBot, clients: list[EngineClient], tmp_path: Path
) -> None:
    launcher = Launcher(tmp_path, [sys.executable, "-c", "import time; time.sleep(60)"])
    client = EngineClient(launcher)
    clients.append(client)
    client.start()
    qtbot.waitUntil(lambda: bool(launcher.made) and launcher.made[0].pid is not None, timeout=20000)
    begun = time.perf_counter()
    with qtbot.waitSignal(client.closed, timeout=12000):
        client.shutdown()
    assert time.perf_counter() - begun < allowed(2.0)
    assert gone(launcher.pid)


def test_the_engine_ends_when_the_application_is_gone(tmp_path: Path) -> None:
    """The child sees the end of the pipe: nobody has to kill it."""
    transport = ProcessTransport(COMMAND, tmp_path / "engine.log")
    transport.open()
    transport.recv()
    transport.send(Load())
    transport.send(Generate("r", (Message(Role.USER, "/long"),)))
    assert transport._connection is not None
    transport._connection.close()
    deadline = time.monotonic() + 10
    while transport._process is not None and transport._process.poll() is None:
        assert time.monotonic() < deadline, "the engine outlives the application"
        time.sleep(0.02)
