"""Whole replies on a device that is not the CPU: the same ids, no tensor on the wrong side, few reads a step."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from engine.drafting.method import Equipment
from engine.drafting.registry import methods_for
from engine.generation import Session, StepRecord
from engine.heads.checkpoint import Checkpoint
from engine.heads.loading import load_head
from engine.heads.projections import placed_linear
from engine.heads.writing import write_head
from engine.models.checkpoint import Checkpoint as ModelFiles
from engine.models.config import DecoderConfig
from engine.models.decoder import Decoder
from engine.models.formats import DenseFormat
from engine.models.loading import TensorSource
from engine.models.weights import build_weights
from engine.protocol import GenerationSettings
from tests.engine import tiny
from tests.engine.second_device import DEVICE, SecondDevice
from tests.engine.toy import Toy

NEW = 24


@pytest.fixture
def device() -> Iterator[SecondDevice]:
    with SecondDevice() as mode:
        yield mode


def _placed(folder: Path) -> Decoder:
    config = DecoderConfig.from_folder(folder)
    weights = build_weights(config, ModelFiles(TensorSource(folder)), DenseFormat(torch.float32, DEVICE))
    return Decoder(config, weights)


def _reply(session: Session, prompt: list[int], method: str, **more: object) -> tuple[list[int], list[StepRecord]]:
    ids: list[int] = []
    settings = GenerationSettings(max_new_tokens=NEW, method=method, adapt=False, **more)  # type: ignore[arg-type]
    records = list(session.generate(prompt, settings, emit=lambda token: bool(ids.append(token))))
    return ids, records


def test_what_it_is_for_is_noticed(device: SecondDevice) -> None:
    here, there = torch.ones(3), torch.arange(3.0, device=DEVICE)
    with pytest.raises(RuntimeError, match="two devices"):
        there + here
    assert (there + torch.tensor(1.0))[torch.tensor([2, 0])].tolist() == [3.0, 1.0]
    with pytest.raises(RuntimeError, match="two devices"):
        there.index_select(0, torch.tensor([1]))
    assert device.reads == 1
    assert float(there.sum()) == 3.0 and device.reads == 2


@pytest.mark.parametrize(
    ("kind", "method"), [("eagle3", "eagle3"), ("eagle1", "eagle2"), ("eagle1", "eagle1"), ("medusa", "medusa")]
)
def test_a_reply_with_a_head_is_the_same_there(kind: str, method: str, toy: Toy, tmp_path: Path) -> None:
    """Loading, measuring, prompt, drafting, verifying and compacting, greedy and sampled."""
    head: Checkpoint = getattr(toy, kind)
    unmeasured = replace(head.config, training={})
    write_head(tmp_path / "head", replace(head, config=unmeasured))  # type: ignore[arg-type]
    plain = Session(toy.decoder, methods_for(Equipment(toy.decoder, 200)), tiny.LIMITS, 200)
    prompt = toy.prompts[0]
    with SecondDevice() as device:
        decoder = _placed(toy.folder / "target")
        make = placed_linear(DEVICE, torch.float32)
        loaded = load_head(tmp_path / "head", decoder, make, prompts=lambda: toy.prompts)
        assert loaded.notes == ()
        equipment = Equipment(decoder, 200, loaded.eagle, loaded.medusa)
        session = Session(decoder, methods_for(equipment), tiny.LIMITS, 200)
        device.reads = 0
        ids, records = _reply(session, prompt, method)
        steps = len(records) - 1
        assert steps < NEW - 4, "nothing was drafted"
        # A step reads the target's choices once, and guesses with their scores once a level.
        levels = 1 if kind == "medusa" else 5 if method == "eagle1" else tiny.LIMITS.depth
        assert device.reads <= 1 + steps * (1 + 2 * levels)
        sampled, _ = _reply(session, [*prompt, *ids[:5]], method, temperature=0.8, seed=3)
    assert ids == _reply(plain, prompt, "plain")[0]
    assert sampled == _reply(plain, [*prompt, *ids[:5]], "plain", temperature=0.8, seed=3)[0]


def test_a_model_with_windows_caps_and_scales_is_the_same_there(tmp_path: Path) -> None:
    """Gemma 3: scaled embeddings, sliding layers with rotations of their own, norms on queries and keys."""
    folder = tiny.save(tiny.reference(), tmp_path / "gemma")
    here = tiny.float_decoder(folder)
    prompt = [3, 17, 5, 40, 11, 8, 2, 20, 14, 33, 60, 7, 9, 21, 44, 6, 52, 31]
    expected = _reply(tiny.session(here, with_head=False), prompt, "plain")[0]
    write_head(tmp_path / "head", tiny.checkpoint())
    with SecondDevice():
        decoder = _placed(folder)
        head = load_head(tmp_path / "head", decoder, placed_linear(DEVICE, torch.float32)).eagle
        session = Session(decoder, methods_for(Equipment(decoder, 256, head)), tiny.LIMITS, 256)
        found = _reply(session, prompt, "eagle3")[0]
        again = _reply(session, [*prompt, *found, 5, 6], "eagle3")[0]  # over a cache that is there
    assert found == expected
    assert again == _reply(tiny.session(here, with_head=False), [*prompt, *expected, 5, 6], "plain")[0]


@pytest.mark.parametrize("method", ["lookahead", "prompt-lookup", "draft-model"])
def test_the_other_methods_are_the_same_there(method: str, toy: Toy) -> None:
    plain = Session(toy.decoder, methods_for(Equipment(toy.decoder, 200)), tiny.LIMITS, 200)
    with SecondDevice():
        decoder = _placed(toy.folder / "target")
        equipment = Equipment(decoder, 200, draft=decoder)
        session = Session(decoder, methods_for(equipment), tiny.LIMITS, 200)
        ids, _ = _reply(session, toy.prompts[0], method)
    assert ids == _reply(plain, toy.prompts[0], "plain")[0]
