"""A head is read whole or not at all, and every fault names itself."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from engine.errors import HeadError
from engine.heads.checkpoint import read_eagle3, write_eagle3
from engine.heads.config import Eagle3Config
from engine.heads.eagle3 import Eagle3Head
from engine.heads.pairing import check_fits
from engine.heads.shapes import eagle3_shapes

CONFIG = Eagle3Config(
    hidden_size=16,
    target_hidden_size=16,
    intermediate_size=24,
    num_attention_heads=4,
    num_key_value_heads=2,
    head_dim=6,
    draft_vocab_size=5,
    vocab_size=40,
    taps=(2, 5, 9),
    rms_norm_eps=1e-5,
    rope_theta=5000.0,
    target_name="Tiny",
    training={"steps": 3},
)
IDS = torch.tensor([1, 4, 5, 20, 39])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    torch.manual_seed(0)
    write_eagle3(tmp_path / "head", Eagle3Head(CONFIG).to_checkpoint(IDS))
    return tmp_path / "head"


def change_tensors(folder: Path, change: Callable[[dict[str, Tensor]], object]) -> None:
    tensors = load_file(folder / "model.safetensors")
    change(tensors)
    save_file(tensors, folder / "model.safetensors")


def change_config(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    path = folder / "config.json"
    raw = json.loads(path.read_text())
    change(raw)
    path.write_text(json.dumps(raw))


def test_a_head_survives_the_public_format(folder: Path) -> None:
    torch.manual_seed(0)
    head = Eagle3Head(CONFIG)
    checkpoint = read_eagle3(folder)
    assert checkpoint.config == CONFIG
    assert set(checkpoint.tensors) == set(eagle3_shapes(CONFIG))
    assert torch.equal(checkpoint.draft_ids, IDS)
    loaded = Eagle3Head.from_checkpoint(checkpoint)
    for name, value in head.state_dict().items():
        torch.testing.assert_close(loaded.state_dict()[name], value, atol=1e-3, rtol=1e-3)


def test_public_files_count_tapped_layers_by_their_output(folder: Path) -> None:
    raw = json.loads((folder / "config.json").read_text())
    assert raw["architectures"] == ["LlamaForCausalLMEagle3"]
    assert raw["eagle_config"]["eagle_aux_hidden_state_layer_ids"] == [1, 4, 8]
    tensors = load_file(folder / "model.safetensors")
    assert tensors["d2t"].tolist() == [1, 3, 3, 17, 35]
    assert tensors["t2d"].nonzero()[:, 0].tolist() == IDS.tolist()


def test_a_head_that_drafts_everything_needs_no_maps(tmp_path: Path) -> None:
    config = replace(CONFIG, draft_vocab_size=40)
    checkpoint = Eagle3Head(config).to_checkpoint(torch.arange(40))
    tensors = {name: t for name, t in checkpoint.tensors.items() if name not in ("d2t", "t2d")}
    write_eagle3(tmp_path, replace(checkpoint, tensors=tensors))
    assert torch.equal(read_eagle3(tmp_path).draft_ids, torch.arange(40))


Tensors = dict[str, Tensor]


def _set(name: str, value: Callable[[Tensor], Tensor]) -> Callable[[Tensors], None]:
    def change(tensors: Tensors) -> None:
        tensors[name] = value(tensors[name]).contiguous()

    return change


@pytest.mark.parametrize(
    ("change", "words"),
    [
        pytest.param(lambda t: t.pop("fc.weight"), ["lacks", "fc.weight"], id="missing"),
        pytest.param(lambda t: t.update(extra=torch.ones(2)), ["'extra'", "does not have"], id="extra"),
        pytest.param(
            _set("midlayer.self_attn.q_proj.weight", lambda t: t[:, :16]),
            ["midlayer.self_attn.q_proj.weight", "[24, 16]", "[24, 32]"],
            id="shape",
        ),
        pytest.param(_set("norm.weight", lambda t: t.int()), ["norm.weight", "torch.int32"], id="integers"),
        pytest.param(_set("d2t", lambda t: t.float()), ["d2t", "torch.float32", "int64"], id="float map"),
        pytest.param(_set("t2d", lambda t: t.long()), ["t2d", "torch.int64", "bool"], id="integer marks"),
        pytest.param(
            _set("lm_head.weight", lambda t: t.index_fill(0, torch.tensor([2]), float("nan"))),
            ["lm_head.weight", "not finite"],
            id="not finite",
        ),
        pytest.param(_set("d2t", lambda t: t.flip(0)), ["not strictly increasing"], id="order"),
        pytest.param(
            _set("d2t", lambda t: t + torch.tensor([0, 0, 0, 0, 1])), ["token 40", "vocabulary of 40"], id="range"
        ),
        pytest.param(_set("d2t", lambda t: t - 2), ["token -1", "vocabulary of 40"], id="negative"),
        pytest.param(_set("t2d", lambda t: t.roll(1)), ["t2d does not mark"], id="marks elsewhere"),
        pytest.param(_set("t2d", torch.zeros_like), ["t2d does not mark"], id="no marks"),
    ],
)
def test_wrong_tensors_are_named(folder: Path, change: Callable[[Tensors], object], words: list[str]) -> None:
    change_tensors(folder, change)
    with pytest.raises(HeadError) as caught:
        read_eagle3(folder)
    for word in words:
        assert word in caught.value.message
    assert caught.value.next_step


@pytest.mark.parametrize(
    ("change", "word"),
    [
        pytest.param(lambda c: c.pop("hidden_size"), "hidden_size is None", id="missing field"),
        pytest.param(lambda c: c.update(head_dim="6"), "head_dim is '6'", id="text for a number"),
        pytest.param(lambda c: c.update(head_dim=7), "odd", id="odd head"),
        pytest.param(lambda c: c.update(num_key_value_heads=3), "cannot share", id="uneven sharing"),
        pytest.param(lambda c: c.update(draft_vocab_size=41), "exceeds", id="draft vocabulary too large"),
        pytest.param(lambda c: c.update(intermediate_size=0), "intermediate_size is 0", id="zero"),
        pytest.param(
            lambda c: c.update(eagle_aux_hidden_state_layer_ids="2, 5"), "eagle_aux_hidden_state_layer_ids", id="text"
        ),
        pytest.param(
            lambda c: c.update(eagle_aux_hidden_state_layer_ids=[3, 6, 10]), "twice", id="taps that disagree"
        ),
        pytest.param(
            lambda c: c["eagle_config"].update(eagle_aux_hidden_state_layer_ids=[1, 4]), "three", id="two taps"
        ),
        pytest.param(lambda c: c.update(norm_output="yes"), "norm_output is 'yes'", id="text for a flag"),
    ],
)
def test_a_config_that_makes_no_sense_is_refused(
    folder: Path, change: Callable[[dict[str, Any]], object], word: str
) -> None:
    change_config(folder, change)
    with pytest.raises(HeadError) as caught:
        read_eagle3(folder)
    assert word in caught.value.message
    assert caught.value.next_step


def test_files_that_are_missing_or_broken_are_named(folder: Path) -> None:
    weights, config = folder / "model.safetensors", folder / "config.json"
    whole = weights.read_bytes()
    for content in (whole[: len(whole) // 2], b"PK\x03\x04 a zip file, say", b"", b"<html>Not found</html>"):
        weights.write_bytes(content)
        with pytest.raises(HeadError, match="not a complete safetensors file"):
            read_eagle3(folder)
    weights.unlink()
    with pytest.raises(HeadError, match=r"model\.safetensors is missing"):
        read_eagle3(folder)
    weights.write_bytes(whole)
    for text, message in (("{", "cannot be read as JSON"), ("[]", "no JSON object"), ("\x00\xff", "JSON")):
        config.write_text(text, encoding="latin-1")
        with pytest.raises(HeadError, match=message):
            read_eagle3(folder)
    config.unlink()
    with pytest.raises(HeadError, match=r"config\.json is missing"):
        read_eagle3(folder)
    with pytest.raises(HeadError, match="does not exist"):
        read_eagle3(folder / "elsewhere")


def test_a_faulty_head_is_not_written(tmp_path: Path) -> None:
    checkpoint = Eagle3Head(CONFIG).to_checkpoint(IDS)
    broken = dict(checkpoint.tensors) | {"fc.weight": torch.full((16, 48), float("inf"))}
    with pytest.raises(HeadError, match=r"fc\.weight"):
        write_eagle3(tmp_path / "head", replace(checkpoint, tensors=broken))
    assert not (tmp_path / "head").exists()


def test_a_head_for_another_model_says_what_differs() -> None:
    check_fits(CONFIG, target_hidden_size=16, target_vocab=40, target_layers=9)
    for change, words in (
        ({"target_hidden_size": 12}, ["hidden size 16, this model has 12"]),
        ({"target_vocab": 41}, ["40 tokens, this model has 41"]),
        ({"target_layers": 8}, ["taps layer 8", "8 layers"]),
        ({"target_hidden_size": 12, "target_vocab": 3}, ["hidden size 16", "40 tokens, this model has 3", "Tiny"]),
    ):
        with pytest.raises(HeadError) as caught:
            check_fits(CONFIG, **({"target_hidden_size": 16, "target_vocab": 40, "target_layers": 9} | change))
        for word in words:
            assert word in caught.value.message
