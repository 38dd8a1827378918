"""``inspect`` of a repository that is not here: configuration and headers by range, no weights."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from engine.__main__ import main
from tests.hub.tiny_repositories import HEAD, OTHER_HEAD, TARGET, repositories
from tests.hub_server import HubServer, Repository

Said = Callable[..., tuple[int, str]]
PICKLED = "tests/pickled-eagle"
GATED = "tests/gated-eagle3"
GGUF = "tests/tiny-gguf"


@pytest.fixture(scope="module")
def hub(tiny_folder: Path) -> Iterator[HubServer]:
    vicuna = {"model_type": "llama", "num_hidden_layers": 1, "hidden_size": 64, "intermediate_size": 80,
              "num_attention_heads": 4, "vocab_size": 260}  # fmt: skip
    files = {"config.json": json.dumps(vicuna).encode(), "pytorch_model.bin": b"\x80\x02" * 5000}
    known = repositories(tiny_folder)
    gated = Repository(GATED, {"config.json": b"{}", "model.safetensors": bytes(64)}, gated=True)
    quantised = Repository(GGUF, {"model-Q4_K_M.gguf": b"GGUF" + bytes(2000)})
    with HubServer([*known, Repository(PICKLED, files), gated, quantised]) as server:
        yield server


@pytest.fixture
def said(
    hub: HubServer, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Said:
    """``inspect`` on an empty cache; its code and all it says."""
    constants = "huggingface_hub.constants."
    monkeypatch.setattr(constants + "ENDPOINT", hub.endpoint)
    monkeypatch.setattr(constants + "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(constants + "HF_HUB_OFFLINE", False)

    def inspect(*arguments: str) -> tuple[int, str]:
        code = main(["inspect", *arguments])
        out = capsys.readouterr()
        return code, out.out + out.err

    return inspect


def test_a_head_is_told_from_its_header(said: Said, hub: HubServer) -> None:
    since = hub.now()
    code, text = said(HEAD, "--target", TARGET)
    assert code == 0, text
    for words in (
        "on the hub", "SpecForge EAGLE-3 format, hidden 64", "in its shape", "drafts 48 of 260 tokens",
        f"{TARGET}: It fits", "attention", "as loaded on a GPU",
    ):  # fmt: skip
        assert words in text
    # No more than the first read of a header, of the target and of the head.
    assert sum(end - start for start, end in hub.fetched("model.safetensors", since)) <= 2 * (128 << 10)
    code, text = said(OTHER_HEAD, "--target", TARGET)
    assert code == 1 and "vocabulary of 96 tokens, this model has 260" in text


def test_a_target_is_told_with_its_memory(said: Said) -> None:
    code, text = said(TARGET, "--head", HEAD)
    assert code == 0, text
    for words in (
        "gemma3_text, 7 layers, hidden 64", "thinks before it answers: no", f"{HEAD}: It fits",
        "Memory on a CPU", "Memory on a GPU", "NF4", "keys, values",
    ):  # fmt: skip
        assert words in text
    code, text = said(TARGET, "--head", OTHER_HEAD)
    assert code == 1 and "does not fit" in text
    assert "is a model itself" in said(TARGET, "--target", TARGET)[1]
    assert "is a model, not a head" in said(TARGET, "--head", TARGET)[1]


def test_files_without_headers_say_what_to_do(said: Said) -> None:
    code, text = said(PICKLED)
    assert code == 0, text
    assert "SafeAILab EAGLE-1/2" in text
    assert "pytorch_model.bin cannot be read without downloading" in text
    assert f"python -m engine download {PICKLED}" in text
    code, text = said(GGUF)
    assert code == 0 and f"python -m engine download {GGUF} --file model-Q4_K_M.gguf" in text


def test_refusals_are_sentences(said: Said, hub: HubServer, monkeypatch: pytest.MonkeyPatch) -> None:
    code, text = said(GATED)
    assert code == 1 and "only to people who are logged in" in text and f"{hub.endpoint}/{GATED}" in text
    code, text = said("tests/nothing-here")
    assert code == 1 and "no such repository" in text
    asked = len(hub.requests)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    code, text = said(HEAD)
    assert code == 1 and "HF_HUB_OFFLINE" in text and f"python -m engine download {HEAD}" in text
    assert len(hub.requests) == asked
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://127.0.0.1:9")
    code, text = said(HEAD)
    assert code == 1 and "cannot be reached" in text and f"python -m engine download {HEAD}" in text
    assert "Traceback" not in text
