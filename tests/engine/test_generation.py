"""The loop: EAGLE on and off give the same ids; ends, limits, reuse and switches hold."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from engine.drafting.drafter import Drafter, TreeLimits
from engine.drafting.eagle import EagleDrafter
from engine.drafting.method import DEPTH, NODES, Equipment, Method, Methods
from engine.errors import PromptError
from engine.generation import Session, StepRecord, Switches
from engine.models.decoder import Decoder
from engine.protocol import (
    FinishReason,
    GenerationSettings,
    MethodInfo,
    Needs,
    Shape,
    TreeSettings,
)
from engine.tree import DraftTree
from tests.engine import tiny

PROMPT = [2, 30, 31, 32, 33, 34, 35, 36]


class Oracle(Drafter):
    """Knows the reply; hangs the true tokens among wrong ones, deep in the tree.

    Checks on the way that the loop observes each verified position exactly once.
    """

    def __init__(self, truth: Sequence[int], seed: int = 0) -> None:
        self.truth = list(truth)
        self.seen = 0
        self._random = torch.Generator().manual_seed(seed)

    @property
    def taps(self) -> tuple[int, ...]:
        return (2,)

    def observe(self, features: Tensor) -> None:
        self.seen += features.shape[0]

    def truncate(self, length: int) -> int:
        self.seen = min(self.seen, max(0, length - 1))
        return self.seen

    def propose(self, tokens: Sequence[int], limits: TreeLimits) -> DraftTree:
        assert self.seen == len(tokens) - 1
        ids, parents = [tokens[-1]], [-1]
        right = int(torch.randint(0, limits.depth + 1, (1,), generator=self._random))
        node = 0
        for level in range(right):
            place = len(tokens) + level
            if place >= len(self.truth) or len(ids) + 2 > limits.nodes:
                break
            true, wrong = self.truth[place], (self.truth[place] + 1) % tiny.VOCABULARY
            pair = [wrong, true] if level % 2 else [true, wrong]
            ids += pair
            parents += [node, node]
            node = len(ids) - 2 + pair.index(true)
        return DraftTree(tuple(ids), tuple(parents), (0.5,) * len(ids), (0.5,) * len(ids))


def oracle_session(decoder: Decoder, oracle: Oracle, nodes: int = 11, context: int = 256) -> Session:
    info = MethodInfo("oracle", "Oracle", "Knows.", Needs.NOTHING, Shape.TREE, (NODES, DEPTH))
    methods = Methods(Equipment(decoder, context), (Method(info, make=lambda _: oracle),))
    return Session(decoder, methods, TreeLimits(nodes, 5, 4), context)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny.save(tiny.reference(), tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="module")
def decoder(folder: Path) -> Decoder:
    return tiny.int8_decoder(folder)


def settings(tokens: int = 40, **more: Any) -> GenerationSettings:
    return GenerationSettings(max_new_tokens=tokens, **more)


def run(session: Session, prompt: Sequence[int], how: GenerationSettings, **more: Any) -> list[StepRecord]:
    emitted: list[int] = []
    more.setdefault("emit", lambda token: emitted.append(token) or False)
    records = list(session.generate(prompt, how, **more))
    return records


def ids_of(records: Sequence[StepRecord]) -> list[int]:
    return list(itertools.chain.from_iterable(record.emitted for record in records))


def test_plain_float_decoding_equals_transformers(folder: Path) -> None:
    model = tiny.reference()
    expected = model.generate(
        torch.tensor([PROMPT]), max_new_tokens=40, do_sample=False, eos_token_id=None, pad_token_id=0
    )[0, len(PROMPT) :]
    session = tiny.session(tiny.float_decoder(folder), with_head=False)
    assert ids_of(run(session, PROMPT, settings())) == expected.tolist()


@pytest.mark.parametrize("nodes", [3, 6, 11])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_drafts_change_nothing(decoder: Decoder, nodes: int, temperature: float) -> None:
    """Whatever is drafted, the ids and the caches are those of plain decoding, bit for bit."""
    how = settings(60, temperature=temperature, seed=3)
    plain = tiny.session(decoder, with_head=False)
    truth = ids_of(run(plain, PROMPT, how))
    for seed in range(3):
        drafter = Oracle(PROMPT + truth, seed)
        session = oracle_session(decoder, drafter, nodes)
        records = run(session, PROMPT, how)
        assert ids_of(records) == truth
        assert any(len(record.path) > 0 for record in records)
        if nodes == 11:
            assert max(len(record.path) for record in records) >= 3
        assert session.tokens == plain.tokens
        for ours, theirs in ((session.cache.keys, plain.cache.keys), (session.cache.values, plain.cache.values)):
            for a, b in zip(ours, theirs, strict=True):
                assert torch.equal(a[:, : plain.cache.length], b[:, : plain.cache.length])


@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_the_eagle_head_changes_nothing(decoder: Decoder, temperature: float) -> None:
    how = settings(80, temperature=temperature, seed=11, top_p=0.9)
    wide = TreeLimits(nodes=60, depth=2, top_k=40)  # wide enough for a random head to be right at times
    plain = run(tiny.session(decoder), PROMPT, GenerationSettings(**{**_fields(how), "eagle": False}))
    eagle = run(tiny.session(decoder, limits=wide), PROMPT, how)
    assert ids_of(plain) == ids_of(eagle)
    assert sum(len(record.path) for record in eagle) > 0, "the random head should be right now and then"
    assert all(record.tree is None for record in plain)


def _fields(how: GenerationSettings) -> dict[str, Any]:
    return {name: getattr(how, name) for name in GenerationSettings.__dataclass_fields__}


def test_an_end_inside_an_accepted_block_cuts_everything_there(decoder: Decoder) -> None:
    how = settings(60, temperature=1.0, seed=4)  # greedy text of a random model repeats itself too soon
    truth = ids_of(run(tiny.session(decoder, with_head=False), PROMPT, how))
    cut = 0
    for end in range(3, 40, 2):
        token = truth[end]
        first = truth.index(token)
        drafter = Oracle(PROMPT + truth, end)
        session = oracle_session(decoder, drafter)
        records = run(session, PROMPT, how, end_tokens=[token])
        assert ids_of(records) == truth[: first + 1]
        assert records[-1].finish is FinishReason.EOS
        cut += len(records[-1].path) + 1 > len(records[-1].emitted)
        # The sequence can go on from there: the next turn equals one decoded afresh.
        longer = [*session.tokens, 40, 41]
        drafter.truth = []
        again = ids_of(run(session, longer, settings(8)))
        fresh = ids_of(run(tiny.session(decoder, with_head=False), longer, settings(8)))
        assert again == fresh
    assert cut > 3, "no end fell inside a block: the test would prove nothing"


def test_a_stop_by_the_text_ends_the_reply_at_that_token(decoder: Decoder) -> None:
    truth = ids_of(run(tiny.session(decoder, with_head=False), PROMPT, settings(60)))
    for stop_after in (1, 2, 7, 16):
        seen: list[int] = []

        def emit(token: int, limit: int = stop_after, seen: list[int] = seen) -> bool:
            seen.append(token)
            return len(seen) == limit

        session = oracle_session(decoder, Oracle(PROMPT + truth))
        records = run(session, PROMPT, settings(60), emit=emit)
        assert ids_of(records) == truth[:stop_after] == seen
        assert records[-1].finish is FinishReason.EOS


@pytest.mark.parametrize("tokens", [1, 2, 3, 17])
def test_the_length_limit_is_never_passed(decoder: Decoder, tokens: int) -> None:
    truth = ids_of(run(tiny.session(decoder, with_head=False), PROMPT, settings(60)))
    session = oracle_session(decoder, Oracle(PROMPT + truth))
    records = run(session, PROMPT, settings(tokens))
    assert ids_of(records) == truth[:tokens]
    assert records[-1].finish is FinishReason.LENGTH


def test_the_context_ends_the_reply_and_is_filled_to_the_last_token(decoder: Decoder) -> None:
    plain = tiny.session(decoder, with_head=False, context=40)
    expected = run(plain, PROMPT, settings(500))
    assert expected[-1].finish is FinishReason.CONTEXT
    session = tiny.session(decoder, context=40)
    records = run(session, PROMPT, settings(500))
    assert ids_of(records) == ids_of(expected)
    assert records[-1].finish is FinishReason.CONTEXT
    assert len(PROMPT) + len(ids_of(records)) == 41  # the last token needs no slot


def test_a_prompt_that_leaves_no_room_is_refused(decoder: Decoder) -> None:
    session = tiny.session(decoder, context=20)
    with pytest.raises(PromptError, match="20"):
        run(session, [2] * 20, settings())
    with pytest.raises(PromptError, match="empty"):
        run(session, [], settings())
    assert ids_of(run(session, PROMPT, settings(4)))  # still usable


def test_turns_reuse_the_caches_and_change_nothing(decoder: Decoder) -> None:
    reused: list[int] = []
    session = tiny.session(decoder)
    prompt = list(PROMPT)
    for turn in range(4):
        records = run(session, prompt, settings(12, eagle=turn != 1), on_reuse=reused.append)
        fresh = tiny.session(decoder)
        assert ids_of(records) == ids_of(run(fresh, prompt, settings(12)))
        prompt = [*prompt, *ids_of(records), 50 + turn, 51 + turn]
    assert all(count > 0 for count in reused[1:])
    # A different past: only the common part is kept.
    branch = [*PROMPT[:5], 70, 71, 72]
    ours = ids_of(run(session, branch, settings(12), on_reuse=reused.append))
    assert reused[-1] == 4  # five common tokens, the last of them redone for the head
    assert ours == ids_of(run(tiny.session(decoder), branch, settings(12)))
    # The very same prompt again.
    assert ids_of(run(session, branch, settings(12))) == ours


def test_reused_head_cache_drafts_as_a_fresh_one(decoder: Decoder) -> None:
    """Acceptance must not decay with turns: the trees of a continued chat equal a fresh session's."""
    session = tiny.session(decoder)
    first = ids_of(run(session, PROMPT, settings(15)))
    prompt = [*PROMPT, *first, 60, 61]
    continued = run(session, prompt, settings(15))
    fresh = run(tiny.session(decoder), prompt, settings(15))
    for ours, theirs in zip(continued[1:], fresh[1:], strict=True):
        assert (ours.tree is None) == (theirs.tree is None)
        if ours.tree is not None and theirs.tree is not None:
            assert ours.tree.tokens == theirs.tree.tokens
            assert ours.tree.parents == theirs.tree.parents
            assert ours.tree.probabilities == pytest.approx(theirs.tree.probabilities, abs=1e-4)


def test_eagle_can_be_switched_while_a_reply_runs(decoder: Decoder) -> None:
    truth = ids_of(run(tiny.session(decoder), PROMPT, settings(60)))
    session = tiny.session(decoder)
    switches = Switches(eagle=False)
    records: list[StepRecord] = []
    for record in session.generate(PROMPT, settings(60), emit=lambda _: False, switches=switches):
        records.append(record)
        switches.eagle = len(records) // 6 % 2 == 1
    assert ids_of(records) == truth
    assert {record.drafting for record in records} == {True, False}


def test_a_stop_ends_after_the_running_step(decoder: Decoder) -> None:
    session = tiny.session(decoder)
    switches = Switches()
    records: list[StepRecord] = []
    for record in session.generate(PROMPT, settings(200), emit=lambda _: False, switches=switches):
        records.append(record)
        switches.stopped = len(records) == 5
    assert len(records) == 6
    assert records[-1].finish is FinishReason.STOPPED
    switches.stopped = True
    assert list(session.generate([2, 3, 4], settings(), emit=lambda _: False, switches=switches)) == []


@pytest.mark.parametrize(
    "bad", [{"nodes": 1}, {"nodes": 300}, {"depth": 0}, {"top_k": 0}, {"depth": 99}, {"top_k": 65}]
)
def test_tree_settings_out_of_range_are_refused(decoder: Decoder, bad: dict[str, int]) -> None:
    with pytest.raises(PromptError, match="between"):
        run(tiny.session(decoder), PROMPT, settings(tree=TreeSettings(**bad)))


def test_the_head_is_told_only_verified_features(decoder: Decoder) -> None:
    """After any reply, refreshing the head from scratch gives the next tree it would propose."""
    session = tiny.session(decoder)
    run(session, PROMPT, settings(30))
    known = list(session.tokens)
    drafter = session.drafter
    assert isinstance(drafter, EagleDrafter)
    assert session.cache.length >= len(known) - 1
    with torch.inference_mode():
        if session.cache.length > len(known) - 1:
            pytest.skip("the reply ended on a drafted token")
        tree = drafter.propose(known, tiny.LIMITS)
        other = EagleDrafter(tiny.head(decoder), 256)
        cache = decoder.new_cache()
        _, taps = decoder.forward(
            torch.tensor(known[:-1]), torch.arange(len(known) - 1), cache, None, other.taps
        )
        other.observe(torch.cat(taps, -1))
        expected = other.propose(known, tiny.LIMITS)
    assert tree.tokens == expected.tokens and tree.parents == expected.parents
