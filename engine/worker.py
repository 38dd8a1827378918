"""Owns a loaded model; reads commands, writes events.

Two threads: the reader takes commands from the channel at once, so that Stop,
SetEagle and Shutdown act on the step that is running; the worker itself runs what
takes long, one command at a time. The channel is a connection to another process
(:func:`connect`) or a pair of queues in a test: anything with ``recv`` and ``send``.
"""

from __future__ import annotations

import os
import queue
import threading
import traceback
from multiprocessing.connection import Client
from typing import Protocol

from engine.calibration.forecast import forecast
from engine.errors import EngineError, PromptError
from engine.generation import Session, Switches
from engine.loaded import LoadCancelled, LoadedModel, device_name, explain, load_model
from engine.margin import measure_margin
from engine.protocol import (
    Calibrate,
    Calibrated,
    Command,
    Event,
    Failed,
    Finished,
    FinishReason,
    Generate,
    GenerationSettings,
    Load,
    Loaded,
    Loading,
    MeasureMargin,
    Mode,
    Ready,
    ReplyStats,
    SetEagle,
    Shutdown,
    StepTimes,
    Stop,
    Unload,
    Unloaded,
)
from engine.reply import run_reply

MEASURING = "Measuring this machine"


class Channel(Protocol):
    def recv(self) -> Command:
        """The next command; EOFError when the application is gone."""
        ...

    def send(self, event: Event) -> None: ...


class Worker:
    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._commands: queue.SimpleQueue[Load | Generate | Unload | Calibrate | MeasureMargin | Shutdown] = (
            queue.SimpleQueue()
        )
        self._lock = threading.Lock()
        self._switches: dict[str, Switches] = {}  # of every reply that waits or runs
        self._ending = threading.Event()
        self._model: LoadedModel | None = None
        self._session: Session | None = None

    def run(self) -> None:
        """Serve until Shutdown or until the application is gone."""
        threading.Thread(target=self._read, name="engine-commands", daemon=True).start()
        self._send(Ready(device_name()))
        while not self._ending.is_set():
            command = self._commands.get()
            request = command.request_id if isinstance(command, Generate | MeasureMargin) else None
            try:
                match command:
                    case Load():
                        self._load(command)
                    case Generate():
                        self._generate(command)
                    case Unload():
                        self._model = self._session = None
                        self._send(Unloaded())
                    case Calibrate():
                        self._calibrate()
                    case MeasureMargin():
                        self._measure_margin(command)
                    case Shutdown():
                        return
            except LoadCancelled:
                return
            except Exception as error:
                self._fail(error, request)
            finally:
                if request is not None:
                    with self._lock:
                        self._switches.pop(request, None)

    def _read(self) -> None:
        try:
            while True:
                command = self._channel.recv()
                match command:
                    case Stop():
                        self._switch(command.request_id, stopped=True)
                    case SetEagle():
                        self._switch(command.request_id, eagle=command.enabled)
                    case Shutdown():
                        break
                    case Generate():
                        with self._lock:
                            self._switches[command.request_id] = Switches(command.settings.eagle)
                        self._commands.put(command)
                    case _:
                        self._commands.put(command)
        except (EOFError, OSError):
            pass  # the application is gone: end as if it had asked to
        self._ending.set()
        with self._lock:
            for switches in self._switches.values():
                switches.stopped = True
        self._commands.put(Shutdown())

    def _switch(self, request_id: str, stopped: bool = False, eagle: bool | None = None) -> None:
        with self._lock:
            switches = self._switches.get(request_id)
        if switches is None:
            return
        if eagle is not None:
            switches.eagle = eagle
        if stopped:
            switches.stopped = True

    def _load(self, command: Load) -> None:
        self._model = self._session = None  # free the old one first
        self._send(Loading("Loading the model", None))
        self._model = load_model(
            command,
            lambda message, fraction: self._send(Loading(message, fraction)),
            self._ending.is_set,
        )
        self._send(Loading(MEASURING, None))
        self._model = self._model.calibrated()
        self._session = self._model.session()
        self._send(Loaded(self._model.info))
        self._tell_calibration()

    def _calibrate(self) -> None:
        if self._model is None or self._session is None:
            raise PromptError("No model is loaded.", "Load a model first.")
        self._send(Loading(MEASURING, None))
        self._model = self._model.calibrated(fresh=True)
        self._session.retime(self._model.timing)
        self._send(Loaded(self._model.info))
        self._tell_calibration()

    def _tell_calibration(self) -> None:
        """What was measured says about the default method; nothing where nothing can draft."""
        assert self._session is not None
        pilot = self._session.pilot_for(GenerationSettings())
        if pilot is not None:
            self._session.told = pilot.choice
            self._send(Calibrated(forecast(pilot)))

    def _measure_margin(self, command: MeasureMargin) -> None:
        model, session = self._model, self._session
        if model is None or session is None:
            raise PromptError("No model is loaded.", "Load a model first.")
        prompt = model.prompt(command.messages, command.settings.thinking)
        try:
            measured = measure_margin(session, prompt, command, model.tokenizer.token_text)
        except Exception:
            self._session = model.session()  # as after a reply that failed
            raise
        self._send(measured)

    def _generate(self, command: Generate) -> None:
        if self._model is None or self._session is None:
            raise PromptError("No model is loaded.", "Load a model first.")
        with self._lock:
            switches = self._switches[command.request_id]
        if switches.stopped:
            self._send(_nothing(command))
            return
        model = self._model
        prompt = model.prompt(command.messages, command.settings.thinking)
        try:
            finished = run_reply(
                self._session,
                model.tokenizer,
                command,
                prompt,
                stop_strings=model.chat.stop_strings,
                end_tokens=model.chat.eos_token_ids,
                switches=switches,
                send=self._send,
                thinking_tags=model.chat.thinking_tags,
            )
        except Exception:
            self._session = model.session()  # its caches may be half a step ahead
            raise
        self._send(finished)
        model.learn(self._session)

    def _fail(self, error: BaseException, request_id: str | None) -> None:
        known: EngineError = explain(error)
        self._send(
            Failed(
                message=known.message,
                next_step=known.next_step,
                kind=known.kind,
                request_id=request_id,
                detail=traceback.format_exc(),
            )
        )

    def _send(self, event: Event) -> None:
        try:
            self._channel.send(event)
        except (OSError, ValueError):
            self._ending.set()


def _nothing(command: Generate) -> Finished:
    """The end of a reply that was stopped before it began."""
    stats = ReplyStats(
        mode=Mode.EAGLE if command.settings.eagle else Mode.PLAIN,
        prompt_tokens=0,
        reused_tokens=0,
        new_tokens=0,
        steps=0,
        drafted_tokens=0,
        accepted_tokens=0,
        accepted_by_depth=(),
        proposed_by_depth=(),
        time_to_first_token=0.0,
        decode_seconds=0.0,
        times=StepTimes(0.0, 0.0, 0.0, 0.0),
    )
    return Finished(command.request_id, FinishReason.STOPPED, stats, (), "")


def connect(address: str) -> None:
    """Serve the application listening at ``address``; its key is in EYRIE_AUTHKEY (hex)."""
    key = bytes.fromhex(os.environ.pop("EYRIE_AUTHKEY", ""))
    with Client(address, authkey=key) as connection:
        Worker(connection).run()
