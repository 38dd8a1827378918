"""Measures a window while a fast reply with code, tables and formulas streams in.

By hand, the long way (a minute and more a run)::

    python -m tests.app.stream_watch --tokens 20000 --runs 3

The engine is the scripted one, in a process of its own as in use.
"""

from __future__ import annotations

import argparse
import itertools
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from PySide6.QtCore import QEvent, QEventLoop, QObject, QTimer
from PySide6.QtWidgets import QWidget

from app.chat.conversation import ChatMessage
from app.main_window import MainWindow

GAP = 0.050
"""Seconds: the longest time between two paints that does not look like a stutter."""

class PaintWatch(QObject):
    """Times of a widget's paint events, on the wall and of this thread."""

    def __init__(self, widget: QWidget) -> None:
        super().__init__(widget)
        self.times: list[float] = []
        self.own: list[float] = []
        widget.installEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() == QEvent.Type.Paint:
            self.times.append(time.perf_counter())
            self.own.append(time.thread_time())
        return False


class Heartbeat(QObject):
    """How late a 5 ms timer of the GUI thread comes."""

    def __init__(self) -> None:
        super().__init__()
        self.times: list[float] = []
        self.own: list[float] = []
        self._timer = QTimer(self)
        self._timer.timeout.connect(self._beat)
        self._timer.start(5)

    def _beat(self) -> None:
        self.times.append(time.perf_counter())
        self.own.append(time.thread_time())

    def stop(self) -> None:
        self._timer.stop()


def gaps(times: list[float]) -> list[float]:
    return sorted(later - earlier for earlier, later in itertools.pairwise(times)) or [0.0]


def resident() -> int:
    """Bytes of this process in memory, 0 where that cannot be told."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, AttributeError):
        return 0


@dataclass
class Run:
    """What one run found; seconds and bytes."""

    paints: list[float] = field(default_factory=list)
    own: list[float] = field(default_factory=list)
    """Processor time of the GUI thread between two beats: how long it was busy at a stretch."""
    seconds: float = 0.0
    busy: float = 0.0
    tokens: int = 0
    memory: list[tuple[int, int]] = field(default_factory=list)
    """Tokens and bytes, now and then."""
    stop: float = 0.0

    @property
    def per_token(self) -> tuple[float, float]:
        """Bytes of memory a token in the first and in the second half."""

        def slope(samples: list[tuple[int, int]]) -> float:
            return (samples[-1][1] - samples[0][1]) / max(1, samples[-1][0] - samples[0][0])

        if len(self.memory) < 4:
            return 0.0, 0.0
        middle = len(self.memory) // 2
        return slope(self.memory[1 : middle + 1]), slope(self.memory[middle:])

    def __str__(self) -> str:
        first, second = self.per_token
        return (
            f"{self.tokens:,} tokens in {self.seconds:.1f} s, {len(self.paints):,} paints; gap: median "
            f"{statistics.median(self.paints) * 1e3:.0f} ms, 99 % {self.paints[int(len(self.paints) * 0.99)] * 1e3:.0f} ms, "
            f"longest {self.paints[-1] * 1e3:.0f} ms; busy at a stretch: 99 % {self.own[int(len(self.own) * 0.99)] * 1e3:.0f} ms, "
            f"longest {self.own[-1] * 1e3:.0f} ms; {self.busy / max(1, self.tokens) * 1e3:.2f} ms a token; "
            f"memory {first / 1024:.1f} then {second / 1024:.1f} kB a token; Stop {self.stop * 1e3:.0f} ms"
        )


def wait(done: Callable[[], bool], seconds: float = 60.0) -> None:
    """Run the event loop as in use. :raises TimeoutError: it does not come true in time."""
    loop, timer, end = QEventLoop(), QTimer(), time.perf_counter() + seconds
    timer.timeout.connect(lambda: (done() or time.perf_counter() > end) and loop.quit())
    timer.start(10)
    loop.exec()
    timer.stop()
    if not done():
        raise TimeoutError


def watch(window: MainWindow, prompt: str, tokens: int) -> Run:
    """Send a prompt, watch ``tokens`` of its reply, then stop it."""
    window.send_prompt(prompt)
    reply = window.replies.running
    assert isinstance(reply, ChatMessage)
    message = reply
    wait(lambda: len(message.text) > 300)
    view = window.transcript.view_of(message)
    assert view is not None
    run = Run()
    paints, heart = PaintWatch(view.body), Heartbeat()
    begun, used, first = time.perf_counter(), time.thread_time(), message.live.tokens
    sampled = 0

    def enough() -> bool:
        nonlocal sampled
        count = message.live.tokens - first
        if count - sampled >= tokens / 12:
            sampled = count
            run.memory.append((count, resident()))
        return count >= tokens or not message.is_running

    wait(enough, 60 + tokens / 50)
    run.seconds, run.busy = time.perf_counter() - begun, time.thread_time() - used
    run.tokens = message.live.tokens - first
    heart.stop()
    run.paints, run.own = gaps(paints.times), gaps(heart.own)
    view.body.removeEventFilter(paints)
    begun = time.perf_counter()
    window.replies.stop()
    wait(lambda: not message.is_running)
    run.stop = time.perf_counter() - begun
    return run


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--tokens", type=int, default=20000)
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    os.environ["EYRIE_ENGINE_COMMAND"] = f"{sys.executable} -m tests.app.fake_engine"
    from app import style
    from app.application import make_application
    from app.client import EngineClient
    from app.garbage import CalmGarbage
    from app.settings.store import SettingsStore
    from app.theme import ThemeChoice

    app = make_application()
    style.apply(app, ThemeChoice.LIGHT, None)
    with tempfile.TemporaryDirectory() as folder:
        store = SettingsStore(Path(folder))
        store.update(licences_seen=("Gemma Terms of Use",), max_new_tokens=30000, tour_seen=True)
        client = EngineClient()
        window = MainWindow(client, store, Path(folder))
        CalmGarbage(app, lambda: window.replies.running is not None)
        window.resize(1320, 860)
        window.show()
        window.start()
        wait(lambda: client.model is not None)
        runs = []
        for number in range(options.runs):
            window.book.new()
            runs.append(watch(window, f"/mixed {number}", options.tokens))
            print(runs[-1], flush=True)
        longest = statistics.median(run.paints[-1] for run in runs)
        print(f"median of the longest gaps {longest * 1e3:.0f} ms, of Stop {statistics.median(run.stop for run in runs) * 1e3:.0f} ms")
        window.close()
        wait(lambda: not window.isVisible())
        client.wait_closed()


if __name__ == "__main__":
    main()
