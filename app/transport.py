"""How commands and events travel between the application and an engine.

A :class:`Transport` is a pair of one-way streams of frozen dataclasses.
:class:`ProcessTransport` runs the engine as a child process: what happens to it
(a CUDA fault, no memory left, a kill) ends the child and never the window.
:class:`ThreadTransport` runs one in a thread of this process, for rehearsals and
tests. :class:`Link` pumps either with two threads, so that the thread that draws
never waits for a pipe.
"""

from __future__ import annotations

import contextlib
import logging
import os
import queue
import secrets
import shlex
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing import AuthenticationError
from multiprocessing.connection import Client, Connection, Listener
from pathlib import Path
from typing import Any, Protocol

from engine.protocol import Command, Event, Shutdown

log = logging.getLogger(__name__)

PROJECT_ROOT = Path(__file__).resolve().parent.parent
"""What must be on the child's path for ``engine`` to import, from a clone as well."""

TURN = 0.001
"""Seconds that a thread runs before it lets another run. With Python's 5 ms the window, which wakes hundreds
of times a second, waits that long for whatever unpacks events or stores them."""
UNIX_ADDRESS_LIMIT = 100
"""Bytes; a longer path does not fit ``sockaddr_un``."""


class Transport(Protocol):
    """One engine's two streams. ``recv`` and ``open`` may block; ``end`` is bounded."""

    def open(self) -> None:
        """Start the engine and wait until it can be spoken to.

        :raises EOFError: it ended before that.
        :raises OSError: it could not be started.
        """

    def send(self, command: Command) -> None:
        """:raises OSError: the engine is gone."""

    def recv(self) -> Event:
        """The next event. :raises EOFError: the engine is gone."""

    def end(self, grace: float) -> None:
        """Wait ``grace`` seconds for the engine to end by itself, then force it."""

    def epitaph(self) -> str:
        """Why the engine ended, for the error's details."""


def engine_command() -> list[str]:
    """Command line of the engine without the address; ``EYRIE_ENGINE_COMMAND`` replaces it."""
    override = os.environ.get("EYRIE_ENGINE_COMMAND", "")
    if override:
        return shlex.split(override, posix=os.name == "posix")
    return [sys.executable, "-m", "engine", "worker"]


class ProcessTransport:
    """An engine in a child process that connects back to a private address of ours."""

    def __init__(self, command: Sequence[str] | None = None, log_path: Path | None = None) -> None:
        self._command = list(command) if command is not None else engine_command()
        self._log_path = log_path
        self._authkey = secrets.token_bytes(32)
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: Connection[Any, Any] | None = None
        self._exited_early = threading.Event()

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    def open(self) -> None:
        with contextlib.ExitStack() as stack:
            address = self._address(stack)
            listener = stack.enter_context(Listener(address, authkey=self._authkey))
            address = str(listener.address)
            self._start(address)
            threading.Thread(
                target=self._unblock, args=(address,), name="eyrie-engine-watch", daemon=True
            ).start()
            while self._connection is None:
                try:
                    connection = listener.accept()
                except AuthenticationError:
                    log.warning("a stranger knocked at the engine's address")
                    continue
                if self._exited_early.is_set():
                    connection.close()
                    raise EOFError("the engine ended before it connected")
                self._connection = connection

    @staticmethod
    def _address(stack: contextlib.ExitStack) -> str | None:
        """A socket path in a folder of our own; ``None`` lets Windows name a pipe."""
        if os.name == "nt":
            return None
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="eyrie-"))
        if len(os.fsencode(folder)) > UNIX_ADDRESS_LIMIT - 8:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="eyrie-", dir="/tmp"))
        return os.path.join(folder, "engine")

    def _start(self, address: str) -> None:
        environment = dict(os.environ)
        environment["EYRIE_AUTHKEY"] = self._authkey.hex()
        paths = [str(PROJECT_ROOT), environment.get("PYTHONPATH", "")]
        environment["PYTHONPATH"] = os.pathsep.join(path for path in paths if path)
        environment["PYTHONUTF8"] = "1"
        with contextlib.ExitStack() as stack:
            output: Any = subprocess.DEVNULL
            if self._log_path is not None:
                self._log_path.parent.mkdir(parents=True, exist_ok=True)
                output = stack.enter_context(open(self._log_path, "wb"))
            self._process = subprocess.Popen(
                [*self._command, "--connect", address],
                cwd=PROJECT_ROOT,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                # Ctrl+C in a terminal is for the application, which then ends the engine in order.
                start_new_session=os.name == "posix",
                creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
            )
        log.info("engine started as process %d", self._process.pid)

    def _unblock(self, address: str) -> None:
        """Knock at our own door when the child ends first: ``accept`` cannot be interrupted."""
        assert self._process is not None
        self._process.wait()
        if self._connection is None:
            self._exited_early.set()
            with contextlib.suppress(OSError, EOFError, AuthenticationError):
                Client(address, authkey=self._authkey).close()

    def send(self, command: Command) -> None:
        if self._connection is None:
            raise OSError("the engine is not connected")
        self._connection.send(command)

    def recv(self) -> Event:
        assert self._connection is not None
        event: Event = self._connection.recv()
        return event

    def end(self, grace: float) -> None:
        process = self._process
        if process is None:
            return
        for force, patience in ((None, grace), (process.terminate, 0.25), (process.kill, 0.25)):
            if force is not None:
                log.warning("the engine does not end by itself: %s", force.__name__)
                with contextlib.suppress(OSError):
                    force()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(patience)
                break

    def epitaph(self) -> str:
        lines = []
        process = self._process
        if process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(0.5)
            code = process.returncode
            if code is None:
                lines.append("The connection ended although the process still runs.")
            elif code < 0:
                lines.append(f"The process was ended by signal {-code}.")
            else:
                lines.append(f"The process ended with exit code {code}.")
        if self._log_path is not None and self._log_path.exists():
            tail = self._log_path.read_bytes()[-4000:].decode("utf-8", "replace").strip()
            if tail:
                lines.append("Last output of the engine:\n" + tail)
        return "\n".join(lines)


class CommandSource(Protocol):
    """What an engine in a thread reads its commands from."""

    def get(self, timeout: float | None = None) -> Command:
        """:raises queue.Empty: nothing came within ``timeout`` seconds."""


class _Commands:
    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[Command] = queue.SimpleQueue()
        self.put = self._queue.put

    def get(self, timeout: float | None = None) -> Command:
        if timeout is not None and timeout <= 0:
            return self._queue.get_nowait()
        return self._queue.get(timeout=timeout)


class ThreadTransport:
    """An engine in a thread: ``run(commands, emit)`` until it returns or raises."""

    def __init__(self, run: Callable[[CommandSource, Callable[[Event], None]], None]) -> None:
        self._run = run
        self._commands = _Commands()
        self._events: queue.SimpleQueue[Event | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._main, name="eyrie-engine", daemon=True)
        self._reason = ""

    def _main(self) -> None:
        try:
            self._run(self._commands, self._events.put)
        except Exception as error:
            log.exception("the engine's thread ended")
            self._reason = f"{type(error).__name__}: {error}"
        finally:
            self._events.put(None)

    def open(self) -> None:
        self._thread.start()

    def send(self, command: Command) -> None:
        if not self._thread.is_alive():
            raise OSError("the engine's thread has ended")
        self._commands.put(command)

    def recv(self) -> Event:
        event = self._events.get()
        if event is None:
            raise EOFError
        return event

    def end(self, grace: float) -> None:
        if self._thread.is_alive():
            self._thread.join(grace)
            self._events.put(None)

    def epitaph(self) -> str:
        return self._reason


@dataclass(frozen=True, slots=True)
class Ended:
    """Put behind the last event of a link. ``detail`` is for "copy details"."""

    detail: str


class Link:
    """One running engine: a reader and a writer thread around a transport.

    ``inbox`` holds the events that arrived, and :class:`Ended` behind the last.
    """

    def __init__(self, transport: Transport) -> None:
        self.transport = transport
        self.inbox: queue.SimpleQueue[Event | Ended] = queue.SimpleQueue()
        self._outbox: queue.SimpleQueue[Command | None] = queue.SimpleQueue()
        self._opened = threading.Event()
        self._threads = [
            threading.Thread(target=self._read, name="eyrie-read", daemon=True),
            threading.Thread(target=self._write, name="eyrie-write", daemon=True),
        ]

    def start(self) -> None:
        sys.setswitchinterval(TURN)
        for thread in self._threads:
            thread.start()

    def send(self, command: Command) -> None:
        """Queue a command; it leaves once the engine is connected."""
        self._outbox.put(command)

    def _read(self) -> None:
        reason = ""
        try:
            self.transport.open()
            self._opened.set()
            while True:
                self.inbox.put(self.transport.recv())
        except (EOFError, OSError) as error:
            reason = str(error)
        except Exception as error:  # an event that cannot be unpickled: the stream is lost
            log.exception("the engine's events cannot be read")
            reason = f"{type(error).__name__}: {error}"
        self._opened.set()
        self._outbox.put(None)
        epitaph = self.transport.epitaph()
        self.inbox.put(Ended("\n".join(part for part in (reason, epitaph) if part)))

    def _write(self) -> None:
        self._opened.wait()
        while (command := self._outbox.get()) is not None:
            try:
                self.transport.send(command)
            except OSError as error:
                log.warning("%s was not delivered: %s", type(command).__name__, error)
                return

    def close(self, grace: float) -> None:
        """End the engine: ask, wait ``grace`` seconds, force. Blocks that long at most, plus 0.5 s."""
        self.send(Shutdown())
        deadline = time.monotonic() + grace
        self.transport.end(grace)
        for thread in self._threads:
            thread.join(max(0.05, deadline - time.monotonic()))
