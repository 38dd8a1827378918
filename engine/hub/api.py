"""What the hub knows about models, through ``huggingface_hub``: metadata only, no file content.

Everything it answers is untrusted: texts are cut to a length, numbers are checked,
and no answer is ever shown as HTML.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from engine.hub import proxies
from engine.hub.connection import Connection, refusal
from engine.hub.foreign import line
from engine.hub.place import HubPlace
from engine.hub.problems import Cause, HubError, MissingError, TryAgain, UnreachableError
from engine.hub.tokens import Tokens

SMALL_FILE = 4 << 20
"""Bytes; no configuration and no card is larger."""


class HubApi:
    """Asks the hub. Used by several threads at once."""

    def __init__(self, place: HubPlace, tokens: Tokens, connection: Connection) -> None:
        from huggingface_hub import HfApi

        self.place = place
        self.tokens = tokens
        self._connection = connection
        self._api = HfApi(endpoint=place.endpoint, library_name="eyrie")

    @contextmanager
    def asking(self, repo_id: str = "") -> Iterator[HfApiCall]:
        """The library's client and the token to pass; its failures become ours.

        :raises HubError:
        """
        from huggingface_hub import get_session
        from huggingface_hub.errors import HfHubHTTPError, HFValidationError, OfflineModeIsEnabled

        token = self.tokens.to_send()
        self.place.require_network()
        try:
            get_session().timeout = self.place.timeout + 10  # the library sets none
            yield HfApiCall(self._api, token or False)
        except OfflineModeIsEnabled:  # it was switched on in this process
            replace(self.place, offline=True).require_network()
            raise
        except HFValidationError:
            raise MissingError(
                f"“{repo_id[:80]}” is no name of a repository.", "Names look like owner/model."
            ) from None
        except HfHubHTTPError as error:
            headers, status = error.response.headers, error.response.status_code
            if status == 407:
                raise proxies.refused(self.place.endpoint, status) from None
            if status == 429 or status >= 500:
                raise UnreachableError(
                    f"The hub is busy (status {status}).", "Try again in a few minutes."
                ) from None
            code, words = headers.get("X-Error-Code", ""), headers.get("X-Error-Message", "")
            raise refusal(status, code, words, repo_id, self.place, token is not None) from None
        except HubError:
            raise
        except Exception as error:
            proxy = proxies.proxy_of(self.place.endpoint)
            words = str(error)
            if (
                proxy
                and isinstance(error, ImportError | ValueError)
                and re.search("socks|proxy", words, re.I)
            ):
                raise proxies.unusable(self.place.endpoint) from None
            if type(error).__name__ in ("UnsupportedProtocol", "InvalidURL"):
                replace(self.place, wrong_endpoint=self.place.endpoint).require_network()
            # What the library makes of an answer that is no JSON, or not of the fields it knows.
            if isinstance(error, ValueError | TypeError | KeyError | AttributeError | RecursionError):
                raise HubError(
                    f"What answers at {self.place.endpoint} does not speak as a model hub does.",
                    "A network that asks for a login answers with its own page: open any page in a browser. "
                    "If HF_ENDPOINT is set, check it.",
                ) from error
            if not type(error).__module__.startswith("httpx") and not isinstance(error, OSError):
                raise
            if proxy and type(error).__name__ in ("ProxyError", "ConnectError"):
                found = proxies.problem(self.place.endpoint, words)
                if isinstance(found, HubError):
                    raise found from None
                raise UnreachableError(
                    f"The hub cannot be reached, because {found.message}.", proxies.SETTINGS
                ) from None
            raise UnreachableError(
                f"The hub at {self.place.endpoint} cannot be reached ({type(error).__name__}).",
                "Check the connection and the proxy settings, or set HF_ENDPOINT to a mirror.",
            ) from None

    def info(self, repo_id: str, revision: str = "main", files: bool = False) -> Any:
        """The library's ``ModelInfo``; with ``files``, sizes and checksums of every file.

        :raises HubError:
        """
        with self.asking(repo_id) as call:
            return call.api.model_info(repo_id, revision=revision, files_metadata=files, token=call.token)

    def listed(self, **options: Any) -> list[Any]:
        """Hits of the library's ``list_models``. :raises HubError:"""
        with self.asking() as call:
            return list(call.api.list_models(token=call.token, **options))

    def who(self) -> str:
        """Name of the token's account. :raises HubError: there is no valid token."""
        with self.asking() as call:
            found = call.api.whoami(token=call.token)
        return line(found.get("name") if isinstance(found, dict) else "", 100)

    def small_file(self, repo_id: str, commit: str, path: str, most: int = SMALL_FILE) -> bytes:
        """Content of a small file, cut at ``most`` bytes. :raises HubError:"""
        return self.bytes_of(repo_id, commit, path, 0, most)

    def bytes_of(self, repo_id: str, commit: str, path: str, start: int, end: int) -> bytes:
        """Bytes of a file, fewer where it ends before. :raises HubError:"""
        url = self._connection.file_url(repo_id, commit, path)
        for attempt in range(3):
            try:
                answer = self._connection.get(url, start, end, repo_id=repo_id)
                try:
                    if answer.start != start:
                        raise TryAgain(Cause.RANGE, "the server cannot send a part of a file")
                    got = bytearray()
                    while len(got) < end - start and (data := answer.read(end - start - len(got))):
                        got += data
                    return bytes(got)
                finally:
                    answer.close()
            except TryAgain as error:
                if attempt == 2:
                    raise UnreachableError(
                        f"{path} of {repo_id} cannot be read: {error.message}.", "Try again later."
                    ) from None
        raise AssertionError


class HfApiCall:
    """A client and the token for one call; False keeps the library from sending one of its own."""

    def __init__(self, api: Any, token: str | bool) -> None:
        self.api = api
        self.token = token
