"""The worker in a thread, and the application's end of its channel: held at a step where a test wants it.

What a test sends in the middle of a reply must reach it there, however busy the machine is: the
worker waits at that step until all that was sent has been read.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from engine.protocol import Calibrated, Command, Event, Failed, Load, Loaded, Step

PATIENCE = 60.0
"""Seconds after which a test gives up; nothing is ever as late."""
GO_ON = object()


@dataclass
class Queues:
    """The worker's channel and the application's end of it."""

    commands: queue.SimpleQueue[Command | object | None] = field(default_factory=queue.SimpleQueue)
    events: queue.SimpleQueue[Event] = field(default_factory=queue.SimpleQueue)
    holds: set[int] = field(default_factory=set)
    """Steps at which the worker waits."""
    gate: threading.Event = field(default_factory=threading.Event)

    def recv(self) -> Command:
        command = self.commands.get()
        while command is GO_ON:  # whoever asks for the next command has acted on those before
            self.gate.set()
            command = self.commands.get()
        if command is None:
            raise EOFError
        return command  # type: ignore[return-value]

    def send(self, event: Event) -> None:
        held = isinstance(event, Step) and event.index in self.holds
        if held:
            self.gate.clear()
        self.events.put(event)
        if held:
            assert self.gate.wait(PATIENCE), "nobody let the worker go on"


@dataclass
class Engine:
    queues: Queues
    thread: threading.Thread
    calibrated: list[Calibrated] = field(default_factory=list)

    def send(self, command: Command | None) -> None:
        self.queues.commands.put(command)

    def until(self, last: Callable[[Event], bool], timeout: float = PATIENCE) -> list[Event]:
        """Events up to the one for which ``last`` is true, those of the calibration kept aside."""
        found: list[Event] = []
        end = time.monotonic() + timeout
        while not found or not last(found[-1]):
            event = self.queues.events.get(timeout=max(0.1, end - time.monotonic()))
            if isinstance(event, Calibrated):
                self.calibrated.append(event)
                if not last(event):
                    continue
            found.append(event)
        return found

    def hold(self, *steps: int) -> None:
        """Let the worker wait at these steps of every reply for :meth:`go_on`."""
        self.queues.holds = set(steps)

    def until_held(self) -> list[Event]:
        """Events up to the step at which the worker waits."""
        return self.until(lambda event: isinstance(event, Step) and event.index in self.queues.holds)

    def go_on(self) -> None:
        """The worker goes on as soon as it has acted on everything sent so far."""
        self.queues.commands.put(GO_ON)

    def load(self, folder: Path, head: str | None) -> Loaded:
        self.send(Load(str(folder), head))
        loaded = self.until(lambda event: isinstance(event, Loaded | Failed))[-1]
        assert isinstance(loaded, Loaded), loaded
        return loaded
