"""A head that our trainer made drafts the same after a round through every public format."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from engine.drafting.drafter import Drafter, TreeLimits
from engine.drafting.eagle import EagleDrafter
from engine.drafting.medusa import Medusa
from engine.heads.checkpoint import Checkpoint, Eagle1Checkpoint, Eagle3Checkpoint, read_head
from engine.heads.eagle1_inference import Eagle1Inference, TargetParts
from engine.heads.eagle3_inference import Eagle3Inference
from engine.heads.facts import HeadFacts
from engine.heads.formats import HeadFormat
from engine.heads.inference import EagleInference
from engine.heads.loading import load_head
from engine.heads.medusa import MedusaHeads
from engine.heads.projections import dense_linear, int8_linear
from engine.heads.writing import write_head
from tests.engine import public_files as files
from tests.engine.toy import Stepped, Toy, decode, text, tokens_a_step

LIMITS = TreeLimits(nodes=8, depth=3, top_k=3)
STEPS = 12
KINDS = ("eagle3", "eagle3_variant", "eagle3_normed", "eagle3_tap_norms", "eagle1", "medusa")


def ours(folder: Path, head: Checkpoint, _table: Any) -> None:
    """What ``python -m engine train`` writes."""
    write_head(folder, head)


Write = Callable[[Path, Any, Any], None]
ROUNDS: tuple[tuple[str, Write, HeadFormat], ...] = (
    ("eagle1", ours, HeadFormat.EAGLE1),
    ("eagle1", files.as_first_release, HeadFormat.EAGLE1),
    ("eagle1", files.as_eagle1_safetensors, HeadFormat.EAGLE1),
    ("eagle1", files.as_eagle1_for_vllm, HeadFormat.EAGLE1),
    ("eagle3", ours, HeadFormat.SPECFORGE),
    ("eagle3", files.as_safeailab, HeadFormat.EAGLE3),
    ("eagle3", files.as_safeailab_safetensors, HeadFormat.EAGLE3),
    ("eagle3", files.as_angelslim, HeadFormat.ANGELSLIM),
    ("eagle3", files.as_angelslim_bin, HeadFormat.ANGELSLIM),
    ("eagle3", files.as_modelopt, HeadFormat.MODELOPT),
    ("eagle3", files.as_speculators, HeadFormat.SPECULATORS),
    ("eagle3", files.as_speculators_of_two_layers, HeadFormat.SPECULATORS),
    ("eagle3_variant", files.as_speculators, HeadFormat.SPECULATORS),
    ("eagle3_normed", files.as_speculators_with_norms, HeadFormat.SPECULATORS),
    ("eagle3_tap_norms", files.as_speculators_with_norms, HeadFormat.SPECULATORS),
    ("eagle3_tap_norms", files.as_speculators_with_old_names, HeadFormat.SPECULATORS),
    ("medusa", ours, HeadFormat.MEDUSA),
    ("medusa", files.as_medusa, HeadFormat.MEDUSA),
    ("medusa", files.as_medusa_safetensors, HeadFormat.MEDUSA),
)


def _drafter(toy: Toy, eagle: EagleInference | None, medusa: MedusaHeads | None) -> Drafter:
    if eagle is not None:
        return EagleDrafter(eagle, 200)
    assert medusa is not None
    return Medusa(medusa, toy.decoder)


def _unwritten(toy: Toy, head: Checkpoint) -> Drafter:
    """The head as it left the trainer, never in a file."""
    if isinstance(head, Eagle3Checkpoint):
        return _drafter(toy, Eagle3Inference(head, toy.table, dense_linear), None)
    if isinstance(head, Eagle1Checkpoint):
        return _drafter(toy, Eagle1Inference(head, TargetParts.of(toy.decoder), dense_linear), None)
    return _drafter(toy, None, MedusaHeads(head, dense_linear))


def _steps(toy: Toy, drafter: Drafter) -> list[Stepped]:
    return decode(toy.decoder, drafter, toy.prompts[0], STEPS, LIMITS)


@pytest.fixture(scope="module")
def as_trained(toy: Toy) -> Callable[[str], list[Stepped]]:
    known: dict[str, list[Stepped]] = {}

    def steps(kind: str) -> list[Stepped]:
        if kind not in known:
            known[kind] = _steps(toy, _unwritten(toy, getattr(toy, kind)))
        return known[kind]

    return steps


@pytest.mark.parametrize("kind", KINDS)
def test_a_trained_head_of_each_kind_foresees_the_language(
    kind: str, toy: Toy, as_trained: Callable[[str], list[Stepped]]
) -> None:
    """The target speaks the language, its head foresees much of it, and an untrained one nothing."""
    for each in toy.answers:
        said = list(each.tokens)
        assert any(said == text(start, len(said) - 3) for start in range(15))
    learned = tokens_a_step(as_trained(kind))
    untrained = tokens_a_step(_steps(toy, _unwritten(toy, toy.random(kind.partition("_")[0]))))
    assert untrained < 1.6
    assert learned > untrained + 1.0


@pytest.mark.parametrize(("kind", "write", "format"), ROUNDS)
def test_a_round_through_a_public_format_changes_nothing(
    kind: str, write: Write, format: HeadFormat, toy: Toy, as_trained: Callable[[str], list[Stepped]], tmp_path: Path
) -> None:
    folder = tmp_path / "head"
    write(folder, getattr(toy, kind), toy.table)
    assert HeadFacts.from_folder(folder).format is format
    loaded = load_head(folder, toy.decoder, dense_linear, prompts=lambda: toy.prompts)
    assert loaded.notes == ()  # nothing is open, and it foresees what the target says
    found = _steps(toy, _drafter(toy, loaded.eagle, loaded.medusa))
    assert found == as_trained(kind)  # tree by tree, probabilities included, and every accepted path
    rough = load_head(folder, toy.decoder, int8_linear)
    length = tokens_a_step(_steps(toy, _drafter(toy, rough.eagle, rough.medusa)))
    assert length > tokens_a_step(found) - 0.4


@pytest.mark.parametrize("kind", ["eagle3", "eagle1", "medusa"])
def test_its_files_tell_how_it_was_made(kind: str, toy: Toy, tmp_path: Path) -> None:
    head = getattr(toy, kind)
    write_head(tmp_path / "head", head)
    again = read_head(tmp_path / "head")
    assert type(again) is type(head)
    assert again.config.training == {"steps": 40}
    assert again.config.target_name == "toy"
    for name, tensor in head.tensors.items():
        assert torch.equal(again.tensors[name], tensor), name
