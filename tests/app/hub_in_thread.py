"""The hub's process as a thread of the test, against the test hub."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from app.hub.client import HubClient
from app.transport import CommandSource, ThreadTransport
from engine.hub.place import HubPlace
from engine.hub.tokens import Tokens
from engine.hub.worker import HubWorker


class _Ends:
    def __init__(self, commands: CommandSource, emit: Callable[[Any], None]) -> None:
        self.recv, self.send = commands.get, emit


def hub_client(endpoint: str, folder: Path) -> HubClient:
    """A client whose worker runs in a thread, on a cache of its own below ``folder``."""
    from huggingface_hub import constants

    constants.HF_HUB_OFFLINE = False
    place = HubPlace(endpoint, folder / "hub", timeout=2.0, reserve=0)

    def run(commands: CommandSource, emit: Callable[[Any], None]) -> None:
        HubWorker(_Ends(commands, emit), place, Tokens(use_keyring=False)).run()

    return HubClient(lambda: ThreadTransport(run))
