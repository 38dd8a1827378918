"""What can go wrong with the hub, each with a ``kind`` of its own so that the window can offer the cure."""

from __future__ import annotations

from enum import StrEnum

from engine.errors import NetworkError, ResourceError

TOKENS_PAGE = "https://huggingface.co/settings/tokens"


class HubError(NetworkError):
    """The hub did not give what was asked for. ``link`` is a page that helps, or ""."""

    kind = "hub"

    def __init__(self, message: str, next_step: str = "", link: str = "") -> None:
        super().__init__(message, next_step)
        self.link = link


class OfflineError(HubError):
    """``HF_HUB_OFFLINE`` is set."""

    kind = "hub-offline"


class UnreachableError(HubError):
    """No answer, or none that helps, after every try."""

    kind = "hub-unreachable"


class ProxyRefused(HubError):
    """A proxy stands between us and the hub, and does not let us through."""

    kind = "hub-proxy"


class MissingError(HubError):
    """No such repository, revision or file."""

    kind = "hub-missing"


class LoginNeeded(HubError):
    """A gated repository, and no token."""

    kind = "hub-login"


class LicenceNeeded(HubError):
    """A gated repository, and the account has not accepted its terms."""

    kind = "hub-licence"


class RightNeeded(HubError):
    """A gated repository, and a token without the right to read such."""

    kind = "hub-right"


class TokenRefused(HubError):
    """The hub does not know the token."""

    kind = "hub-token"


class ChangedError(HubError):
    """The file on the hub is another than the one whose download began."""

    kind = "hub-changed"


class DamagedError(HubError):
    """What arrived does not have the right checksum, time and again."""

    kind = "hub-damaged"


class DiskFull(ResourceError):
    """The disk with the cache is too small, or cannot be written."""

    kind = "disk"


class Cause(StrEnum):
    """Why one request failed, where another may succeed."""

    NETWORK = "network"
    PROXY = "proxy"
    BUSY = "busy"
    STALLED = "stalled"
    CHANGED = "changed"
    DAMAGED = "damaged"
    RANGE = "range"


class TryAgain(Exception):
    """One request failed. Never leaves :mod:`engine.hub`."""

    def __init__(self, cause: Cause, message: str, wait: float = 0.0) -> None:
        super().__init__(message)
        self.cause = cause
        self.message = message
        self.wait = wait
        """Seconds that the server asked to wait, 0 when it did not."""


def gave_up(error: TryAgain, what: str) -> HubError:
    """The error to end with when no try helped."""
    if error.cause is Cause.CHANGED:
        return ChangedError(
            f"{what} changed on the hub while it was downloaded.",
            "Cancel this download and start it again to get the new version.",
        )
    if error.cause is Cause.DAMAGED:
        return DamagedError(
            f"{what} arrived damaged: {error.message}.",
            "Try again later, or from another network: something on the way changes the data.",
        )
    check = "the proxy settings" if error.cause is Cause.PROXY else "the connection"
    return UnreachableError(
        f"{what} could not be downloaded: {error.message}.",
        f"What has arrived is kept. Check {check} and resume the download.",
    )
