"""The order of replies, loads and measurements, and everything that can end a comparison early."""

from __future__ import annotations

from dataclasses import replace

import pytest
from pytestqt.qtbot import QtBot

from app.compare.comparison import Outcome, Which
from app.compare.runner import CompareRunner
from app.compare.sides import PLAIN, SideChoice
from app.compare.states import Phase
from engine.protocol import (
    Failed,
    FinishReason,
    Load,
    Loaded,
    MeasureMargin,
    Mode,
)
from tests.app.compare_replies import (
    MESSAGES,
    MODEL,
    PLAYED,
    SETTINGS,
    TOKENS,
    TREE,
    ScriptedClient,
    plan,
    unrolled,
)
from tests.app.tree_panel_steps import finished, plain_steps, steps

HEAD = replace(TREE, head="/heads/new", head_name="new")


@pytest.fixture
def client(qapp: object) -> ScriptedClient:
    return ScriptedClient()


@pytest.fixture
def now() -> list[float]:
    return [100.0]


@pytest.fixture
def runner(client: ScriptedClient, now: list[float]) -> CompareRunner:
    return CompareRunner(client, clock=lambda: now[0])


def order(client: ScriptedClient) -> str:
    return "".join("A" if command.settings.eagle else "B" for command in client.asked)


def test_sides_get_the_same_prompt_and_seed_in_turns(client: ScriptedClient, runner: CompareRunner) -> None:
    ended: list[Which] = []
    runner.ended.connect(lambda job: ended.append(job.which))
    runner.start(plan(repeats=2))
    while runner.busy:
        client.play_side()
    assert order(client) == "ABBA" and ended == [Which.A, Which.B, Which.B, Which.A]
    first, second = client.asked[0], client.asked[1]
    assert first.settings.seed is not None and first.messages == second.messages == MESSAGES
    assert first.settings == replace(SETTINGS, seed=first.settings.seed, method="tree")
    assert second.settings == replace(SETTINGS, seed=first.settings.seed, eagle=False)
    assert len({command.request_id for command in client.asked}) == 4
    assert client.sent == client.asked, "nothing was stopped, loaded or measured"
    assert runner.phase is Phase.DONE and runner.record is not None and len(runner.record.pairs()) == 2
    assert runner.record.answers[0].outcome is Outcome.IDENTICAL
    assert runner.record.side(Which.A).name == "Dynamic tree" and runner.record.seed == first.settings.seed


def test_a_set_of_prompts_is_gone_through_one_by_one(
    client: ScriptedClient, runner: CompareRunner, now: list[float]
) -> None:
    runner.start(plan(prompts=["one", "two", "three"], seed=5, temperature=0.8))
    assert runner.progress == 0.0 and runner.seconds_left is None
    client.play_side()
    now[0] += 10
    assert runner.progress == pytest.approx(1 / 6) and runner.seconds_left == pytest.approx(50)
    client.play(PLAYED[:9], end=False)
    assert 1 / 6 < runner.progress < 2 / 6
    client.play(unrolled(PLAYED), mode=Mode.PLAIN)
    while runner.busy:
        client.play_side()
    assert order(client) == "ABBAAB"
    assert [command.messages[-1].content for command in client.asked] == ["one", "one", "two", "two", "three", "three"]
    assert {command.settings.seed for command in client.asked} == {5}
    assert runner.record is not None and len(runner.record.replies) == 6 and runner.done == 6


def test_the_margin_is_asked_for_once_where_texts_part(client: ScriptedClient, runner: CompareRunner) -> None:
    runner.start(plan(repeats=2, presence_penalty=0.5))
    client.play_side()
    client.play_side({5: (777, " dog")})
    assert runner.phase is Phase.MEASURING
    asked = client.sent[-1]
    assert isinstance(asked, MeasureMargin) and asked.messages == MESSAGES and asked.settings.presence_penalty == 0.5
    ids = finished(PLAYED).token_ids
    assert asked.token_ids == ids[:5] and asked.candidates == (ids[5], 777)
    client.measure(-0.25, 0.5, best=42)
    assert runner.phase is Phase.RUNNING
    client.play_side({5: (777, " dog")})
    client.play_side()
    assert runner.phase is Phase.DONE and len(client.all_sent(MeasureMargin)) == 1
    margin = runner.record.answers[0].margin if runner.record else None
    assert margin is not None and (margin.difference, margin.is_tie, margin.best_text) == (-0.25, True, " best")
    assert all(reply.as_first for reply in runner.record.replies)  # type: ignore[union-attr]


def test_a_margin_that_cannot_be_measured_ends_nothing(client: ScriptedClient, runner: CompareRunner) -> None:
    runner.start(plan())
    client.play_side()
    client.play_side({5: (777, " dog")})
    asked = client.sent[-1]
    assert isinstance(asked, MeasureMargin)
    client.failed.emit(Failed("The context is full.", "Shorten it.", request_id=asked.request_id))
    assert runner.phase is Phase.DONE and runner.record is not None
    assert runner.record.answers[0].margin_problem == "The context is full."
    # A reply that had ended has no token there, so nothing is asked.
    runner.start(plan())
    client.play(plain_steps(["a", "b"]))
    client.play(plain_steps(["a", "b", "c"]), mode=Mode.PLAIN)
    assert runner.phase is Phase.DONE and "had ended" in runner.record.answers[0].margin_problem


def test_a_side_that_differs_from_itself_is_noted(client: ScriptedClient, runner: CompareRunner) -> None:
    runner.start(plan(repeats=2))
    client.play_side()
    client.play_side()
    client.play_side({3: (9, "x")})
    client.play_side()
    assert runner.record is not None
    assert [reply.as_first for reply in runner.record.replies] == [True, True, False, True]


# --------------------------------------------------------------------------- heads


def test_another_head_is_loaded_once_a_pair_and_the_old_one_at_the_end(
    client: ScriptedClient, runner: CompareRunner
) -> None:
    common = Load("tiny", "old", device="cpu")
    runner.start(plan(TREE, HEAD, repeats=2, load=common))
    other = replace(MODEL, head_name="new")
    new = replace(common, head="/heads/new")
    client.play(PLAYED)
    assert runner.phase is Phase.LOADING and client.sent[-1] == new
    client.load_ends(other)
    client.play(PLAYED)
    assert client.all_sent(Load) == [new], "B's second reply needs the same head"
    client.play(PLAYED)
    assert client.sent[-1] == common and runner.phase is Phase.LOADING
    client.load_ends()
    client.play(PLAYED)
    assert runner.phase is Phase.DONE and client.all_sent(Load) == [new, common]
    assert runner.record is not None and runner.record.b.head == "new" and runner.record.a.head == "head"
    runner.start(plan(HEAD, PLAIN, load=common))
    client.load_ends(other)
    client.play(PLAYED)
    assert client.asked[-1].settings.eagle is False, "plain decoding runs on whatever head is there"
    client.play(unrolled(PLAYED), mode=Mode.PLAIN)
    assert runner.phase is Phase.DONE and client.sent[-1] == common


@pytest.mark.parametrize("fault", ["no fit", "no memory"])
def test_a_head_that_cannot_be_loaded_is_said_and_the_old_one_comes_back(
    client: ScriptedClient, runner: CompareRunner, fault: str
) -> None:
    runner.start(plan(TREE, HEAD))
    client.play(PLAYED)
    if fault == "no fit":
        client.load_ends(replace(MODEL, head_name=None, head_problem="It was made for another model."))
        said = "The head in /heads/new cannot be used."
        assert runner.trouble is not None and runner.trouble.next_step == "It was made for another model."
    else:
        client.load_ends(None)
        said = "The GPU's memory is full."
    assert runner.phase is Phase.FAILED and runner.trouble is not None and runner.trouble.message == said
    assert runner.trouble.next_step and client.sent[-1] == Load("tiny")
    assert runner.record is not None and len(runner.record.replies) == 1 and said in runner.record.problem


def test_loading_that_ends_without_a_word_ends_the_comparison(
    client: ScriptedClient, runner: CompareRunner, qtbot: QtBot
) -> None:
    runner.start(plan(HEAD, PLAIN))
    assert runner.phase is Phase.LOADING
    client.is_loading = False  # the engine died, or was ended to free its memory
    client.state_changed.emit()
    qtbot.waitUntil(lambda: runner.phase is Phase.FAILED, timeout=20000)
    assert runner.trouble is not None and "Restart" in runner.trouble.next_step
    assert len(client.all_sent(Load)) == 1, "whoever starts it again loads what was there"


# --------------------------------------------------------------------------- ending early


def test_stop_keeps_what_is_complete(client: ScriptedClient, runner: CompareRunner) -> None:
    runner.start(plan(repeats=3))
    for _ in range(3):
        client.play_side()
    client.play(PLAYED[:4], end=False)
    runner.stop()
    request = client.asked[-1].request_id
    assert client.stopped == [request] and runner.phase is Phase.STOPPING
    client.finished.emit(finished([replace(one, request_id=request) for one in PLAYED[:4]], reason=FinishReason.STOPPED))
    assert runner.phase is Phase.STOPPED and len(client.asked) == 4
    assert runner.record is not None and len(runner.record.replies) == 3 and runner.record.stopped
    assert len(runner.record.pairs()) == 1 and runner.trouble is None


def test_stop_before_anything_is_complete_keeps_the_text(client: ScriptedClient, runner: CompareRunner) -> None:
    runner.start(plan())
    client.play(PLAYED[:4], end=False)
    runner.stop()
    request = client.asked[-1].request_id
    client.failed.emit(Failed("gone", request_id=request))
    assert runner.phase is Phase.STOPPED and runner.record is not None and runner.record.replies == ()
    assert runner.record.answers[0].text(Which.A) == "".join(one.text for one in PLAYED[:4])


@pytest.mark.parametrize("at", ["load", "margin"])
def test_stop_waits_for_a_load_or_a_margin(client: ScriptedClient, runner: CompareRunner, at: str) -> None:
    runner.start(plan(TREE, HEAD if at == "load" else PLAIN, repeats=2))
    client.play_side()
    if at == "margin":
        client.play_side({5: (777, " dog")})
    runner.stop()
    assert runner.phase is Phase.STOPPING
    asked = len(client.asked)
    if at == "load":
        client.load_ends(replace(MODEL, head_name="new"))
        assert client.sent[-1] == Load("tiny")
    else:
        client.measure(1.0, 0.0)
        assert runner.record is not None and runner.record.answers[0].margin is not None
    assert runner.phase is Phase.STOPPED and len(client.asked) == asked


def test_a_failure_keeps_what_is_complete_and_says_what_to_do(client: ScriptedClient, runner: CompareRunner) -> None:
    runner.start(plan(repeats=2))
    client.play_side()
    client.play_side()
    client.failed.emit(Failed("The GPU's memory is full.", "Choose a smaller model.", request_id=client.asked[-1].request_id))
    assert runner.phase is Phase.FAILED and runner.record is not None and len(runner.record.pairs()) == 1
    assert runner.record.problem == "The GPU's memory is full. Choose a smaller model."


def test_an_engine_that_is_gone_is_said_to_be(client: ScriptedClient, runner: CompareRunner) -> None:
    client.alive = False
    runner.start(plan())
    assert runner.phase is Phase.FAILED and runner.trouble is not None
    assert "not running" in runner.trouble.message and "Restart" in runner.trouble.next_step
    client.model = None
    runner.start(plan())
    assert "No model is loaded" in runner.trouble.message and "Load a model" in runner.trouble.next_step


@pytest.mark.parametrize("change", ["other", "head", "gone"])
def test_a_model_that_changes_meanwhile_ends_it_and_is_left_alone(
    client: ScriptedClient, runner: CompareRunner, change: str
) -> None:
    runner.start(plan(repeats=2))
    client.play_side()
    if change == "gone":
        client.model = None
        client.play_side()
    else:
        client.model = replace(MODEL, path="other") if change == "other" else replace(MODEL, head_name="another")
        client.loaded.emit(Loaded(client.model))
        assert client.stopped == [client.asked[-1].request_id]
    assert runner.phase is Phase.FAILED and runner.trouble is not None
    assert "changed meanwhile" in runner.trouble.message and runner.trouble.next_step
    assert client.all_sent(Load) == [] and runner.record is not None and len(runner.record.replies) >= 1


def test_the_same_model_measured_anew_disturbs_nothing(client: ScriptedClient, runner: CompareRunner) -> None:
    runner.start(plan())
    client.loaded.emit(Loaded(MODEL))
    assert runner.phase is Phase.RUNNING and client.stopped == []


def test_a_method_that_needs_something_else_is_refused_with_its_reason(
    client: ScriptedClient, runner: CompareRunner
) -> None:
    runner.start(plan(SideChoice(method="medusa")))
    assert runner.phase is Phase.FAILED and client.sent == [] and runner.trouble is not None
    assert "No Medusa heads" in runner.trouble.message and "Choose another" in runner.trouble.next_step


def test_events_of_others_are_ignored_and_a_new_start_gives_the_old_up(
    client: ScriptedClient, runner: CompareRunner
) -> None:
    runner.start(plan())
    for one in steps(4, request_id="chat"):
        client.step.emit(one)
    client.finished.emit(finished(steps(4, request_id="chat")))
    client.failed.emit(Failed("no", request_id="chat"))
    client.failed.emit(Failed("a load of somebody else failed"))
    assert runner.phase is Phase.RUNNING and runner.runs[Which.A].pieces == []
    old = client.asked[0].request_id
    runner.start(plan())
    assert client.stopped == [old]
    client.step.emit(replace(PLAYED[0], request_id=old))
    assert runner.runs[Which.A].pieces == []


def test_abandoning_while_a_head_loads_brings_the_old_one_back(client: ScriptedClient, runner: CompareRunner) -> None:
    runner.start(plan(HEAD, PLAIN))
    runner.abandon()
    assert runner.phase is Phase.STOPPED and client.sent[-1] == Load("tiny")
    client.load_ends(replace(MODEL, head_name="new"))
    client.load_ends()
    assert client.asked == [] and TOKENS > 0
