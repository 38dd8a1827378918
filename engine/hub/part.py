"""A file on its way: its bytes so far, and the journal that says which of them count.

The bytes are written into a file of the full size, in any order; the journal beside
it lists the ranges that have been written. It is replaced whole, so a kill leaves
the old or the new one. After a power cut written bytes may be missing although the
journal names them: ranges that were flushed to the disk are listed apart, and only
those count once the machine has been started anew. The checksum over the whole file
is checked in any case before it gets its final name.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import psutil  # type: ignore[import-untyped]

from engine.hub.intervals import Intervals, Range
from engine.hub.problems import DiskFull
from engine.hub.quantisations import size as size_of

PART = ".eyrie.incomplete"
"""Suffix of the bytes; the hub's own tools count ``*.incomplete`` as unfinished."""
JOURNAL = ".eyrie.journal"
VERSION = 1


def boot_id() -> str:
    """Another string after each start of the machine."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    except OSError:
        return str(round(psutil.boot_time() / 60))


def is_full(error: OSError) -> bool:
    """Whether there is no room left on the disk, rather than anything else wrong."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT) or getattr(error, "winerror", 0) == 112


def no_room(what: str, wanted: int, free: int, reserve: int, folder: Path) -> DiskFull:
    """``wanted`` and ``free`` bytes of the disk with ``folder``, of which ``reserve`` stay unused."""
    return DiskFull(
        f"{what} still needs {size_of(wanted)}; the disk with {folder} has {size_of(free)} free, "
        f"and {size_of(reserve)} always stay free for other programs.",
        "Free some space, then resume the download, or choose a cache folder on another disk with HF_HUB_CACHE.",
    )


def deleted_meanwhile(name: str) -> DiskFull:
    return DiskFull(
        f"{name} was deleted or moved while it was being downloaded.",
        "Resume the download to fetch it anew, or cancel it.",
    )


@contextlib.contextmanager
def disk_errors(folder: Path) -> Iterator[None]:
    """:raises DiskFull: in the place of an ``OSError`` that the disk is to blame for."""
    try:
        yield
    except OSError as error:
        if is_full(error):
            raise DiskFull(
                f"The disk with {folder} is full.", "Free some space, then resume the download."
            ) from error
        if isinstance(error, FileNotFoundError):
            raise deleted_meanwhile(Path(error.filename or folder).name) from error
        raise DiskFull(
            f"{folder} cannot be written: {error.strerror or error}.",
            "Check its permissions, or choose another cache folder with HF_HUB_CACHE.",
        ) from error


class Part:
    """One unfinished file. ``keep`` may be called by several threads; the rest by one."""

    def __init__(self, final: Path, size: int, etag: str) -> None:
        self.final = final
        self.path = final.with_name(final.name + PART)
        self.journal = final.with_name(final.name + JOURNAL)
        self.size = size
        self._etag = etag
        self._lock = threading.Lock()
        self._kept = Intervals()
        self._synced = Intervals()
        self._busy = Intervals()
        self._written: str = ""
        self._opened = False

    # ------------------------------------------------------------------ what is there

    def open(self) -> None:
        """Take up what an earlier run left, or begin a new file. :raises DiskFull:"""
        with disk_errors(self.final.parent):
            self.final.parent.mkdir(parents=True, exist_ok=True)
            self._kept = self._read_journal()
            self._synced = Intervals(self._kept)
            if not self._kept.total:
                self.journal.unlink(missing_ok=True)
            with self.path.open("r+b" if self.path.exists() else "xb") as file:
                file.truncate(self.size)
            self._opened = True

    def peek(self) -> int:
        """Bytes that an earlier run left, without touching anything."""
        if not self._opened:
            self._kept = self._read_journal()
        return self.done

    def _read_journal(self) -> Intervals:
        """The ranges that count; none if the journal is damaged or belongs to another file."""
        try:
            raw: dict[str, Any] = json.loads(self.journal.read_text("utf-8"))
            if self.path.stat().st_size != self.size:
                return Intervals()
            if (raw["version"], raw["size"], raw["etag"]) != (VERSION, self.size, self._etag):
                return Intervals()
            ranges = raw["kept"] if raw["boot"] == boot_id() else raw["synced"]
            found = Intervals((int(start), int(end)) for start, end in ranges)
        except (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError):
            return Intervals()
        return found if all(0 <= start < end <= self.size for start, end in found) else Intervals()

    @property
    def done(self) -> int:
        with self._lock:
            return self._kept.total

    @property
    def front(self) -> int:
        with self._lock:
            return self._kept.front

    @property
    def is_whole(self) -> bool:
        with self._lock:
            return self._kept.total == self.size

    # ------------------------------------------------------------------ ranges

    def take(self, most: int) -> Range | None:
        """The next range that is neither kept nor taken, up to ``most`` bytes; None when there is none."""
        with self._lock:
            blocked = Intervals(self._kept)
            for start, end in self._busy:
                blocked.add(start, end)
            for start, end in blocked.missing(self.size):
                taken = start, min(end, start + most)
                self._busy.add(*taken)
                return taken
        return None

    def give_back(self, taken: Range) -> None:
        """The range is no longer worked on; what of it was not kept can be taken again."""
        with self._lock:
            self._busy.remove(*taken)

    def gained(self, taken: Range) -> int:
        """Bytes of a range that are kept."""
        with self._lock:
            return self._kept.covered(*taken)

    def writer(self, start: int) -> BinaryIO:
        """An unbuffered file at ``start``: one for each thread that writes."""
        file = self.path.open("r+b", buffering=0)
        file.seek(start)
        return file

    def keep(self, start: int, end: int) -> None:
        """Bytes that have been written."""
        with self._lock:
            self._kept.add(start, end)

    def drop(self) -> None:
        """Forget every byte: they were wrong. :raises DiskFull:"""
        with self._lock:
            self._kept, self._synced = Intervals(), Intervals()
        self.save()

    # ------------------------------------------------------------------ the journal

    def save(self, sync: bool = False) -> None:
        """Bring the journal up to date; with ``sync`` the bytes are flushed first. :raises DiskFull:"""
        with disk_errors(self.final.parent):
            with self._lock:
                kept = Intervals(self._kept)
            if sync and self._synced != kept:
                with self.path.open("r+b") as file:
                    os.fsync(file.fileno())
                self._synced = kept
            text = json.dumps(
                {
                    "version": VERSION,
                    "size": self.size,
                    "etag": self._etag,
                    "boot": boot_id(),
                    "kept": list(kept),
                    "synced": list(self._synced),
                }
            )
            if text == self._written:
                return
            try:
                replace_text(self.journal, text)
            except OSError as error:
                if not is_full(error):
                    raise
                _overwrite(self.journal, text)  # there is no room for another one beside it
            self._written = text

    def finish(self) -> None:
        """Give the file its final name: only for one whose checksum is right. :raises DiskFull:"""
        with disk_errors(self.final.parent):
            os.replace(self.path, self.final)
            remove_journal(self.final)


def remove_journal(final: Path) -> None:
    """The journal of a file that is whole or given up, and what a kill left of writing it."""
    journal = final.name + JOURNAL
    for path in (final.with_name(journal), *final.parent.glob(f"{journal}.*.new")):
        path.unlink(missing_ok=True)


def _overwrite(path: Path, text: str) -> None:
    """Write a small file over itself, at one go and no shorter than before. :raises OSError:"""
    with path.open("r+b", buffering=0) as file:
        file.write(text.encode().ljust(os.fstat(file.fileno()).st_size))


def replace_text(path: Path, text: str) -> None:
    """Write a small file so that a kill leaves the old one or the new one. :raises OSError:"""
    scratch = path.with_name(f"{path.name}.{os.getpid()}.{threading.get_ident()}.new")
    try:
        scratch.write_text(text, encoding="utf-8")
        for attempt in range(20):
            try:
                os.replace(scratch, path)
                return
            except PermissionError:  # Windows, while a virus scanner holds the old one
                if attempt == 19:
                    raise
                time.sleep(0.02)
    finally:
        scratch.unlink(missing_ok=True)
