"""The token: kept by a keyring where there is one, and found in no log, error, file or other host."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import keyring
import pytest
from keyring.backend import KeyringBackend
from keyring.backends import fail, null
from keyring.errors import KeyringError, PasswordDeleteError

from engine.hub.tokens import SERVICE, USER, Tokens
from engine.protocol.hub import Phase, TokenSource
from tests.hub.hub_setting import setting, small_segments
from tests.hub.test_downloads import model
from tests.hub_server import Account, Fault, Faults, HubServer, Kind

SECRET = "hf_Secret0Token1"


class Kept(KeyringBackend):
    """A keyring in memory; a locked one refuses everything."""

    priority = 1.0

    def __init__(self) -> None:
        super().__init__()
        self.passwords: dict[tuple[str, str], str] = {}
        self.is_locked = False

    def _open(self) -> dict[tuple[str, str], str]:
        if self.is_locked:
            raise KeyringError("locked")
        return self.passwords

    def get_password(self, service: str, username: str) -> str | None:
        return self._open().get((service, username))

    def set_password(self, service: str, username: str, password: str) -> None:
        self._open()[service, username] = password

    def delete_password(self, service: str, username: str) -> None:
        if self._open().pop((service, username), None) is None:
            raise PasswordDeleteError


@pytest.fixture
def kept() -> Iterator[Kept]:
    before, backend = keyring.get_keyring(), Kept()
    keyring.set_keyring(backend)
    yield backend
    keyring.set_keyring(before)


def test_a_token_is_kept_found_at_the_next_start_and_removed(kept: Kept) -> None:
    first = Tokens()
    assert first.current() == (None, TokenSource.NONE)
    assert first.enter(f"  {SECRET}\n") is TokenSource.KEYRING
    assert kept.passwords == {(SERVICE, USER): SECRET}
    assert first.current() == (SECRET, TokenSource.KEYRING)
    again = Tokens()
    assert again.current() == (SECRET, TokenSource.KEYRING)
    assert again.enter("hf_another1") is TokenSource.KEYRING
    assert Tokens().current()[0] == "hf_another1"
    again.forget()
    assert kept.passwords == {} and again.current() == (None, TokenSource.NONE)
    assert Tokens().current() == (None, TokenSource.NONE)


@pytest.mark.parametrize("which", ["none", "null", "locked"])
def test_without_a_usable_keyring_it_lasts_for_the_session(kept: Kept, which: str, tmp_path: Path) -> None:
    kept.is_locked = True
    if which != "locked":
        keyring.set_keyring(fail.Keyring() if which == "none" else null.Keyring())
    tokens = Tokens()
    assert tokens.current() == (None, TokenSource.NONE)
    assert tokens.enter(SECRET) is TokenSource.SESSION
    assert tokens.current() == (SECRET, TokenSource.SESSION)
    assert Tokens().current() == (None, TokenSource.NONE)
    assert not list(tmp_path.rglob("*")), "it is written nowhere"
    tokens.forget()
    assert tokens.current() == (None, TokenSource.NONE)


def test_the_environments_token_and_the_stored_one_are_used(
    kept: Kept, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "token").write_text("hf_stored123")
    tokens = Tokens()
    assert tokens.current() == ("hf_stored123", TokenSource.STORED)
    monkeypatch.setenv("HF_TOKEN", "hf_named1234")
    assert tokens.current() == ("hf_named1234", TokenSource.ENVIRONMENT)
    tokens.enter(SECRET)
    assert tokens.current() == (SECRET, TokenSource.KEYRING)
    tokens.forget()
    assert tokens.current()[0] == "hf_named1234"
    assert (tmp_path / "token").read_text() == "hf_stored123", "that one is not ours to delete"


def test_it_is_in_no_log_no_error_and_no_file(tmp_path: Path, kept: Kept) -> None:
    """Everything that is logged at any level, printed, said of a download or written on the disk."""
    small_segments()
    logged, printed = io.StringIO(), io.StringIO()
    handler = logging.StreamHandler(logged)
    root = logging.getLogger()
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    accounts = {SECRET: Account("ann", accepted=frozenset({"org/tiny"}))}
    faults = Faults(
        {
            "model.safetensors": [
                Fault(Kind.REDIRECT),
                Fault(Kind.CUT, after=9000),
                Fault(Kind.STATUS, status=403),
                Fault(Kind.STATUS, status=429, seconds=0.1),
            ]
        }
    )
    said = []
    try:
        with (
            redirect_stdout(printed),
            redirect_stderr(printed),
            HubServer([model(gated=True), model("org/closed", gated=True)], accounts, faults) as hub,
            setting(hub.endpoint, tmp_path, token=SECRET) as here,
        ):
            for repo_id in ("org/tiny", "org/closed", "org/none"):
                here.downloads.add(repo_id)
            assert here.downloads.wait(30)
            said = [str(state) for state in here.downloads.states()]
            phases = [state.phase for state in here.downloads.states()]
            assert phases == [Phase.DONE, Phase.FAILED, Phase.FAILED]
            assert here.api.who() == "ann"
            with pytest.raises(ConnectionError) as broken:
                raise ConnectionError(here.tokens.redact(f"GET {hub.endpoint} Bearer {SECRET} failed"))
            said.append(str(broken.value))
    finally:
        root.removeHandler(handler)
        root.setLevel(level)
    assert "/api/whoami-v2" in logged.getvalue(), "the libraries' own logs are among them"
    for text in (logged.getvalue(), printed.getvalue(), *said):
        assert SECRET not in text
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert any(path.parent.name == "records" for path in files), "the queue's own files are among them"
    assert not [path for path in files if SECRET.encode() in path.read_bytes()]
    # The store, another host, was sent to by redirects of every kind and never got it.
    stored = [each for each in hub.log if each.path == "model.safetensors"]
    assert len(stored) > 4 and not any(each.authorised for each in stored)
    assert all(authorised for _, authorised in hub.requests)


def test_a_token_that_is_replaced_is_still_kept_out_of_texts() -> None:
    tokens = Tokens(use_keyring=False)
    tokens.enter("plain-old-secret")
    tokens.enter(SECRET)
    tokens.forget()
    assert tokens.redact(f"plain-old-secret {SECRET} hf_NeverSeen99") == "*** *** ***"
