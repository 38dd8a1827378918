"""Loading is cancelled, the GPU freed and the engine killed: the window goes on, and so does the next message."""

from __future__ import annotations

import itertools
import os
import signal
import sys
import time
from pathlib import Path

import pytest
from PySide6.QtCore import QObject, Qt, QTimer
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app.client import EngineClient, EngineState
from app.main_window import MainWindow
from app.settings.store import SettingsStore
from app.transport import ProcessTransport
from engine.protocol import FinishReason, Load, Unload
from tests.app.busy_machine import allowed
from tests.app.conftest import OpenWindow
from tests.app.fake_engine import SENTENCE, Script, say

pytestmark = pytest.mark.alone

ENDLESS = Script(say(SENTENCE * 2000), tokens_per_second=200, chunk_seconds=0.0)
FREEZE = 0.1
"""Seconds for which the window may not answer."""


class Heartbeat(QObject):
    """The longest time for which the event loop did something else, on the wall and of this thread.

    The new engine starts meanwhile: on one core, what a person sees is its doing as well.
    """

    def __init__(self) -> None:
        super().__init__()
        self.wall: list[float] = []
        self.own: list[float] = []
        self._timer = QTimer(self)
        self._timer.setTimerType(Qt.TimerType.PreciseTimer)
        self._timer.timeout.connect(self._beat)
        self._timer.start(5)
        self._beat()

    def _beat(self) -> None:
        self.wall.append(time.perf_counter())
        self.own.append(time.thread_time())

    def stop(self) -> tuple[float, float]:
        self._timer.stop()
        self._beat()
        return longest(self.wall), longest(self.own)


def longest(times: list[float]) -> float:
    return max(later - earlier for earlier, later in itertools.pairwise(times))


def finish(qtbot: QtBot, window: MainWindow) -> None:
    qtbot.waitUntil(lambda: window.replies.running is None, timeout=20000)


def test_loading_can_be_cancelled_and_a_prompt_loads_again(qtbot: QtBot, open_window: OpenWindow) -> None:
    window = open_window(Script(say("A reply."), chunk_seconds=0.3), loaded=False)
    qtbot.waitUntil(lambda: window.client.is_loading, timeout=20000)
    assert window.notices.loading.cancel_button.isVisible() and window.commands.cancel_load.isEnabled()
    qtbot.mouseClick(window.notices.loading.cancel_button, Qt.MouseButton.LeftButton)
    assert window.client.state is EngineState.OFF and not window.notices.loading.isVisible()
    assert "cancelled" in window.notices.engine.label.text() and window.notices.engine.isVisible()
    qtbot.keyClicks(window.composer.edit, "one")
    assert window.composer.send_button.isEnabled(), "a prompt may be sent: it loads the model"
    qtbot.keyClick(window.composer.edit, Qt.Key.Key_Return)
    assert window.composer.text == "one" and "sent as soon as" in window.composer.hint.text()
    qtbot.waitUntil(lambda: len(window.book.current.messages) == 2, timeout=20000)
    finish(qtbot, window)
    assert window.book.current.messages[-1].text == "A reply." and window.composer.text == ""
    assert not window.notices.engine.isVisible()


def test_a_prompt_whose_load_was_cancelled_is_not_sent_by_a_later_one(
    qtbot: QtBot, open_window: OpenWindow
) -> None:
    window = open_window(Script(say("A reply."), chunk_seconds=0.0))
    window.commands.free.trigger()
    qtbot.keyClicks(window.composer.edit, "one")
    qtbot.keyClick(window.composer.edit, Qt.Key.Key_Return)
    assert window.desk.waits
    window.engine.cancel()
    assert not window.desk.waits and window.composer.text == "one"
    qtbot.keyClicks(window.composer.edit, " and a half")
    window.engine.reload()
    qtbot.waitUntil(lambda: window.client.model is not None, timeout=20000)
    qtbot.wait(50)
    assert window.composer.text == "one and a half" and window.book.current.is_empty


def test_freeing_the_gpu_ends_the_engine_and_keeps_the_text(qtbot: QtBot, open_window: OpenWindow) -> None:
    window = open_window(ENDLESS)
    window.send_prompt("one")
    reply = window.replies.running
    assert reply is not None
    qtbot.waitUntil(lambda: len(reply.text) > 50, timeout=20000)
    window.commands.free.trigger()
    assert window.replies.running is None and window.client.model is None
    kept = reply.text
    assert kept and reply.reason is FinishReason.ERROR
    view = window.transcript.view_of(reply)
    assert view is not None and "was unloaded" in view.remark("problem"), "and the chat says so at once"
    assert "memory is free" in window.notices.engine.label.text() and not window.notices.error.isVisible()
    assert window.status.text() == "Model unloaded" and not window.commands.free.isEnabled()
    qtbot.waitUntil(lambda: not window.engine_.transports[0]._thread.is_alive(), timeout=20000)  # type: ignore[attr-defined]
    window.notices.engine.offers()[0].click()
    qtbot.waitUntil(lambda: window.client.model is not None, timeout=20000)
    window.commands.resume.trigger()
    qtbot.waitUntil(lambda: len(reply.text) > len(kept) + 20, timeout=20000)
    window.commands.stop.trigger()
    finish(qtbot, window)
    assert reply.text.startswith(kept) and reply.problem is None


def test_writing_again_loads_what_was_given_back(qtbot: QtBot, open_window: OpenWindow) -> None:
    window = open_window()
    window.send_prompt("one")
    finish(qtbot, window)
    window.commands.free.trigger()
    assert window.commands.again.isEnabled()
    window.commands.again.trigger()
    assert "sent as soon as" in window.composer.hint.text() and not window.commands.again.isEnabled()
    chat = window.book.current
    qtbot.waitUntil(lambda: chat.versions(chat.messages[-1]) == (2, 2), timeout=20000)
    finish(qtbot, window)
    window.commands.free.trigger()
    view = window.transcript.view_of(chat.messages[-1])
    assert view is not None and view.versions.before.isEnabled(), "versions need no model"
    qtbot.mouseClick(view.versions.before, Qt.MouseButton.LeftButton)
    assert chat.versions(chat.messages[-1]) == (1, 2)


def test_an_idle_model_is_unloaded(qtbot: QtBot, open_window: OpenWindow) -> None:
    window = open_window()
    timer = window.engine._idle
    assert timer.isActive() and timer.interval() == 30 * 60_000
    window.store.update(idle_unload_minutes=None)
    assert not timer.isActive()
    window.store.update(idle_unload_minutes=5)
    assert timer.interval() == 5 * 60_000
    window.send_prompt("one")
    timer.timeout.emit()
    assert window.client.model is not None, "a reply is being written"
    finish(qtbot, window)
    timer.timeout.emit()
    assert window.client.state is EngineState.OFF and "5 minutes" in window.notices.engine.label.text()
    assert not window.engine_.sent(Unload), "the process ends: unloading leaves a part of the memory taken"  # type: ignore[attr-defined]


def test_another_model_is_loaded(qtbot: QtBot, open_window: OpenWindow) -> None:
    window = open_window()
    window.load(Load("elsewhere", "head"))
    qtbot.waitUntil(lambda: window.client.model is not None, timeout=20000)
    window.commands.restart.trigger()
    qtbot.waitUntil(lambda: window.client.model is not None, timeout=20000)
    assert window.engine_.sent(Load)[1:] == [Load("elsewhere", "head")] * 2  # type: ignore[attr-defined]


# --------------------------------------------------------------------------- a real process


def make(
    qtbot: QtBot, clients: list[EngineClient], folder: Path, load_seconds: str
) -> tuple[MainWindow, list[ProcessTransport]]:
    command = [sys.executable, "-m", "tests.app.fake_engine", "--load-seconds", load_seconds]
    made: list[ProcessTransport] = []

    def transport() -> ProcessTransport:
        made.append(ProcessTransport(command, folder / "engine.log"))
        return made[-1]

    client = EngineClient(transport)
    clients.append(client)
    store = SettingsStore(folder)
    store.update(licences_seen=("Gemma Terms of Use",))
    window = MainWindow(client, store, folder)
    qtbot.addWidget(window, before_close_func=lambda _: client.wait_closed())
    window.show()
    qtbot.waitExposed(window)
    window.start()
    return window, made


@pytest.mark.skipif(os.name == "nt", reason="SIGKILL is asked for")
def test_killing_the_engine_never_freezes_the_window(
    qtbot: QtBot, look: QApplication, clients: list[EngineClient], tmp_path: Path
) -> None:
    window, made = make(qtbot, clients, tmp_path, "0.05")
    qtbot.waitUntil(lambda: window.client.model is not None, timeout=20000)
    walls, owns = [], []
    for round_ in range(3):
        window.send_prompt("/long")
        reply = window.replies.running
        assert reply is not None
        qtbot.waitUntil(lambda reply=reply: len(reply.text) > 100, timeout=20000)  # type: ignore[misc]
        heart = Heartbeat()
        pid = made[-1].pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        qtbot.waitUntil(lambda: window.client.state is EngineState.DEAD, timeout=20000)
        kept = reply.text
        window.notices.error.offers()[0].click()
        qtbot.waitUntil(lambda: window.client.model is not None, timeout=20000)
        wall, own = heart.stop()
        walls.append(wall)
        owns.append(own)
        window.send_prompt(f"/quick {round_}")
        qtbot.waitUntil(lambda: window.replies.running is None, timeout=20000)
        assert window.book.current.messages[-1].reason is FinishReason.EOS, "the next message works"
        assert reply.text == kept and reply.reason is FinishReason.ERROR
    words = f"longest pauses {[round(1000 * wall) for wall in walls]} ms, own work {max(owns) * 1000:.0f} ms"
    print(words)
    assert max(owns) < FREEZE and min(walls) < allowed(FREEZE), words


@pytest.mark.parametrize("when", ["starting", "loading"])
def test_quitting_while_a_model_loads_takes_less_than_two_seconds(
    qtbot: QtBot, look: QApplication, clients: list[EngineClient], tmp_path: Path, when: str
) -> None:
    window, made = make(qtbot, clients, tmp_path, "30")
    if when == "loading":
        qtbot.waitUntil(lambda: window.client.is_loading, timeout=20000)
    else:
        qtbot.waitUntil(lambda: bool(made) and made[0].pid is not None, timeout=20000)
    begun = time.perf_counter()
    with qtbot.waitSignal(window.gone, timeout=20000):
        window.close()
    assert time.perf_counter() - begun < allowed(2.0)
    assert made[0]._process is not None and made[0]._process.poll() is not None
