"""One download of the queue: what was asked for, how far it is, and what is said about it."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

from engine.errors import EngineError
from engine.hub.manifest import Manifest
from engine.hub.problems import HubError
from engine.hub.transfer import Transfer
from engine.protocol.hub import DownloadState, FileProgress, Phase, Problem

SPEED_SECONDS = 3.0
"""The speed shown is the mean over so long."""


class Download:
    """One entry of the queue. Its fields are changed under the queue's lock."""

    def __init__(self, download_id: str, repo_id: str, revision: str, only: tuple[str, ...]) -> None:
        self.download_id = download_id
        self.repo_id = repo_id
        self.revision = revision
        self.only = only
        self.number = 0
        """Its place in the order in which downloads were asked for."""
        self.manifest: Manifest | None = None
        self.phase = Phase.QUEUED
        self.transfers: list[Transfer] = []
        self.current: Transfer | None = None
        self.paused = False
        self.cancelled = ""
        """ "keep" or "delete" once it was cancelled."""
        self.error: EngineError | None = None
        self.retry_at = 0.0
        self.note = ""
        self.folder = ""
        self._samples: deque[tuple[float, int]] = deque()

    def done(self) -> int:
        return sum(transfer.done for transfer in self.transfers)

    def state(self, redact: Callable[[str], str]) -> DownloadState:
        done, total = self.done(), self.manifest.size if self.manifest else 0
        phase = self.phase
        if phase is Phase.RUNNING and self.current is not None and self.current.verifying:
            phase = Phase.VERIFYING
        speed = self._speed(done) if phase is Phase.RUNNING else 0.0
        specs = self.manifest.files if self.manifest else ()
        return DownloadState(
            self.download_id,
            self.repo_id,
            phase,
            done,
            total,
            speed,
            (total - done) / speed if speed > 0 else None,
            tuple(
                FileProgress(spec.path, spec.size, transfer.done)
                for spec, transfer in zip(specs, self.transfers, strict=False)
            ),
            self.note if phase.is_active else "",
            problem_of(self.error, redact) if phase is Phase.FAILED and self.error else None,
            self.folder,
        )

    def _speed(self, done: int) -> float:
        """Bytes a second over the last seconds; falls to 0 when nothing arrives."""
        now = time.monotonic()
        samples = self._samples
        if samples and done < samples[-1][1]:
            samples.clear()  # a file is fetched anew
        samples.append((now, done))
        while now - samples[0][0] > SPEED_SECONDS and len(samples) > 2:
            samples.popleft()
        span = now - samples[0][0]
        return (done - samples[0][1]) / span if span > 0.2 else 0.0


def problem_of(error: EngineError, redact: Callable[[str], str]) -> Problem:
    link = error.link if isinstance(error, HubError) else ""
    return Problem(error.kind, redact(error.message), redact(error.next_step), link)
