"""Which hub, which cache, and whether the network may be used: what the environment says."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from engine.hub.problems import OfflineError, UnreachableError

ENDPOINT = "HF_ENDPOINT"
SET_ASIDE = "EYRIE_UNUSABLE_HF_ENDPOINT"
"""Where :func:`set_aside_endpoint` puts it, for this process and those that it starts."""
RESERVE = 256 << 20
"""Bytes of the disk that downloads leave free."""


@dataclass(frozen=True, slots=True)
class HubPlace:
    endpoint: str
    """Without a slash at its end."""
    cache: Path
    """The hub cache, shared with every program that uses ``huggingface_hub``."""
    offline: bool = False
    timeout: float = 10.0
    """Seconds without a byte after which a connection counts as stalled."""
    reserve: int = RESERVE
    wrong_endpoint: str = ""
    """What HF_ENDPOINT says, where that is no address: the hub is not asked then."""

    @classmethod
    def from_environment(cls) -> HubPlace:
        """As ``huggingface_hub`` reads HF_ENDPOINT, HF_HOME, HF_HUB_CACHE, HF_HUB_OFFLINE and the rest."""
        set_aside_endpoint()
        from huggingface_hub import constants

        endpoint = constants.ENDPOINT.rstrip("/") or "https://huggingface.co"  # a variable may be empty
        return cls(
            endpoint=endpoint,
            cache=Path(constants.HF_HUB_CACHE).expanduser(),
            offline=constants.is_offline_mode(),
            timeout=float(constants.HF_HUB_DOWNLOAD_TIMEOUT),
            wrong_endpoint=os.environ.get(SET_ASIDE, "") or ("" if _is_address(endpoint) else endpoint),
        )

    def require_network(self) -> None:
        """:raises HubError: the hub is not to be asked, or nobody knows where it is."""
        if self.offline:
            raise OfflineError(
                "The hub is not asked, because HF_HUB_OFFLINE is set.",
                "Use a model that is already here, or unset HF_HUB_OFFLINE and start Eyrie again.",
            )
        if self.wrong_endpoint:
            raise UnreachableError(
                f"HF_ENDPOINT is “{self.wrong_endpoint}”, which is no address of a hub.",
                "Set it to one such as https://huggingface.co, or unset it; then start Eyrie again.",
            )

    def page(self, repo_id: str) -> str:
        """The repository's page, for people."""
        return f"{self.endpoint}/{repo_id}"


def set_aside_endpoint() -> None:
    """Take an HF_ENDPOINT that no address can be out of the environment.

    ``huggingface_hub`` takes it apart as it is imported, and transformers import it: with such a
    one not even a model that lies here could be loaded.
    """
    endpoint = os.environ.get(ENDPOINT, "")
    try:
        urlsplit(endpoint)
    except ValueError:
        os.environ[SET_ASIDE] = os.environ.pop(ENDPOINT)


def _is_address(endpoint: str) -> bool:
    try:
        parts = urlsplit(endpoint)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
