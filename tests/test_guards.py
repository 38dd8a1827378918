"""The guards of conftest.py, seen at work."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest


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


@pytest.mark.parametrize(("host", "family"), [("127.0.0.1", socket.AF_INET), ("localhost", socket.AF_INET)])
def test_this_machine_can_be_reached(host: str, family: socket.AddressFamily) -> None:
    with socket.socket(family) as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        with socket.create_connection((host, server.getsockname()[1]), timeout=5) as client:
            assert client.getpeername() == server.getsockname()


def test_data_goes_to_a_folder_of_the_test(data_dir: Path, tmp_path: Path) -> None:
    assert data_dir == tmp_path / "data"
    assert os.environ["EYRIE_DATA_DIR"] == str(data_dir)
    assert not data_dir.exists()
