"""What a head's files leave open is measured, on a head that our trainer made for a small target."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from engine.heads.checkpoint import Checkpoint, read_eagle3, write_eagle3
from engine.heads.choosing import Measured, Reading, acceptance_length, best_of, measure, note, readings
from engine.heads.config import Eagle3Config
from engine.heads.eagle3_inference import Eagle3Inference
from engine.heads.loading import LoadedHead, load_head
from engine.heads.parsing import Unsure
from engine.heads.projections import dense_linear
from engine.heads.writing import write_head
from tests.engine import tiny
from tests.engine.described_heads import ALL
from tests.engine.public_files import as_speculators
from tests.engine.toy import HIDDEN, LAYERS, TAPS, VOCABULARY, Toy


@pytest.fixture(scope="module")
def length(toy: Toy) -> float:
    """Tokens a step as trained."""
    return acceptance_length(Eagle3Inference(toy.eagle3, toy.table, dense_linear), toy.answers)


def _loaded(toy: Toy, folder: Path) -> LoadedHead:
    return load_head(folder, toy.decoder, dense_linear, prompts=lambda: toy.prompts)


def test_a_missing_residual_flag_is_measured(toy: Toy, length: float, tmp_path: Path) -> None:
    """speculators reads a missing norm_before_residual as false, vLLM as true."""
    as_speculators(
        tmp_path / "head", toy.eagle3, toy.table, norm_before_residual=None
    )
    loaded = _loaded(toy, tmp_path / "head")
    assert isinstance(loaded.eagle, Eagle3Inference)
    assert not loaded.eagle.config.norm_before_residual
    assert "the residual starts before the norm" in loaded.notes[-1]
    checkpoint = read_eagle3(tmp_path / "head")
    candidates = readings(checkpoint, LAYERS, toy.table)
    head = Eagle3Inference(checkpoint, toy.table, dense_linear)
    measured = measure(lambda each: _as(head, each, toy), candidates, toy.answers)
    assert [each.reading.config.norm_before_residual for each in measured] == [False, True]  # type: ignore[attr-defined]
    assert measured[0].acceptance_length == pytest.approx(length)
    assert measured[1].acceptance_length < length - 0.1
    # Were the usual reading the worse one, the other would be kept, and said.
    turned = (measured[1], measured[0])
    assert best_of(turned) is measured[0]
    assert f"{length:.2f} tokens a step" in note(turned)


def _as(head: Eagle3Inference, reading: Reading, toy: Toy) -> Eagle3Inference:
    assert isinstance(reading.config, Eagle3Config)
    return head.read_as(reading.config, toy.table)


def test_an_embedding_of_its_own_must_be_better_than_the_targets(toy: Toy, length: float, tmp_path: Path) -> None:
    """Some exporters wrote random tables."""
    noise = torch.randn(VOCABULARY, HIDDEN, generator=torch.Generator().manual_seed(1))
    as_speculators(tmp_path / "random", toy.eagle3, noise)
    loaded = _loaded(toy, tmp_path / "random")
    assert loaded.eagle is not None
    assert acceptance_length(loaded.eagle, toy.answers) == pytest.approx(length)
    assert "the model's embedding table" in loaded.notes[-1]
    # And one that is better is used: here the target's lies under it, shuffled.
    shuffled = replace(toy.decoder.weights, embedding=toy.table.flip(0))
    as_speculators(tmp_path / "own", toy.eagle3, toy.table)
    checkpoint = read_eagle3(tmp_path / "own")
    candidates = readings(checkpoint, LAYERS, shuffled.embedding)
    own = checkpoint.tensors["embed_tokens.weight"]
    head = Eagle3Inference(checkpoint, shuffled.embedding, dense_linear)
    measured = measure(
        lambda each: head.read_as(checkpoint.config, own if each.own_embedding else shuffled.embedding),
        candidates,
        toy.answers,
    )
    assert best_of(measured).reading.own_embedding
    assert "its own embedding table" in note(measured)


def test_taps_written_in_the_other_convention_are_found(toy: Toy, length: float) -> None:
    """A model of six layers whose states 1 to 3 are the toy's: the file says 2 to 4."""
    answers = tuple(
        replace(
            each, states={tap + 1: each.states[tap] for tap in TAPS} | {4: each.states[0], 0: each.states[2]}
        )
        for each in toy.answers
    )
    config = replace(toy.eagle3.config, taps=(2, 3, 4))
    checkpoint = replace(toy.eagle3, config=config, unsure=Unsure(taps=True))
    table = toy.table
    candidates = readings(checkpoint, 10, table)
    assert [each.config.taps for each in candidates] == [(2, 3, 4), (1, 2, 3)]  # type: ignore[attr-defined]
    head = Eagle3Inference(checkpoint, table, dense_linear)
    measured = measure(lambda each: _as(head, each, toy), candidates, answers)
    kept = best_of(measured)
    assert kept.reading.config.taps == (1, 2, 3)  # type: ignore[attr-defined]
    assert kept.acceptance_length == pytest.approx(length)
    assert "it taps the inputs of layers 1, 2, 3" in note(measured)


@pytest.mark.parametrize(
    ("taps", "layers", "expected"),
    [
        ((2, 9, 15), 18, [(2, 9, 15)]),  # the usual ones leave no doubt
        ((3, 10, 16), 18, [(3, 10, 16), (2, 9, 15)]),  # one more than usual: inputs written as outputs
        ((1, 8, 14), 18, [(1, 8, 14), (2, 9, 15)]),  # one less: outputs written as inputs
        ((25, 31, 37), 36, [(24, 30, 36)]),  # boundaries in the nested key, as in one published head
        ((), 36, [(2, 18, 33)]),
    ],
)
def test_which_taps_are_in_doubt(taps: tuple[int, ...], layers: int, expected: list[tuple[int, ...]]) -> None:
    table = torch.zeros(VOCABULARY, HIDDEN)
    checkpoint = replace(tiny.checkpoint(), unsure=Unsure(taps=True))
    checkpoint = replace(checkpoint, config=replace(checkpoint.config, taps=taps))
    assert [each.config.taps for each in readings(checkpoint, layers, table)] == expected  # type: ignore[attr-defined]


def test_a_trainer_that_means_something_else_by_norm_output_is_measured(
    toy: Toy, length: float, tmp_path: Path
) -> None:
    config = replace(toy.eagle3.config, norm_output=True)
    write_eagle3(tmp_path / "head", replace(toy.eagle3, config=config))
    loaded = _loaded(toy, tmp_path / "head")
    assert isinstance(loaded.eagle, Eagle3Inference)
    assert not loaded.eagle.config.norm_output
    assert acceptance_length(loaded.eagle, toy.answers) == pytest.approx(length)
    assert "before the last norm" in loaded.notes[-1]


def _foreign(toy: Toy, kind: str) -> Checkpoint:
    """A sound file of the right shape whose guesses are those that are least likely."""
    ours: Checkpoint = getattr(toy, kind)
    turned = ("lm_head", "o_proj", "down_proj", "fc.") if kind == "eagle1" else ("lm_head", ".1.weight")
    tensors = {
        name: -tensor if any(part in f".{name}" for part in turned) else tensor
        for name, tensor in ours.tensors.items()
    }
    return replace(ours, config=replace(ours.config, training={}), tensors=tensors)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["eagle3", "eagle1", "medusa"])
def test_a_head_that_foresees_nothing_is_told_of(kind: str, toy: Toy, tmp_path: Path) -> None:
    """What no file shows: a head for another model of the same shape, or a square matrix stored transposed."""
    write_head(tmp_path / "head", _foreign(toy, kind))
    loaded = load_head(tmp_path / "head", toy.decoder, dense_linear, prompts=lambda: toy.prompts)
    assert "no better than chance for this model" in loaded.notes[-1]
    assert load_head(tmp_path / "head", toy.decoder, dense_linear).notes == ()  # not without prompts
    ours = getattr(toy, kind)
    write_head(tmp_path / "ours", ours)
    asked = lambda: pytest.fail("a head of our own trainer was measured when it was made")  # noqa: E731
    assert load_head(tmp_path / "ours", toy.decoder, dense_linear, prompts=asked).notes == ()


def test_measuring_a_head_can_be_kept(toy: Toy, tmp_path: Path) -> None:
    write_head(tmp_path / "head", _foreign(toy, "medusa"))
    kept: dict[str, tuple[Measured, ...]] = {}

    def keep(found: Sequence[Reading], make: Callable[[], tuple[Measured, ...]]) -> tuple[Measured, ...]:
        return kept.setdefault(repr(found), ()) or kept.setdefault("made", make())

    for _ in range(2):
        loaded = load_head(tmp_path / "head", toy.decoder, prompts=lambda: toy.prompts, keep=keep)
        assert "no better than chance" in loaded.notes[-1]
    short = lambda: [toy.prompts[0]]  # noqa: E731
    assert load_head(tmp_path / "head", toy.decoder, prompts=short, end_tokens=range(32)).notes == ()


def test_the_described_heads_leave_open_only_what_their_formats_do(tmp_path: Path) -> None:
    unsure = {}
    for name, make in ALL.items():
        if name.startswith("eagle1"):
            continue
        unsure[name] = read_eagle3(make().write(tmp_path / name)).unsure
    in_doubt = {name for name, doubt in unsure.items() if doubt != Unsure()}
    assert in_doubt == {"specforge", "speculators_31", "modelopt"}
    assert all(unsure[name] == Unsure(taps=True) for name in in_doubt)
