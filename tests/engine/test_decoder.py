"""Our decoder against transformers' Gemma 3, on a tiny random model of the true architecture."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from engine.errors import ModelError
from engine.models.config import DecoderConfig
from engine.models.loading import TensorSource
from engine.models.weights import float_weights
from engine.tree import DraftTree
from tests.engine import tiny


@pytest.fixture(scope="module", params=[1, 2], ids=["one-kv-head", "two-kv-heads"])
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Path]:
    model = tiny.reference(kv_heads=request.param)
    return model, tiny.save(model, tmp_path_factory.mktemp("tiny"))


@torch.inference_mode()
def test_logits_and_taps_agree_beyond_the_window(pair: tuple[Any, Path]) -> None:
    model, folder = pair
    decoder = tiny.float_decoder(folder)
    ids = torch.randint(2, tiny.VOCABULARY, (5 * tiny.WINDOW,))
    expected = model(ids[None], output_hidden_states=True)
    cache = decoder.new_cache()
    logits, taps = [], []
    begin = 0
    for size in (1, 30, 7, 42):  # chunks that begin inside and outside the window
        part = ids[begin : begin + size]
        hidden, tapped = decoder.forward(part, torch.arange(begin, begin + size), cache, None, (0, 2, 7))
        cache.keep(size)
        logits.append(decoder.logits(hidden))
        taps.append(tapped)
        begin += size
    assert begin == len(ids)
    torch.testing.assert_close(torch.cat(logits), expected.logits[0], atol=1e-4, rtol=1e-4)
    for place, layer in enumerate((0, 2)):
        ours = torch.cat([tapped[place] for tapped in taps])
        torch.testing.assert_close(ours, expected.hidden_states[layer][0], atol=1e-4, rtol=1e-4)


@torch.inference_mode()
@pytest.mark.parametrize("past", [5, 3 * tiny.WINDOW])
def test_every_node_of_a_tree_sees_its_own_path(pair: tuple[Any, Path], past: int) -> None:
    """Each node's logits equal those of a plain pass over the text that leads to it."""
    model, folder = pair
    decoder = tiny.float_decoder(folder)
    ids = torch.randint(2, tiny.VOCABULARY, (past,))
    # Deeper than the window's remainder, with siblings that share positions.
    parents = (-1, 0, 0, 1, 1, 2, 3, 6, 7, 8)
    tokens = tuple(10 + node for node in range(len(parents)))
    tree = DraftTree(tokens, parents, (1.0,) * len(parents), (1.0,) * len(parents))
    cache = decoder.new_cache()
    decoder.forward(ids, torch.arange(past), cache)
    cache.keep(past)
    hidden, _ = decoder.forward(torch.tensor(tokens), tree.positions(past), cache, tree.mask())
    ours = decoder.logits(hidden)
    for node in range(len(tree)):
        path = torch.tensor([tokens[step] for step in tree.path(node)])
        expected = model(torch.cat((ids, path))[None]).logits[0, -1]
        torch.testing.assert_close(ours[node], expected, atol=1e-4, rtol=1e-4)
    # Keep the path to node 7 and go on as if it had been plain text.
    path_nodes = tree.path(7)
    cache.keep(torch.tensor(path_nodes))
    follow, _ = decoder.forward(torch.tensor([50]), torch.tensor([past + len(path_nodes)]), cache)
    text = torch.cat((ids, torch.tensor([tokens[node] for node in path_nodes] + [50])))
    torch.testing.assert_close(decoder.logits(follow)[0], model(text[None]).logits[0, -1], atol=1e-4, rtol=1e-4)


def test_a_missing_and_a_misshapen_tensor_are_named(tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    folder = tiny.save(tiny.reference(), tmp_path / "model")
    config = DecoderConfig.from_folder(folder)
    path = folder / "model.safetensors"
    tensors = load_file(path)
    name = "model.layers.3.mlp.up_proj.weight"
    for change, words in (
        (lambda all_tensors: all_tensors.pop(name), "lacks"),
        (lambda all_tensors: all_tensors.update({name: torch.zeros(5, 5)}), "shape"),
    ):
        changed = dict(tensors)
        change(changed)
        save_file(changed, path)
        with pytest.raises(ModelError, match=words) as caught:
            float_weights(config, TensorSource(folder))
        assert name in str(caught.value)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{", "not valid JSON"),
        ("[]", "not a JSON object"),
        ('{"model_type": "mamba"}', "mamba"),
        ('{"model_type": "gemma3_text", "vocab_size": 5}', "num_hidden_layers"),
    ],
)
def test_a_bad_config_is_explained(tmp_path: Path, content: str, words: str) -> None:
    (tmp_path / "config.json").write_text(content)
    with pytest.raises(ModelError, match=words):
        DecoderConfig.from_folder(tmp_path)


def test_a_missing_config_names_the_file(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"config\.json"):
        DecoderConfig.from_folder(tmp_path)
