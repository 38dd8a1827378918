"""The test hub's two hosts: the hub itself, and the store that large files are redirected to."""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass
from http.server import ThreadingHTTPServer
from types import TracebackType

from tests.hub_server.faults import Faults
from tests.hub_server.repository import Account, HubFile, Repository


@dataclass(frozen=True)
class Served:
    """One request for content, as it was answered."""

    at: float
    """``time.monotonic()`` when it came."""
    path: str
    start: int
    end: int
    """The range asked for; the whole file where none was."""
    status: int
    authorised: bool
    """An ``Authorization`` header came with it."""
    method: str


class _Listener(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64
    allow_reuse_address = True

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that goes away is no error of a server."""


class HubServer:
    """``with HubServer(repositories) as hub:`` then use ``hub.endpoint``.

    Large files are redirected to ``hub.store``: the same machine under another host
    name and port, as the real hub does with its content network.
    """

    def __init__(
        self,
        repositories: Iterable[Repository] = (),
        accounts: dict[str, Account] | None = None,
        faults: Faults | None = None,
    ) -> None:
        from tests.hub_server.handler import HubHandler, StoreHandler

        self.repositories = {repository.repo_id: repository for repository in repositories}
        self.accounts = accounts or {}
        """By token."""
        self.faults = faults or Faults()
        self.log: list[Served] = []
        self.requests: list[tuple[str, bool]] = []
        """(path with query, authorised) of every request to the hub itself."""
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._handlers = [
            type("Hub", (HubHandler,), {"hub": self}),
            type("Store", (StoreHandler,), {"hub": self}),
        ]
        self.frozen = threading.Event()
        """Nothing more is sent, on connections that stay open."""
        self._gone = threading.Event()
        self._hub, self._store = (_Listener(("127.0.0.1", 0), handler) for handler in self._handlers)
        self._threads = self._serving()

    def _serving(self) -> list[threading.Thread]:
        return [
            threading.Thread(target=listener.serve_forever, args=(0.02,), name="test-hub", daemon=True)
            for listener in (self._hub, self._store)
        ]

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self._hub.server_address[1]}"

    @property
    def store(self) -> str:
        return f"http://localhost:{self._store.server_address[1]}"

    def __enter__(self) -> HubServer:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closing.set()
        self.leave()

    # ------------------------------------------------------------------ a network that goes and comes

    def freeze(self) -> None:
        """Send nothing more, but keep the connections: what a machine finds when it wakes from sleep."""
        self.frozen.set()

    def leave(self) -> None:
        """Nobody listens any more, and every connection ends."""
        if self._gone.is_set():
            return
        self._gone.set()
        for listener in (self._hub, self._store):
            listener.shutdown()
            listener.server_close()
        for thread in self._threads:
            thread.join(5)

    def come_back(self) -> None:
        """At the same addresses as before."""
        addresses = [listener.server_address for listener in (self._hub, self._store)]
        self.frozen.clear()
        self._gone.clear()
        self._hub, self._store = (
            _Listener((str(address[0]), int(address[1])), handler)
            for address, handler in zip(addresses, self._handlers, strict=True)
        )
        self._threads = self._serving()
        for thread in self._threads:
            thread.start()

    def hold(self) -> bool:
        """Wait while frozen; whether the connection is to be given up."""
        while self.frozen.is_set() and not self._gone.is_set() and not self._closing.is_set():
            self._closing.wait(0.01)
        return self._gone.is_set()

    # ------------------------------------------------------------------ for the handlers

    def add(self, repository: Repository) -> None:
        self.repositories[repository.repo_id] = repository

    def record(self, served: Served) -> None:
        with self._lock:
            self.log.append(served)

    def by_digest(self, digest: str) -> HubFile | None:
        for repository in list(self.repositories.values()):
            for files in list(repository.commits.values()):
                for file in files.values():
                    if file.lfs and file.sha256 == digest:
                        return file
        return None

    def signature(self, digest: str) -> str:
        """What a redirect is signed with: the store answers nobody else."""
        return hashlib.sha256(f"{self.endpoint}{digest}".encode()).hexdigest()[:16]

    def pause(self, seconds: float) -> None:
        """Sleep, but not past the end of the test."""
        self._closing.wait(seconds)

    # ------------------------------------------------------------------ for the tests

    def fetched(self, path: str, since: float = 0.0) -> list[tuple[int, int]]:
        """Ranges of a file asked for since a time of ``time.monotonic()`` and answered with content."""
        with self._lock:
            return [
                (each.start, each.end)
                for each in self.log
                if each.path == path
                and each.at >= since
                and each.method == "GET"
                and each.status in (200, 206)
            ]

    def now(self) -> float:
        return time.monotonic()
