"""An environment folder that looks installed, and a runner that runs nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from bootstrap_process import Result

from tests.packaging.fake_runner import FakeRunner


@pytest.fixture
def runner() -> FakeRunner:
    return FakeRunner()


@pytest.fixture
def folder(tmp_path: Path, runner: FakeRunner) -> Path:
    """Where the environment goes. ``python -m venv`` makes a plausible one; its Python tells its version."""
    folder = tmp_path / "räume und wände" / ".venv"
    site = folder / "lib" / "site-packages"

    def answer(command: list[str]) -> Result | None:
        if command[1:3] == ["-m", "venv"]:
            site.mkdir(parents=True, exist_ok=True)
            for python in (folder / "bin" / "python", folder / "Scripts" / "python.exe"):
                python.parent.mkdir(exist_ok=True)
                python.touch()
            (folder / "pyvenv.cfg").write_text(f"home = /usr/bin\nprompt = {command[4]!r}\n")
        elif "sysconfig" in command[-1]:
            return Result(0, json.dumps(["3.12.4", str(site)])) if site.exists() else Result(1, "broken")
        elif "torch.cuda" in command[-1]:
            return Result(0, '\n["2.13.0+cpu", false]\n')
        return None

    runner.answers.append(answer)
    return folder
