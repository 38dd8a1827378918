"""Every family against transformers: logits, cached decoding, trees, long positions, exactness in int8."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from engine.errors import ModelError
from engine.models.cache import KVCache
from engine.models.config import DecoderConfig, UnsupportedModel
from engine.models.decoder import Decoder
from engine.models.loading import TensorSource
from engine.models.quantise import int8_weights, quantise
from engine.models.weights import float_weights
from engine.tree import DraftTree
from tests.engine import tiny_families as families

PARENTS = (-1, 0, 0, 1, 1, 2, 3, 6, 7, 8)
"""Deeper than the window's remainder, with siblings that share positions."""
TOKENS = tuple(10 + node for node in range(len(PARENTS)))


def tree() -> DraftTree:
    ones = (1.0,) * len(PARENTS)
    return DraftTree(TOKENS, PARENTS, ones, ones)


@pytest.fixture(scope="module", params=sorted(families.MAKERS))
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Path]:
    return families.save(request.param, tmp_path_factory.mktemp("model"))


def float_decoder(folder: Path) -> Decoder:
    config = DecoderConfig.from_folder(folder)
    return Decoder(config, float_weights(config, TensorSource(folder)))


def theirs(model: Any, ids: Tensor) -> Tensor:
    logits: Tensor = model(input_ids=ids[None]).logits[0]
    return logits


def run(decoder: Decoder, ids: Tensor, sizes: tuple[int, ...], limit: int) -> Tensor:
    cache = decoder.new_cache(limit)
    logits, begin = [], 0
    for size in sizes:
        hidden, _ = decoder.forward(ids[begin : begin + size], torch.arange(begin, begin + size), cache)
        cache.keep(size)
        logits.append(decoder.logits(hidden))
        begin += size
    assert begin == len(ids)
    return torch.cat(logits)


@torch.inference_mode()
def test_logits_agree_in_chunks_and_token_by_token(pair: tuple[Any, Path]) -> None:
    model, folder = pair
    ids = torch.randint(3, 90, (families.LENGTH,), generator=torch.Generator().manual_seed(1))
    decoder = float_decoder(folder)
    expected = theirs(model, ids)
    ours = run(decoder, ids, (1, 30, 7, *(1,) * 20, 22), families.POSITIONS)
    torch.testing.assert_close(ours, expected, atol=2e-4, rtol=2e-4)
    # A text that fits the length the model was made for, in a cache that holds no more.
    short = ids[: families.ORIGINAL]
    ours = run(decoder, short, (5, 27), families.ORIGINAL)
    torch.testing.assert_close(ours, theirs(model, short), atol=2e-4, rtol=2e-4)


@torch.inference_mode()
@pytest.mark.parametrize("past", [5, 50])
def test_every_node_of_a_tree_sees_its_own_path(pair: tuple[Any, Path], past: int) -> None:
    model, folder = pair
    decoder = float_decoder(folder)
    ids = torch.randint(3, 90, (past,), generator=torch.Generator().manual_seed(2))
    # Longrope's divisors follow the length: transformers sees the longest path's.
    limit = families.POSITIONS if past > families.ORIGINAL else families.ORIGINAL
    cache = decoder.new_cache(limit)
    decoder.forward(ids, torch.arange(past), cache)
    cache.keep(past)
    drafted = tree()
    hidden, _ = decoder.forward(torch.tensor(TOKENS), drafted.positions(past), cache, drafted.mask())
    ours = decoder.logits(hidden)
    for node in (0, 2, 4, 5, 9):
        path = torch.tensor([TOKENS[step] for step in drafted.path(node)])
        torch.testing.assert_close(ours[node], theirs(model, torch.cat((ids, path)))[-1], atol=2e-4, rtol=2e-4)
    path_nodes = drafted.path(7)
    cache.keep(torch.tensor(path_nodes))
    follow, _ = decoder.forward(torch.tensor([50]), torch.tensor([past + len(path_nodes)]), cache)
    text = torch.cat((ids, torch.tensor([TOKENS[node] for node in path_nodes] + [50])))
    torch.testing.assert_close(decoder.logits(follow)[0], theirs(model, text)[-1], atol=2e-4, rtol=2e-4)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"rope_parameters": {"rope_type": "dynamic", "factor": 2.0}}, "dynamic"),
        ({"hidden_act": "relu"}, "relu"),
        ({"model_type": "mamba2"}, "mamba2"),
    ],
)
def test_what_the_decoder_does_not_follow_is_refused_by_name(change: dict[str, Any], words: str) -> None:
    raw = families.make("llama-2").config.to_dict() | change
    with pytest.raises(UnsupportedModel, match=words):
        DecoderConfig.from_hf(raw)


def _missing(tensors: dict[str, Tensor], name: str) -> str:
    del tensors[name]
    return name


def _extra(tensors: dict[str, Tensor], name: str) -> str:
    tensors["model.layers.1.self_attn.sinks"] = torch.zeros(4)
    return "model.layers.1.self_attn.sinks"


def _renamed(tensors: dict[str, Tensor], name: str) -> str:
    tensors[name.replace("up_proj", "upper_proj")] = tensors.pop(name)
    return name


def _transposed(tensors: dict[str, Tensor], name: str) -> str:
    tensors[name] = tensors[name].T.contiguous()
    return name


def _nan(tensors: dict[str, Tensor], name: str) -> str:
    tensors[name][3, 5] = float("nan")
    return name


def _integers(tensors: dict[str, Tensor], name: str) -> str:
    tensors[name] = tensors[name].to(torch.int8)
    return name


@pytest.mark.parametrize("spoil", [_missing, _extra, _renamed, _transposed, _nan, _integers])
def test_a_spoilt_tensor_is_named(tmp_path: Path, spoil: Any) -> None:
    from safetensors.torch import load_file, save_file

    _, folder = families.save("llama-2", tmp_path / "model")
    tensors = load_file(folder / "model.safetensors")
    named = spoil(tensors, "model.layers.1.mlp.up_proj.weight")
    save_file(tensors, folder / "model.safetensors")
    config = DecoderConfig.from_folder(folder)
    with pytest.raises(ModelError) as caught:
        float_weights(config, TensorSource(folder))
    assert named in str(caught.value)


def int8_decoder(folder: Path) -> Decoder:
    config = DecoderConfig.from_folder(folder)
    weights = float_weights(config, TensorSource(folder))
    text = torch.randint(3, 90, (300,), generator=torch.Generator().manual_seed(5))
    with torch.inference_mode():
        return Decoder(config, int8_weights(config, quantise(config, weights, text), weights.embedding))


@torch.inference_mode()
def test_in_int8_a_tree_node_has_the_bits_of_plain_decoding(pair: tuple[Any, Path]) -> None:
    """And the integers stay near the floats: attention without norms, biases, caps and experts included."""
    _, folder = pair
    decoder, reference = int8_decoder(folder), float_decoder(folder)
    past = 40
    ids = torch.randint(3, 90, (past,), generator=torch.Generator().manual_seed(2))
    drafted = tree()

    def start() -> KVCache:
        cache = decoder.new_cache(families.POSITIONS)
        decoder.forward(ids, torch.arange(past), cache)
        cache.keep(past)
        return cache

    cache = start()
    hidden, _ = decoder.forward(torch.tensor(TOKENS), drafted.positions(past), cache, drafted.mask())
    logits = decoder.logits(hidden)
    plain = start()
    for step, node in enumerate(drafted.path(9)):
        last, _ = decoder.forward(torch.tensor([TOKENS[node]]), torch.tensor([past + step]), plain)
        plain.keep(1)
        assert torch.equal(decoder.logits(last)[0], logits[node]), f"node {node}"
    # After compaction the kept path must be what plain decoding left.
    cache.keep(torch.tensor(drafted.path(9)))
    both = [
        decoder.forward(torch.tensor([50]), torch.tensor([which.length]), which)[0] for which in (cache, plain)
    ]
    assert torch.equal(both[0], both[1])

    float_cache = reference.new_cache(families.POSITIONS)
    true, _ = reference.forward(ids, torch.arange(past), float_cache)
    ours, _ = decoder.forward(ids, torch.arange(past), decoder.new_cache(families.POSITIONS))
    true_log = torch.log_softmax(reference.logits(true), -1)
    ours_log = torch.log_softmax(decoder.logits(ours), -1)
    divergence = (true_log.exp() * (true_log - ours_log)).sum(-1).median()
    assert divergence < 0.02
