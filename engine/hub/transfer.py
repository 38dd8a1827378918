"""Brings one file here: ranges in parallel, retries, and the checksum at the end.

Several threads take ranges of the part file's gaps and fill them; one hashes what
lies at the front without a gap, while the rest still arrives; the caller's thread
keeps the journal and looks after disk space and stalls.
"""

from __future__ import annotations

import hashlib
import random
import shutil
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from engine.hub.connection import Answer, Connection
from engine.hub.hashing import Hashing
from engine.hub.part import Part, disk_errors, no_room
from engine.hub.problems import Cause, TryAgain, gave_up

BLOCK = 1 << 20
"""Bytes read from a connection at once. From loopback 801 MB/s came with it, 740 with half, 593 with a quarter."""
SMALLEST_SEGMENT, LARGEST_SEGMENT = 8 << 20, 64 << 20
"""Bytes asked for in one request of a large file."""
ALONE_SECONDS = 0.3
"""So long the first stream runs alone, and on as long as it alone brings :data:`FAST` bytes a second."""
FAST = 250e6
JOURNAL_SECONDS = 0.5
SYNC_SECONDS = 30.0
GAIN = 1 << 16
"""Bytes gained after which failures are counted anew."""
TRICKLE = 1 << 10
"""Bytes a second below which a connection counts as stalled."""
TRICKLE_SECONDS = 30.0
WHOLE_TRIES = 3
"""How often a file is fetched anew after a wrong checksum."""


@dataclass(frozen=True, slots=True)
class Retry:
    """How long to keep trying."""

    tries: int = 10
    """Failures in a row, without a byte gained, after which a file is given up."""
    first_wait: float = 0.5
    longest_wait: float = 60.0

    def wait(self, failures: int, asked: float) -> float:
        """Seconds before the next try, spread by chance so that the streams do not knock together."""
        backoff = min(self.longest_wait, self.first_wait * 2.0 ** (failures - 1))
        return max(asked, backoff * random.uniform(0.7, 1.0))


@dataclass(frozen=True, slots=True)
class FileSpec:
    """One file of a repository, as the hub describes it."""

    path: str
    size: int
    etag: str
    """Name of its blob in the cache: the SHA-256 of a large file, git's SHA-1 of a small one."""
    sha256: str | None = None

    def new_digest(self) -> hashlib._Hash:
        """What its bytes are hashed with to give ``etag``: git puts a header before them."""
        if self.sha256:
            return hashlib.sha256()
        return hashlib.sha1(b"blob %d\0" % self.size, usedforsecurity=False)


class Stopped(Exception):
    """The user paused or cancelled; what has arrived is in the journal."""


class Transfer:
    """Downloads ``spec`` of a repository's commit into the cache folder ``blobs``."""

    def __init__(
        self,
        connection: Connection,
        repo_id: str,
        commit: str,
        spec: FileSpec,
        blobs: Path,
        *,
        streams: int = 4,
        retry: Retry | None = None,
        on_wait: Callable[[str], None] = lambda _words: None,
    ) -> None:
        self._connection = connection
        self._repo_id = repo_id
        self._spec = spec
        self._url = connection.file_url(repo_id, commit, spec.path)
        self._final = blobs / spec.etag
        self._streams = streams
        self._retry = retry or Retry()
        self._on_wait = on_wait
        self._stop = threading.Event()
        self._help = threading.Event()
        """One stream alone is too slow."""
        self._changed = threading.Condition()
        self._failure: Exception | None = None
        self._answers: set[Answer] = set()
        self._store = ""
        self._store_etag = ""
        self.part = Part(self._final, spec.size, spec.etag)
        self.verifying = False
        """All bytes are here and their checksum is still being taken."""

    @property
    def done(self) -> int:
        """Bytes here so far."""
        return self._spec.size if self.is_here else self.part.done

    @property
    def is_here(self) -> bool:
        """Whether the cache holds the whole file already, from now or before."""
        try:
            return self._final.stat().st_size == self._spec.size
        except OSError:
            return False

    def stop(self) -> None:
        """Give up soon; :meth:`run` then raises :class:`Stopped`. From any thread."""
        self._stop.set()
        with self._changed:
            for answer in self._answers:
                answer.wake()
            self._changed.notify_all()

    # ------------------------------------------------------------------ the caller's thread

    def run(self) -> Path:
        """The whole file, its checksum right.

        :raises HubError: the hub refuses, or no try helped.
        :raises DiskFull:
        :raises Stopped:
        """
        if self.is_here:
            return self._final
        self.part.open()
        for attempt in range(1, WHOLE_TRIES + 1):
            digest = self._spec.new_digest()
            self._fetch(digest)
            if digest.hexdigest() == self._spec.etag:
                self.part.finish()
                return self._final
            if self._stop.is_set():  # before all was hashed: nothing is known against what is here
                raise Stopped
            self.part.drop()
            if attempt < WHOLE_TRIES:
                self._on_wait("The checksum was wrong; the file is fetched anew")
        raise gave_up(TryAgain(Cause.DAMAGED, "its checksum is wrong every time"), self._spec.path)

    def _fetch(self, digest: hashlib._Hash) -> None:
        """Fill every gap, hashing along."""
        left = self._spec.size - self.part.done
        self._require_space(left)
        streams = max(1, min(self._streams, -(-left // SMALLEST_SEGMENT)))
        hashing = Hashing(digest, self.part)
        self._help.clear()
        threads = [threading.Thread(target=self._hash, args=(hashing,), name="hub-hash", daemon=True)]
        threads += [
            threading.Thread(
                target=self._fill, args=(hashing, number > 0), name=f"hub-stream-{number}", daemon=True
            )
            for number in range(streams if left else 0)
        ]
        for thread in threads:
            thread.start()
        try:
            self._attend(threads)
        finally:
            if any(thread.is_alive() for thread in threads):
                with self._changed:
                    self._failure = self._failure or Stopped()
                self.stop_streams()
            for thread in threads:
                thread.join()
            self.verifying = False
            self.part.save()
            if not self.part.is_whole:  # which has its checksum behind it
                self.part.save(sync=True)
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure

    def _attend(self, threads: list[threading.Thread]) -> None:
        """Keep the journal until every thread has ended."""
        saved = synced = begun = time.monotonic()
        before = self.part.done
        while running := [thread for thread in threads if thread.is_alive()]:
            now = time.monotonic()
            if self._stop.is_set():
                with self._changed:
                    self._failure = self._failure or Stopped()
                self.stop_streams()
            self.verifying = self.part.is_whole
            if now - begun >= ALONE_SECONDS and not self._help.is_set():
                if self.part.done - before <= FAST * (now - begun):
                    self._help.set()
                begun, before = now, self.part.done
            if now - saved > JOURNAL_SECONDS:
                sync = now - synced > SYNC_SECONDS
                self.part.save(sync)
                saved = now
                synced = now if sync else synced
            running[0].join(0.1)  # the checksum's own thread, as long as it runs

    def stop_streams(self) -> None:
        with self._changed:
            for answer in self._answers:
                answer.wake()
            self._changed.notify_all()

    def _require_space(self, wanted: int) -> None:
        folder = self._final.parent
        with disk_errors(folder):
            free = shutil.disk_usage(folder).free
        reserve = self._connection.place.reserve
        if free < wanted + reserve:
            raise no_room(self._spec.path, wanted, free, reserve, folder)

    # ------------------------------------------------------------------ threads

    @property
    def _over(self) -> bool:
        return self._failure is not None or self._stop.is_set()

    def _hash(self, hashing: Hashing) -> None:
        try:
            hashing.run(lambda: self._over, self._rest)
        except Exception as error:
            self._fail(error)

    def _rest(self, seconds: float) -> None:
        """Until something changes, or so long."""
        with self._changed:
            if not self._over:
                self._changed.wait(seconds)

    def _fail(self, error: Exception) -> None:
        with self._changed:
            self._failure = self._failure or error
            self._changed.notify_all()
        self.stop_streams()

    def _fill(self, hashing: Hashing, is_help: bool) -> None:
        """Take ranges and fill them until none is left."""
        failures = 0
        try:
            while is_help and not self._help.is_set() and not self._over and not self.part.is_whole:
                self._rest(0.1)
            while not self._over:
                # The last ones are short, so that no stream works on long after the others.
                share = (self._spec.size - self.part.done) // (2 * self._streams)
                taken = self.part.take(min(LARGEST_SEGMENT, max(SMALLEST_SEGMENT, share)))
                if taken is None:
                    if self.part.is_whole:
                        return
                    self._rest(0.05)  # another stream may still hand its range back
                    continue
                try:
                    self._require_space(taken[1] - taken[0])
                    self._one_request(*taken, hashing)
                    failures = 0
                except TryAgain as error:
                    if self.part.gained(taken) >= min(GAIN, taken[1] - taken[0]):
                        failures = 0
                    failures += 1
                    self._wait(error, failures)
                finally:
                    self.part.give_back(taken)
        except Exception as error:
            self._fail(error)

    def _wait(self, error: TryAgain, failures: int) -> None:
        """Sleep before the next try. :raises HubError: when there were too many."""
        self._store = ""  # the next request asks the hub itself for the way
        if failures >= self._retry.tries:
            raise gave_up(error, self._spec.path)
        seconds = self._retry.wait(failures, error.wait)
        if seconds >= 1:
            words = error.message[:1].upper() + error.message[1:]
            self._on_wait(f"{words}; next try in {seconds:.0f} s")
        end = time.monotonic() + seconds
        while not self._over and (left := end - time.monotonic()) > 0:
            self._stop.wait(min(left, 0.1))

    # ------------------------------------------------------------------ one request

    def _one_request(self, start: int, end: int, hashing: Hashing) -> None:
        """Fetch a range into the part file. What arrives before a failure is kept."""
        url = self._store or self._url
        answer = self._connection.get(url, start, end, repo_id=self._repo_id)
        with self._changed:
            self._answers.add(answer)
        try:
            self._check(answer, start, end)
            if url == self._url and answer.url != url:
                self._store = answer.url
            self._receive(answer, start, end, hashing)
        finally:
            with self._changed:
                self._answers.discard(answer)
            answer.close()

    def _check(self, answer: Answer, start: int, end: int) -> None:
        """:raises TryAgain: the answer is not the wanted bytes of the wanted file."""
        told = _etag(answer.linked.get("X-Linked-Etag", ""))
        if told and told != self._spec.etag:
            raise TryAgain(Cause.CHANGED, "the hub names another version")
        etag = _etag(answer.headers.get("ETag", ""))
        if etag and not answer.linked and not self._store and not self._spec.sha256:
            if etag != self._spec.etag:
                raise TryAgain(Cause.CHANGED, "the hub names another version")
        elif etag:
            # The store has names of its own; the first one counts for the rest.
            with self._changed:
                known, self._store_etag = self._store_etag, etag
            if known and etag != known:
                raise TryAgain(Cause.CHANGED, "the store names another version")
        if answer.status == 206 and answer.start != start:
            raise TryAgain(Cause.RANGE, "the server sent another part than the one asked for")
        if answer.status == 200 and start:
            raise TryAgain(Cause.RANGE, "the server cannot continue a file in the middle")
        whole = answer.total
        if whole is not None and whole != self._spec.size and answer.status == 206:
            raise TryAgain(Cause.CHANGED, "its size is another than before")

    def _receive(self, answer: Answer, start: int, end: int, hashing: Hashing) -> None:
        at, begun, counted = start, time.monotonic(), 0
        with disk_errors(self._final.parent):
            file = self.part.writer(start)
        with file:
            while at < end and not self._over:
                data = answer.read(min(BLOCK, end - at))
                if not data:
                    raise TryAgain(Cause.NETWORK, "the connection ended too early")
                with disk_errors(self._final.parent):
                    rest = memoryview(data)
                    while rest:
                        rest = rest[file.write(rest) :]
                self.part.keep(at, at + len(data))
                hashing.offer(at, data)
                at += len(data)
                counted += len(data)
                if (spent := time.monotonic() - begun) > TRICKLE_SECONDS:
                    if counted < TRICKLE * spent:
                        raise TryAgain(Cause.STALLED, "the data only trickles in")
                    begun, counted = time.monotonic(), 0


def _etag(header: str) -> str:
    return header.removeprefix("W/").strip('"')
