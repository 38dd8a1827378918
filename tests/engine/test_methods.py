"""Every method of the registry, on a tiny target: the reply never changes, and what is drafted is as described."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import pytest
import torch

from engine.drafting.lookahead import Lookahead, Pool
from engine.drafting.method import Equipment
from engine.drafting.prompt_lookup import Occurrences
from engine.drafting.registry import methods_for
from engine.drafting.tree_shapes import (
    EAGLE_MC_SIM_7B_63,
)
from engine.drafting.trie import tree_of
from engine.errors import PromptError
from engine.generation import Session, StepRecord
from engine.heads.checkpoint import Eagle1Checkpoint
from engine.heads.config import Eagle1Config
from engine.heads.eagle1_inference import Eagle1Inference, TargetParts
from engine.heads.medusa import MedusaCheckpoint, MedusaConfig, MedusaHeads, medusa_shapes
from engine.heads.projections import dense_linear
from engine.heads.shapes import eagle1_shapes
from engine.models.decoder import Decoder
from engine.protocol import GenerationSettings, Shape
from engine.tree import DraftTree
from tests.engine import tiny

PROMPT = [2, 30, 31, 32, 33, 34, 30, 31, 32, 40, 41, 30, 31]

LOSSLESS: dict[str, tuple[tuple[str, Any], ...]] = {
    "eagle1": (("nodes", 26), ("depth", 5), ("draw", False)),
    "eagle3": (("nodes", 40), ("depth", 3), ("top_k", 20), ("threshold", 0.02)),
    "medusa": (("nodes", 64), ("depth", 4)),
    "draft-model": (("nodes", 12), ("depth", 4), ("branches", 3), ("draw", False)),
    "lookahead": (("window", 5), ("ngram", 3), ("guesses", 4)),
    "prompt-lookup": (("longest", 3), ("branches", 3), ("nodes", 24), ("depth", 6)),
}


@pytest.fixture(scope="module")
def decoder(tmp_path_factory: pytest.TempPathFactory) -> Decoder:
    return tiny.int8_decoder(tiny.save(tiny.reference(), tmp_path_factory.mktemp("tiny")))


@pytest.fixture(scope="module")
def equipment(decoder: Decoder, tmp_path_factory: pytest.TempPathFactory) -> Equipment:
    config = MedusaConfig(hidden_size=64, vocab_size=tiny.VOCABULARY, heads=4, layers=1)
    torch.manual_seed(3)
    tensors = {name: torch.randn(shape) * 0.1 for name, shape in medusa_shapes(config).items()}
    medusa = MedusaHeads(MedusaCheckpoint(config, tensors), dense_linear)
    # The float weights of the same model: nearly always right, and wrong often enough.
    draft = tiny.float_decoder(tiny.save(tiny.reference(), tmp_path_factory.mktemp("draft")))
    return Equipment(decoder, 256, tiny.head(decoder), medusa, draft)


@pytest.fixture(scope="module")
def older(decoder: Decoder) -> Equipment:
    """The same target with a random EAGLE-1 head, which borrows the target's output."""
    config = Eagle1Config(
        hidden_size=64,
        target_hidden_size=64,
        intermediate_size=80,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=16,
        vocab_size=tiny.VOCABULARY,
    )
    torch.manual_seed(4)
    tensors = {name: torch.randn(shape) * 0.15 for name, shape in eagle1_shapes(config).items()}
    checkpoint = Eagle1Checkpoint(config, tensors)
    head = Eagle1Inference(checkpoint, TargetParts.of(decoder), dense_linear)
    return Equipment(decoder, 256, head)


def session_of(equipment: Equipment) -> Session:
    return Session(equipment.decoder, methods_for(equipment), tiny.LIMITS, equipment.context)


def run(session: Session, how: GenerationSettings, prompt: Sequence[int] = PROMPT) -> list[StepRecord]:
    return list(session.generate(prompt, how, emit=lambda _: False))


def ids_of(records: Sequence[StepRecord]) -> list[int]:
    return list(itertools.chain.from_iterable(record.emitted for record in records))


def accepted(records: Sequence[StepRecord]) -> int:
    return sum(len(record.path) for record in records)


HOW: dict[str, dict[str, Any]] = {
    "greedy": {},
    "greedy, penalties": {"repetition_penalty": 1.3, "no_repeat_ngram": 3, "logit_bias": ((40, 1.0),)},
    "sampled": {"temperature": 2.5, "seed": 5, "top_p": 0.95},
    "sampled, penalties": {
        "temperature": 2.0,
        "seed": 6,
        "min_p": 0.02,
        "repetition_penalty": 1.2,
        "presence_penalty": 0.4,
        "frequency_penalty": 0.3,
        "no_repeat_ngram": 4,
    },
}


@pytest.mark.parametrize("how", HOW.values(), ids=HOW)
def test_no_method_changes_the_reply(equipment: Equipment, how: dict[str, Any]) -> None:
    """The same ids as plain decoding, and in one session after another, so that caches are shared."""
    settings = GenerationSettings(max_new_tokens=50, **how)
    session = session_of(equipment)
    truth = ids_of(run(session, GenerationSettings(method="plain", max_new_tokens=50, **how)))
    assert len(set(truth)) > 5 or how == {}
    stood = {}
    for method, options in LOSSLESS.items():
        chosen = GenerationSettings(method=method, options=options, max_new_tokens=50, **how)
        records = run(session, chosen)
        assert ids_of(records) == truth, method
        assert all(record.method == method for record in records)
        stood[method] = accepted(records)
    assert stood["draft-model"] > 5
    assert settings.method == "" and ids_of(run(session, settings)) == truth
    if not how:  # greedy text of a random model repeats itself
        assert stood["prompt-lookup"] > 5 and stood["lookahead"] > 5


@pytest.mark.parametrize("method", ["eagle1", "draft-model"])
def test_drawn_guesses_change_nothing_at_temperature_zero(equipment: Equipment, method: str) -> None:
    session = session_of(equipment)
    truth = ids_of(run(session, GenerationSettings(method="plain", max_new_tokens=40)))
    assert ids_of(run(session, GenerationSettings(method=method, max_new_tokens=40))) == truth


@pytest.mark.parametrize("how", [{}, {"temperature": 2.5, "seed": 7}], ids=["greedy", "sampled"])
def test_an_older_head_drafts_under_both_trees(older: Equipment, how: dict[str, Any]) -> None:
    session = session_of(older)
    truth = ids_of(run(session, GenerationSettings(method="plain", max_new_tokens=40, **how)))
    for method, options in (
        ("eagle1", (("draw", False), ("nodes", 26), ("depth", 5))),
        ("eagle2", (("nodes", 40), ("depth", 3), ("top_k", 30))),
    ):
        records = run(session, GenerationSettings(method=method, options=options, max_new_tokens=40, **how))
        assert ids_of(records) == truth, method
    assert methods_for(older).default == "eagle2"


def test_a_guess_below_the_threshold_gets_no_guesses(equipment: Equipment) -> None:
    def trees(threshold: float) -> list[DraftTree]:
        options = (("nodes", 40), ("depth", 4), ("top_k", 6), ("threshold", threshold))
        records = run(session_of(equipment), GenerationSettings(options=options, max_new_tokens=12))
        return [record.tree for record in records if record.tree is not None]

    parents = [
        (tree.probabilities[parent], threshold)
        for threshold in (0.0, 0.05, 0.3)
        for tree in trees(threshold)
        for parent in set(tree.parents[1:])
        if parent > 0
    ]
    assert any(probability < 0.05 for probability, threshold in parents if threshold == 0)
    assert all(probability >= threshold for probability, threshold in parents)
    assert any(threshold == 0.05 for _, threshold in parents)


def test_a_head_can_draw_its_guesses(equipment: Equipment) -> None:
    """From its own softmax, whatever the target makes of them; the tree's shape stays."""
    how = GenerationSettings(
        method="eagle1", options=(("nodes", 26), ("depth", 5)), temperature=2.0, seed=1, max_new_tokens=30
    )
    trees = [record.tree for record in run(session_of(equipment), how) if record.tree is not None]
    assert len(trees) > 10
    for tree in trees[:5]:
        assert len(tree) == 26 and len(tree.draws) == len(EAGLE_MC_SIM_7B_63.counts)
        for node, q in tree.draws.items():
            assert float(q.sum()) == pytest.approx(1)
            for token, child in tree.children[node].items():
                assert float(q[token]) == pytest.approx(tree.probabilities[child])
    assert len({tree.tokens for tree in trees}) > 1


@pytest.mark.parametrize("branches", [1, 3])
def test_drawn_guesses_are_repeatable_and_mostly_stand(equipment: Equipment, branches: int) -> None:
    how = GenerationSettings(
        method="draft-model",
        options=(("branches", branches), ("nodes", 10), ("depth", 4)),
        temperature=2.0,
        seed=1,
        max_new_tokens=40,
    )
    first = run(session_of(equipment), how)
    again = run(session_of(equipment), how)
    assert ids_of(first) == ids_of(again)
    trees = [record.tree for record in first if record.tree is not None]
    assert all(tree.draws for tree in trees)
    assert all(tree.shape is (Shape.CHAIN if branches == 1 else Shape.TREE) for tree in trees)
    if branches == 1:
        assert all(tree.parents == tuple(range(-1, len(tree) - 1)) for tree in trees)
    assert accepted(first) > 15  # the draft is nearly the target


def test_typical_acceptance_changes_the_reply(equipment: Equipment) -> None:
    def reply(acceptance: str) -> list[int]:
        options = (("acceptance", acceptance), ("typical_threshold", 0.0), ("typical_delta", 0.0))
        how = GenerationSettings(
            method="medusa", options=options, temperature=1.5, seed=2, max_new_tokens=40
        )
        return ids_of(run(session_of(equipment), how))

    plain = GenerationSettings(method="plain", temperature=1.5, seed=2, max_new_tokens=40)
    truth = ids_of(run(session_of(equipment), plain))
    assert reply("lossless") == truth
    assert reply("typical") != truth


def test_the_draft_model_reads_on_after_another_chat(equipment: Equipment) -> None:
    """Its own cache follows the sequence wherever that goes: drafts equal those of a fresh one."""
    how = GenerationSettings(method="draft-model", max_new_tokens=12)
    session = session_of(equipment)
    run(session, how)
    for prompt in ([*PROMPT[:5], 60, 61, 62], [7, 8, 9], PROMPT):
        ours, fresh = run(session, how, prompt), run(session_of(equipment), how, prompt)
        assert [r.tree.tokens for r in ours if r.tree] == [r.tree.tokens for r in fresh if r.tree]


# --------------------------------------------------------------------------- what is drafted


def test_prompt_lookup_finds_what_a_search_finds() -> None:
    generator = torch.Generator().manual_seed(0)
    for _ in range(50):
        tokens = torch.randint(0, 4, (30,), generator=generator).tolist()
        occurrences = Occurrences(4)
        occurrences.extend(tokens[:11])
        occurrences.extend(tokens)
        expected: list[int] = []
        for size in (4, 3, 2):
            last = tokens[-size:]
            expected = [end for end in range(29, size - 1, -1) if tokens[end - size : end] == last]
            if expected:
                break
        assert occurrences.before(2, 4) == expected
    occurrences.extend([1, 2, 3, 1])  # another sequence
    assert occurrences.before(1, 4) == [1]


def test_continuations_share_their_beginnings() -> None:
    tree = tree_of(9, [[1, 2, 3], [1, 2, 4], [1, 5], [6]], nodes=7, depth=3, shape=Shape.TREE)
    assert tree.tokens == (9, 1, 2, 3, 4, 5, 6) and tree.parents == (-1, 0, 1, 2, 2, 1, 0)
    assert tree.probabilities == pytest.approx((1, 3 / 4, 2 / 3, 1 / 2, 1 / 2, 1 / 3, 1 / 4))
    assert tree.path_probabilities[3] == pytest.approx(1 / 4)
    assert tree_of(9, [[1, 2, 3], [1, 4]], 4, 1, Shape.CHAIN).tokens == (9, 1)


def test_the_window_is_what_the_target_says_step_by_step(equipment: Equipment) -> None:
    """Every n-gram that goes to the pool is the target's own continuation of its window path."""
    decoder = equipment.decoder
    how = GenerationSettings(method="lookahead", options=(("window", 4), ("ngram", 4)), max_new_tokens=24)
    session = session_of(equipment)
    checked = 0
    records = session.generate(PROMPT, how, emit=lambda _: False)
    tokens: list[int] = list(PROMPT)
    real = Lookahead.learn

    def learn(self: Lookahead, tree: DraftTree, path: Sequence[int], best: Any) -> None:
        nonlocal checked
        assert tree.shape is Shape.WINDOW and tree.guesses == len(tree) - tree.window
        if tree.window == 12:
            for column in range(4):
                row = len(tree) - 4 + column
                whole = [*tokens, *(tree.tokens[node] for node in tree.path(row)[1:])]
                cache = decoder.new_cache()
                hidden, _ = decoder.forward(torch.tensor(whole), torch.arange(len(whole)), cache)
                assert int(decoder.argmax(hidden[-1:])) == best(row)
                checked += 1
        real(self, tree, path, best)

    with pytest.MonkeyPatch.context() as patch, torch.inference_mode():
        patch.setattr(Lookahead, "learn", learn)
        for record in records:
            tokens += record.emitted
    assert checked > 20


def test_the_pool_keeps_the_newest() -> None:
    pool = Pool(2)
    for gram in ([1, 2, 3], [1, 4, 5], [1, 2, 3], [1, 6, 7], [8, 1, 1]):
        pool.add(gram)
    assert pool.after(1) == [(6, 7), (2, 3)] and pool.after(2) == []


def test_what_cannot_be_used_says_why(decoder: Decoder, equipment: Equipment) -> None:
    bare = methods_for(Equipment(decoder, 256))
    problems = {info.id: info.problem for info in bare.infos}
    assert bare.default == "plain"
    assert {name for name, problem in problems.items() if not problem} == {"plain", "lookahead", "prompt-lookup"}
    assert "head" in problems["eagle3"] and "Medusa" in problems["medusa"]
    whole = methods_for(equipment)
    assert whole.default == "eagle3"
    assert [info.id for info in whole.infos if info.problem] == ["eagle2"]
    with pytest.raises(PromptError, match="EAGLE-2"):
        whole.choose(GenerationSettings(method="eagle2"))
    with pytest.raises(PromptError, match="telepathy"):
        whole.choose(GenerationSettings(method="telepathy"))
