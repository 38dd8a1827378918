"""One faulty tensor in a head of any format, and loading fails with its name."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from engine.errors import HeadError
from engine.heads.checkpoint import read_eagle3, read_head
from engine.heads.facts import HeadFacts
from engine.heads.formats import HeadFormat
from tests.engine.described_heads import (
    ALL,
    Described,
    eagle1_vicuna,
    modelopt,
    safeailab,
    specforge,
    speculators,
)

Tensors = dict[str, Tensor]
OPTIONAL = ("embed_tokens.weight", "lm_head.weight")
"""Tables that EAGLE-1 and EAGLE-2 heads may bring or leave to the target."""


def faults(described: Described) -> Iterator[tuple[str, Tensors, str]]:
    """(what was done, the tensors, the name that must be said)."""
    whole = described.tensors
    for name, tensor in whole.items():
        rest = {other: value for other, value in whole.items() if other != name}
        if described.plain.version == 3 or name not in OPTIONAL:
            yield f"{name} missing", rest, name
        stem, dot, kind = name.rpartition(".")
        yield (
            f"{name} renamed",
            rest | {f"{stem}_x{dot}{kind}": tensor},
            name if name not in OPTIONAL else f"{stem}_x",
        )
        if tensor.ndim == 2 and tensor.shape[0] != tensor.shape[1]:
            yield f"{name} transposed", rest | {name: tensor.T.contiguous()}, name
        if tensor.dtype.is_floating_point:
            broken = tensor.clone()
            broken.view(-1)[-1] = float("nan")
            yield f"{name} not a number", rest | {name: broken}, name
            yield f"{name} infinite", rest | {name: torch.full_like(tensor, float("inf"))}, name
            yield f"{name} in integers", rest | {name: tensor.to(torch.int8)}, name
            yield f"{name} in 64 bits", rest | {name: tensor.double()}, name
        else:
            yield f"{name} of another type", rest | {name: tensor.to(torch.int32)}, name
    yield "one more", whole | {"midlayer.self_attn.kv_a_proj.weight": torch.ones(2, 2)}, "kv_a_proj"


@pytest.mark.parametrize("name", ALL)
def test_any_faulty_tensor_is_named(name: str, tmp_path: Path) -> None:
    described = ALL[name]()
    folder = described.write(tmp_path / "head")
    sound = read_head(folder)
    assert len(sound.tensors) >= len(described.tensors)
    for what, tensors, said in faults(described):
        replace(described, tensors=tensors).write(folder)
        with pytest.raises(HeadError) as caught:
            read_head(folder)
        assert said in caught.value.message, f"{what}: {caught.value.message}"
        assert caught.value.next_step
        header_only = HeadFacts.from_folder(folder)
        if "not a number" not in what and "infinite" not in what:
            assert said in header_only.problem, f"{what}: {header_only.problem}"


def _config(described: Described, folder: Path, **changes: Any) -> Path:
    described.write(folder)
    raw = described.config | changes
    (folder / "config.json").write_text(
        json.dumps({k: v for k, v in raw.items() if v != "gone"}), encoding="utf-8"
    )
    return folder


@pytest.mark.parametrize(
    ("make", "changes", "words"),
    [
        pytest.param(eagle1_vicuna, {"bias": False}, "'fc.bias'", id="a bias that the config denies"),
        pytest.param(
            eagle1_vicuna,
            {"num_key_value_heads": 2},
            "says 2 key/value heads of 8, together 16, but the tensors have 32",
            id="fewer keys",
        ),
        pytest.param(
            eagle1_vicuna,
            {"num_attention_heads": 8, "head_dim": 8, "num_key_value_heads": 4},
            "8 attention heads of 8, together 64, but the tensors have 32",
            id="more heads",
        ),
        *(
            pytest.param(
                make, {"hidden_size": 4096}, "says hidden size 4,096, but the tensors have 32", id=f"{make.__name__} hidden"
            )
            for make in (eagle1_vicuna, safeailab, specforge, modelopt)
        ),
        pytest.param(
            speculators,
            {"transformer_layer_config": speculators().config["transformer_layer_config"] | {"hidden_size": 640}},
            "says hidden size 640",
            id="speculators hidden",
        ),
        pytest.param(
            safeailab, {"intermediate_size": 44}, "says MLP size 44, but the tensors have 40", id="MLP size"
        ),
        pytest.param(
            eagle1_vicuna, {"architectures": ["DFlashDraftModel"]}, "a DFlash drafter", id="DFlash without a mark"
        ),
        pytest.param(eagle1_vicuna, {"hidden_act": "gelu"}, "'gelu'", id="activation"),
        pytest.param(eagle1_vicuna, {"quantization_config": {"bits": 4}}, "quantised", id="quantised"),
        pytest.param(safeailab, {"draft_vocab_size": 13}, "says draft vocabulary 13, but the tensors have 14", id="draft vocabulary"),
        pytest.param(
            safeailab,
            {"target_hidden_size": 24},
            "says target hidden size 24, but the tensors have 32",
            id="target width",
        ),
        pytest.param(safeailab, {"rope_scaling": {"rope_type": "spiral"}}, "spiral", id="unknown RoPE"),
        pytest.param(safeailab, {"mlp_bias": True}, "MLP", id="MLP bias"),
        pytest.param(speculators, {"fc_norm": True}, "exclude each other", id="both norms"),
        pytest.param(
            speculators, {"norm_before_fc": False}, "'input_norm.weight'", id="a norm that the config denies"
        ),
        pytest.param(speculators, {"speculators_model_type": "dflash"}, "'dflash'", id="another drafter"),
        pytest.param(
            modelopt, {"eagle_config": {"use_aux_hidden_state": False}}, "final state only", id="no taps"
        ),
        pytest.param(
            modelopt, {"eagle_config": {"parallel_draft_step": 2}}, "parallel_draft_step", id="parallel"
        ),
        pytest.param(specforge, {"vocab_size": 25}, "t2d has shape [24], expected [25]", id="vocabulary"),
    ],
)
def test_a_config_that_contradicts_the_tensors_is_refused(
    make: Callable[[], Described], changes: dict[str, Any], words: str, tmp_path: Path
) -> None:
    with pytest.raises(HeadError) as caught:
        read_head(_config(make(), tmp_path / "head", **changes))
    assert words in caught.value.message
    assert caught.value.next_step


def test_maps_of_a_whole_vocabulary_may_be_there_and_must_then_say_nothing(tmp_path: Path) -> None:
    described = ALL["safeailab_whole_vocabulary"]()
    tokens = described.config["vocab_size"]
    maps = {"d2t": torch.zeros(tokens, dtype=torch.int64), "t2d": torch.ones(tokens, dtype=torch.bool)}
    whole = replace(described, tensors=described.tensors | maps)
    assert torch.equal(read_eagle3(whole.write(tmp_path / "head")).draft_ids, torch.arange(tokens))
    maps["t2d"][3] = False
    with pytest.raises(HeadError, match="t2d"):
        read_head(whole.write(tmp_path / "head"))
    with pytest.raises(HeadError, match="lacks the tensor 't2d'"):
        read_head(
            replace(described, tensors=described.tensors | {"d2t": maps["d2t"]}).write(tmp_path / "head")
        )


def test_saved_frequencies_must_belong_to_the_config(tmp_path: Path) -> None:
    """Old files carry RoPE's frequencies along; they are checked, not ignored."""
    described = eagle1_vicuna()
    name = "layers.0.self_attn.rotary_emb.inv_freq"
    frequencies = 1 / 10000 ** (torch.arange(0, 8, 2) / 8)
    told = replace(described, tensors=described.tensors | {name: frequencies.half()})
    assert name not in read_head(told.write(tmp_path / "head")).tensors
    wrong = replace(described, tensors=described.tensors | {name: frequencies * 2})
    with pytest.raises(HeadError, match="inv_freq"):
        read_head(wrong.write(tmp_path / "head"))


def test_old_and_nested_configs_are_understood(tmp_path: Path) -> None:
    """A converted EAGLE-1 head keeps the real config under ``model``; new files name RoPE's base elsewhere."""
    described = eagle1_vicuna()
    nested = {"architectures": ["EAGLEModel"], "model_type": "eagle", "model": described.config}
    described.write(tmp_path / "head")
    (tmp_path / "head" / "config.json").write_text(json.dumps(nested), encoding="utf-8")
    assert read_head(tmp_path / "head").format is HeadFormat.EAGLE1  # type: ignore[union-attr]
    described = specforge()
    changes = {"rope_theta": "gone", "rope_parameters": {"rope_type": "default", "rope_theta": 777.0}}
    assert read_eagle3(_config(described, tmp_path / "new", **changes)).config.rope_theta == 777.0
    legacy = ALL["speculators_31"]()
    names = {"fc_norm.0.weight": "aux_norm_low.weight", "fc_norm.1.weight": "aux_norm_mid.weight"}
    names["fc_norm.2.weight"] = "aux_norm_high.weight"
    renamed = {names.get(name, name): tensor for name, tensor in legacy.tensors.items()}
    checkpoint = read_eagle3(replace(legacy, tensors=renamed).write(tmp_path / "legacy"))
    assert torch.equal(checkpoint.tensors["fc_norm.2.weight"], legacy.tensors["fc_norm.2.weight"])


class Command:
    """What unpickling would turn into a call."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, tuple[str, str]]:
        return open, (str(self.path), "w")


def test_nothing_unpickles_a_program(tmp_path: Path) -> None:
    described = safeailab()
    folder, victim = described.write(tmp_path / "head"), tmp_path / "written"
    weights = folder / "pytorch_model.bin"
    tensors: dict[str, Any] = described.tensors | {"fc.weight": Command(victim)}
    for save in (
        lambda: torch.save(tensors, weights),
        lambda: torch.save(tensors, weights, _use_new_zipfile_serialization=False),
        lambda: weights.write_bytes(pickle.dumps(tensors)),
    ):
        save()
        for read in (read_head, HeadFacts.from_folder):
            with pytest.raises(HeadError, match=r"pytorch_model\.bin"):
                read(folder)
        assert not victim.exists()
    torch.save(described.tensors, weights, _use_new_zipfile_serialization=False)
    assert read_head(folder).config.vocab_size == 24  # the old layout itself is fine
    torch.save([1, 2], weights)
    with pytest.raises(HeadError, match="no plain list of named tensors"):
        read_head(folder)
    weights.write_bytes(weights.read_bytes()[:-40])
    with pytest.raises(HeadError, match=r"pytorch_model\.bin"):
        read_head(folder)


def test_a_head_in_shards_is_read_whole(tmp_path: Path) -> None:
    from safetensors.torch import save_file

    described = specforge()
    folder = described.write(tmp_path / "head")
    (folder / "model.safetensors").unlink()
    names = sorted(described.tensors)
    where = {name: f"model-0000{1 + index % 2}-of-00002.safetensors" for index, name in enumerate(names)}
    for file in set(where.values()):
        save_file(
            {name: described.tensors[name].contiguous() for name in names if where[name] == file},
            folder / file,
        )
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": where}), encoding="utf-8")
    assert set(read_head(folder).tensors) == set(names)
    (folder / "model.safetensors.index.json").write_text(
        json.dumps({"weight_map": {"fc.weight": "../model.safetensors"}}), encoding="utf-8"
    )
    with pytest.raises(HeadError, match="does not list"):
        read_head(folder)
    (folder / "model.safetensors.index.json").write_text(
        json.dumps({"weight_map": {"fc.weight": "model-00003.safetensors"}}), encoding="utf-8"
    )
    with pytest.raises(HeadError, match="model-00003"):
        read_head(folder)
