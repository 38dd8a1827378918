"""The hub's library is told again what it was told before a test; nobody's own token is ever read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from huggingface_hub import constants

from engine.hub import hashing, transfer


@pytest.fixture(autouse=True)
def own_hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", constants.HF_HUB_OFFLINE)
    monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(tmp_path / "token"))
    proxies = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")
    for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", *proxies, *(name.lower() for name in proxies)):
        monkeypatch.delenv(name, raising=False)
    for name in ("SMALLEST_SEGMENT", "LARGEST_SEGMENT", "BLOCK", "JOURNAL_SECONDS", "ALONE_SECONDS"):
        monkeypatch.setattr(transfer, name, getattr(transfer, name))
    monkeypatch.setattr(hashing, "READ", hashing.READ)
    yield


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files of a small random model and two heads, made once."""
    from tests.hub.tiny_repositories import make

    folder = tmp_path_factory.mktemp("tiny")
    make(folder)
    return folder
