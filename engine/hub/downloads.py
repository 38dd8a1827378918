"""The queue of downloads: one after the other, each resumable across restarts and crashes.

What was asked for is written into a record per download; how far each file is stands
in the journal beside its part. A download that was running when the program ended
goes on at the next start, a paused one stays paused. Its files appear as a model
only when all of them are whole.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from engine.errors import EngineError
from engine.hub import cache
from engine.hub.api import HubApi
from engine.hub.connection import Connection
from engine.hub.entry import Download
from engine.hub.manifest import Manifest, make_manifest
from engine.hub.part import disk_errors, no_room, replace_text
from engine.hub.problems import DiskFull, HubError, UnreachableError
from engine.hub.transfer import Retry, Stopped, Transfer
from engine.protocol.hub import DownloadState, Phase

RETRY_SECONDS = 300.0
"""A download that failed for want of a connection is tried again after this."""


class Downloads:
    """Runs downloads in a thread of its own; every method may be called from any thread."""

    def __init__(
        self,
        api: HubApi,
        connection: Connection,
        records: Path | None = None,
        *,
        retry: Retry | None = None,
        streams: int = 4,
    ) -> None:
        """``records`` is the folder that remembers the queue; None remembers nothing."""
        self._api = api
        self._connection = connection
        self._place = connection.place
        self._records = records
        self._retry = retry or Retry()
        self._streams = streams
        self._changed = threading.Condition()
        self._downloads: dict[str, Download] = {}
        self._closing = False
        self._thread = threading.Thread(target=self._work, name="hub-downloads", daemon=True)
        self._load()

    def start(self) -> None:
        self._thread.start()

    def close(self, timeout: float = 30.0) -> None:
        """Stop where it stands; everything that ran goes on at the next start."""
        with self._changed:
            self._closing = True
            self._halt()
            self._changed.notify_all()
        if self._thread.is_alive():
            self._thread.join(timeout)

    # ------------------------------------------------------------------ what the user asks

    def add(self, repo_id: str, revision: str = "main", only: tuple[str, ...] = ()) -> str:
        """Queue a repository; the id of its download. One that is queued already is taken up again."""
        with self._changed:
            for each in self._downloads.values():
                same = (each.repo_id, each.revision, each.only) == (repo_id, revision, only)
                if same and each.phase is not Phase.DONE and not each.cancelled:
                    self._resume(each)
                    return each.download_id
            download = Download(uuid.uuid4().hex[:12], repo_id, revision, only)
            download.number = 1 + max((each.number for each in self._downloads.values()), default=0)
            self._downloads[download.download_id] = download
            self._remember(download)
            self._changed.notify_all()
            return download.download_id

    def pause(self, download_id: str) -> None:
        with self._changed:
            download = self._downloads.get(download_id)
            if download is None or download.phase in (Phase.DONE, Phase.PAUSED):
                return
            download.paused = True
            self._remember(download)
            if download.phase.is_active:
                self._halt(download)
            else:
                download.phase = Phase.PAUSED
            self._changed.notify_all()

    def resume(self, download_id: str) -> None:
        with self._changed:
            if (download := self._downloads.get(download_id)) is not None:
                self._resume(download)

    def _resume(self, download: Download) -> None:
        download.paused = False
        if download.phase in (Phase.PAUSED, Phase.FAILED):
            download.phase, download.error = Phase.QUEUED, None
        self._remember(download)
        self._changed.notify_all()

    def cancel(self, download_id: str, delete: bool) -> None:
        """Take a download out of the queue; ``delete`` removes what has arrived, too."""
        with self._changed:
            download = self._downloads.get(download_id)
            if download is None:
                return
            download.cancelled = "delete" if delete else "keep"
            if download.phase.is_active:
                self._halt(download)
            else:
                self._discard(download)
            self._changed.notify_all()

    def states(self) -> tuple[DownloadState, ...]:
        """The queue, oldest first."""
        with self._changed:
            return tuple(each.state(self._api.tokens.redact) for each in self._downloads.values())

    def unfinished(self) -> tuple[cache.Unfinished, ...]:
        """Everything that is not yet whole."""
        with self._changed:
            return tuple(
                (each.repo_id, each.manifest.commit, tuple(spec.path for spec in each.manifest.files))
                for each in self._downloads.values()
                if each.manifest and each.phase is not Phase.DONE
            )

    def wait(self, timeout: float | None = None) -> bool:
        """Until nothing is queued or running; False when that took too long."""
        with self._changed:
            return self._changed.wait_for(
                lambda: (
                    not any(
                        each.phase is Phase.QUEUED or each.phase.is_active
                        for each in self._downloads.values()
                    )
                ),
                timeout,
            )

    # ------------------------------------------------------------------ records

    def _remember(self, download: Download) -> None:
        if self._records is None:
            return
        record = {
            "version": 1,
            "id": download.download_id,
            "number": download.number,
            "repo": download.repo_id,
            "revision": download.revision,
            "only": list(download.only),
            "paused": download.paused,
            "manifest": download.manifest.to_json() if download.manifest else None,
        }
        with contextlib.suppress(OSError):  # the journals still let it resume, once asked for again
            self._records.mkdir(parents=True, exist_ok=True)
            replace_text(self._records / f"{download.download_id}.json", json.dumps(record))

    def _forget(self, download: Download) -> None:
        if self._records is not None:
            with contextlib.suppress(OSError):
                (self._records / f"{download.download_id}.json").unlink(missing_ok=True)

    def _load(self) -> None:
        found: list[Download] = []
        for path in _records_in(self._records) if self._records else ():
            try:
                found.append(_download_of(json.loads(path.read_text("utf-8")), path.stem))
            except (
                OSError,
                ValueError,
                LookupError,
                TypeError,
                AttributeError,
                OverflowError,
                RecursionError,
            ):
                continue  # half a record cannot be: it is damaged, or another program's file
        for download in sorted(found, key=lambda each: each.number):
            if download.manifest:
                self._make_transfers(download, download.manifest)
            if download.paused:
                download.phase = Phase.PAUSED
            self._downloads[download.download_id] = download

    # ------------------------------------------------------------------ the worker's thread

    def _halt(self, only: Download | None = None) -> None:
        for each in self._downloads.values():
            if each.current is not None and only in (None, each):
                each.current.stop()

    def _next(self) -> Download | None:
        """The download to run now; waits until there is one, None at the end."""
        with self._changed:
            while not self._closing:
                now = time.monotonic()
                for each in self._downloads.values():
                    if each.phase is Phase.FAILED and each.retry_at and now >= each.retry_at:
                        each.phase, each.error, each.retry_at = Phase.QUEUED, None, 0.0
                for each in self._downloads.values():
                    if each.phase is Phase.QUEUED:
                        each.phase = Phase.PLANNING
                        return each
                self._changed.wait(1.0)
        return None

    def _work(self) -> None:
        while (download := self._next()) is not None:
            try:
                manifest = download.manifest or self._plan(download)
                self._give_up_if_asked(download)
                if not cache.is_placed(self._place.cache, manifest):
                    with self._alone(download):
                        self._fetch(download, manifest)
                self._finish(download, manifest)
                phase = Phase.DONE
            except Stopped:
                phase = Phase.PAUSED if download.paused else Phase.QUEUED
            except Exception as error:
                phase = Phase.FAILED
                download.error = _named(error)
                if isinstance(error, UnreachableError):
                    download.retry_at = time.monotonic() + RETRY_SECONDS
            with self._changed:
                download.current = None
                download.phase = phase
                if phase is Phase.DONE:
                    self._forget(download)
                elif download.cancelled:
                    self._discard(download)
                self._changed.notify_all()

    def _discard(self, download: Download) -> None:
        self._downloads.pop(download.download_id, None)
        self._forget(download)
        if download.cancelled != "delete" or not download.manifest or download.phase is Phase.DONE:
            return
        # What cannot be deleted is taken up by the next download of it; another Eyrie may be at it just now.
        with contextlib.suppress(OSError, DiskFull), self._lock(download.repo_id).acquire(timeout=0):
            cache.delete_unfinished(self._place.cache, download.manifest)

    def _give_up_if_asked(self, download: Download) -> None:
        if download.paused or download.cancelled or self._closing:
            raise Stopped

    @contextlib.contextmanager
    def _alone(self, download: Download) -> Iterator[None]:
        """Keep other programs of ours from the same repository."""
        lock = self._lock(download.repo_id)
        while True:
            self._give_up_if_asked(download)
            with disk_errors(self._place.cache):
                try:
                    lock.acquire(timeout=0.2)
                    break
                except Timeout:
                    download.note = "Another Eyrie is downloading this; waiting for it"
        try:
            download.note = ""
            yield
        finally:
            lock.release()

    def _lock(self, repo_id: str) -> FileLock:
        """Of a repository in this cache. :raises DiskFull: the cache cannot be written."""
        folder = self._place.cache / ".locks" / cache.repository_folder(self._place.cache, repo_id).name
        with disk_errors(self._place.cache):
            folder.mkdir(parents=True, exist_ok=True)
        return FileLock(folder / "eyrie.lock")

    def _plan(self, download: Download) -> Manifest:
        info = self._api.info(download.repo_id, download.revision, files=True)
        manifest = make_manifest(download.repo_id, download.revision, info, download.only)
        with self._changed:
            download.manifest = manifest
            self._make_transfers(download, manifest)
            self._remember(download)
        return manifest

    def _make_transfers(self, download: Download, manifest: Manifest) -> None:
        def on_wait(words: str) -> None:
            download.note = words

        blobs = cache.blobs_folder(self._place.cache, manifest.repo_id)
        download.transfers = [
            Transfer(
                self._connection,
                manifest.repo_id,
                manifest.commit,
                spec,
                blobs,
                streams=self._streams,
                retry=self._retry,
                on_wait=on_wait,
            )
            for spec in manifest.files
        ]
        for transfer in download.transfers:
            transfer.part.peek()

    def _fetch(self, download: Download, manifest: Manifest) -> None:
        with self._changed:
            self._make_transfers(download, manifest)
            download.phase = Phase.RUNNING
        cache.prepare(self._place.cache, manifest.repo_id)
        self._require_space(download, manifest)
        for transfer in download.transfers:
            with self._changed:
                self._give_up_if_asked(download)
                download.current = transfer
            transfer.run()
            download.note = ""
        cache.place(self._place.cache, manifest)

    def _finish(self, download: Download, manifest: Manifest) -> None:
        """:raises HubError: a file is not what it is called."""
        folder = cache.snapshot_folder(self._place.cache, manifest)
        if name := cache.spoilt(folder):
            raise HubError(
                f"{name} of {manifest.repo_id} arrived just as the hub has it, but is no whole safetensors file.",
                "It was damaged before it was put there: choose another repository or revision.",
            )
        download.folder = str(folder)

    def _require_space(self, download: Download, manifest: Manifest) -> None:
        """:raises DiskFull: before anything is fetched, not at the end of it."""
        wanted = manifest.size - download.done()
        free = shutil.disk_usage(self._place.cache).free
        if free < wanted + self._place.reserve:
            raise no_room(manifest.repo_id, wanted, free, self._place.reserve, self._place.cache)


def _named(error: Exception) -> EngineError:
    if isinstance(error, EngineError):
        return error
    return HubError(f"The download failed: {type(error).__name__}: {error}.", "Try again.")


def _records_in(folder: Path) -> list[Path]:
    """Nothing where the folder cannot be read."""
    try:
        return sorted(folder.glob("*.json"))
    except OSError:
        return []


def _download_of(raw: dict[str, Any], name: str) -> Download:
    """A download from its record. :raises ValueError, LookupError, TypeError, AttributeError: it is none."""
    download = Download(
        name, str(raw["repo"]), str(raw["revision"]), tuple(str(path) for path in raw["only"])
    )
    download.number = int(raw.get("number", 0))  # the file's own times change with every write
    download.paused = bool(raw["paused"])
    if raw["manifest"]:
        download.manifest = Manifest.from_json(raw["manifest"])
    return download
