"""Measures the window while a large file is downloaded: the picker is open, both processes are real.

By hand, from the project's folder, without anything else at work::

    QT_QPA_PLATFORM=offscreen python -m tests.app.download_watch 2000000000
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import psutil  # type: ignore[import-untyped]
from PySide6.QtCore import QEventLoop, QObject, QTimer
from PySide6.QtWidgets import QApplication

from app.hub.client import HubClient, hub_transport
from app.hub.dialog import HubDialog
from app.transport import ProcessTransport
from engine.protocol.hub import DownloadState, Phase
from engine.protocol.hub_messages import Fetch
from tests.hub.throughput import large_repository
from tests.hub_server import HubServer

BEAT_MS = 5


class Pulse(QObject):
    """A timer of the GUI thread that notes when it came, and how much that thread had worked by then."""

    def __init__(self) -> None:
        super().__init__()
        self.beats: list[float] = []
        self.worked: list[float] = []
        self._timer = QTimer(self)
        self._timer.timeout.connect(self._beat)
        self._timer.start(BEAT_MS)

    def _beat(self) -> None:
        self.beats.append(time.perf_counter())
        self.worked.append(time.thread_time())

    def stop(self) -> None:
        self._timer.stop()


@dataclass(frozen=True)
class Watched:
    state: DownloadState
    seconds: float
    """From the click until the window was told that all is there."""
    gaps: list[float]
    """Seconds between two beats of the GUI thread, sorted."""
    own: list[float]
    """Seconds that the GUI thread itself worked between two beats, sorted: what it owes to nobody else."""
    share: float
    """Of the time, spent working by the GUI thread."""
    memory: int
    """Bytes that the hub's process held at most."""
    updates: int
    """States of the queue that the window showed."""

    def __str__(self) -> str:
        return (
            f"{self.state.total / 1e6:.0f} MB in {self.seconds:.1f} s ({self.state.total / self.seconds / 1e6:.0f} MB/s), "
            f"longest gap {self.gaps[-1] * 1000:.0f} ms, of it own work {self.own[-1] * 1000:.0f} ms at most, "
            f"GUI thread busy {self.share:.1%}, {self.updates} updates, hub's process {self.memory / 1e6:.0f} MB"
        )


def run_until(done: Callable[[], bool], seconds: float) -> None:
    """Run the event loop as an application does. :raises TimeoutError:"""
    loop, end = QEventLoop(), time.monotonic() + seconds
    check = QTimer()
    check.timeout.connect(lambda: loop.quit() if done() or time.monotonic() > end else None)
    check.start(20)
    loop.exec()
    check.stop()
    if not done():
        raise TimeoutError


def watch(size: int, folder: Path, seconds: float = 240.0) -> Watched:
    """Download ``size`` bytes with the picker open; the environment names ``folder`` as the hub's cache."""
    repository = large_repository(folder, size)
    transports: list[ProcessTransport] = []

    def transport() -> ProcessTransport:
        transports.append(hub_transport(folder / "data"))
        return transports[-1]

    with HubServer([repository]) as hub:
        os.environ["HF_ENDPOINT"] = hub.endpoint
        client = HubClient(transport)
        dialog = HubDialog(client)
        states: list[DownloadState] = []
        client.queue.connect(lambda event: states.extend(event.downloads))
        dialog.show()
        run_until(lambda: bool(dialog.pairs.offers), seconds)
        most = 0
        process = psutil.Process(transports[0].pid)

        def weigh() -> None:
            nonlocal most
            most = max(most, process.memory_info().rss)

        scale = QTimer()
        scale.timeout.connect(weigh)
        scale.start(100)
        pulse, begun, worked = Pulse(), time.perf_counter(), time.thread_time()
        client.send(Fetch((repository.repo_id,)))
        run_until(lambda: bool(states) and states[-1].phase in (Phase.DONE, Phase.FAILED), seconds)
        spent, own = time.perf_counter() - begun, time.thread_time() - worked
        pulse.stop()
        scale.stop()
        weigh()
        dialog.close()
        client.close()
        return Watched(
            states[-1],
            spent,
            sorted(later - earlier for earlier, later in pairwise(pulse.beats)),
            sorted(later - earlier for earlier, later in pairwise(pulse.worked)),
            own / spent,
            most,
            len(states),
        )


def main(size: int) -> None:
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        os.environ |= {
            "HF_HOME": str(folder / "home"),
            "HF_HUB_OFFLINE": "0",
            "EYRIE_DATA_DIR": str(folder / "data"),
        }
        application = QApplication([])
        print(watch(size, folder))
        application.processEvents()


if __name__ == "__main__":
    main(int(sys.argv[1]))
