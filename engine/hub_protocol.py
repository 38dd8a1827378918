"""Everything the application and the hub's process say to each other.

As :mod:`engine.protocol`: frozen dataclasses of plain data, commands in and events
out, over the same transports. Every text that comes from the hub (names, licences,
cards) is untrusted: shown as plain text or as Markdown without HTML, pictures and
loads.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

# --------------------------------------------------------------------------- downloads


class Phase(StrEnum):
    QUEUED = "queued"
    PLANNING = "planning"
    """The hub is asked which files there are."""
    RUNNING = "running"
    VERIFYING = "verifying"
    PAUSED = "paused"
    FAILED = "failed"
    DONE = "done"

    @property
    def is_active(self) -> bool:
        return self in (Phase.PLANNING, Phase.RUNNING, Phase.VERIFYING)


@dataclass(frozen=True, slots=True)
class FileProgress:
    path: str
    size: int
    done: int
    """Bytes here so far."""


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that went wrong, for people. ``kind`` tells the window which cure to offer."""

    kind: str
    message: str
    next_step: str = ""
    link: str = ""
    """A page that helps, or ""."""


@dataclass(frozen=True, slots=True)
class DownloadState:
    """One download of the queue, as it is now."""

    download_id: str
    repo_id: str
    phase: Phase
    done: int = 0
    total: int = 0
    """Bytes; 0 until the hub has told."""
    speed: float = 0.0
    """Bytes a second over the last seconds; 0 when nothing arrives."""
    seconds_left: float | None = None
    files: tuple[FileProgress, ...] = ()
    note: str = ""
    """What it waits for, while it does."""
    problem: Problem | None = None
    folder: str = ""
    """The whole model, once it is there."""
