"""A scripted engine for the tests of the application, in a thread or as a process.

In tests: ``FakeEngine(script)`` hands out transports for :class:`app.client.EngineClient`.

By hand, in the place of the real engine::

    EYRIE_ENGINE_COMMAND="python -m tests.app.fake_engine" python -m app --temp-data-dir

The prompt then chooses what happens: ``/crash``, ``/fail``, ``/long``, ``/quick`` and ``/slow`` do what
they say, ``/mixed`` writes Markdown of all kinds at 300 tokens a second, ``/prompt`` reads for a while; anything else is answered with a few sentences.
"""

from __future__ import annotations

import argparse
import os
import queue
import threading
from collections.abc import Callable
from dataclasses import replace
from multiprocessing.connection import Client, Connection
from typing import Any

from app.rehearsal import RehearsalEngine, Script
from app.transport import CommandSource, ThreadTransport
from engine.protocol import Command, Event, Failed, Generate, Shutdown
from tests.app.markdown_samples import mixed_text

SENTENCE = "The quick brown fox jumps over the lazy dog, and then it sits down to think about it. "
PROBLEM = Failed(
    "The script says that this reply fails.", "Ask for something else.", detail="Traceback: none"
)


def say(text: str) -> Callable[[Generate], str]:
    return lambda request: text


class FakeEngine:
    """Makes in-thread engines; remembers every command they were sent."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.commands: list[Command] = []
        self.transports: list[ThreadTransport] = []

    def transport(self) -> ThreadTransport:
        """What the client calls at every start."""
        made = ThreadTransport(self._run)
        self.transports.append(made)
        return made

    def _run(self, commands: CommandSource, emit: Callable[[Event], None]) -> None:
        RehearsalEngine(self.script).run(_Recorder(commands, self.commands), emit)

    def sent(self, kind: type) -> list[Any]:
        return [command for command in self.commands if isinstance(command, kind)]


class _Recorder:
    def __init__(self, commands: CommandSource, log: list[Command]) -> None:
        self._commands = commands
        self._log = log

    def get(self, timeout: float | None = None) -> Command:
        command = self._commands.get(timeout)
        self._log.append(command)
        return command


class _PipeCommands:
    """Commands of a connection, read by a thread of their own. The end of the pipe is a shutdown."""

    def __init__(self, connection: Connection) -> None:
        self._queue: queue.SimpleQueue[Command] = queue.SimpleQueue()
        self._connection = connection
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        try:
            while True:
                self._queue.put(self._connection.recv())
        except (EOFError, OSError):
            self._queue.put(Shutdown())

    def get(self, timeout: float | None = None) -> Command:
        if timeout is not None and timeout <= 0:
            return self._queue.get_nowait()
        return self._queue.get(timeout=timeout)


class _ByPrompt(RehearsalEngine):
    """Lets the prompt choose the script."""

    def _generate(self, request: Generate, commands: CommandSource, emit: Callable[[Event], None]) -> bool:
        prompt = request.messages[-1].content
        script = Script(say(SENTENCE * 6), tokens_per_second=35.0)
        if "/crash" in prompt:
            script = replace(script, crash_after=8, die=lambda: os._exit(9))
        if "/fail" in prompt:
            script = replace(script, reply_problem=PROBLEM)
        if "/long" in prompt:
            script = replace(script, reply=say((SENTENCE * 5 + "\n\n") * 60), tokens_per_second=120.0)
            request = replace(request, settings=replace(request.settings, max_new_tokens=100_000))
        if "/mixed" in prompt:
            script = replace(script, reply=say(mixed_text(30000)), tokens_per_second=300.0)
            request = replace(request, settings=replace(request.settings, max_new_tokens=100_000))
        if "/quick" in prompt:
            script = replace(script, tokens_per_second=5000.0)
        if "/slow" in prompt:
            script = replace(script, tokens_per_second=4.0)
        if "/prompt" in prompt:
            script = replace(script, prompt_chunks=20, chunk_seconds=0.15)
        if "/deaf" in prompt:
            script = replace(script, deaf=True)
        self._script = script
        return super()._generate(request, commands, emit)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--connect", required=True)
    parser.add_argument("--load-seconds", type=float, default=1.0)
    options = parser.parse_args()
    connection = Client(options.connect, authkey=bytes.fromhex(os.environ["EYRIE_AUTHKEY"]))
    engine = _ByPrompt(Script(say(SENTENCE), chunk_seconds=options.load_seconds / 3))
    engine.run(_PipeCommands(connection), connection.send)
    connection.close()


if __name__ == "__main__":
    main()
