"""The demo model itself: agreement with transformers, quality in int8, EAGLE on and off."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import Tensor

from engine.bench.measure import Bench
from engine.bench.prompts import read_prompts, spread
from engine.bench.variants import Variant
from engine.loaded import DEMO_HEAD, RESOURCES, LoadedModel, load_model
from engine.models.config import DecoderConfig
from engine.models.decoder import Decoder
from engine.models.loading import TensorSource
from engine.models.weights import float_weights
from engine.protocol import GenerationSettings, Load

pytestmark = [pytest.mark.demo, pytest.mark.slow]

CHUNK = 128


@pytest.fixture(scope="module")
def model(demo_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoadedModel]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EYRIE_DATA_DIR", str(tmp_path_factory.mktemp("data")))
        yield load_model(Load(str(demo_model), str(DEMO_HEAD)))


@pytest.fixture(scope="module")
def english(model: LoadedModel) -> Tensor:
    """2,000 tokens of prose that took no part in the calibration."""
    text = (RESOURCES / "licences" / "gemma_terms.txt").read_text(encoding="utf-8")
    tokens = model.tokenizer.encode(text, add_bos=True)
    assert len(tokens) > 2000
    return torch.tensor(tokens[:2000])


@pytest.fixture(scope="module")
def reference(model: LoadedModel) -> Decoder:
    folder = Path(model.info.path)
    config = DecoderConfig.from_folder(folder)
    return Decoder(config, float_weights(config, TensorSource(folder)))


@torch.inference_mode()
def final_states(decoder: Decoder, tokens: Tensor) -> Iterator[Tensor]:
    cache = decoder.new_cache(tokens.numel())
    for begin in range(0, tokens.numel(), CHUNK):
        part = tokens[begin : begin + CHUNK]
        hidden, _ = decoder.forward(part, torch.arange(begin, begin + part.numel()), cache)
        cache.keep(part.numel())
        yield hidden


@torch.inference_mode()
def test_float_logits_agree_with_transformers_beyond_the_window(
    model: LoadedModel, reference: Decoder, english: Tensor
) -> None:
    from transformers import AutoModelForCausalLM

    theirs = AutoModelForCausalLM.from_pretrained(model.info.path, dtype=torch.float32).eval()
    tokens = english[:700]
    expected = theirs.model(tokens[None]).last_hidden_state[0]
    places = [0, 1, 300, 511, 512, 513, 600, 699]
    hidden = torch.cat(list(final_states(reference, tokens)))
    ours = reference.logits(hidden[places])
    assert (ours - theirs.lm_head(expected[places])).abs().max() < 1e-3


@torch.inference_mode()
def test_int8_stays_close_to_float(model: LoadedModel, reference: Decoder, english: Tensor) -> None:
    divergence = agreed = 0.0
    pairs = zip(final_states(reference, english), final_states(model.decoder, english), strict=True)
    for true_hidden, our_hidden in pairs:
        true = torch.log_softmax(reference.logits(true_hidden), -1)
        ours = torch.log_softmax(model.decoder.logits(our_hidden), -1)
        divergence += float((true.exp() * (true - ours)).sum())
        agreed += float((true.argmax(-1) == ours.argmax(-1)).sum())
    divergence /= english.numel()
    agreed /= english.numel()
    print(f"mean KL {divergence:.4f}, top-1 agreement {agreed:.1%}")
    assert divergence <= 0.03
    assert agreed >= 0.93


def test_eagle_on_and_off_give_the_same_ids(model: LoadedModel) -> None:
    if not DEMO_HEAD.is_dir():
        pytest.fail("the demo head is missing from resources/heads")
    assert model.head is not None, model.info.head_problem
    bench = Bench(model, [Variant(model.methods.default)], GenerationSettings(max_new_tokens=48))
    asked = (bench.ask(prompt, 0.0, turn) for turn, prompt in enumerate(spread(read_prompts(None), 4)))
    rows = [drafted for _, drafted in asked]
    assert all(row.identical for row in rows)
    accepted = sum(row.accepted for row in rows)
    steps = sum(row.steps for row in rows)
    assert accepted > 0.5 * steps, "the shipped head should draft more than one right token every other step"
