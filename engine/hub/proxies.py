"""The proxy that the environment puts between us and the hub, and what it does wrong.

HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and NO_PROXY are read by the libraries themselves, as are
the settings of Windows and macOS; here is only what a person is told about them.
"""

from __future__ import annotations

from urllib.parse import urlsplit

from engine.hub.problems import Cause, HubError, ProxyRefused, TryAgain

SETTINGS = (
    "Check HTTP_PROXY, HTTPS_PROXY and NO_PROXY, or the system's proxy settings, then start Eyrie again."
)


def proxy_of(url: str) -> str:
    """``host:port`` of the proxy for requests to ``url``, or "". Never its user or password."""
    from requests.utils import get_environ_proxies, select_proxy

    chosen = select_proxy(url, get_environ_proxies(url)) or ""
    parts = urlsplit(chosen if "://" in chosen else f"//{chosen}")
    try:
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        port = ""
    return f"{parts.hostname}{port}" if parts.hostname else ""


def refused(url: str, status: int) -> HubError:
    """The proxy answered in the hub's place, and not with what was asked for."""
    name = proxy_of(url) or "on the way"
    if status == 407:
        return ProxyRefused(
            f"The proxy {name} asks for a name and a password, or does not accept those it was given.",
            "Write them into HTTP_PROXY and HTTPS_PROXY (http://name:password@host:port), then start Eyrie again.",
        )
    host = urlsplit(url).hostname or "the hub"
    return ProxyRefused(
        f"The proxy {name} does not let anything through to {host} (status {status}).", SETTINGS
    )


def problem(url: str, words: str) -> HubError | TryAgain:
    """What a library's error about its proxy means; ``words`` are the error's own."""
    for status in (407, 403):
        if f"{status} " in words:
            return refused(url, status)
    return TryAgain(Cause.PROXY, f"the proxy {proxy_of(url)} does not answer".replace("  ", " "))


def unusable(url: str) -> HubError:
    """Its address is none, or one of a kind that needs more than is installed (SOCKS)."""
    return ProxyRefused(
        f"The proxy {proxy_of(url)} cannot be used: its address is wrong, or it is a SOCKS proxy.".replace(
            "  ", " "
        ),
        f"Only http:// and https:// proxies are understood. {SETTINGS}",
    )
