"""What no hub should answer and no user should type: named errors, and never a traceback."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from huggingface_hub import constants
from huggingface_hub.hf_api import ModelInfo

from engine.hub import cache, details, headers
from engine.hub.api import HubApi
from engine.hub.connection import Connection
from engine.hub.finding import as_model, repository_in, search
from engine.hub.fit import Shape, estimate
from engine.hub.manifest import make_manifest
from engine.hub.place import HubPlace
from engine.hub.problems import HubError, TokenRefused
from engine.hub.tokens import Tokens
from engine.protocol.hub import Machine
from engine.protocol.hub_messages import Search
from tests.hub.test_downloads import model
from tests.hub_server import HubServer, Repository

DEEP = "[" * 100_000
HEADER = b'{"w":{"dtype":"F32","shape":%s,"data_offsets":[0,4]}}'


def info(**fields: Any) -> ModelInfo:
    plain = {"id": "org/tiny", "sha": "0" * 40, "tags": ["license:mit"], "config": {"model_type": "llama"}}
    return ModelInfo(**{**plain, **fields})


@pytest.mark.parametrize(
    "fields",
    [
        {"downloads": "many", "likes": "<b>5</b>"},
        {"downloads": -(10**30), "likes": None},
        {"tags": 5, "config": "x"},
        {"tags": [1, None, {"a": 2}, "license:mit"]},
        {"cardData": {"license": ["a", "b"]}},
        {"gguf": [1]},
        {"gguf": {"total": 10**30}},
    ],
)
def test_a_hit_with_fields_of_other_kinds_is_a_hit_without_them(fields: dict[str, Any]) -> None:
    hit = as_model(info(**fields))
    assert (hit.repo_id, hit.downloads, hit.likes, hit.parameters) == ("org/tiny", 0, 0, 0.0)
    assert hit.licence in ("", "mit") and hit.family in ("", "Llama")


def test_texts_of_a_hit_are_of_one_line_and_run_one_way() -> None:
    hit = as_model(info(cardData={"license": "<b>free</b>\nfor\u202e all"}, downloads=10**30))
    assert hit.licence == "<b>free</b> for all"  # shown as plain text, so that tags are only letters
    assert hit.downloads == 10**15


@pytest.mark.parametrize("size", [-5, 10**25])
def test_a_size_that_cannot_be_is_no_download(size: int) -> None:
    sibling = {"rfilename": "model.safetensors", "size": size, "blobId": "0" * 40}
    with pytest.raises(HubError, match="describes org/tiny in a way"):
        make_manifest("org/tiny", "main", info(siblings=[sibling]))


@pytest.mark.parametrize("shape", [b"[-1]", b"[1e999]", b"[1e300]", b'"x"', b"5", DEEP.encode()])
def test_a_header_that_lies_is_none(shape: bytes) -> None:
    with pytest.raises(ValueError):
        headers.parse(HEADER % shape)


def test_memory_of_tensors_without_rows_and_settings_without_end() -> None:
    config = {"num_attention_heads": 2, "hidden_size": 8, "num_hidden_layers": 1, "vocab_size": 9}
    odd = {"embed_tokens.weight": headers.Entry("F32", ()), "w": headers.Entry("F32", (3, 0))}
    fit = estimate(Machine("main memory", False, 10**10, 10**10), config, odd, 4)
    assert 0 < fit.weights < 100
    with pytest.raises(ValueError):
        Shape.of({**config, "num_attention_heads": float("inf")})


def test_one_spoilt_folder_of_the_cache_hides_no_other(tmp_path: Path) -> None:
    weights = (HEADER % b"[1]").rjust(60)
    good = len(weights).to_bytes(8, "little") + weights + b"1234"
    for name, config, tensors in (
        ("deep", DEEP, good),
        ("list", "{}", (2).to_bytes(8, "little") + b"[]"),
        ("ends", "{}", (71).to_bytes(8, "little") + b'{"w":{"data_offsets":[0,1e999]}}'.rjust(71)),
        ("good", "{}", good),
    ):
        folder = tmp_path / f"models--org--{name}" / "snapshots" / ("0" * 40)
        folder.mkdir(parents=True)
        (folder / "config.json").write_text(config)
        (folder / "model.safetensors").write_bytes(tensors)
    assert [each.repo_id for each in cache.local_models(tmp_path)] == ["org/deep", "org/good"]


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        (" org/tiny ", "org/tiny"),
        ("https://huggingface.co/org/tiny?library=true#x", "org/tiny"),
        ("huggingface.co/org/tiny", "org/tiny"),
        ("huggingface.co/org/tiny/tree/main", "org/tiny"),
        ("127.0.0.1:8080/org/tiny/", "org/tiny"),
        ("hf://org/tiny", "org/tiny"),
        ("org/tiny/blob/main/config.json", "org/tiny"),
        ("http://[bad", ""),
        ("org/tiny/more", ""),
        ("org", ""),
        ("https://", ""),
        ("模型/tiny", ""),
        ("org/a b", ""),
    ],
)
def test_a_pasted_address_names_its_repository(typed: str, meant: str) -> None:
    assert repository_in(typed) == meant


def ask(endpoint: str, folder: Path, text: str, token: str = "") -> tuple[str, ...]:
    constants.HF_HUB_OFFLINE = False
    tokens = Tokens(use_keyring=False)
    if token:
        tokens.enter(token)
    place = HubPlace(endpoint, folder, timeout=2.0)
    api = HubApi(place, tokens, Connection(place, tokens))
    machine = Machine("main memory", False, 10**10, 10**10)
    return tuple(hit.repo_id for hit in search(api, Search(1, text), (), machine).models)


def test_names_that_no_repository_can_have_are_searched_for(tmp_path: Path) -> None:
    with HubServer([model()]) as hub:
        for text in ("../..", "org/a--b", "🦅", "org/tiny.git", "http://[bad"):
            assert ask(hub.endpoint, tmp_path, text) == ()
        assert ask(hub.endpoint, tmp_path, f"{hub.endpoint}/org/tiny/tree/main") == ("org/tiny",)


@pytest.mark.parametrize("token", ["hf_täöst", "hf_日本", "hf_two words", "hf_a\nb"])
def test_a_token_that_no_header_can_carry_is_refused_here(tmp_path: Path, token: str) -> None:
    with HubServer([model()]) as hub, pytest.raises(TokenRefused, match="not copied whole") as refused:
        ask(hub.endpoint, tmp_path, "org/tiny", token)
    assert token not in str(refused.value) and not hub.requests


@pytest.mark.parametrize("answer", [{"error": "log in"}, "<html>", [{"id": "a/b", "lastModified": "then"}]])
def test_what_is_no_hub_is_called_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: object) -> None:
    from tests.hub_server import handler

    def portal(self: Any, *_: Any) -> None:
        body = answer if isinstance(answer, str) else json.dumps(answer)
        self.answer(200, {"Content-Type": "text/html"}, body.encode())

    monkeypatch.setattr(handler.HubHandler, "do_GET", portal)
    with HubServer([]) as hub, pytest.raises(HubError, match="does not speak as a model hub"):
        ask(hub.endpoint, tmp_path, "tiny")


def test_an_endpoint_that_is_no_address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(HubError, match="no address of a hub"):
        ask("not-an-address", tmp_path, "tiny")
    monkeypatch.setattr(constants, "ENDPOINT", "")
    assert HubPlace.from_environment().endpoint == "https://huggingface.co"


def test_a_repository_may_be_empty(tmp_path: Path) -> None:
    with HubServer([Repository("org/empty", {})]) as hub:
        assert ask(hub.endpoint, tmp_path, "org/empty") == ("org/empty",)


@pytest.mark.parametrize("lines", ["\n", " \n", "\n---", "\n--- "])
def test_a_card_that_begins_no_end_of_times_is_read_at_once(lines: str) -> None:
    """Time of this thread alone: it was seconds, and hours for the longest card."""
    begun = time.thread_time()
    details._FRONT_MATTER.sub("", f"---{lines * 20_000}", count=1)
    assert time.thread_time() - begun < 1
    assert details._FRONT_MATTER.sub("", "--- \na: 1\n---\n# Title", count=1) == "# Title"
