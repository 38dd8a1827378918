"""``python -m engine download``: Ctrl+C pauses, the same command goes on; the environment is heeded."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.hub.test_downloads import model
from tests.hub.tiny_repositories import HEAD, OTHER_HEAD, TARGET, repositories
from tests.hub_server import Fault, Faults, HubServer, Kind

SIZE = 20_000_000


def command(endpoint: str, folder: Path, *arguments: str, **more: str) -> subprocess.Popen[str]:
    environment = dict(os.environ, HF_ENDPOINT=endpoint, HF_HUB_CACHE=str(folder), HF_HUB_OFFLINE="0")
    environment |= {"HF_TOKEN_PATH": str(folder / "token"), **more}
    return subprocess.Popen(
        [sys.executable, "-m", "engine", "download", *arguments],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.fixture
def heeds_interrupts() -> Iterator[None]:
    """A shell starts what runs in its background deaf to Ctrl+C, and children inherit that."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.skipif(sys.platform == "win32", reason="Ctrl+C cannot be sent to one process there")
def test_interrupted_and_taken_up_again(tmp_path: Path, heeds_interrupts: None) -> None:
    slow = Faults({"model.safetensors": [Fault(Kind.SLOW, seconds=0.4)] * 20})
    with HubServer([model(size=SIZE), model("org/head", size=1000)], faults=slow) as hub:
        first = command(hub.endpoint, tmp_path, "org/tiny", "--head", "org/head", "--anyway")
        deadline = time.monotonic() + 60
        model_folder = tmp_path / "models--org--tiny"
        while not list(model_folder.rglob("*.eyrie.journal")) and time.monotonic() < deadline:
            time.sleep(0.05)
        time.sleep(0.5)
        first.send_signal(signal.SIGINT)
        _, errors = first.communicate(timeout=60)
        assert first.returncode == 130, errors
        assert "Run the same command again" in errors
        assert not list(model_folder.rglob("snapshots/*/*"))
        slow._script.clear()
        since = hub.now()
        again = command(hub.endpoint, tmp_path, "org/tiny", "--head", "org/head", "--anyway", "--quiet")
        output, errors = again.communicate(timeout=60)
        assert again.returncode == 0, errors
        folders = [Path(line) for line in output.splitlines()]
        assert [folder.parent.parent.name for folder in folders] == ["models--org--tiny", "models--org--head"]
        assert (folders[0] / "model.safetensors").stat().st_size > SIZE
        fetched = sum(end - start for start, end in hub.fetched("model.safetensors", since) if end > 1200)
        assert fetched < SIZE, "what had arrived was not fetched again"


def test_a_head_that_is_not_there_is_told_before_its_model_is_fetched(tmp_path: Path) -> None:
    with HubServer([model(size=SIZE)]) as hub:
        page = f"{hub.endpoint}/org/tiny/tree/main"  # as it is copied from a browser
        asked = command(hub.endpoint, tmp_path, page, "--head", "org/none")
        _, errors = asked.communicate(timeout=60)
        assert asked.returncode == 1 and "has no such repository: org/none" in errors
        assert not hub.fetched("model.safetensors")


def test_a_head_is_judged_before_anything_is_fetched(tmp_path: Path, tiny_folder: Path) -> None:
    """One for another vocabulary is refused, or fetched all the same where that is asked for."""
    with HubServer(repositories(tiny_folder)) as hub:
        refused = command(hub.endpoint, tmp_path / "none", TARGET, "--head", OTHER_HEAD, "--quiet")
        output, errors = refused.communicate(timeout=60)
        assert refused.returncode == 1 and not output
        for words in (
            f"{OTHER_HEAD} does not fit {TARGET}. It was made for a vocabulary of 96 tokens, this model has 260.",
            "Nothing was downloaded", "--anyway",
        ):  # fmt: skip
            assert words in errors
        assert not list((tmp_path / "none").rglob("*safetensors*"))
        wanted = [command(hub.endpoint, tmp_path / "other", TARGET, "--head", OTHER_HEAD, "--anyway")]
        wanted.append(command(hub.endpoint, tmp_path / "fits", TARGET, "--head", HEAD))
        for each, words in zip(wanted, ("does not fit", "fits"), strict=True):
            output, errors = each.communicate(timeout=60)
            assert each.returncode == 0, errors
            assert len(output.splitlines()) == 2
            assert f"eagle3 {words} {TARGET}" in errors


def test_errors_are_sentences_and_offline_is_heeded(tmp_path: Path) -> None:
    with HubServer([model(gated=True)]) as hub:
        gated = command(hub.endpoint, tmp_path, "org/tiny", "--quiet")
        offline = command(hub.endpoint, tmp_path, "org/tiny", "--quiet", HF_HUB_OFFLINE="1")
        _, errors = gated.communicate(timeout=60)
        assert gated.returncode == 1
        assert "only to people who are logged in" in errors and f"{hub.endpoint}/org/tiny" in errors
        assert "Traceback" not in errors
        _, errors = offline.communicate(timeout=60)
        assert offline.returncode == 1 and "HF_HUB_OFFLINE is set" in errors
    assert len(hub.requests) <= 8
