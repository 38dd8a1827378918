"""Install Eyrie beside this clone and start it: ``python packaging/bootstrap.py``.

This file only looks at the Python that runs it, so it keeps to syntax that an
old Python can still read; the rest starts in ``bootstrap_command.py``.
"""

import os
import shutil
import subprocess
import sys

SUPPORTED = ((3, 11), (3, 12), (3, 13))


def problem_with(version: tuple, implementation: str, bits: int) -> str:  # type: ignore[type-arg]
    """Say why this Python cannot run Eyrie; empty when it can."""
    if implementation != "cpython":
        return f"Eyrie needs the usual Python (CPython), and this is {implementation}."
    if bits < 64:
        return "Eyrie needs a 64-bit Python, and this one is 32-bit."
    found = f"{version[0]}.{version[1]}"
    if tuple(version[:2]) < SUPPORTED[0]:
        return f"Python {found} is too old: Eyrie needs 3.11, 3.12 or 3.13."
    if tuple(version[:2]) > SUPPORTED[-1]:
        return f"Python {found} is too new for libraries Eyrie uses: it needs 3.11, 3.12 or 3.13."
    return ""


def runs(command: list) -> bool:  # type: ignore[type-arg]
    """Whether a Python starts: a version manager may list one that it does not have."""
    try:
        return subprocess.call([*command, "-c", ""], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) == 0
    except OSError:
        return False


def another_python() -> list:  # type: ignore[type-arg]
    """The command of a supported Python on this machine, newest first; empty when there is none."""
    for major, minor in reversed(SUPPORTED):
        found = shutil.which(f"python{major}.{minor}")
        if found and runs([found]):
            return [found]
        launcher = shutil.which("py") if os.name == "nt" else None
        if launcher and runs([launcher, f"-{major}.{minor}"]):
            return [launcher, f"-{major}.{minor}"]
    return []


def start() -> int:
    """Go on with this Python, or with a supported one that is installed beside it."""
    bits = 64 if sys.maxsize > 2**32 else 32
    problem = problem_with(sys.version_info[:3], sys.implementation.name, bits)
    if not problem:
        folder = os.path.dirname(os.path.abspath(__file__))
        if folder not in sys.path:  # python -P leaves it out
            sys.path.insert(0, folder)
        from bootstrap_command import main

        return main(sys.argv[1:])
    other = another_python()
    if other:
        print(f"{problem} Going on with {' '.join(other)}.", flush=True)
        return subprocess.call([*other, os.path.abspath(__file__), *sys.argv[1:]])
    advice = "Install Python 3.13 from https://www.python.org/downloads/"
    if sys.platform.startswith("linux"):
        advice += " or from your distribution"
    script = os.path.relpath(os.path.abspath(__file__))
    launcher = "py -3.13" if os.name == "nt" else "python3.13"
    print(f"{problem}\n{advice}, then run: {launcher} {script}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(start())
