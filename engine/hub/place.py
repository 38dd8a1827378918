"""Which hub, which cache, and whether the network may be used: what the environment says."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from engine.hub.problems import HubError

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

    @classmethod
    def from_environment(cls) -> HubPlace:
        """As ``huggingface_hub`` reads HF_ENDPOINT, HF_HOME, HF_HUB_CACHE, HF_HUB_OFFLINE and the rest."""
        try:
            from huggingface_hub import constants
        except ValueError:  # it takes HF_ENDPOINT apart as it is imported
            raise HubError(
                f"HF_ENDPOINT is “{os.environ.get('HF_ENDPOINT', '')}”, which is no address of a hub.",
                "Set it to one such as https://huggingface.co, or unset it; then start Eyrie again.",
            ) from None

        return cls(
            endpoint=constants.ENDPOINT.rstrip("/") or "https://huggingface.co",  # a variable may be empty
            cache=Path(constants.HF_HUB_CACHE).expanduser(),
            offline=constants.is_offline_mode(),
            timeout=float(constants.HF_HUB_DOWNLOAD_TIMEOUT),
        )

    def page(self, repo_id: str) -> str:
        """The repository's page, for people."""
        return f"{self.endpoint}/{repo_id}"
