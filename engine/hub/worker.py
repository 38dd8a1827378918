"""The hub's process: commands of the window in, events out, like :mod:`engine.worker`.

What asks the network runs in a few threads, downloads in one of their own, and a
ticker sends the state of the queue when it has changed. Nothing here imports torch.
"""

from __future__ import annotations

import os
import threading
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from multiprocessing.connection import Client
from pathlib import Path
from typing import Any, Protocol

from engine.errors import EngineError
from engine.hub import cache
from engine.hub.api import HubApi
from engine.hub.catalogue import catalogue
from engine.hub.connection import Connection
from engine.hub.content import Contents
from engine.hub.details import Looker
from engine.hub.downloads import Downloads
from engine.hub.entry import problem_of
from engine.hub.finding import Hits, search
from engine.hub.head_choices import HeadFinder
from engine.hub.head_memory import HeadMemory
from engine.hub.headers import RemoteHeaders
from engine.hub.judging import Judge
from engine.hub.local import Imports, cached
from engine.hub.memory import free_disk, held, machine
from engine.hub.offers import arrange, exact, offers
from engine.hub.place import HubPlace
from engine.hub.problems import HubError, MissingError, OfflineError, UnreachableError
from engine.hub.tokens import Tokens
from engine.hub.transfer import Retry
from engine.paths import cache_folder, data_folder
from engine.protocol import Ready, Shutdown
from engine.protocol.hub import DownloadState, HubModel, LocalEntry, Phase, Problem
from engine.protocol.hub_messages import (
    Account,
    Browse,
    Cancel,
    Catalogue,
    Delete,
    Details,
    EnterToken,
    Fetch,
    FindHeads,
    Forget,
    Found,
    Heads,
    HubEvent,
    HubFailed,
    Import,
    Imported,
    Local,
    LookAt,
    Pause,
    Queue,
    Resume,
    Search,
)

TICK = 0.25
"""Seconds between two looks at the queue."""
ASKED_FOR_HEADS = 30
"""Hits of a search that the hub is asked about for heads."""
EXACT_OFFERS = 6
"""Pairs whose tensors are looked at when the catalogue is opened."""


class Channel(Protocol):
    def recv(self) -> Any: ...

    def send(self, event: Any) -> None: ...


class HubWorker:
    def __init__(self, channel: Channel, place: HubPlace | None = None, tokens: Tokens | None = None) -> None:
        self._channel = channel
        self._place = place or HubPlace.from_environment()
        self._tokens = tokens or Tokens()
        self._connection = Connection(self._place, self._tokens)
        self._api = HubApi(self._place, self._tokens, self._connection)
        self._judge = Judge()
        headers = RemoteHeaders(self._api, cache_folder() / "headers")
        self._contents = Contents(self._api, headers, self._judge)
        self._looker = Looker(self._api, self._contents, self._judge)
        self._finder = HeadFinder(self._api, self._contents, self._judge)
        self._head_memory = HeadMemory(cache_folder() / "heads.json")
        self._imports = Imports(data_folder() / "imported_models.json")
        self._downloads = Downloads(
            self._api, self._connection, data_folder() / "downloads", retry=Retry(tries=12)
        )
        self._send_lock = threading.Lock()
        self._listing = threading.Lock()
        self._queueing = threading.Lock()
        self._ending = threading.Event()
        self._loaded_bytes = 0
        self._latest: dict[tuple[type, str], int] = {}
        """The newest request of a kind and asker: what older ones still find is not sent."""

    def run(self) -> None:
        """Serve until Shutdown or until the application is gone."""
        self._downloads.start()
        ticker = threading.Thread(target=self._tick, name="hub-ticker", daemon=True)
        ticker.start()
        self.send(Ready(self._place.endpoint))
        # Nothing waits for these threads at the end: a request may hang in the network.
        pool = ThreadPoolExecutor(max_workers=6, thread_name_prefix="hub-ask")
        accounts = ThreadPoolExecutor(max_workers=1, thread_name_prefix="hub-account")
        try:
            while True:
                command = self._channel.recv()
                if isinstance(command, Shutdown):
                    break
                if isinstance(command, Search | LookAt | FindHeads):
                    self._latest[_asked_by(command)] = command.request_id
                if isinstance(command, Fetch | Pause | Resume | Cancel):
                    self._serve(command)  # at once, and in order
                elif isinstance(command, EnterToken):
                    accounts.submit(self._serve, command)  # in order, though a keyring may keep one waiting
                else:
                    pool.submit(self._serve, command)
        except (EOFError, OSError):
            pass  # the application is gone: end as if it had asked to
        self._ending.set()
        for each in (pool, accounts):
            each.shutdown(wait=False, cancel_futures=True)
        self._downloads.close(2.0)
        self._judge.close()

    def send(self, event: HubEvent | Ready) -> None:
        with self._send_lock:
            try:
                self._channel.send(event)
            except (OSError, ValueError):
                self._ending.set()

    # ------------------------------------------------------------------ commands

    def _serve(self, command: Any) -> None:
        serves: dict[type, Callable[[Any], None]] = {
            Browse: self._browse,
            Search: self._search,
            LookAt: self._look_at,
            FindHeads: self._find_heads,
            Fetch: self._fetch,
            Pause: lambda each: self._downloads.pause(each.download_id),
            Resume: lambda each: self._downloads.resume(each.download_id),
            Cancel: lambda each: self._downloads.cancel(each.download_id, each.delete),
            EnterToken: self._enter_token,
            Import: self._import,
            Forget: self._forget,
            Delete: self._delete,
        }
        serve = serves.get(type(command))
        if serve is None:
            return
        try:
            serve(command)
        except EngineError as error:
            self._fail(command, problem_of(error, self._tokens.redact))
        except Exception as error:
            words = self._tokens.redact(f"{type(error).__name__}: {error}")
            detail = self._tokens.redact(traceback.format_exc())
            print(detail, flush=True)  # into the log of this process
            self._fail(command, Problem("hub", f"This failed: {words}.", "Try again."))

    def _fail(self, command: Any, problem: Problem) -> None:
        self.send(HubFailed(getattr(command, "request_id", 0), problem))

    def _is_latest(self, command: Search | LookAt | FindHeads) -> bool:
        return self._latest.get(_asked_by(command)) == command.request_id and not self._ending.is_set()

    def _send_local(self) -> tuple[LocalEntry, ...]:
        """Tell what lies here, and return it. One at a time: an older list never follows a newer one."""
        with self._listing:
            entries = self._local()
            self.send(Local(entries))
        return entries

    def _local(self) -> tuple[LocalEntry, ...]:
        own = cached(self._place.cache, self._downloads.unfinished())
        return (*own, *self._imports.entries())

    def _browse(self, command: Browse) -> None:
        pairs, problem = catalogue(data_folder())
        entries, here = self._send_local(), machine()
        measured = held(command.engine_pid, here) if command.loaded_bytes and command.engine_pid else None
        self._loaded_bytes = measured or command.loaded_bytes
        made = offers(pairs, here, entries, self._loaded_bytes)
        self.send(Catalogue(here, made, problem))
        self._send_queue()
        self._send_account()
        known = list(made)
        for place, offer in enumerate(made[:EXACT_OFFERS]):
            if self._ending.is_set() or self._place.offline:
                return
            try:
                better = exact(offer, self._contents, here, self._loaded_bytes)
            except UnreachableError:  # every other one would be waited for as long
                return
            if better is not None:
                known[place] = better
                self.send(Catalogue(here, arrange(known, here), problem))

    def _search(self, command: Search) -> None:
        pairs = catalogue(data_folder())[0]
        hits = search(self._api, command, pairs, machine())
        models = [self._marked(each) for each in hits.models]
        if not command.only_with_head:
            self._send_found(command, models, hits)
            return
        # What is known comes at once; the others are asked about one by one, the likeliest first.
        has = {each.repo_id for each in models if each.has_known_head}
        asked = [each.repo_id for each in models if self._is_open(each)]
        hits = replace(hits, has_more=hits.has_more or len(asked) > ASKED_FOR_HEADS)
        asked = asked[:ASKED_FOR_HEADS]
        for place, repo_id in enumerate(asked):
            known = [m for m in models if m.repo_id in has]
            if not self._send_found(command, known, hits, len(asked) - place):
                return
            try:
                found = self._finder.has_head(repo_id, pairs)
            except UnreachableError:
                break
            except HubError:
                continue
            self._head_memory.keep(repo_id, found)
            if found:
                has.add(repo_id)
        self._send_found(command, [self._marked(m) for m in models if m.repo_id in has], hits)

    def _marked(self, model: HubModel) -> HubModel:
        found = model.has_known_head or self._head_memory.has_head(model.repo_id) is True
        return replace(model, has_known_head=found)

    def _is_open(self, model: HubModel) -> bool:
        """Whether nobody knows yet if the model has a head."""
        known = model.is_head or model.has_known_head
        return not known and self._head_memory.has_head(model.repo_id) is None

    def _send_found(
        self, command: Search, models: Sequence[HubModel], hits: Hits, unchecked: int = 0
    ) -> bool:
        """False where the window has asked for something else in the meantime."""
        if not self._is_latest(command):
            return False
        self.send(Found(command.request_id, tuple(models), unchecked, hits.has_more, hits.looked_at))
        return True

    def _look_at(self, command: LookAt) -> None:
        pairs, entries = catalogue(data_folder())[0], self._local()
        here = next((each for each in entries if command.repo_id == each.path), None) or next(
            (each for each in entries if (each.repo_id, each.file) == (command.repo_id, command.file)), None
        )
        memory, loaded = machine(), self._loaded_bytes
        try:
            if here is not None and here.path == command.repo_id:
                details = self._looker.local_details(here, command.head, memory, loaded)
            else:
                room = max(0, free_disk(self._place.cache) - self._place.reserve)
                details = self._looker.details(
                    command.repo_id, command.head, memory, loaded, pairs, entries, command.file, room
                )
        except (OfflineError, UnreachableError):
            if here is None:
                raise
            details = self._looker.local_details(here, command.head, memory, loaded)
        if self._is_latest(command):
            self.send(Details(command.request_id, details))

    def _find_heads(self, command: FindHeads) -> None:
        entries = self._local()
        here = next((each for each in entries if command.target in (each.path, each.repo_id)), None)
        name = (here.repo_id or here.name) if here else command.target
        pairs = catalogue(data_folder())[0]
        latest: tuple[Any, ...] = ()
        try:
            for latest in self._finder.heads(name, pairs, entries, here.path if here else ""):
                if not self._is_latest(command):
                    return
                self.send(Heads(command.request_id, command.target, latest, is_complete=False))
        except HubError:
            if not latest:
                raise
        if self._is_latest(command):
            self.send(Heads(command.request_id, command.target, latest))

    def _fetch(self, command: Fetch) -> None:
        for repo_id in command.repo_ids:
            chosen = command.only if repo_id == (command.only_of or command.repo_ids[0]) else ()
            self._downloads.add(repo_id, only=chosen)
        self._send_queue()

    def _enter_token(self, command: EnterToken) -> None:
        if command.token.strip():
            self._tokens.enter(command.token)
        else:
            self._tokens.forget()
        self._send_account()

    def _send_account(self) -> None:
        token, source = self._tokens.current()
        name, problem = "", None
        if token and not self._place.offline:
            try:
                name = self._api.who()
            except (OfflineError, MissingError):
                pass
            except HubError as error:
                problem = problem_of(error, self._tokens.redact)
        if self._tokens.current()[0] != token:
            return  # another was entered meanwhile, and what is said of that one may have been sent already
        self.send(Account(name, source, problem, self._place.offline))

    def _import(self, command: Import) -> None:
        entry = self._imports.add(Path(command.path))
        self.send(Imported(command.request_id, entry))
        self._send_local()

    def _forget(self, command: Forget) -> None:
        self._imports.forget(command.path)
        self._send_local()

    def _delete(self, command: Delete) -> None:
        cache.delete_model(self._place.cache, command.repo_id, command.commit)
        for each in self._downloads.states():
            if each.repo_id == command.repo_id and each.phase is Phase.DONE:
                self._downloads.cancel(each.download_id, delete=False)  # it is not ready any more
        self._send_local()

    # ------------------------------------------------------------------ the queue

    def _tick(self) -> None:
        sent: tuple[DownloadState, ...] = ()
        done: set[str] = set()
        while not self._ending.wait(TICK):
            states = self._downloads.states()
            if states != sent:
                sent = states = self._send_queue()
            finished = {each.download_id for each in states if each.phase is Phase.DONE}
            if finished - done:
                self._send_local()
            done = finished

    def _send_queue(self) -> tuple[DownloadState, ...]:
        with self._queueing:  # an older state never follows a newer one
            states = self._downloads.states()
            self.send(Queue(states, free_disk(self._place.cache)))
        return states


def _asked_by(command: Search | LookAt | FindHeads) -> tuple[type, str]:
    return type(command), getattr(command, "asker", "")


def connect(address: str) -> None:
    """Serve the application listening at ``address``; its key is in EYRIE_AUTHKEY (hex)."""
    key = bytes.fromhex(os.environ.pop("EYRIE_AUTHKEY", ""))
    with Client(address, authkey=key) as connection:
        HubWorker(connection).run()
    # Threads that hang in the network must not keep the process.
    os._exit(0)
