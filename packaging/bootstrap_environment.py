"""The virtual environment: making it, keeping it whole, and knowing at once that it is.

A stamp inside the environment says what was installed and from which
requirements. It is removed before anything changes and written at the very end,
so an installation that was killed has none and is gone over again.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import json
import os
import shutil
import sys
import time
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from bootstrap_process import BootstrapError, Runner, child_environment

ROOT = Path(__file__).resolve().parent.parent
CONSTRAINTS = ROOT / "packaging" / "constraints.txt"
DEMO = ROOT / "packaging" / "demo.txt"

FORMAT = 1
"""Raise it when the bootstrap installs differently from the same requirements."""
PROMPT = "eyrie"
STAMP = "eyrie-stamp.json"
LOCK = "eyrie.lock"


@dataclass(frozen=True)
class Requirements:
    """What pyproject.toml asks for."""

    base: tuple[str, ...]
    extras: Mapping[str, tuple[str, ...]]
    torch_version: str
    """The release pinned in constraints.txt."""
    digest: str
    """Changes with anything that decides what gets installed."""

    def select(self, extras: Sequence[str]) -> list[str]:
        """Base requirements and those of ``extras``, each once."""
        chosen = [*self.base, *(one for extra in extras for one in self.extras[extra])]
        return list(dict.fromkeys(chosen))


def read_requirements(root: Path = ROOT) -> Requirements:
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    constraints = (root / "packaging" / "constraints.txt").read_text(encoding="utf-8")
    demo = (root / "packaging" / "demo.txt").read_text(encoding="utf-8")
    pinned = [line.partition("==")[2].split()[0] for line in constraints.splitlines() if line.startswith("torch==")]
    if len(pinned) != 1:
        raise BootstrapError("packaging/constraints.txt must pin torch exactly once; restore the file from git.")
    base = tuple(project["dependencies"])
    extras = {name: tuple(listed) for name, listed in project["optional-dependencies"].items()}
    parts = json.dumps([FORMAT, base, extras, constraints, demo, str(root)])
    digest = hashlib.sha256(parts.encode()).hexdigest()
    return Requirements(base, extras, pinned[0], digest)


@dataclass(frozen=True)
class Stamp:
    """A finished installation."""

    digest: str
    python: str
    """The environment's Python, e.g. "3.12.4"."""
    torch_build: str
    extras: tuple[str, ...]
    entries: tuple[str, ...] = field(repr=False)
    """Names in site-packages; one that is gone means the installation is broken."""
    warning: str = ""
    """Said again at every start, e.g. that the GPU is not used and why."""

    def covers(self, digest: str, python: str, extras: Sequence[str], build: str | None) -> bool:
        """Whether it is an installation of these requirements. ``build=None`` takes any torch."""
        return (
            self.digest == digest
            and self.python == python
            and set(extras) <= set(self.extras)
            and build in (None, self.torch_build)
        )


def python_of(folder: Path, windows: bool = os.name == "nt") -> Path:
    return folder / "Scripts" / "python.exe" if windows else folder / "bin" / "python"


def chosen_folder(environment: Mapping[str, str], root: Path = ROOT) -> Path:
    """``.venv`` in the clone, or where EYRIE_VENV points."""
    chosen = environment.get("EYRIE_VENV", "").strip()
    return Path(chosen).expanduser().absolute() if chosen else root / ".venv"


def venv_problem(
    version: tuple[int, int] = sys.version_info[:2],
    find: Callable[[str], object] = importlib.util.find_spec,
    which: Callable[[str], str | None] = shutil.which,
) -> str:
    """Debian and Ubuntu leave ``venv`` out of Python; the package that has it, or empty."""
    if find("venv") and find("ensurepip"):
        return ""
    if which("apt-get"):
        return f"python{version[0]}.{version[1]}-venv"
    return "the venv and ensurepip modules of Python"


class Environment:
    """One virtual environment folder."""

    def __init__(self, folder: Path, runner: Runner, variables: Mapping[str, str]) -> None:
        self.folder = folder
        self.python = python_of(folder)
        self.runner = runner
        self.variables = child_environment(variables)

    # ------------------------------------------------------------------- looking

    def probe(self) -> tuple[str, Path] | None:
        """Version and site-packages of the environment's Python; ``None`` when it does not run."""
        if not self.python.exists():
            return None
        code = "import json, platform, sysconfig; print(json.dumps([platform.python_version(), sysconfig.get_path('purelib')]))"
        result = self.runner.run([str(self.python), "-I", "-c", code], self.variables, capture=True)
        try:
            version, site = json.loads(result.output)
        except ValueError:
            return None
        return str(version), Path(site)

    def stamp(self) -> Stamp | None:
        try:
            read = json.loads((self.folder / STAMP).read_text(encoding="utf-8"))
            read |= {name: tuple(read[name]) for name in ("extras", "entries")}
            return Stamp(**read)
        except (OSError, ValueError, TypeError, KeyError):
            return None

    def ready(self, digest: str, extras: Sequence[str], build: str | None) -> Stamp | None:
        """The stamp of a whole installation of these requirements, else ``None``. Takes some 50 ms."""
        stamp, probed = self.stamp(), self.probe()
        if stamp is None or probed is None:
            return None
        version, site = probed
        if not stamp.covers(digest, version, extras, build):
            return None
        return stamp if set(stamp.entries) <= site_entries(site) else None

    def is_ours(self) -> bool:
        """Made by this bootstrap (or empty), so that it may be cleared."""
        try:
            names = {each.name for each in self.folder.iterdir()} - {LOCK}
        except FileNotFoundError:
            return True
        if not names:
            return True
        try:
            settings = (self.folder / "pyvenv.cfg").read_text(encoding="utf-8", errors="replace")
        except OSError:
            return False
        return any(line.replace("'", "").split() == ["prompt", "=", PROMPT] for line in settings.splitlines())

    # ------------------------------------------------------------------- changing

    def unstamp(self) -> None:
        (self.folder / STAMP).unlink(missing_ok=True)

    def write_stamp(self, stamp: Stamp) -> None:
        """Atomic, and last of all."""
        target = self.folder / STAMP
        draft = target.with_suffix(".new")
        draft.write_text(json.dumps(asdict(stamp), indent=1), encoding="utf-8")
        os.replace(draft, target)

    def clear(self) -> None:
        """Remove everything but the lock.

        Raises:
            BootstrapError: the folder is not one that the bootstrap made.
        """
        if not self.is_ours():
            raise BootstrapError(
                f"{self.folder} does not work as a virtual environment, and was not made by this program, so "
                "it is left alone. Remove it yourself, or set EYRIE_VENV to another folder, and run this again."
            )
        if not self.folder.exists():
            return
        for entry in self.folder.iterdir():
            try:
                if entry.is_dir() and not entry.is_symlink():
                    shutil.rmtree(entry)
                elif entry.name != LOCK:
                    entry.unlink()
            except OSError as error:
                raise BootstrapError(
                    f"{entry} cannot be removed ({error}). Close Eyrie if it is running, then run this again."
                ) from error

    def create(self) -> None:
        """Make the environment unless a working one is there."""
        if self.probe() is not None and self._has_pip():
            return
        self.clear()
        creator = getattr(sys, "_base_executable", None) or sys.executable
        command = [creator, "-m", "venv", "--prompt", PROMPT, str(self.folder)]
        result = self.runner.run(command, self.variables, capture=True)
        if result.code != 0 or self.probe() is None:
            raise BootstrapError(f"The virtual environment could not be made in {self.folder}:\n{result.output.strip()}")

    def _has_pip(self) -> bool:
        for command in (["pip", "--version"], ["ensurepip", "--upgrade"]):
            if self.runner.run([str(self.python), "-m", *command], self.variables, capture=True).code == 0:
                return True
        return False

    def pip(self, *arguments: str, capture: bool = False) -> int:
        """``pip install`` with the unpacking done on the environment's own disk.

        A small ``/tmp`` in memory would not hold torch.
        """
        unpacking = self.folder / "tmp"
        unpacking.mkdir(parents=True, exist_ok=True)
        variables = {**self.variables, "TMPDIR": str(unpacking), "TEMP": str(unpacking), "TMP": str(unpacking)}
        command = [str(self.python), "-m", "pip", "install", *arguments]
        if not sys.stdout.isatty():
            command += ["--quiet", "--progress-bar", "off"]
        try:
            return self.runner.run(command, variables, capture=capture).code
        finally:
            shutil.rmtree(unpacking, ignore_errors=True)

    def link_project(self, site: Path, root: Path = ROOT) -> None:
        """Let the environment import the clone itself, which stays the source of truth.

        A ``.pth`` line that is code may be plain ASCII whatever the path; a line that is a path is
        read in the system's encoding, which loses other letters on Windows.
        """
        line = f"import sys; sys.path.append({str(root)!a})\n"
        (site / "eyrie.pth").write_text(line, encoding="ascii")

    @contextlib.contextmanager
    def locked(self, waiting: Callable[[], None]) -> Iterator[None]:
        """Keep a second bootstrap out; it calls ``waiting`` once and goes on when the first is done."""
        if not self.is_ours() and not (self.folder / "pyvenv.cfg").exists():
            raise BootstrapError(
                f"{self.folder} holds other things and is no virtual environment. Set EYRIE_VENV to a new or "
                "empty folder."
            )
        self.folder.mkdir(parents=True, exist_ok=True)
        with open(self.folder / LOCK, "a+b") as file:
            told = False
            while not _try_lock(file.fileno()):
                if not told:
                    waiting()
                    told = True
                time.sleep(0.5)
            self.runner.lock = file.fileno()
            try:
                yield
            finally:
                self.runner.lock = None


def _try_lock(descriptor: int) -> bool:
    """The system drops the lock with the process, however that ends."""
    try:
        if sys.platform == "win32":
            import msvcrt

            os.lseek(descriptor, 0, os.SEEK_SET)
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def site_entries(site: Path) -> set[str]:
    try:
        return {name for name in os.listdir(site) if name != "__pycache__"}
    except OSError:
        return set()


def installed_torch(site: Path) -> str:
    """Version of torch in ``site``, build included ("2.13.0+cpu"); empty when there is none."""
    for name in sorted(site_entries(site)):
        if name.startswith("torch-") and name.endswith(".dist-info"):
            return name.removeprefix("torch-").removesuffix(".dist-info")
    return ""
