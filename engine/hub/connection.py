"""Requests for file content: redirects, ranges, accounts, and what refusals mean.

The token goes to the hub's own origin and nowhere else: a redirect to another host,
port or scheme is followed without it. Proxies and certificates come from the
environment, as everywhere (``requests``); ``.netrc`` is left alone.
"""

from __future__ import annotations

import contextlib
import re
import threading
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote, urljoin, urlsplit

import requests
import urllib3
from requests.adapters import HTTPAdapter

from engine import __version__
from engine.hub import proxies
from engine.hub.place import HubPlace
from engine.hub.problems import (
    TOKENS_PAGE,
    Cause,
    HubError,
    LicenceNeeded,
    LoginNeeded,
    MissingError,
    RightNeeded,
    TokenRefused,
    TryAgain,
)
from engine.hub.tokens import Tokens

REDIRECTS = 6
BUSY = {408, 425, 429, 500, 502, 503, 504, 509, 520, 521, 522, 523, 524}
LONGEST_WAIT = 600.0
"""Seconds; a server that asks for more is asked again after this."""
AGENT = f"eyrie/{__version__}"


def origin(url: str) -> tuple[str, str, int]:
    parts = urlsplit(url)
    return (parts.scheme, (parts.hostname or "").lower(), parts.port or {"https": 443}.get(parts.scheme, 80))


class _NoAuth(requests.auth.AuthBase):
    """Keeps ``requests`` from looking passwords up in ``.netrc``."""

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        return request


class Answer:
    """The answer to one request, its body not yet read."""

    def __init__(self, response: requests.Response, linked: Mapping[str, str]) -> None:
        self._response = response
        self._raw: urllib3.HTTPResponse = response.raw
        self.status = response.status_code
        self.headers: Mapping[str, str] = response.headers
        self.linked = linked
        """Headers of the hub's own answer, where it redirected."""
        self.url = response.url

    @property
    def total(self) -> int | None:
        """Size of the whole file in bytes, if it was told."""
        if self.status == 206:
            found = re.fullmatch(r"bytes (\d+)-(\d+)/(\d+)", self.headers.get("Content-Range", ""))
            return int(found[3]) if found else None
        return self.length

    @property
    def start(self) -> int | None:
        """Position of the first byte of the body in the file."""
        if self.status != 206:
            return 0
        found = re.fullmatch(r"bytes (\d+)-(\d+)/(\d+|\*)", self.headers.get("Content-Range", ""))
        return int(found[1]) if found else None

    @property
    def length(self) -> int | None:
        """Bytes of the body, if they were told."""
        told = self.headers.get("Content-Length", "")
        return int(told) if told.isdecimal() else None

    def read(self, most: int) -> bytes:
        """What has arrived, at least one byte, at most ``most``; empty at the end.

        :raises TryAgain: the connection broke or nothing came in time.
        """
        with _broken_connections():
            return self._raw.read1(most, decode_content=False)

    def wake(self) -> None:
        """End a ``read`` that waits in another thread."""
        with contextlib.suppress(Exception):
            self._raw.shutdown()

    def close(self) -> None:
        with contextlib.suppress(Exception):
            self._response.close()


@contextlib.contextmanager
def _broken_connections() -> Iterator[None]:
    try:
        yield
    except (requests.Timeout, urllib3.exceptions.TimeoutError, TimeoutError):
        raise TryAgain(Cause.STALLED, "nothing arrived for a while") from None
    except (requests.ConnectionError, urllib3.exceptions.HTTPError, OSError, ValueError) as error:
        name = type(error).__name__
        if isinstance(error, requests.exceptions.SSLError):
            words = "the connection is not secure: the server's certificate cannot be checked"
        elif "Resolution" in repr(error) or "gaierror" in repr(error):
            words = "the server's name cannot be found"
        else:
            words = f"the connection broke ({name})"
        raise TryAgain(Cause.NETWORK, words) from None


class Connection:
    """Opens files of the hub. Used by several threads at once."""

    def __init__(self, place: HubPlace, tokens: Tokens) -> None:
        self.place = place
        self.tokens = tokens
        self._session = requests.Session()
        self._session.auth = _NoAuth()
        self._session.headers.update({"User-Agent": AGENT, "Accept-Encoding": "identity"})
        adapter = HTTPAdapter(pool_connections=8, pool_maxsize=16)
        self._session.mount("https://", adapter)
        self._session.mount("http://", adapter)
        self._lock = threading.Lock()

    def close(self) -> None:
        self._session.close()

    def file_url(self, repo_id: str, commit: str, path: str) -> str:
        return f"{self.place.endpoint}/{repo_id}/resolve/{quote(commit, safe='')}/{quote(path)}"

    def get(
        self, url: str, start: int = 0, end: int | None = None, *, repo_id: str = "", method: str = "GET"
    ) -> Answer:
        """Ask for bytes ``start`` to ``end`` of ``url``, through its redirects.

        :raises TryAgain: no answer, or one that says to come back later.
        :raises HubError: the hub refuses, and asking again does not help.
        """
        self.place.require_network()
        headers: dict[str, str] = {}
        if end is not None:
            headers["Range"] = f"bytes={start}-{end - 1}"
        elif start:
            headers["Range"] = f"bytes={start}-"
        linked: Mapping[str, str] = {}
        home = origin(self.place.endpoint)
        for _ in range(REDIRECTS):
            ours = origin(url) == home
            response = self._send(method, url, headers, ours)
            if response.status_code not in (301, 302, 303, 307, 308):
                answer = Answer(response, linked)
                self._check(answer, repo_id, ours)
                return answer
            target = urljoin(url, response.headers.get("Location", ""))
            if ours:
                linked = response.headers
            response.close()
            if urlsplit(url).scheme == "https" and urlsplit(target).scheme != "https":
                raise HubError(
                    "The hub sends the download to an address that is not encrypted.", "Try later."
                )
            url = target
        raise TryAgain(Cause.NETWORK, "the hub redirects in a circle")

    def _send(self, method: str, url: str, headers: dict[str, str], ours: bool) -> requests.Response:
        sent: dict[str, Any] = dict(headers)
        if ours and (token := self.tokens.to_send()):
            sent["Authorization"] = f"Bearer {token}"
        wait = self.place.timeout
        with _broken_connections():
            try:
                response = self._session.request(
                    method, url, headers=sent, stream=True, allow_redirects=False, timeout=(wait, wait)
                )
            except requests.exceptions.ProxyError as error:
                raise proxies.problem(url, str(error)) from None
            except (requests.exceptions.InvalidProxyURL, requests.exceptions.InvalidSchema):
                raise proxies.unusable(url) from None
        if response.status_code == 407:
            response.close()
            raise proxies.refused(url, 407)
        return response

    def _check(self, answer: Answer, repo_id: str, ours: bool) -> None:
        """Raise what a refusal means; its body is not trusted and not shown."""
        status = answer.status
        if status in (200, 206):
            return
        code, words = answer.headers.get("X-Error-Code", ""), answer.headers.get("X-Error-Message", "")
        wait = _seconds(answer.headers.get("Retry-After", ""))
        answer.close()
        if status in BUSY or status >= 500:
            busy = "the hub asks to wait" if status == 429 else f"the server is busy ({status})"
            raise TryAgain(Cause.BUSY, busy, wait)
        if status == 416:
            raise TryAgain(Cause.CHANGED, "the file is shorter than before")
        if not ours:
            # The store's addresses are signed for a while; the hub gives a new one.
            raise TryAgain(Cause.NETWORK, f"the store refuses ({status})")
        raise refusal(status, code, words, repo_id, self.place, self.tokens.current()[0] is not None)


def refusal(status: int, code: str, words: str, repo_id: str, place: HubPlace, has_token: bool) -> HubError:
    """What the hub's refusal means, told apart by status, ``X-Error-Code`` and ``X-Error-Message``."""
    page = place.page(repo_id) if repo_id else place.endpoint
    low = words.lower()
    if "invalid credentials" in low or ("token" in low and "expired" in low):
        return TokenRefused(
            "The hub does not accept the token: it is wrong, or it has expired or been revoked.",
            "Enter another token, or run “hf auth login” again.",
            TOKENS_PAGE,
        )
    if status == 403 and ("fine-grained" in low or "token" in low):
        return RightNeeded(
            f"The token may not read gated repositories such as {repo_id}.",
            "In the token's settings, tick “Read access to contents of all public gated repos you can access”, "
            "or use another token.",
            TOKENS_PAGE,
        )
    if code == "GatedRepo":
        if not has_token:
            return LoginNeeded(
                f"{repo_id} is gated: the hub gives it only to people who are logged in.",
                "Accept its licence on its page, then enter an access token of your account.",
                page,
            )
        return LicenceNeeded(
            f"{repo_id} is gated, and your account has not been let in.",
            "Accept its licence on its page (some owners confirm by hand), then try again.",
            page,
        )
    if status in (401, 404) or code in ("RepoNotFound", "RevisionNotFound", "EntryNotFound"):
        what = {"RevisionNotFound": "revision", "EntryNotFound": "file"}.get(code, "repository")
        return MissingError(
            f"The hub has no such {what}: {repo_id}."
            if what == "repository"
            else f"{repo_id} has no such {what}.",
            "Check the name. A private repository needs a token that may read it.",
            page,
        )
    if status == 403:
        return RightNeeded(
            f"The hub refuses access to {repo_id}.", "Check the rights of the token.", TOKENS_PAGE
        )
    return HubError(f"The hub refuses the request for {repo_id} (status {status}).", "Try again later.")


def _seconds(retry_after: str) -> float:
    """Retry-After in seconds: a number, or a date. 0 when it is neither."""
    try:
        return min(LONGEST_WAIT, max(0.0, float(retry_after)))
    except ValueError:
        pass
    from datetime import UTC, datetime
    from email.utils import parsedate_to_datetime

    try:
        when = parsedate_to_datetime(retry_after)
    except (ValueError, TypeError):
        return 0.0
    if when.tzinfo is None:
        when = when.replace(tzinfo=UTC)
    return min(LONGEST_WAIT, max(0.0, (when - datetime.now(UTC)).total_seconds()))
