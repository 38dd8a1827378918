"""The guards of conftest.py, seen at work."""

from __future__ import annotations

import logging
import os
import socket
from pathlib import Path

import pytest

from tests.conftest import is_local


def test_a_connection_to_another_machine_is_refused(no_network: list[str]) -> None:
    with socket.socket() as connection, pytest.raises(OSError, match="do not use the network"):
        connection.connect(("192.0.2.1", 80))
    assert no_network == ["('192.0.2.1', 80)"]
    no_network.clear()


def test_a_name_is_not_looked_up(no_network: list[str]) -> None:
    with pytest.raises(OSError, match="do not use the network"):
        socket.create_connection(("example.invalid", 443), timeout=1)
    assert no_network == ["example.invalid"]
    no_network.clear()


def test_this_machine_can_be_reached() -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        with socket.create_connection(server.getsockname(), timeout=5) as client:
            assert client.getpeername() == server.getsockname()


@pytest.mark.parametrize(
    ("address", "local"),
    [
        (("127.0.0.1", 80), True),
        (("127.8.9.10", 80), True),
        (("localhost", 80), True),
        (("::1", 80, 0, 0), True),
        ("/tmp/socket", True),
        (("10.0.0.1", 80), False),
        (("localhost.example.org", 80), False),
        (("fe80::1%eth0", 80, 0, 2), False),
    ],
)
def test_what_counts_as_this_machine(address: object, local: bool) -> None:
    assert is_local(address) is local


def test_a_thread_may_make_loggers_while_a_test_begins() -> None:
    for place, logger in enumerate(logging.Logger.manager.loggerDict.values()):
        if place < 3:
            logging.getLogger(f"eyrie.made.meanwhile.{place}")
        assert logger is not None


def test_data_goes_to_a_folder_of_the_test(data_dir: Path, tmp_path: Path) -> None:
    assert data_dir == tmp_path / "data"
    assert os.environ["EYRIE_DATA_DIR"] == str(data_dir)
    assert not data_dir.exists()


@pytest.mark.demo
@pytest.mark.slow
def test_demo_model_is_converted_once_for_all_tests(demo_model: Path, data_dir: Path) -> None:
    from engine.models.demo import demo_folder

    assert demo_folder().resolve() == demo_model.resolve()
    assert demo_folder().is_relative_to(data_dir)
    assert (demo_model / "model.safetensors").stat().st_size > 10**8


def test_only_demo_tests_see_the_shared_models(data_dir: Path) -> None:
    from engine.paths import cache_folder

    assert cache_folder() == data_dir / "cache"
    assert not (cache_folder() / "models").exists()
