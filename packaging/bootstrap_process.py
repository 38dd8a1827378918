"""Running other programs: pip, the virtual environment's Python, apt, the application.

Everything the bootstrap starts goes through :class:`Runner`, so that tests can
put a fake in its place and look at the commands.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn


class BootstrapError(Exception):
    """Something a person has to know; the text says what to do next."""


@dataclass(frozen=True)
class Result:
    code: int
    output: str = ""
    """Standard output and error together, when they were captured."""


def child_environment(base: Mapping[str, str], **changes: str) -> dict[str, str]:
    """The environment for a program of the virtual environment.

    Settings that would mix in another Python's packages are left out, and pip is kept from
    asking questions and from installing into the user's own folder.
    """
    environment = {name: value for name, value in base.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
    environment |= {"PIP_USER": "0", "PIP_NO_INPUT": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    return environment | changes


class Runner:
    """Starts programs with the bootstrap's own terminal."""

    lock: int | None = None
    """Descriptor of a held lock. Programs share it, so a pip that outlives a killed bootstrap keeps it."""

    def run(
        self,
        command: Sequence[str],
        environment: Mapping[str, str] | None = None,
        capture: bool = False,
        cwd: Path | None = None,
    ) -> Result:
        """Run to the end. Ctrl+C reaches the program too, which gets ten seconds to tidy up."""
        try:
            process = subprocess.Popen(
                list(command),
                env=dict(environment) if environment is not None else None,
                cwd=cwd,
                pass_fds=(self.lock,) if self.lock is not None and os.name == "posix" else (),
                stdout=subprocess.PIPE if capture else None,
                stderr=subprocess.STDOUT if capture else None,
                encoding="utf-8",
                errors="replace",
            )
        except OSError as error:
            return Result(127, str(error))
        try:
            output, _ = process.communicate()
        except KeyboardInterrupt:
            try:
                process.wait(10)
            except (subprocess.TimeoutExpired, KeyboardInterrupt):
                process.kill()
                process.wait()
            raise
        return Result(process.returncode, output or "")

    def replace(self, command: Sequence[str], environment: Mapping[str, str]) -> NoReturn:
        """Hand over to the application: its exit status becomes ours."""
        sys.stdout.flush()
        sys.stderr.flush()
        if os.name == "posix":
            os.execve(command[0], list(command), dict(environment))
        # Windows' exec detaches from the console, so wait there; Ctrl+C is the application's.
        process = subprocess.Popen(list(command), env=dict(environment))
        while True:
            try:
                sys.exit(process.wait())
            except KeyboardInterrupt:
                continue


def reachable(url: str, seconds: float = 5.0) -> str:
    """Why ``url`` does not answer within ``seconds``; empty when it does.

    Proxies are taken from the environment or the system, as pip does. A certificate that this
    Python does not know counts as an answer: pip has its own certificates.
    """
    answer: list[str] = []

    def ask() -> None:
        try:
            request = urllib.request.Request(url, method="HEAD", headers={"User-Agent": "eyrie-bootstrap"})
            with urllib.request.urlopen(request, timeout=seconds):
                answer.append("")
        except urllib.error.HTTPError as error:
            answer.append("" if error.code == 405 else f"HTTP status {error.code}")
        except OSError as error:
            reason = getattr(error, "reason", error)
            certificate = "CERTIFICATE_VERIFY_FAILED" in str(reason)
            answer.append("" if certificate else str(reason) or type(error).__name__)
        except ValueError as error:
            answer.append(str(error))

    # In a thread, because looking up a name knows no time limit.
    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    thread.join(seconds + 1)
    return answer[0] if answer else f"no answer in {seconds:.0f} s"
