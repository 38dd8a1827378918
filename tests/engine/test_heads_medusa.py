"""Medusa heads of version 0.1, from a description of their file alone."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

from engine.errors import HeadError
from engine.heads.facts import HeadFacts, TargetFacts
from engine.heads.formats import HeadFormat
from engine.heads.loading import load_head
from engine.heads.medusa import MedusaHeads, is_medusa, read_medusa
from engine.heads.pairing import Fit, pair
from engine.heads.projections import dense_linear, int8_linear
from tests.engine import tiny

HEADS, LAYERS, WIDTH, VOCABULARY = 3, 2, 12, 40


def described_tensors() -> dict[str, Tensor]:
    """As the ModuleList of the public code names them: blocks first, then the table without a bias."""
    generator = torch.Generator().manual_seed(0)
    tensors = {}
    for head in range(HEADS):
        for block in range(LAYERS):
            tensors[f"{head}.{block}.linear.weight"] = torch.randn(WIDTH, WIDTH, generator=generator) * 0.4
            tensors[f"{head}.{block}.linear.bias"] = torch.randn(WIDTH, generator=generator)
        tensors[f"{head}.{LAYERS}.weight"] = torch.randn(VOCABULARY, WIDTH, generator=generator)
    return tensors


def write(folder: Path, tensors: dict[str, Tensor], stated: int = HEADS) -> Path:
    folder.mkdir(exist_ok=True)
    config = {
        "medusa_num_heads": stated,
        "medusa_num_layers": LAYERS,
        "base_model_name_or_path": "lmsys/vicuna",
    }
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    torch.save(tensors, folder / "medusa_lm_head.pt")
    return folder


def test_heads_compute_what_the_public_module_computes(tmp_path: Path) -> None:
    tensors = described_tensors()
    checkpoint = read_medusa(write(tmp_path / "head", tensors))
    assert checkpoint.config.target_name == "lmsys/vicuna"
    hidden = torch.randn(WIDTH, generator=torch.Generator().manual_seed(1))
    expected = []
    for head in range(HEADS):
        modules: list[torch.nn.Module] = []
        state = hidden
        for block in range(LAYERS):
            linear = torch.nn.Linear(WIDTH, WIDTH)
            linear.load_state_dict(
                {kind: tensors[f"{head}.{block}.linear.{kind}"] for kind in ("weight", "bias")}
            )
            modules.append(linear)
            state = state + torch.nn.SiLU()(linear(state))
        expected.append(tensors[f"{head}.{LAYERS}.weight"] @ state)
    reference = torch.stack(expected).detach()
    found = MedusaHeads(checkpoint, dense_linear).propose_logits(hidden)
    torch.testing.assert_close(found, reference, atol=1e-4, rtol=1e-4)
    rough = MedusaHeads(checkpoint, int8_linear)
    torch.testing.assert_close(rough.propose_logits(hidden[None]), reference, atol=0.5, rtol=0.1)
    assert rough.memory_bytes() == HEADS * (LAYERS * WIDTH * (WIDTH + 4) + VOCABULARY * (WIDTH + 4))


def test_safetensors_are_read_alike_and_a_config_may_understate_the_heads(tmp_path: Path) -> None:
    folder = write(tmp_path / "head", described_tensors(), stated=2)
    assert read_medusa(folder).config.heads == HEADS
    (folder / "medusa_lm_head.pt").unlink()
    save_file(described_tensors(), folder / "medusa_lm_head.safetensors")
    assert set(read_medusa(folder).tensors) == set(described_tensors())


def _renamed(tensors: dict[str, Tensor]) -> None:
    tensors["1.0.linear.kernel"] = tensors.pop("1.0.linear.weight")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        pytest.param(lambda t: t.pop("2.2.weight"), ["lacks", "2.2.weight"], id="missing"),
        pytest.param(
            lambda t: [t.pop(f"2.{n}") for n in ("0.linear.weight", "0.linear.bias")],
            ["2.0.linear"],
            id="half",
        ),
        pytest.param(lambda t: t.update({"0.3.weight": torch.ones(2, 2)}), ["'0.3.weight'"], id="extra"),
        pytest.param(_renamed, ["1.0.linear.weight"], id="renamed"),
        pytest.param(
            lambda t: t.update({"0.2.weight": t["0.2.weight"].T}), ["0.2.weight", "transposed"], id="turned"
        ),
        pytest.param(
            lambda t: t["1.1.linear.bias"].fill_(float("nan")), ["1.1.linear.bias", "finite"], id="nan"
        ),
        pytest.param(
            lambda t: t.update({"0.2.weight": t["0.2.weight"].int()}), ["0.2.weight", "int32"], id="dtype"
        ),
    ],
)
def test_a_faulty_tensor_is_named(
    tmp_path: Path, change: Callable[[dict[str, Tensor]], object], words: list[str]
) -> None:
    tensors = described_tensors()
    change(tensors)
    folder = write(tmp_path / "head", tensors)
    with pytest.raises(HeadError) as caught:
        read_medusa(folder)
    for word in words:
        assert word in caught.value.message


def test_heads_that_change_the_target_are_refused(tmp_path: Path) -> None:
    inside = {f"medusa_head.{name}": tensor for name, tensor in described_tensors().items()}
    assert is_medusa(inside)
    with pytest.raises(HeadError, match="Medusa-2"):
        read_medusa(write(tmp_path / "head", inside))


def test_they_are_judged_and_loaded_like_any_head(tmp_path: Path) -> None:
    folder = write(tmp_path / "head", described_tensors())
    facts = HeadFacts.from_folder(folder)
    assert (facts.format, facts.target_name, facts.problem) == (HeadFormat.MEDUSA, "lmsys/vicuna", "")
    target = TargetFacts("lmsys/vicuna", "llama", WIDTH, VOCABULARY, 4, 2048)
    assert pair(target, facts).fit is Fit.FITS
    assert "made for hidden size 12, this model has 16" in pair(replace(target, hidden_size=16), facts).words
    decoder = tiny.float_decoder(tiny.save(tiny.reference(), tmp_path / "target"))
    with pytest.raises(HeadError, match="made for hidden size 12, this model has 64"):
        load_head(folder, decoder, dense_linear)
    wide = {"0.0.linear.weight": torch.eye(64), "0.0.linear.bias": torch.zeros(64)}
    fitting = wide | {"0.1.weight": torch.randn(tiny.VOCABULARY, 64)}
    (folder / "config.json").write_text("{}", encoding="utf-8")
    torch.save(fitting, folder / "medusa_lm_head.pt")
    loaded = load_head(folder, decoder, dense_linear)
    assert loaded.eagle is None and loaded.medusa is not None
    hidden = torch.randn(64)
    expected = fitting["0.1.weight"] @ (hidden + torch.nn.functional.silu(hidden))
    torch.testing.assert_close(loaded.medusa.propose_logits(hidden)[0], expected, atol=1e-4, rtol=1e-4)


class Command:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, tuple[str, str]]:
        return open, (str(self.path), "w")


def test_a_file_that_carries_a_program_is_not_run(tmp_path: Path) -> None:
    folder, victim = tmp_path / "head", tmp_path / "written by the program"
    folder.mkdir()
    (folder / "config.json").write_text("{}", encoding="utf-8")
    torch.save({"0.0.linear.weight": Command(victim)}, folder / "medusa_lm_head.pt")
    with pytest.raises(HeadError, match="more than tensors") as caught:
        read_medusa(folder)
    assert "program" in caught.value.next_step
    assert not victim.exists()
    (folder / "medusa_lm_head.pt").write_bytes(b"no zip file")
    with pytest.raises(HeadError, match=r"medusa_lm_head\.pt"):
        read_medusa(folder)
