"""Everything goes through the environment's proxy, and a proxy that refuses is named."""

from __future__ import annotations

from pathlib import Path

import huggingface_hub
import pytest

from engine.hub import proxies
from engine.hub.api import HubApi
from engine.hub.connection import Connection
from engine.hub.place import HubPlace
from engine.hub.problems import Cause, HubError, ProxyRefused, TryAgain, UnreachableError
from engine.hub.tokens import Tokens
from tests.hub.hub_setting import PATIENCE
from tests.hub.test_download_command import command
from tests.hub.test_downloads import model
from tests.hub_server import HubServer
from tests.hub_server.proxy import ForwardProxy

PASSWORD = "pa55word"


def parts(seen: list[str], hub: HubServer) -> dict[str, int]:
    """How many of the addresses are the library's, how many our own transfers from the hub and the store."""
    return {
        "library": sum(address.startswith(f"{hub.endpoint}/api/") for address in seen),
        "hub": sum(address.startswith(f"{hub.endpoint}/org/") for address in seen),
        "store": sum(address.startswith(f"{hub.store}/") for address in seen),
    }


def test_the_library_and_the_transfers_go_through_the_proxy(tmp_path: Path) -> None:
    with HubServer([model()]) as hub, ForwardProxy() as proxy:
        all_through = command(hub.endpoint, tmp_path / "a", "org/tiny", "--quiet", HTTP_PROXY=proxy.url)
        output, errors = all_through.communicate(timeout=60)
        assert all_through.returncode == 0, errors
        assert Path(output.strip(), "model.safetensors").is_file()
        assert min(parts(proxy.seen, hub).values()) > 0
        assert sum(parts(proxy.seen, hub).values()) == len(hub.requests) + len(
            [each for each in hub.log if each.path == "model.safetensors"]
        )
        proxy.seen.clear()
        spared = {"HTTP_PROXY": proxy.url, "NO_PROXY": "localhost"}  # the store's name
        some = command(hub.endpoint, tmp_path / "b", "org/tiny", "--quiet", **spared)
        _, errors = some.communicate(timeout=60)
        assert some.returncode == 0, errors
        through = parts(proxy.seen, hub)
        assert through["library"] and through["hub"] and not through["store"]


def test_a_proxy_that_refuses_is_named_without_its_password(tmp_path: Path) -> None:
    with HubServer([model()]) as hub, ForwardProxy(407) as proxy:
        address = f"http://me:{PASSWORD}@{proxy.address}"
        done = command(hub.endpoint, tmp_path / "a", "org/tiny", "--quiet", HTTP_PROXY=address)
        _, errors = done.communicate(timeout=60)
        assert done.returncode == 1
        assert f"The proxy {proxy.address} asks for a name and a password" in errors
        assert PASSWORD not in errors and "Traceback" not in errors
        # Only the store is refused: the library gets through, the transfer does not.
        proxy.refused_part = "/store/"
        done = command(hub.endpoint, tmp_path / "b", "org/tiny", "--quiet", HTTP_PROXY=address)
        _, errors = done.communicate(timeout=60)
        assert done.returncode == 1 and f"The proxy {proxy.address} asks" in errors
        assert PASSWORD not in errors
    # Nobody listens there any more.
    done = command(hub.endpoint, tmp_path / "c", "org/tiny", "--quiet", HTTP_PROXY=address)
    _, errors = done.communicate(timeout=60)
    assert done.returncode == 1 and f"the proxy {proxy.address} does not answer" in errors
    assert "HTTPS_PROXY" in errors and PASSWORD not in errors


@pytest.fixture
def fresh_library() -> None:
    """The library keeps its session, and with it the proxies of its first request."""
    huggingface_hub.close_session()


def test_tunnels_and_addresses_that_are_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fresh_library: None
) -> None:
    huggingface_hub.constants.HF_HUB_OFFLINE = False
    place, tokens = HubPlace("https://127.0.0.1:9", tmp_path, timeout=PATIENCE), Tokens(use_keyring=False)
    connection = Connection(place, tokens)
    api = HubApi(place, tokens, connection)
    url = connection.file_url("org/tiny", "main", "config.json")
    with ForwardProxy(407) as proxy:
        monkeypatch.setenv("HTTPS_PROXY", f"http://me:{PASSWORD}@{proxy.address}")
        assert proxies.proxy_of(url) == proxy.address
        for ask in (lambda: connection.get(url, 0, 9), lambda: api.info("org/tiny")):
            with pytest.raises(ProxyRefused) as refused:
                ask()
            assert proxy.address in refused.value.message and PASSWORD not in str(refused.value)
        assert len(proxy.seen) == 2
        proxy.refusal = 403
        with pytest.raises(ProxyRefused, match="does not let anything through"):
            connection.get(url, 0, 9)
    with pytest.raises(TryAgain) as again:
        connection.get(url, 0, 9)
    assert again.value.cause is Cause.PROXY and proxy.address in again.value.message
    with pytest.raises(UnreachableError) as gone:
        api.info("org/tiny")
    assert f"the proxy {proxy.address} does not answer" in gone.value.message
    huggingface_hub.close_session()
    monkeypatch.setenv("HTTPS_PROXY", "socks5://127.0.0.1:9")
    for ask in (lambda: connection.get(url, 0, 9), lambda: api.info("org/tiny")):
        with pytest.raises(HubError, match="SOCKS"):
            ask()
    connection.close()
    huggingface_hub.close_session()
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    assert proxies.proxy_of(url) == ""
