"""Drives the two runs of a comparison through the client, one after the other. No widgets."""

from __future__ import annotations

import random
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Protocol

from PySide6.QtCore import QObject, Signal, SignalInstance, Slot

from app.compare.comparison import Comparison, Run, compare, probabilities_of
from engine.protocol import (
    Command,
    Failed,
    Finished,
    FinishReason,
    Generate,
    GenerationSettings,
    Message,
    Mode,
    ModelInfo,
    Piece,
    Started,
    Step,
    Stop,
)


class Client(Protocol):
    """The part of `app.client.EngineClient` that a comparison needs."""

    started: SignalInstance
    step: SignalInstance
    finished: SignalInstance
    failed: SignalInstance

    @property
    def model(self) -> ModelInfo | None: ...

    def send(self, command: Command) -> bool: ...


class Which(StrEnum):
    EAGLE = "eagle"
    PLAIN = "plain"


class Phase(StrEnum):
    IDLE = "idle"
    RUNNING = "running"
    STOPPING = "stopping"
    """Cancelled; the engine finishes its step."""
    DONE = "done"
    CANCELLED = "cancelled"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Trouble:
    """Why there is no comparison, and what to do."""

    message: str
    next_step: str = ""


@dataclass(slots=True)
class RunState:
    """What has come of one run so far."""

    request_id: str = ""
    reading: bool = False
    pieces: list[Piece] = field(default_factory=list)
    probabilities: list[float | None] = field(default_factory=list)
    steps: int = 0
    """Target passes after the prompt."""
    seconds: float = 0.0
    """Of these passes."""
    finished: Finished | None = None

    @property
    def tokens_per_second(self) -> float:
        """Decode speed so far, or the engine's own figure once the run has ended."""
        if self.finished is not None:
            return self.finished.stats.tokens_per_second
        return (len(self.pieces) - 1) / self.seconds if self.seconds > 0 and len(self.pieces) > 1 else 0.0

    @property
    def acceptance_length(self) -> float:
        if self.finished is not None:
            return self.finished.stats.acceptance_length
        return (len(self.pieces) - 1) / self.steps if self.steps and self.pieces else 0.0


class CompareRunner(QObject):
    """Runs a prompt with EAGLE and without it, never both at once, with ids of their own.

    Events of other requests are ignored, so a chat can go on beside it.
    """

    phase_changed = Signal()
    began = Signal(object)
    """A `Which`: this run's turn has come."""
    grew = Signal(object, str)
    """A `Which` and the text that was added."""
    ended = Signal(object)
    """A `Which`: this run is complete."""

    def __init__(self, client: Client, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._client = client
        self._messages: tuple[Message, ...] = ()
        self._settings = GenerationSettings()
        self._order: tuple[Which, ...] = ()
        self._current: Which | None = None
        self.phase = Phase.IDLE
        self.runs = {which: RunState() for which in Which}
        self.comparison: Comparison | None = None
        self.trouble: Trouble | None = None
        client.started.connect(self._started)
        client.step.connect(self._step)
        client.finished.connect(self._finished)
        client.failed.connect(self._failed)

    @property
    def settings(self) -> GenerationSettings:
        """The settings of both runs, seed included."""
        return self._settings

    @property
    def current(self) -> Which | None:
        """The run that is going on."""
        return self._current

    @property
    def busy(self) -> bool:
        return self.phase in (Phase.RUNNING, Phase.STOPPING)

    @property
    def progress(self) -> float:
        """Share of the work that is done, 0 to 1, taking every run to be as long as it may be."""
        most = max(self._settings.max_new_tokens, 1)
        done = sum(
            1.0 if run.finished is not None else min(len(run.pieces) / most, 1.0) for run in self.runs.values()
        )
        return done / len(self.runs)

    # ------------------------------------------------------------------ commands

    def start(
        self, messages: Sequence[Message], settings: GenerationSettings, plain_first: bool = False
    ) -> None:
        """Begin; a comparison that still runs is given up. Both runs get the same seed."""
        self.abandon()
        seed = settings.seed if settings.seed is not None else random.SystemRandom().randrange(2**31)
        self._messages = tuple(messages)
        self._settings = replace(settings, seed=seed)
        self._order = (Which.PLAIN, Which.EAGLE) if plain_first else (Which.EAGLE, Which.PLAIN)
        self.runs = {which: RunState() for which in Which}
        self.comparison = None
        self.trouble = None
        model = self._client.model
        if model is None:
            self._give_up(Trouble("No model is loaded.", "Load a model, then run the comparison again."))
        elif model.head_name is None:
            self._give_up(
                Trouble(
                    f"EAGLE is not available for {model.name}.",
                    model.head_problem or "Choose a model that has an EAGLE head, then run the comparison again.",
                )
            )
        else:
            self._set_phase(Phase.RUNNING)
            self._begin(self._order[0])

    def cancel(self) -> None:
        """Stop the run that is going on; the phase is CANCELLED once the engine has stopped."""
        if self.phase is Phase.RUNNING and self._current is not None:
            self._set_phase(Phase.STOPPING)
            if self._client.send(Stop(self.runs[self._current].request_id)) is False:
                self._current = None
                self._set_phase(Phase.CANCELLED)

    def abandon(self) -> None:
        """Stop whatever runs and hear nothing more of it."""
        if self._current is not None:
            self._client.send(Stop(self.runs[self._current].request_id))
            self._current = None
        if self.busy:
            self._set_phase(Phase.IDLE)

    def _begin(self, which: Which) -> None:
        run = self.runs[which]
        run.request_id = f"compare-{which}-{uuid.uuid4().hex}"
        self._current = which
        self.began.emit(which)
        settings = replace(self._settings, eagle=which is Which.EAGLE)
        if self._client.send(Generate(run.request_id, self._messages, settings)) is False:
            self._give_up(Trouble("The engine is not running.", "Restart the engine, then run the comparison again."))

    def _set_phase(self, phase: Phase) -> None:
        self.phase = phase
        self.phase_changed.emit()

    def _give_up(self, trouble: Trouble) -> None:
        self._current = None
        self.trouble = trouble
        self._set_phase(Phase.FAILED)

    # ------------------------------------------------------------------ events

    def _running(self, request_id: str | None) -> RunState | None:
        """The current run, if the event is its own."""
        if self._current is None or request_id is None:
            return None
        run = self.runs[self._current]
        return run if run.request_id == request_id else None

    @Slot(object)
    def _started(self, event: Started) -> None:
        run = self._running(event.request_id)
        if run is not None:
            run.reading = True
            self.grew.emit(self._current, "")

    @Slot(object)
    def _step(self, event: Step) -> None:
        run = self._running(event.request_id)
        if run is None:
            return
        run.reading = False
        run.pieces.extend(event.pieces)
        run.probabilities.extend(probabilities_of(event))
        if event.index > 0:
            run.steps += 1
            run.seconds += event.times.total
        self.grew.emit(self._current, event.text)

    @Slot(object)
    def _finished(self, event: Finished) -> None:
        run = self._running(event.request_id)
        if run is None:
            return
        which = self._current
        assert which is not None
        run.finished = event
        run.reading = False
        self._current = None
        self.ended.emit(which)
        if self.phase is Phase.STOPPING or event.reason is FinishReason.STOPPED:
            self._set_phase(Phase.CANCELLED)
        elif event.reason is FinishReason.ERROR:
            self._give_up(Trouble(event.notice or "The reply broke off.", "Run the comparison again."))
        elif which is Which.EAGLE and event.stats.mode is Mode.PLAIN:
            self._give_up(
                Trouble(
                    f"EAGLE did not run. {event.notice}".strip(),
                    "Check that the model has an EAGLE head and that EAGLE pays on this machine.",
                )
            )
        elif which is self._order[0]:
            self._begin(self._order[1])
        else:
            self._compare()

    def _compare(self) -> None:
        complete = {}
        for which, run in self.runs.items():
            assert run.finished is not None
            complete[which] = Run(tuple(run.pieces), run.finished, tuple(run.probabilities))
        self.comparison = compare(complete[Which.EAGLE], complete[Which.PLAIN], self._settings.temperature)
        self._set_phase(Phase.DONE)

    @Slot(object)
    def _failed(self, event: Failed) -> None:
        if self._running(event.request_id) is None:
            return
        if self.phase is Phase.STOPPING:
            self._current = None
            self._set_phase(Phase.CANCELLED)
        else:
            self._give_up(Trouble(event.message, event.next_step or "Run the comparison again."))
