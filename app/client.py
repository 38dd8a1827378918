"""The one bridge between the widgets and the engine.

Commands leave through :meth:`EngineClient.send`, which only queues. Events are
put into a queue by a reader thread and taken out by a timer of the GUI thread, at
most 60 times a second: no Qt object is ever touched by another thread. Every
event is emitted twice, as ``received`` and as the signal of its type, and
``flushed`` follows the last one of a batch, so that a view can draw once per
batch however many tokens came in.

When the engine ends by itself, every reply that was running gets a ``failed``
of its own before ``engine_died``: what was received stays.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable
from enum import StrEnum

from PySide6.QtCore import QObject, QTimer, Signal, SignalInstance, Slot

from app.language import mark
from app.transport import Ended, Link, ProcessTransport, Transport
from engine.protocol import (
    Calibrated,
    Calibration,
    Command,
    Event,
    Failed,
    Finished,
    Generate,
    Load,
    Loaded,
    Loading,
    MarginMeasured,
    MeasureMargin,
    ModelInfo,
    PromptProgress,
    Ready,
    Started,
    Step,
    Unload,
    Unloaded,
)

log = logging.getLogger(__name__)

FLUSH_MS = 16
"""Shortest time between two flushes: 60 a second."""
SLOWEST_FLUSH_MS = 20
"""Longer, and text that streams in would be seen to stutter."""
IDLE_MS = 50
"""Time between two looks at the queue while no reply is asked for."""
FLUSH_BUDGET = 0.008
"""Seconds. A flush that takes longer doubles the time to the next one."""
EVENTS_PER_FLUSH = 256
SHUTDOWN_GRACE = 1.2
"""Seconds the engine has to end by itself; terminating and killing add 0.5 at most."""

DIED = mark("Engine", "The engine stopped unexpectedly.")
RESTART = mark("Engine", "What was received is kept. Restart the engine to go on.")

FREED = mark("Engine", "The model was unloaded while this was written.")
RELOAD = mark("Engine", "What was received is kept. Load the model again to go on.")


class EngineState(StrEnum):
    STARTING = "starting"
    READY = "ready"
    DEAD = "dead"
    OFF = "off"
    """Ended on purpose: nothing of the model is left in any memory."""
    CLOSED = "closed"


class EngineClient(QObject):
    """Starts, feeds, watches and ends the engine."""

    received = Signal(object)
    """Every event, whatever its type (``event`` is taken by QObject)."""
    ready = Signal(object)
    loading = Signal(object)
    loaded = Signal(object)
    unloaded = Signal(object)
    started = Signal(object)
    prompt_progress = Signal(object)
    step = Signal(object)
    finished = Signal(object)
    failed = Signal(object)
    margin_measured = Signal(object)
    calibrated = Signal(object)
    flushed = Signal()
    """Behind the last event of a batch: the time to draw."""
    engine_died = Signal(str)
    """Details for the log and for "copy details"."""
    state_changed = Signal()
    closed = Signal()
    """The engine has ended after :meth:`shutdown`."""

    def __init__(
        self, make_transport: Callable[[], Transport] = ProcessTransport, parent: QObject | None = None
    ) -> None:
        super().__init__(parent)
        self._make_transport = make_transport
        self._link: Link | None = None
        self._state = EngineState.STARTING
        self._model: ModelInfo | None = None
        self._device = ""
        self._calibration: Calibration | None = None
        """Of the loaded model, as it was told last."""
        self._active: dict[str, None] = {}
        self._loading = False
        self._interval = FLUSH_MS
        self._closer: threading.Thread | None = None
        self._timer = QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.timeout.connect(self._flush)
        self._signals: dict[type, SignalInstance] = {
            Ready: self.ready,
            Loading: self.loading,
            Loaded: self.loaded,
            Unloaded: self.unloaded,
            Started: self.started,
            PromptProgress: self.prompt_progress,
            Step: self.step,
            Finished: self.finished,
            Failed: self.failed,
            MarginMeasured: self.margin_measured,
            Calibrated: self.calibrated,
        }

    # ------------------------------------------------------------------ what is known

    @property
    def state(self) -> EngineState:
        return self._state

    @property
    def model(self) -> ModelInfo | None:
        """The loaded model, if any."""
        return self._model

    @property
    def device(self) -> str:
        return self._device

    @property
    def pid(self) -> int:
        """Of the engine's process; 0 where it has none of its own."""
        transport = self._link.transport if self._link else None
        return (transport.pid or 0) if isinstance(transport, ProcessTransport) else 0

    @property
    def is_loading(self) -> bool:
        return self._loading

    @property
    def active(self) -> tuple[str, ...]:
        """Replies asked for and not yet finished, oldest first."""
        return tuple(self._active)

    # ------------------------------------------------------------------ commands

    def start(self) -> None:
        """Start an engine; its ``Ready`` arrives as a signal."""
        if self._closer is not None:
            return
        self._state = EngineState.STARTING
        self._loading = False
        self._model = self._calibration = None
        self._link = Link(self._make_transport())
        self._link.start()
        self._arm(FLUSH_MS)
        self.state_changed.emit()

    def restart(self) -> None:
        """Start a new engine in place of one that died or hangs."""
        old, self._link = self._link, None
        if old is not None:
            threading.Thread(target=old.close, args=(0.0,), name="eyrie-bury", daemon=True).start()
        self._abandon_replies("")
        self.start()

    def free(self) -> None:
        """End the engine and start none: only that gives back all memory of a GPU."""
        if self._closer is not None:
            return
        old, self._link = self._link, None
        if old is not None:
            threading.Thread(target=old.close, args=(0.0,), name="eyrie-bury", daemon=True).start()
        self._abandon_replies("", FREED, RELOAD)
        self._timer.stop()
        self._state = EngineState.OFF
        self._loading = False
        self._model = self._calibration = None
        self.state_changed.emit()

    def send(self, command: Command) -> bool:
        """Queue a command and return at once; ``False`` when there is no engine to take it."""
        if self._link is None or self._state in (EngineState.DEAD, EngineState.OFF, EngineState.CLOSED):
            return False
        if isinstance(command, Generate | MeasureMargin):
            self._active[command.request_id] = None
        elif isinstance(command, Load | Unload):
            self._loading = isinstance(command, Load)
            self._model = self._calibration = None
            self.state_changed.emit()
        self._link.send(command)
        self._arm(FLUSH_MS)
        return True

    def hand_over(self) -> EngineClient:
        """Another client for the engine, which goes on; whoever listened to this one hears nothing more."""
        heir = EngineClient(self._make_transport)
        heir._link, self._link = self._link, None
        heir._state, heir._model, heir._device = self._state, self._model, self._device
        heir._calibration, heir._loading, heir._active = self._calibration, self._loading, self._active
        self._timer.stop()
        self._state, self._active = EngineState.CLOSED, {}
        heir._arm(FLUSH_MS)
        return heir

    def tell_again(self) -> None:
        """Say to new listeners what the engine is and holds, as if that had just come."""
        self.state_changed.emit()
        if self._state is EngineState.DEAD:
            self.engine_died.emit("")
        if self._model is not None:
            self.loaded.emit(Loaded(self._model))
        if self._calibration is not None:
            self.calibrated.emit(Calibrated(self._calibration))

    def shutdown(self) -> None:
        """End the engine without blocking; ``closed`` follows within 2 seconds."""
        if self._closer is not None:
            return
        link, self._link = self._link, None
        self._timer.stop()
        ready = self._state is EngineState.READY
        self._state = EngineState.CLOSED
        # An engine that still imports or loads does not read its commands: no use in waiting for it.
        grace = SHUTDOWN_GRACE if ready and not self._loading else 0.3
        self._closer = threading.Thread(
            target=link.close if link else time.sleep,
            args=(grace if link else 0,),
            name="eyrie-close",
            daemon=True,
        )
        self._closer.start()
        self._timer.timeout.disconnect(self._flush)
        self._timer.timeout.connect(self._watch_closer)
        self._timer.start(10)

    def wait_closed(self) -> None:
        """Block until the engine has ended; for the last moment of the process."""
        self.shutdown()
        assert self._closer is not None
        self._closer.join(SHUTDOWN_GRACE + 0.6)

    # ------------------------------------------------------------------ events

    def _arm(self, interval: int) -> None:
        if not self._timer.isActive() or self._timer.remainingTime() > interval:
            self._timer.start(interval)

    @Slot()
    def _flush(self) -> None:
        link = self._link
        if link is None:
            return
        begun = time.perf_counter()
        taken = 0
        while taken < EVENTS_PER_FLUSH:
            try:
                event = link.inbox.get_nowait()
            except queue.Empty:
                break
            taken += 1
            if isinstance(event, Ended):
                self._died(event.detail)
                break
            self._dispatch(event)
            if self._link is not link:
                return
        if taken:
            self.flushed.emit()
        spent = time.perf_counter() - begun
        if spent > FLUSH_BUDGET:
            self._interval = min(self._interval * 2, SLOWEST_FLUSH_MS)
        elif self._interval > FLUSH_MS:
            self._interval = max(self._interval // 2, FLUSH_MS)
        if self._state is not EngineState.DEAD and self._closer is None:
            self._arm(self._interval if self._active or taken else IDLE_MS)

    def _dispatch(self, event: Event) -> None:
        if isinstance(event, Ready):
            self._state = EngineState.READY
            self._device = event.device
        elif isinstance(event, Loading):
            self._loading = True
        elif isinstance(event, Loaded):
            self._loading = False
            self._model, self._calibration = event.model, None
        elif isinstance(event, Calibrated):
            self._calibration = event.calibration
        elif isinstance(event, Unloaded):
            self._model = self._calibration = None
        elif isinstance(event, Finished | MarginMeasured):
            self._active.pop(event.request_id, None)
        elif isinstance(event, Failed):
            if event.detail:
                log.error("engine: %s\n%s", event.message, event.detail)
            if event.request_id is None:
                self._loading = False
            else:
                self._active.pop(event.request_id, None)
        if isinstance(event, Ready | Loading | Loaded | Unloaded | Failed | Finished | MarginMeasured):
            self.state_changed.emit()
        self.received.emit(event)
        signal = self._signals.get(type(event))
        if signal is not None:
            signal.emit(event)

    def _died(self, detail: str) -> None:
        log.error("the engine ended: %s", detail)
        self._state = EngineState.DEAD
        self._loading = False
        self._model = self._calibration = None
        self._abandon_replies(detail)
        self.state_changed.emit()
        self.engine_died.emit(detail)

    def _abandon_replies(self, detail: str, message: str = DIED, next_step: str = RESTART) -> None:
        # In English, as what the engine says: it is stored with the replies and translated where it is shown.
        for request_id in self.active:
            self._dispatch(Failed(message, next_step, kind="worker", request_id=request_id, detail=detail))
        self.flushed.emit()

    @Slot()
    def _watch_closer(self) -> None:
        if self._closer is not None and self._closer.is_alive():
            self._timer.start(10)
        else:
            self.closed.emit()
