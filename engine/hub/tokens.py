"""The hub token: where it comes from, where it is kept, and how it stays out of every text.

In this order: the one entered in this session, the one in the system's keyring, the
one of the environment (``HF_TOKEN``), the one that ``hf auth login`` stored. A token
that is entered goes into the keyring; where there is none it lasts until the end of
the session and is written nowhere.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import re
import threading
from typing import Any

from engine.hub.problems import TOKENS_PAGE, TokenRefused
from engine.protocol.hub import TokenSource

SERVICE = "eyrie"
USER = "hub-token"
_SECRETS = re.compile(r"\bhf_[A-Za-z0-9_-]{4,}|(?<=Bearer )[^\s'\",;]+|(?<=://)[^/\s:@]+:[^/\s@]+(?=@)")
_SIGNED = re.compile(r"(https?://[^\s'\"<>?]+)\?[^\s'\"<>]+")
"""Signed addresses of the store open a file to anybody: what follows the question mark goes."""


class Tokens:
    def __init__(self, use_keyring: bool = True) -> None:
        self._lock = threading.Lock()
        self._session: str | None = None
        self._seen: set[str] = set()
        self._keyring: Any = _keyring() if use_keyring else None
        self._kept: str | None = None
        self._asked_keyring = False

    def current(self) -> tuple[str | None, TokenSource]:
        """The token to send, and where it is from."""
        with self._lock:
            token, source = self._find()
            if token:
                self._seen.add(token)
            return token, source

    def to_send(self) -> str | None:
        """:raises TokenRefused: it holds what no header can carry, so that it cannot be right."""
        token = self.current()[0]
        if token and not re.fullmatch(r"[!-~]+", token):
            raise TokenRefused(
                "The token holds a space, or a letter that no token has: it was not copied whole, or with more.",
                "Enter another token, or run “hf auth login” again.",
                TOKENS_PAGE,
            )
        return token

    def _find(self) -> tuple[str | None, TokenSource]:
        from huggingface_hub import get_token

        if self._session:
            return self._session, TokenSource.SESSION
        if self._keyring is not None and not self._asked_keyring:
            self._asked_keyring = True  # once: a locked keyring asks the user
            with contextlib.suppress(Exception):
                self._kept = self._keyring.get_password(SERVICE, USER)
        if self._kept:
            return self._kept, TokenSource.KEYRING
        found = get_token()
        if not found:
            return None, TokenSource.NONE
        named = os.environ.get("HF_TOKEN") or os.environ.get("HUGGING_FACE_HUB_TOKEN")
        return found, TokenSource.ENVIRONMENT if named else TokenSource.STORED

    def enter(self, token: str) -> TokenSource:
        """Use ``token`` from now on; whether the keyring took it."""
        token = token.strip()
        with self._lock:
            self._session = token
            self._seen.add(token)
            if self._keyring is not None:
                with contextlib.suppress(Exception):  # no service runs, locked, too long: any of its errors
                    self._keyring.set_password(SERVICE, USER, token)
                    if self._keyring.get_password(SERVICE, USER) == token:
                        self._kept, self._asked_keyring, self._session = token, True, None
                        return TokenSource.KEYRING
        return TokenSource.SESSION

    def forget(self) -> None:
        """Drop the token that was entered here. The one of ``hf auth login`` is not ours to delete."""
        with self._lock:
            self._session = self._kept = None
            self._asked_keyring = True
            if self._keyring is not None:
                with contextlib.suppress(Exception):
                    self._keyring.delete_password(SERVICE, USER)

    def redact(self, text: str) -> str:
        """``text`` without tokens, passwords and signatures of addresses."""
        with self._lock:
            seen = sorted(self._seen, key=len, reverse=True)
        for token in seen:
            text = text.replace(token, "***")
        return _SIGNED.sub(r"\1?***", _SECRETS.sub("***", text))


def _keyring() -> Any:
    """The ``keyring`` library with a service behind it, or None."""
    try:
        keyring: Any = importlib.import_module("keyring")  # an optional dependency
        fail: Any = importlib.import_module("keyring.backends.fail")
    except ImportError:
        return None
    try:
        return None if isinstance(keyring.get_keyring(), fail.Keyring) else keyring
    except Exception:  # a backend that breaks while it is looked for
        return None
