"""Where a comparison stands, and what one reply has brought so far. No widgets."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from PySide6.QtCore import SignalInstance

from engine.protocol import Command, Finished, ModelInfo, Piece


class Client(Protocol):
    """The part of `app.client.EngineClient` that a comparison needs."""

    started: SignalInstance
    step: SignalInstance
    finished: SignalInstance
    failed: SignalInstance
    loaded: SignalInstance
    margin_measured: SignalInstance
    state_changed: SignalInstance

    @property
    def model(self) -> ModelInfo | None: ...

    @property
    def is_loading(self) -> bool: ...

    def send(self, command: Command) -> bool: ...


class Phase(StrEnum):
    IDLE = "idle"
    LOADING = "loading"
    """A side's head is loaded."""
    RUNNING = "running"
    MEASURING = "measuring"
    """The margin at a difference is looked at."""
    STOPPING = "stopping"
    """The engine finishes what it does."""
    DONE = "done"
    STOPPED = "stopped"
    FAILED = "failed"


BUSY = (Phase.LOADING, Phase.RUNNING, Phase.MEASURING, Phase.STOPPING)


@dataclass(frozen=True, slots=True)
class Trouble:
    """Why a comparison ended early, and what to do."""

    message: str
    next_step: str = ""

    @property
    def words(self) -> str:
        return f"{self.message} {self.next_step}".strip()


@dataclass(slots=True)
class RunState:
    """What has come of one reply so far."""

    request_id: str = ""
    reading: bool = False
    pieces: list[Piece] = field(default_factory=list)
    steps: int = 0
    """Target passes after the prompt."""
    seconds: float = 0.0
    """Of these passes."""
    finished: Finished | None = None

    @property
    def tokens_per_second(self) -> float:
        """Decode speed so far, or the engine's own figure once the reply has ended."""
        if self.finished is not None:
            return self.finished.stats.tokens_per_second
        return (len(self.pieces) - 1) / self.seconds if self.seconds > 0 and len(self.pieces) > 1 else 0.0

    @property
    def acceptance_length(self) -> float:
        if self.finished is not None:
            return self.finished.stats.acceptance_length
        return (len(self.pieces) - 1) / self.steps if self.steps and self.pieces else 0.0

    @property
    def text(self) -> str:
        return "".join(piece.text for piece in self.pieces)
