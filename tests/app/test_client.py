"""The bridge: queued events, one batch a flush, death and shutdown of the engine."""

from __future__ import annotations

import itertools
import queue
import threading
import time
from collections.abc import Callable

import pytest
from pytestqt.qtbot import QtBot

from app.client import FLUSH_MS, SLOWEST_FLUSH_MS, EngineClient, EngineState
from app.transport import CommandSource, ThreadTransport
from engine.protocol import (
    Event,
    Failed,
    Finished,
    Generate,
    GenerationSettings,
    Load,
    Loading,
    Message,
    Ready,
    Role,
    SetEagle,
    Shutdown,
    Step,
    Stop,
)
from tests.app.busy_machine import allowed
from tests.app.fake_engine import FakeEngine, Script, say

pytestmark = pytest.mark.alone

ASK = (Message(Role.USER, "Hello?"),)


def started(qtbot: QtBot, clients: list[EngineClient], script: Script) -> tuple[EngineClient, FakeEngine]:
    engine = FakeEngine(script)
    client = EngineClient(engine.transport)
    clients.append(client)
    with qtbot.waitSignal(client.ready, timeout=20000):
        client.start()
    with qtbot.waitSignal(client.loaded, timeout=20000):
        client.send(Load())
    return client, engine


def test_a_reply_arrives_in_order_and_as_typed_signals(qtbot: QtBot, clients: list[EngineClient]) -> None:
    client, _ = started(qtbot, clients, Script(say("One two three four five."), chunk_seconds=0.0))
    everything: list[Event] = []
    steps: list[Step] = []
    client.received.connect(everything.append)
    client.step.connect(steps.append)
    with qtbot.waitSignal(client.finished, timeout=20000) as done:
        client.send(Generate("r1", ASK))
    finished = done.args[0]
    assert isinstance(finished, Finished)
    assert "".join(step.text for step in steps) == finished.text == "One two three four five."
    assert [step.index for step in steps] == list(range(len(steps)))
    assert [event for event in everything if isinstance(event, Step)] == steps
    assert client.active == ()


def test_a_burst_is_flushed_as_one_batch(qtbot: QtBot, clients: list[EngineClient]) -> None:
    def burst(commands: CommandSource, emit: Callable[[Event], None]) -> None:
        emit(Ready("here"))
        commands.get()
        for share in range(100):
            emit(Loading("much", share / 100))
        commands.get()

    client = EngineClient(lambda: ThreadTransport(burst))
    clients.append(client)
    order: list[str] = []
    client.loading.connect(lambda _: order.append("event"))
    with qtbot.waitSignal(client.ready, timeout=20000):
        client.start()
    qtbot.wait(50)
    client.flushed.connect(lambda: order.append("flush"))
    client.send(Load())
    qtbot.waitUntil(lambda: order.count("event") == 100, timeout=20000)
    qtbot.wait(2 * FLUSH_MS)
    assert order[-1] == "flush"
    assert order.count("flush") <= 5, "a hundred events that come at once must not make a hundred frames"


def test_flushes_slow_down_under_load_and_recover(qtbot: QtBot, clients: list[EngineClient]) -> None:
    client, _ = started(qtbot, clients, Script(say("word " * 4000), tokens_per_second=400, chunk_seconds=0.0))
    times: list[float] = []
    slow = True

    def draw() -> None:
        times.append(time.perf_counter())
        if slow:
            time.sleep(0.03)

    client.flushed.connect(draw)
    client.send(Generate("r1", ASK, GenerationSettings(max_new_tokens=4000)))
    qtbot.waitUntil(lambda: len(times) >= 9, timeout=20000)
    gaps = [after - before for before, after in itertools.pairwise(times)]
    rest = max(gaps[-3:]) - 0.03
    assert rest > 0.9 * SLOWEST_FLUSH_MS / 1000, "drawing that takes 30 ms must be asked for less often"
    assert min(gaps[-3:]) < (SLOWEST_FLUSH_MS + 800) / 1000
    slow = False
    seen = len(times)
    qtbot.waitUntil(lambda: len(times) >= seen + 12, timeout=20000)
    quick = sorted(after - before for before, after in itertools.pairwise(times[-6:]))
    assert quick[len(quick) // 2] < 0.1, "quick drawing must be asked for often again"
    client.send(Stop("r1"))
    qtbot.waitUntil(lambda: client.active == (), timeout=20000)


def test_sending_never_waits_for_the_engine(qtbot: QtBot, clients: list[EngineClient]) -> None:
    gate = threading.Event()

    class Stuck(ThreadTransport):
        def send(self, command: object) -> None:
            gate.wait(10)
            raise OSError("gone")

    def wait(commands: CommandSource, emit: Callable[[Event], None]) -> None:
        emit(Ready("here"))
        gate.wait(10)

    client = EngineClient(lambda: Stuck(wait))
    clients.append(client)
    with qtbot.waitSignal(client.ready, timeout=20000):
        client.start()
    begun = time.perf_counter()
    for _ in range(1000):
        client.send(SetEagle("r", True))
    assert time.perf_counter() - begun < allowed(0.2)
    gate.set()


def test_death_closes_the_running_reply_and_restart_works(qtbot: QtBot, clients: list[EngineClient]) -> None:
    script = Script(say("word " * 50), tokens_per_second=500, crash_after=4, chunk_seconds=0.0)
    client, engine = started(qtbot, clients, script)
    order: list[object] = []
    client.step.connect(order.append)
    client.failed.connect(order.append)
    client.engine_died.connect(order.append)
    with qtbot.waitSignal(client.engine_died, timeout=20000):
        client.send(Generate("r1", ASK))
    assert [type(item).__name__ for item in order] == ["Step"] * 5 + ["Failed", "str"]
    failure = order[-2]
    assert isinstance(failure, Failed) and failure.request_id == "r1" and failure.next_step
    assert client.state is EngineState.DEAD and client.active == () and client.model is None
    assert client.send(Load()) is False

    engine.script = Script(say("Back."), chunk_seconds=0.0)
    with qtbot.waitSignal(client.ready, timeout=20000):
        client.restart()
    client.send(Load())
    with qtbot.waitSignal(client.finished, timeout=20000) as done:
        client.send(Generate("r2", ASK))
    assert done.args[0].text == "Back."


def test_shutdown_is_told_and_bounded_when_the_engine_is_deaf(
    qtbot: QtBot, clients: list[EngineClient]
) -> None:
    script = Script(say("word " * 100), tokens_per_second=50, deaf=True, chunk_seconds=0.0)
    client, _ = started(qtbot, clients, script)
    client.send(Generate("r1", ASK))
    qtbot.waitSignal(client.step, timeout=20000).wait()
    begun = time.perf_counter()
    with qtbot.waitSignal(client.closed, timeout=20000):
        client.shutdown()
        assert time.perf_counter() - begun < allowed(0.1), "shutdown must not block"
    assert time.perf_counter() - begun < allowed(2.0)
    assert client.send(Load()) is False


def test_shutdown_reaches_the_engine(qtbot: QtBot, clients: list[EngineClient]) -> None:
    client, engine = started(qtbot, clients, Script(say("A reply."), chunk_seconds=0.0))
    with qtbot.waitSignal(client.closed, timeout=20000):
        client.shutdown()
    assert len(engine.sent(Shutdown)) == 1


def test_an_engine_that_cannot_start_is_reported(qtbot: QtBot, clients: list[EngineClient]) -> None:
    class Broken(ThreadTransport):
        def open(self) -> None:
            raise OSError("no such program")

    client = EngineClient(lambda: Broken(lambda commands, emit: None))
    clients.append(client)
    with qtbot.waitSignal(client.engine_died, timeout=20000) as died:
        client.start()
    assert "no such program" in died.args[0]


@pytest.mark.parametrize("timeout", [0.0, 0.01])
def test_a_thread_engine_may_look_for_commands(timeout: float) -> None:
    seen: list[str] = []

    def run(commands: CommandSource, emit: Callable[[Event], None]) -> None:
        try:
            commands.get(timeout)
        except queue.Empty:
            seen.append("empty")

    transport = ThreadTransport(run)
    transport.open()
    with pytest.raises(EOFError):
        transport.recv()
    assert seen == ["empty"]
