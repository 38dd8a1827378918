"""The bootstrap's command line: what is wanted, in which order it is made, how it is started."""

from __future__ import annotations

import argparse
import importlib
import os
import platform
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import bootstrap_system as system
from bootstrap_environment import (
    ROOT,
    Environment,
    Requirements,
    chosen_folder,
    read_requirements,
    venv_problem,
)
from bootstrap_install import Installation
from bootstrap_process import BootstrapError, Runner
from bootstrap_torch import BUILDS

COMMANDS = ("run", "test", "chat")
TEST_EXTRAS = ("test", "dev")

HELP = """\
Installs Eyrie into a virtual environment beside this clone, then starts it.
Run it again at any time: what is there is kept, and a second start is quick.

commands
  run  [...]     open the window (the default); further arguments go to Eyrie
  chat "Hello"   answer on the command line, without a window
  test [...]     install the test tools, then run ruff, mypy and pytest;
                 further arguments go to pytest

examples
  python packaging/bootstrap.py
  python packaging/bootstrap.py chat "Why is the sky blue?"
  python packaging/bootstrap.py test -k tree
  python packaging/bootstrap.py --no-launch      only install

torch comes as a CUDA build where an NVIDIA driver is found (about 8 GB on disk),
else as a CPU build (about 2 GB). pip's own settings hold: proxies, mirrors, caches.

environment
  EYRIE_VENV     folder of the virtual environment; default: .venv in the clone
"""


@dataclass(frozen=True)
class Wish:
    """What the user asked for."""

    command: str = "run"
    arguments: tuple[str, ...] = ()
    """Passed on as they are."""
    launch: bool = True
    repair: bool = False
    build: str | None = None


def parse(arguments: Sequence[str]) -> Wish:
    """Options stand before the command; what follows the command is passed on untouched."""
    arguments = list(arguments)
    at = next((index for index, one in enumerate(arguments) if one in (*COMMANDS, "--")), len(arguments))
    parser = argparse.ArgumentParser(
        prog="python packaging/bootstrap.py",
        usage="%(prog)s [--no-launch] [--repair] [--torch BUILD] [run|chat|test] [arguments]",
        description=HELP,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--no-launch", action="store_true", help="install, and start nothing")
    parser.add_argument("--repair", action="store_true", help="rebuild the virtual environment from scratch")
    parser.add_argument(
        "--torch",
        metavar="BUILD",
        choices=["cpu", *(build.name for build in BUILDS)],
        help=f"insist on a build of torch: cpu, {', '.join(build.name for build in BUILDS)}",
    )
    options, unknown = parser.parse_known_args(arguments[:at])
    if unknown:
        parser.error(
            f"unknown option {unknown[0]}. Options for Eyrie stand after the command: run {' '.join(unknown)}"
        )
    command = arguments[at] if at < len(arguments) and arguments[at] != "--" else "run"
    return Wish(command, tuple(arguments[at + 1 :]), not options.no_launch, options.repair, options.torch)


class Console:
    """Says what goes on: stage n of m, and how long it took."""

    def __init__(self) -> None:
        self.stages = 0
        self.stage = 0

    def say(self, text: str) -> None:
        print(text, flush=True)

    def begin(self, title: str) -> float:
        self.stage += 1
        self.say(f"[{self.stage}/{self.stages}] {title}")
        return time.monotonic()

    def end(self, begun: float) -> None:
        self.say(f"      {time.monotonic() - begun:.0f} s")


def shell_line(command: Sequence[str], windows: bool = os.name == "nt") -> str:
    """``command`` as a person can paste it into a shell."""
    return subprocess.list2cmdline(command) if windows else shlex.join(command)


def no_display_message(python: Path) -> str:
    line = shell_line([str(python), "-m", "engine", "chat", "Hello"])
    return (
        "There is no display here: neither DISPLAY nor WAYLAND_DISPLAY is set, so no window can open.\n"
        "Start this from a desktop session, or chat on the command line:\n"
        f"  {line}"
    )


def missing_message(libraries: Sequence[system.Library]) -> str:
    names = ", ".join(each.soname for each in libraries)
    return f"Missing on this system: {names}. To install:\n  {system.by_hand(system.package_manager(), libraries)}"


def launch_command(python: Path, wish: Wish) -> list[str]:
    """``-P`` keeps a folder called app in the current directory from being taken for Eyrie's."""
    if wish.command == "chat":
        return [str(python), "-P", "-m", "engine", "chat", *wish.arguments]
    return [str(python), "-P", "-m", "app", *wish.arguments]


def test_commands(python: Path, arguments: Sequence[str]) -> dict[str, list[str]]:
    """Every check by name. Without ``arguments`` the tests run side by side, and those that watch
    the clock (marked ``alone``) one after the other behind them."""
    module = [str(python), "-m"]
    checks = {"ruff": [*module, "ruff", "check", "."], "mypy": [*module, "mypy"]}
    tests = [*module, "pytest"]
    if arguments:
        return {**checks, "pytest": [*tests, *arguments]}
    workers = str(max(1, min(4, os.cpu_count() or 1)))
    return {
        **checks,
        "pytest": [*tests, "-n", workers, "--dist", "loadfile", "-m", "not alone"],
        "pytest alone": [*tests, "-m", "alone"],
    }


def run_tests(runner: Runner, console: Console, python: Path, wish: Wish, variables: Mapping[str, str]) -> int:
    """Run every check, whatever the ones before it said; the first failure is the exit status."""
    codes: dict[str, int] = {}
    for name, command in test_commands(python, wish.arguments).items():
        console.say(f"\n--- {name}")
        codes[name] = runner.run(command, variables, cwd=ROOT).code
    failed = [f"{name} (exit status {code})" for name, code in codes.items() if code]
    console.say("\n" + (f"Failed: {', '.join(failed)}" if failed else "ruff, mypy and pytest passed."))
    return next((code for code in codes.values() if code), 0)


def check_machine(wish: Wish, console: Console, runner: Runner, variables: Mapping[str, str]) -> None:
    """What has to be so before anything is downloaded.

    Raises:
        BootstrapError: this system cannot hold Eyrie.
    """
    if problem := system.old_system_problem(platform.libc_ver(), sys.platform):
        raise BootstrapError(problem)
    if sys.platform == "darwin" and platform.machine() == "x86_64":
        raise BootstrapError("torch is no longer made for Macs with Intel processors, so Eyrie cannot run here.")
    manager = system.package_manager()
    if package := venv_problem():
        if not package.startswith("python3") or not system.may_install(manager):
            how = f"sudo apt-get install {package}" if package.startswith("python3") else f"install {package}"
            raise BootstrapError(f"This Python cannot make virtual environments. Run: {how}\nthen run this again.")
        install_packages(console, runner, variables, [package])
        importlib.invalidate_caches()
        if venv_problem():
            raise BootstrapError(f"{package} was installed, and this Python still has no venv module.")
    if sys.platform.startswith("linux") and wish.command != "chat":
        libraries = system.missing_libraries(variables, window=wish.command == "run")
        if libraries and system.may_install(manager):
            install_packages(console, runner, variables, system.packages_for(system.APT, libraries))
            libraries = system.missing_libraries(variables, window=wish.command == "run")
        if libraries:
            console.say(missing_message(libraries))


def install_packages(console: Console, runner: Runner, variables: Mapping[str, str], packages: Sequence[str]) -> None:
    """Only called as root with apt."""
    console.say(f"      Installing {', '.join(packages)}")
    quiet = {**variables, "DEBIAN_FRONTEND": "noninteractive"}
    for command in system.install_commands(system.APT, packages):
        result = runner.run(command, quiet, capture=True)
        if result.code:
            console.say(f"      {shlex.join(command)} failed:\n{result.output.strip()[-2000:]}")


def prepare(
    wish: Wish, needs: Requirements, environment: Environment, console: Console, variables: Mapping[str, str]
) -> None:
    """Bring the environment to what ``wish`` needs; nothing but a look when it is there already."""
    extras = TEST_EXTRAS if wish.command == "test" else ()
    stamp = None if wish.repair else environment.ready(needs.digest, extras, wish.build)
    if stamp is None:
        with environment.locked(lambda: console.say("Another installation is at work here; waiting for it …")):
            stamp = None if wish.repair else environment.ready(needs.digest, extras, wish.build)
            if stamp is None:
                began = time.monotonic()
                installation = Installation(environment, needs, console)
                console.stages = installation.STAGES + 1
                at = console.begin("Looking at this machine")
                check_machine(wish, console, environment.runner, variables)
                console.end(at)
                stamp = installation.install(extras, wish.build, wish.repair, widgets=wish.command != "chat")
                console.say(f"Installed in {environment.folder}, {time.monotonic() - began:.0f} s in all.")
    if stamp.warning:
        console.say(f"Note: {stamp.warning}")


def carry_out(wish: Wish, runner: Runner, console: Console, variables: Mapping[str, str]) -> int:
    """Install what is missing, then start what was asked for. Returns the exit status."""
    environment = Environment(chosen_folder(variables), runner, variables)
    prepare(wish, read_requirements(), environment, console, variables)
    if not wish.launch:
        console.say(f"To start Eyrie: {shell_line([sys.executable, str(ROOT / 'packaging' / 'bootstrap.py')])}")
        return 0
    if wish.command == "test":
        return run_tests(runner, console, environment.python, wish, environment.variables)
    if wish.command == "run":
        if not system.has_display(sys.platform, variables):
            console.say(no_display_message(environment.python))
            return 1
        if sys.platform.startswith("linux") and (libraries := system.missing_libraries(variables, window=True)):
            console.say(missing_message(libraries))
    runner.replace(launch_command(environment.python, wish), environment.variables)


def main(arguments: Sequence[str]) -> int:
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # a path may hold letters that the console's encoding lacks
            stream.reconfigure(errors="backslashreplace")
    wish = parse(arguments)
    try:
        return carry_out(wish, Runner(), Console(), os.environ)
    except BootstrapError as error:
        print(f"\n{error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nStopped. Run the same command again to go on where it was.", file=sys.stderr)
        return 130
    except OSError as error:
        free = shutil.disk_usage(ROOT).free / system.GIGABYTE
        print(f"\n{error}\n({free:.1f} GB free on the clone's disk.)", file=sys.stderr)
        return 1
