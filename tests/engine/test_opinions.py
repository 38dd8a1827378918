"""What the target gives the guesses: the model's own probabilities and ranks, and where copies come from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
import torch

from engine.generation import StepRecord
from engine.models.decoder import Decoder
from engine.models.output_head import DenseHead, Int8Head, WideInt8Head, int8_head
from engine.protocol import GenerationSettings
from engine.target_rows import RANKED, judge
from tests.engine import tiny

PROMPT = [2, 30, 31, 32, 33, 34, 30, 31, 32, 40, 41, 30, 31]
LOOKUP = GenerationSettings(max_new_tokens=24, method="prompt-lookup", explain=True)
EAGLE = GenerationSettings(max_new_tokens=24, explain=True)


@pytest.fixture(scope="module")
def decoder(tmp_path_factory: pytest.TempPathFactory) -> Decoder:
    return tiny.float_decoder(tiny.save(tiny.reference(), tmp_path_factory.mktemp("tiny")))


def run(decoder: Decoder, how: GenerationSettings) -> list[StepRecord]:
    return list(tiny.session(decoder).generate(PROMPT, how, emit=lambda _: False))


@torch.inference_mode()
def after(decoder: Decoder, tokens: Sequence[int]) -> torch.Tensor:
    """The model's own distribution after ``tokens``, in one pass without a tree. [vocab]"""
    hidden, _ = decoder.forward(torch.tensor(tokens), torch.arange(len(tokens)), decoder.new_cache(256))
    return torch.softmax(decoder.logits(hidden[-1:])[0].double(), -1)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_guesses_are_given_what_a_plain_pass_gives_them(decoder: Decoder, temperature: float) -> None:
    known = list(PROMPT)
    told = 0
    for record in run(decoder, replace(EAGLE, temperature=temperature, seed=3)):
        tree = record.tree
        if tree is not None:
            asked = {0, *record.path}
            children = {node for node in range(1, tree.guesses) if tree.parents[node] in asked}
            assert set(record.opinions) == children and record.bonus_opinion is not None
            for node, opinion in record.opinions.items():
                before = [tree.tokens[each] for each in tree.path(tree.parents[node])[1:]]
                shares = after(decoder, [*known, *before])
                share = float(shares[tree.tokens[node]])
                assert opinion.probability == pytest.approx(share, rel=1e-3, abs=1e-6)
                if opinion.rank is not None:
                    assert opinion.rank == 1 + int((shares > share + 1e-9).sum())
                told += 1
            path = [tree.tokens[each] for each in record.path]
            shares = after(decoder, [*known, *path])
            assert record.bonus_opinion.probability == pytest.approx(float(shares[record.bonus]), rel=1e-3)
            if temperature == 0:
                assert record.bonus_opinion.rank == 1
        known += record.emitted
    assert told > 20


def test_nothing_is_worked_out_unasked_and_the_reply_is_the_same(decoder: Decoder) -> None:
    asked, unasked = run(decoder, EAGLE), run(decoder, replace(EAGLE, explain=False))
    assert [record.emitted for record in asked] == [record.emitted for record in unasked]
    assert all(not record.opinions and record.bonus_opinion is None for record in unasked)


def test_copied_guesses_say_where_they_come_from(decoder: Decoder) -> None:
    known = list(PROMPT)
    told = 0
    for record in run(decoder, LOOKUP):
        if record.tree is not None:
            assert record.tree.match is not None
            end, count = record.tree.match
            assert known[end - count : end] == known[-count:] and 1 <= count <= 3 and end < len(known)
            assert count == 3 or end == count or known[end - count - 1] != known[-count - 1]
            chain = record.tree.tokens[1:]
            assert tuple(known[end : end + len(chain)]) == chain
            told += 1
        known += record.emitted
    assert told


def test_judging_agrees_with_sorting() -> None:
    logits = torch.randn(3000, generator=torch.Generator().manual_seed(1)) * 4
    shares = torch.softmax(logits.double(), -1)
    order = shares.argsort(descending=True).tolist()
    tokens = [order[0], order[7], order[40], order[-1]]
    found = judge(logits, tokens)
    for token, opinion in zip(tokens, found, strict=True):
        assert opinion.probability == pytest.approx(float(shares[token]), rel=1e-4)
        wanted = order.index(token) + 1 if float(shares[token]) >= RANKED else None
        assert opinion.rank == wanted
    assert found[-1].rank is None and judge(logits, [order[-1]])[0].rank is None


@pytest.mark.parametrize("kind", ["dense", "whole", "blocks"])
def test_a_head_gives_the_same_ids_and_the_rows_it_holds(kind: str) -> None:
    weight = torch.randn(500, 32, generator=torch.Generator().manual_seed(2))
    scale = weight.abs().amax(-1) / 127
    int8 = (weight / scale[:, None]).round().to(torch.int8)
    head = DenseHead(weight) if kind == "dense" else int8_head(int8, scale) if kind == "whole" else Int8Head(int8, scale)
    x = torch.randn(5, 32, generator=torch.Generator().manual_seed(3))
    factor = torch.rand(5, 1, generator=torch.Generator().manual_seed(4)) + 0.5
    ids, row = head.argmax_and_rows(x, factor)
    assert torch.equal(ids, head.argmax(x, factor))
    if isinstance(head, Int8Head):
        assert row is None  # it never holds them all
    else:
        assert row is not None and isinstance(head, DenseHead | WideInt8Head)
        for number in range(5):
            assert torch.allclose(row(number), head.logits(x, factor)[number], atol=1e-5)
