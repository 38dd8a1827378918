"""What the tests of the hub share: an engine's side of the hub, fast to give up, on a cache of its own."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from engine.hub import hashing, transfer
from engine.hub.api import HubApi
from engine.hub.connection import Connection
from engine.hub.downloads import Downloads
from engine.hub.place import HubPlace
from engine.hub.tokens import Tokens
from engine.hub.transfer import Retry
from engine.protocol.hub import DownloadState

QUICK = Retry(tries=8, first_wait=0.01, longest_wait=0.05)
PATIENCE = 0.2
"""Seconds without data after which a connection counts as stalled."""


@dataclass
class Setting:
    place: HubPlace
    tokens: Tokens
    connection: Connection
    api: HubApi
    downloads: Downloads


def small_segments() -> None:
    """Many requests also for files of some kilobytes, and a journal that keeps up with them."""
    transfer.SMALLEST_SEGMENT, transfer.LARGEST_SEGMENT = 16 << 10, 64 << 10
    transfer.BLOCK, hashing.READ = 4 << 10, 32 << 10
    transfer.JOURNAL_SECONDS = 0.01
    transfer.ALONE_SECONDS = 0.0


@contextmanager
def setting(
    endpoint: str,
    folder: Path,
    token: str = "",
    retry: Retry = QUICK,
    records: bool = True,
    reserve: int = 0,
    start: bool = True,
) -> Iterator[Setting]:
    from huggingface_hub import constants

    constants.HF_HUB_OFFLINE = False  # the test session sets it; only loopback is reached
    place = HubPlace(endpoint, folder / "hub", timeout=PATIENCE, reserve=reserve)
    tokens = Tokens(use_keyring=False)
    if token:
        tokens.enter(token)
    connection = Connection(place, tokens)
    api = HubApi(place, tokens, connection)
    downloads = Downloads(api, connection, folder / "records" if records else None, retry=retry)
    if start:
        downloads.start()
    try:
        yield Setting(place, tokens, connection, api, downloads)
    finally:
        downloads.close()
        connection.close()


def only(states: tuple[DownloadState, ...]) -> DownloadState:
    assert len(states) == 1
    return states[0]


def until(here: Setting, what: Callable[[DownloadState], bool]) -> DownloadState:
    """The only download's state once ``what`` is true of it."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        state = only(here.downloads.states())
        if what(state):
            return state
        time.sleep(0.01)
    raise AssertionError(only(here.downloads.states()))
