"""A runner that runs nothing and remembers what it was asked to run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NoReturn

from bootstrap_process import Result, Runner

Answer = Callable[[list[str]], Result | None]


class Handover(Exception):
    """Raised where the real runner would turn into the application."""

    def __init__(self, command: list[str]) -> None:
        super().__init__(command)
        self.command = command


class FakeRunner(Runner):
    """Keeps every command; ``answers`` are asked in turn, and what none knows succeeds silently."""

    def __init__(self) -> None:
        self.commands: list[list[str]] = []
        self.environments: list[dict[str, str]] = []
        self.answers: list[Answer] = []

    def run(
        self,
        command: Sequence[str],
        environment: Mapping[str, str] | None = None,
        capture: bool = False,
        cwd: Path | None = None,
    ) -> Result:
        self.commands.append(list(command))
        self.environments.append(dict(environment or {}))
        for answer in self.answers:
            result = answer(list(command))
            if result is not None:
                return result
        return Result(0)

    def replace(self, command: Sequence[str], environment: Mapping[str, str]) -> NoReturn:
        raise Handover(list(command))

    def pip(self) -> list[list[str]]:
        """Arguments of every ``pip install``."""
        return [one[one.index("install") + 1 :] for one in self.commands if one[1:4] == ["-m", "pip", "install"]]
