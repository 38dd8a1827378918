"""Builds a folder so that it is either complete or not there at all.

It grows beside its final place and is moved there at the end. One process builds
at a time, others wait, and what a killed process left is cleared away by the next.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from engine.errors import EngineError, ResourceError

Progress = Callable[[str, float | None], None]
"""Called with a sentence for people and how much is done, 0 to 1, or None when that cannot be told."""
Cancelled = Callable[[], bool]

_LOCK_POLL = 0.2  # seconds between two looks at ``cancelled`` while waiting


class ConversionCancelled(EngineError):
    """The user stopped the work; nothing is left behind."""

    kind = "cancelled"

    def __init__(self) -> None:
        super().__init__("Preparing the model was stopped.", "Load the model again to start over.")


def quiet(message: str, fraction: float | None) -> None:
    """Progress that nobody looks at."""


def never() -> bool:
    """Work that nobody cancels."""
    return False


@contextlib.contextmanager
def folder_lock(folder: Path, progress: Progress = quiet, cancelled: Cancelled = never) -> Iterator[None]:
    """Hold ``folder`` against other processes; the system frees the lock when its holder dies.

    :raises ConversionCancelled: ``cancelled`` returned true while waiting.
    :raises ResourceError: the lock file cannot be written.
    """
    from filelock import FileLock, Timeout

    with disk_errors(folder.parent):
        folder.parent.mkdir(parents=True, exist_ok=True)
        lock = FileLock(folder.parent / f".{folder.name}.lock")
        while True:
            try:
                lock.acquire(timeout=_LOCK_POLL)
                break
            except Timeout:
                progress("Waiting for another Eyrie that prepares the same model", None)
                if cancelled():
                    raise ConversionCancelled from None
    try:
        yield
    finally:
        lock.release()


@contextlib.contextmanager
def scratch_folder(folder: Path, purpose: str) -> Iterator[Path]:
    """A new folder beside ``folder`` that is removed at the end.

    Hold :func:`folder_lock`: leftovers of killed processes are removed first, and what
    another process has under way looks the same.

    :raises ResourceError: the disk is full or cannot be written.
    """
    prefix = f".{folder.name}.{purpose}-"
    with disk_errors(folder.parent):
        folder.parent.mkdir(parents=True, exist_ok=True)
        for left in folder.parent.iterdir():
            if left.name.startswith(prefix):
                shutil.rmtree(left, ignore_errors=True)
        place = Path(tempfile.mkdtemp(prefix=prefix, dir=folder.parent))
    try:
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)


@contextlib.contextmanager
def building(folder: Path) -> Iterator[Path]:
    """A scratch folder that becomes ``folder`` at the end, in place of an older one; not so after an error.

    :raises ResourceError: the disk is full or cannot be written.
    """
    with scratch_folder(folder, "partial") as place:
        yield place
        with disk_errors(folder.parent):
            if folder.exists():  # made by an older converter, or damaged
                os.replace(folder, place / "replaced")
            os.replace(place, folder)
            shutil.rmtree(folder / "replaced", ignore_errors=True)


def require_space(folder: Path, size: int) -> None:
    """:raises ResourceError: fewer than ``size`` bytes are free where ``folder`` is."""
    if shutil.disk_usage(folder).free < size:
        raise _disk_full(folder, size)


@contextlib.contextmanager
def disk_errors(folder: Path, size: int = 0) -> Iterator[None]:
    """Turn what the system says about the disk into errors for people; ``size`` bytes are needed in all.

    :raises ResourceError: the disk is full, read-only, or closed to this user.
    """
    try:
        yield
    except OSError as error:
        if error.errno in {errno.ENOSPC, errno.EDQUOT}:
            raise _disk_full(folder, size) from error
        raise ResourceError(
            f"Writing into {folder} failed ({error.strerror or error}).",
            "Check the permissions of that folder, or set EYRIE_DATA_DIR to one that can be written.",
        ) from error


def _disk_full(folder: Path, size: int) -> ResourceError:
    need = f"{size:,} bytes ({size / 1e9:.1f} GB)" if size else "some space"
    return ResourceError(
        f"The disk is too full: {need} must be free for {folder}.",
        "Free some space, or set EYRIE_DATA_DIR to a folder on another disk.",
    )
