"""Every public format drafts as the published algorithm does: same tree, same path, same next features."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from engine.drafting.drafter import TreeLimits
from engine.drafting.eagle import EagleDrafter
from engine.heads.checkpoint import Eagle1Checkpoint, Eagle3Checkpoint, read_head
from engine.heads.eagle1_inference import Eagle1Inference, TargetParts
from engine.heads.eagle3_inference import Eagle3Inference
from engine.heads.formats import HeadFormat
from engine.heads.inference import EagleInference
from engine.heads.loading import load_head
from engine.heads.projections import dense_linear, int8_linear, placed_linear
from engine.models.decoder import Decoder
from engine.tree import DraftTree
from engine.verification import verify
from tests.engine import tiny
from tests.engine.described_heads import ALL, HIDDEN, LAYERS, VOCABULARY
from tests.engine.published_eagle import PublishedHead, generate

PROMPT = [3, 17, 5, 21, 11, 8, 2, 20, 14]
STEPS, LIMITS = 12, TreeLimits(nodes=20, depth=3, top_k=6)
FORMATS = {
    "eagle1_vicuna": HeadFormat.EAGLE1,
    "eagle1_llama3": HeadFormat.EAGLE1,
    "eagle1_qwen2": HeadFormat.EAGLE1,
    "safeailab": HeadFormat.EAGLE3,
    "safeailab_whole_vocabulary": HeadFormat.EAGLE3,
    "specforge": HeadFormat.SPECFORGE,
    "speculators": HeadFormat.SPECULATORS,
    "speculators_31": HeadFormat.SPECULATORS,
    "angelslim": HeadFormat.ANGELSLIM,
    "modelopt": HeadFormat.MODELOPT,
    "stretched": HeadFormat.EAGLE3,
}


@pytest.fixture(scope="module")
def target() -> Any:
    """transformers' own Llama with sharp logits."""
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=HIDDEN,
        intermediate_size=48,
        num_hidden_layers=LAYERS,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=512,
        attn_implementation="eager",
        bos_token_id=1,
        eos_token_id=None,
        pad_token_id=None,
    )
    model = LlamaForCausalLM(config).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.normal_(1, 0.2) if "norm" in name else parameter.normal_(0, 0.3)
    return model


@pytest.fixture(scope="module")
def decoder(target: Any, tmp_path_factory: pytest.TempPathFactory) -> Decoder:
    return tiny.float_decoder(tiny.save(target, tmp_path_factory.mktemp("target")))


class Recorder:
    """Passes everything on to a head and keeps the features that it is given."""

    def __init__(self, head: EagleInference) -> None:
        self.head = head
        self.fused: list[Tensor] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self.head, name)

    def fuse(self, features: Tensor) -> Tensor:
        self.fused.append(features)
        return self.head.fuse(features)


class Rows:
    """Greedy: the target's most likely token after each row of a tree."""

    def __init__(self, decoder: Decoder, hidden: Tensor) -> None:
        self.best: list[int] = decoder.argmax(hidden).tolist()

    def choose(self, node: int) -> int:
        return self.best[node]


@torch.inference_mode()
def run(decoder: Decoder, head: Any) -> Iterator[tuple[DraftTree, tuple[int, ...], int]]:
    """Our drafter and our decoder over one cache; tree, accepted nodes and bonus of each step."""
    drafter = EagleDrafter(head, 200)
    cache = decoder.new_cache(200)

    def forward(tokens: list[int], positions: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        hidden, tapped = decoder.forward(torch.tensor(tokens), positions, cache, mask, drafter.taps)
        return hidden, torch.cat(tapped, -1) if tapped else hidden

    hidden, features = forward(PROMPT, torch.arange(len(PROMPT)), None)
    cache.keep(len(PROMPT))
    drafter.observe(features)
    tokens = [*PROMPT, int(decoder.argmax(hidden[-1:])[0])]
    for _ in range(STEPS):
        tree = drafter.propose(tokens, LIMITS)
        hidden, features = forward(list(tree.tokens), tree.positions(cache.length), tree.mask())
        outcome = verify(tree, Rows(decoder, hidden))  # type: ignore[arg-type]
        rows = torch.tensor([0, *outcome.path])
        cache.keep(rows)
        drafter.observe(features[rows])
        tokens += [*(tree.tokens[node] for node in outcome.path), outcome.bonus]
        yield tree, tuple(tree.tokens[node] for node in outcome.path), outcome.bonus


def by_path(tree: DraftTree) -> dict[tuple[int, ...], float]:
    paths = {}
    for node in range(1, len(tree)):
        paths[tuple(tree.tokens[step] for step in tree.path(node)[1:])] = tree.path_probabilities[node]
    return paths


@pytest.mark.parametrize("name", ALL)
def test_a_head_drafts_as_published(name: str, target: Any, decoder: Decoder, tmp_path: Path) -> None:
    described = ALL[name]()
    published = PublishedHead(described, target)
    expected, tokens = generate(published, PROMPT, STEPS, LIMITS.nodes, LIMITS.depth, LIMITS.top_k)
    loaded = load_head(described.write(tmp_path / "head"), decoder, dense_linear)
    assert loaded.eagle is not None
    assert loaded.eagle.name == ("EAGLE-2" if described.plain.version == 1 else "EAGLE-3")
    head = Recorder(loaded.eagle)
    ours = list(run(decoder, head))
    for (tree, accepted, bonus), step in zip(ours, expected, strict=True):
        found = by_path(tree)
        assert set(found) == set(step.tree)
        assert found == pytest.approx(step.tree, rel=1e-3, abs=1e-6)
        assert (accepted, bonus) == (step.accepted, step.bonus)
    assert any(step.accepted for step in expected), "nothing was ever accepted: this run shows too little"
    with torch.no_grad():
        states = published.fuse(published.features(tokens[:-1]))
        given = torch.cat(head.fused)
        torch.testing.assert_close(head.head.fuse(given), states[: len(given)], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", ALL)
@torch.inference_mode()
def test_its_int8_form_drafts_nearly_the_same(name: str, decoder: Decoder, tmp_path: Path) -> None:
    folder = ALL[name]().write(tmp_path / "head")
    trees = []
    for make in (dense_linear, int8_linear):
        head = load_head(folder, decoder, make).eagle
        assert head is not None
        tree, _, _ = next(run(decoder, head))
        trees.append(by_path(tree))
    common = set(trees[0]) & set(trees[1])
    assert len(common) >= 8
    for path in common:
        assert trees[1][path] == pytest.approx(trees[0][path], abs=0.06)


@pytest.mark.parametrize("name", ALL)
def test_the_format_is_recognised(name: str, tmp_path: Path) -> None:
    from engine.heads.facts import HeadFacts

    described = ALL[name]()
    facts = HeadFacts.from_folder(described.write(tmp_path / "head"))
    assert facts.format is FORMATS[name]
    assert facts.problem == ""
    assert sum(size for _, size in facts.bytes_by_part) == sum(
        tensor.numel() * tensor.element_size() for tensor in described.tensors.values()
    )


@pytest.mark.parametrize("name", ALL)
@torch.inference_mode()
def test_its_numbers_stay_on_the_targets_device(name: str, decoder: Decoder, tmp_path: Path) -> None:
    """On a device without memory any operation that mixes devices fails; the embedding may stay on the CPU."""
    checkpoint = read_head(ALL[name]().write(tmp_path / "head"))
    device = torch.device("meta")
    make = placed_linear(device, torch.bfloat16)
    head: EagleInference
    if isinstance(checkpoint, Eagle3Checkpoint):
        table = checkpoint.tensors.get("embed_tokens.weight", decoder.weights.embedding)
        head, width = Eagle3Inference(checkpoint, table, make, device), 3 * HIDDEN
    else:
        assert isinstance(checkpoint, Eagle1Checkpoint)
        parts = TargetParts(decoder.weights.embedding, lambda hidden: hidden, lambda state: state)
        head, width = Eagle1Inference(checkpoint, parts, make, device), HIDDEN
    cache = head.new_cache(64)
    states = head.fuse(torch.empty(5, width, device=device))
    states = head.forward(states, [1, 2, 3, 4, 5], range(5), cache)
    cache.keep(5)
    seen = torch.eye(2, dtype=torch.bool)
    states = head.forward(states[-2:], [6, 7], [5, 5], cache, 0, seen)
    assert states.device == device
    assert states.dtype == torch.float32 and states.shape[0] == 2
