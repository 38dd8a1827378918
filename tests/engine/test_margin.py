"""The margin at one place of a reply: against transformers' logits, against noise that is planted, and
through the worker."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from engine.errors import PromptError
from engine.generation import Session
from engine.margin import TAIL, measure_margin
from engine.models.decoder import Decoder
from engine.protocol import (
    Failed,
    Finished,
    GenerationSettings,
    MarginMeasured,
    MeasureMargin,
    Message,
    Role,
)
from tests.engine import tiny
from tests.engine.test_worker import ask, engine, finished, folder, head, is_end
from tests.engine.worker_thread import Engine

__all__ = ["engine", "folder", "head"]  # fixtures

PROMPT = list(range(3, 43))
REPLY = (50, 7, 7, 61, 12)


@pytest.fixture(scope="module")
def model() -> Any:
    return tiny.reference()


@pytest.fixture(scope="module")
def decoder(model: Any, tmp_path_factory: pytest.TempPathFactory) -> Decoder:
    return tiny.float_decoder(tiny.save(model, tmp_path_factory.mktemp("margin")))


def command(reply: tuple[int, ...] = REPLY, candidates: tuple[int, ...] = (5, 6), **settings: Any) -> MeasureMargin:
    return MeasureMargin("m", (), reply, candidates, GenerationSettings(**settings))


def measured(session: Session, asked: MeasureMargin, prompt: list[int] = PROMPT) -> MarginMeasured:
    return measure_margin(session, prompt, asked, lambda token: f"<{token}>")


@pytest.mark.parametrize("length", [1, TAIL - 1, 40])
def test_the_logits_are_those_of_transformers(model: Any, decoder: Decoder, length: int) -> None:
    prompt = PROMPT[:length]
    with torch.inference_mode():
        wanted = model(torch.tensor([prompt + list(REPLY)])).logits[0, -1]
    found = measured(tiny.session(decoder), command(), prompt)
    assert found.logits == pytest.approx(wanted[[5, 6]].tolist(), abs=2e-3)
    assert found.probabilities == pytest.approx(torch.softmax(wanted.double(), -1)[[5, 6]].tolist(), rel=5e-3)
    assert found.best == int(wanted.argmax()) and found.best_logit == pytest.approx(float(wanted.max()), abs=2e-3)
    assert (found.texts, found.best_text) == (("<5>", "<6>"), f"<{found.best}>")
    assert 0 <= found.noise < 1e-3


def test_it_leaves_a_session_that_goes_on_as_a_fresh_one(decoder: Decoder) -> None:
    settings = GenerationSettings(max_new_tokens=12)

    def reply(session: Session) -> list[int]:
        ids: list[int] = []
        for record in session.generate(PROMPT, settings, emit=lambda token: ids.append(token) is not None):
            del record
        return ids

    used = tiny.session(decoder)
    first = reply(used)
    for place in (0, 4, 11):
        found = measured(used, command(tuple(first[:place]), (first[place], 5)))
        assert found.best == first[place], "greedy decoding chose the largest logit"
    assert reply(used) == first == reply(tiny.session(decoder))


def test_processors_and_sampling_count(model: Any, decoder: Decoder) -> None:
    session = tiny.session(decoder)
    plain = measured(session, command())
    biased = measured(session, command(logit_bias=((5, 3.0),), presence_penalty=0.5, frequency_penalty=0.25))
    assert biased.logits[0] == pytest.approx(plain.logits[0] + 3.0, abs=1e-4)
    twice = measured(session, command(candidates=(7, 50), frequency_penalty=0.25, temperature=0.5))
    free = measured(session, command(candidates=(7, 50)))
    assert twice.logits == pytest.approx((free.logits[0] - 0.5, free.logits[1] - 0.25), abs=1e-4)
    with torch.no_grad():
        wanted = model(torch.tensor([PROMPT + list(REPLY)])).logits[0, -1].double()
    wanted[[50, 7, 61, 12]] -= torch.tensor([0.25, 0.5, 0.25, 0.25], dtype=torch.float64)
    assert twice.probabilities == pytest.approx(torch.softmax(wanted / 0.5, -1)[[7, 50]].tolist(), rel=1e-2)
    banned = measured(session, command((7, 9, 7), (9, 5), no_repeat_ngram=2))
    assert banned.logits[0] == -math.inf and math.isfinite(banned.logits[1]) and math.isfinite(banned.noise)


def test_exact_arithmetic_has_no_noise(model: Any, tmp_path: Path) -> None:
    exact = tiny.int8_decoder(tiny.save(model, tmp_path))
    assert measured(tiny.session(exact, with_head=False), command()).noise == 0.0


def test_noise_that_depends_on_the_rows_is_found(decoder: Decoder, monkeypatch: pytest.MonkeyPatch) -> None:
    forward, logits = Decoder.forward, Decoder.logits
    rows = [0]

    def counting(self: Decoder, tokens: torch.Tensor, *rest: Any) -> Any:
        rows[0] = tokens.numel()
        return forward(self, tokens, *rest)

    def uneven(self: Decoder, hidden: torch.Tensor) -> torch.Tensor:
        found = logits(self, hidden)
        found[..., 5] += 0.01 * (rows[0] > 1)  # as a kernel that sums in another order
        return found

    monkeypatch.setattr(Decoder, "forward", counting)
    monkeypatch.setattr(Decoder, "logits", uneven)
    assert measured(tiny.session(decoder), command()).noise == pytest.approx(0.02, abs=1e-3)
    # A single candidate differs from nothing.
    assert measured(tiny.session(decoder), command(candidates=(5,))).noise == 0.0


def test_logits_of_half_precision_have_at_least_their_step_of_noise(
    decoder: Decoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    logits = Decoder.logits
    monkeypatch.setattr(Decoder, "logits", lambda self, hidden: logits(self, hidden).bfloat16().float())
    found = measured(tiny.session(decoder), command())
    assert found.noise >= 2**-7 * max(map(abs, found.logits))


@pytest.mark.parametrize("wrong", [command((3, 400)), command(candidates=()), command(candidates=(96,))])
def test_tokens_that_do_not_exist_are_refused(decoder: Decoder, wrong: MeasureMargin) -> None:
    with pytest.raises(PromptError, match="does not have"):
        measured(tiny.session(decoder), wrong)


def test_a_place_beyond_the_context_is_refused(decoder: Decoder) -> None:
    with pytest.raises(PromptError, match="token 45, the context holds 44"):
        measured(tiny.session(decoder, context=44), command())


def test_the_worker_answers_between_replies(engine: Engine, folder: Path, head: Path) -> None:
    asked = ask("first", tokens=12)
    where = MeasureMargin("m", asked.messages, (), (70, 80), asked.settings)
    engine.send(where)
    refused = engine.until(lambda event: isinstance(event, Failed))[-1]
    assert isinstance(refused, Failed) and refused.request_id == "m" and "No model" in refused.message
    engine.load(folder, str(head))
    engine.send(asked)
    first = finished(engine.until(is_end))
    ids = first.token_ids
    engine.send(replace(where, token_ids=ids[:4], candidates=(ids[4], 70)))
    found = engine.until(lambda event: isinstance(event, MarginMeasured | Failed))[-1]
    assert isinstance(found, MarginMeasured) and (found.request_id, found.noise) == ("m", 0.0)
    assert found.best == ids[4] and found.logits[0] >= found.logits[1]
    engine.send(replace(where, messages=(Message(Role.ASSISTANT, "no question"),)))
    broken = engine.until(lambda event: isinstance(event, MarginMeasured | Failed))[-1]
    assert isinstance(broken, Failed) and broken.request_id == "m" and broken.next_step
    engine.send(replace(asked, request_id="again"))
    again = engine.until(is_end)[-1]
    assert isinstance(again, Finished) and again.token_ids == ids
