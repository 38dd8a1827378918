"""The worker over a pair of queues: what the application sees, in order, also when things fail."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from engine.calibration.pilot import PAUSE
from engine.heads.checkpoint import write_eagle3
from engine.protocol import (
    Calibrate,
    Calibrated,
    Event,
    Failed,
    Finished,
    FinishReason,
    Generate,
    GenerationSettings,
    Load,
    Loaded,
    Loading,
    Message,
    Mode,
    Origin,
    Ready,
    Role,
    SetEagle,
    Shape,
    Shutdown,
    Started,
    Step,
    Stop,
    TreeSettings,
    Unload,
    Unloaded,
    Verdict,
)
from engine.worker import Worker
from tests.engine import tiny
from tests.engine.known_times import LOSES, KnownMachine
from tests.engine.worker_thread import Engine, Queues


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny.save_with_tokenizer(tmp_path_factory.mktemp("모델 ü") / "tiny")


@pytest.fixture(scope="module")
def head(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("head")
    write_eagle3(path, tiny.checkpoint(vocabulary=tiny.BYTES, draft_vocabulary=200))
    return path


@pytest.fixture
def engine(known_machine: KnownMachine) -> Iterator[Engine]:
    queues = Queues()
    thread = threading.Thread(target=Worker(queues).run)
    thread.start()
    made = Engine(queues, thread)
    made.until(lambda event: isinstance(event, Ready))
    yield made
    made.send(Shutdown())
    thread.join(20)
    assert not thread.is_alive()


def ask(request_id: str = "a", tokens: int = 60, **more: object) -> Generate:
    more = {"adapt": False, **more}  # a random head never pays
    settings = GenerationSettings(max_new_tokens=tokens, tree=TreeSettings(200, 2, 64), **more)  # type: ignore[arg-type]
    return Generate(request_id, (Message(Role.USER, "Hällo 🙂"),), settings)


def is_end(event: Event) -> bool:
    return isinstance(event, Finished | Failed)


def finished(events: list[Event]) -> Finished:
    assert isinstance(events[-1], Finished), events[-1]
    return events[-1]


def test_a_reply_from_start_to_end(engine: Engine, folder: Path, head: Path) -> None:
    info = engine.load(folder, str(head)).model
    assert info.head_name == head.name and info.head_problem is None
    assert info.weight_format == "row-wise int8" and info.vocabulary == tiny.BYTES
    engine.send(ask(temperature=1.0, seed=1))  # greedy text of a random model repeats one token
    events = engine.until(is_end)
    assert isinstance(events[0], Started) and events[0].prompt_tokens > 10
    steps = [event for event in events if isinstance(event, Step)]
    end = finished(events)
    assert [step.index for step in steps] == list(range(len(steps)))
    assert "".join(step.text for step in steps) == end.text
    assert [piece.token_id for step in steps for piece in step.pieces] == list(end.token_ids)
    stats = end.stats
    assert (
        stats.mode is Mode.EAGLE and stats.new_tokens == len(end.token_ids) and stats.steps == len(steps) - 1
    )
    assert stats.accepted_tokens > 0 and stats.drafted_tokens >= stats.accepted_tokens
    assert stats.time_to_first_token > 0 and stats.tokens_per_second > 0
    drafted = sum(piece.origin is Origin.DRAFT for step in steps for piece in step.pieces)
    assert drafted == stats.accepted_tokens
    for step in steps[1:]:
        if not step.nodes:
            continue
        assert step.nodes[0].verdict is Verdict.ROOT and step.bonus is not None
        path = [0, *step.accepted]
        assert all(step.nodes[b].parent == a for a, b in itertools.pairwise(path))
        assert step.bonus.parent == path[-1]
        assert {i for i, node in enumerate(step.nodes) if node.verdict is Verdict.ACCEPTED} == set(
            step.accepted
        )


def test_eagle_on_and_off_agree_and_off_draws_no_tree(engine: Engine, folder: Path, head: Path) -> None:
    engine.load(folder, str(head))
    engine.send(ask("on"))
    engine.send(ask("off", eagle=False))
    on = finished(engine.until(is_end))
    events = engine.until(is_end)
    off = finished(events)
    assert (on.request_id, off.request_id) == ("on", "off")
    assert on.token_ids == off.token_ids
    assert off.stats.mode is Mode.PLAIN and off.stats.reused_tokens > 0
    assert all(not event.nodes for event in events if isinstance(event, Step))


def test_a_method_is_named_and_its_window_is_told_apart(engine: Engine, folder: Path) -> None:
    info = engine.load(folder, "").model
    assert info.method == "plain"
    usable = [method.id for method in info.methods if not method.problem]
    assert usable == ["plain", "lookahead", "prompt-lookup"]
    engine.send(ask("plain"))
    truth = finished(engine.until(is_end))
    assert truth.stats.method == "plain" and truth.stats.mode is Mode.PLAIN
    engine.send(ask("window", method="lookahead", options=(("window", 3), ("ngram", 3), ("guesses", 4))))
    events = engine.until(is_end)
    assert finished(events).token_ids == truth.token_ids and finished(events).stats.method == "lookahead"
    steps = [event for event in events if isinstance(event, Step) and event.window]
    assert len(steps) > 3
    for step in steps:
        assert step.method == "lookahead" and step.shape is Shape.WINDOW and step.mode is Mode.EAGLE
        assert {node.verdict for node in step.window} == {Verdict.WINDOW}
        assert Verdict.WINDOW not in {node.verdict for node in step.nodes}
        rows = (*step.nodes, *step.window)
        assert all(rows[node.parent].depth == node.depth - 1 for node in rows[1:])
    drafted = sum(len(event.nodes) - 1 for event in events if isinstance(event, Step) and event.nodes)
    assert finished(events).stats.drafted_tokens == drafted  # guesses only
    engine.send(ask("none", method="medusa"))
    failed = engine.until(is_end)[-1]
    assert isinstance(failed, Failed) and "Medusa" in failed.message and failed.next_step


def test_stop_ends_the_running_reply_and_a_waiting_one(engine: Engine, folder: Path, head: Path) -> None:
    engine.load(folder, str(head))
    engine.hold(3)
    engine.send(ask("long", tokens=3000))
    engine.send(ask("waiting"))
    engine.until_held()
    for name in ("waiting", "long", "unknown"):
        engine.send(Stop(name))
    engine.go_on()
    events = engine.until(is_end)
    first = finished(events)
    assert first.request_id == "long" and first.reason is FinishReason.STOPPED and first.token_ids
    assert len(events) == 2  # the step that ran when it was told to stop, and the end
    second = finished(engine.until(is_end))
    assert second.request_id == "waiting" and second.reason is FinishReason.STOPPED and not second.text


def test_eagle_is_switched_in_the_middle(engine: Engine, folder: Path, head: Path) -> None:
    engine.load(folder, str(head))
    engine.hold(3, 6)
    engine.send(ask("a", tokens=160, eagle=False))
    events = []
    for enabled in (True, False):
        events += engine.until_held()
        engine.send(SetEagle("a", enabled))
        engine.go_on()
    events += engine.until(is_end)
    end = finished(events)
    assert end.stats.mode is Mode.MIXED
    drafting = [event.index for event in events if isinstance(event, Step) and event.mode is Mode.EAGLE]
    assert drafting == [4, 5, 6]
    engine.hold()
    engine.send(ask("b", tokens=160))
    assert finished(engine.until(is_end)).token_ids == end.token_ids


@pytest.mark.parametrize("last", [Shutdown(), None], ids=["asked to", "the application is gone"])
def test_shutdown_in_the_middle_ends_the_reply(
    last: Shutdown | None, folder: Path, head: Path, known_machine: KnownMachine
) -> None:
    queues = Queues()
    worker = Worker(queues)
    thread = threading.Thread(target=worker.run)
    thread.start()
    engine = Engine(queues, thread)
    engine.load(folder, str(head))
    engine.hold(2)
    engine.send(ask(tokens=3000))
    engine.until_held()
    engine.send(last)
    assert worker._ending.wait(20)
    queues.gate.set()
    thread.join(20)
    assert not thread.is_alive()
    rest = engine.until(is_end)
    assert finished(rest).reason is FinishReason.STOPPED and len(rest) <= 3


def test_failures_say_what_to_do_and_the_worker_goes_on(engine: Engine, folder: Path, tmp_path: Path) -> None:
    engine.send(ask("early"))
    early = engine.until(is_end)[-1]
    assert isinstance(early, Failed) and early.request_id == "early" and "Load" in early.next_step
    engine.send(Load(str(tmp_path / "nowhere")))
    gone = engine.until(lambda event: isinstance(event, Failed))[-1]
    assert isinstance(gone, Failed) and "nowhere" in gone.message and gone.next_step and gone.kind == "model"
    loaded = engine.load(folder, None)
    assert loaded.model.head_name is None and loaded.model.head_problem
    engine.send(Generate("long", (Message(Role.USER, "x" * 1200),)))
    long = engine.until(is_end)[-1]
    assert isinstance(long, Failed) and long.kind == "prompt" and "context" in long.message
    engine.send(ask("bad", temperature=-1.0))
    assert isinstance(engine.until(is_end)[-1], Failed)
    engine.send(ask("fine", tokens=5))
    assert finished(engine.until(is_end)).stats.new_tokens == 5
    engine.send(Unload())
    engine.until(lambda event: isinstance(event, Unloaded))
    engine.send(ask("late"))
    assert isinstance(engine.until(is_end)[-1], Failed)


def _drop(path: Path) -> str:
    tensors = load_file(path / "model.safetensors")
    del tensors["midlayer.self_attn.o_proj.weight"]
    save_file(tensors, path / "model.safetensors")
    return "midlayer.self_attn.o_proj.weight"


def _truncate(path: Path) -> str:
    file = path / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-1000])
    return "model.safetensors"


def _foreign(path: Path) -> str:
    write_eagle3(path, tiny.checkpoint())  # made for another vocabulary
    return str(tiny.VOCABULARY)


def _nan(path: Path) -> str:
    tensors = load_file(path / "model.safetensors")
    tensors["fc.weight"][3, 3] = torch.nan
    save_file(tensors, path / "model.safetensors")
    return "fc.weight"


def _remove(path: Path) -> str:
    (path / "model.safetensors").unlink()
    return "model.safetensors"


@pytest.mark.parametrize("damage", [_drop, _truncate, _foreign, _nan, _remove])
def test_a_bad_head_is_named_and_plain_decoding_works(
    engine: Engine, folder: Path, tmp_path: Path, damage: Callable[[Path], str]
) -> None:
    write_eagle3(tmp_path, tiny.checkpoint(vocabulary=tiny.BYTES, draft_vocabulary=200))
    words = damage(tmp_path)
    info = engine.load(folder, str(tmp_path)).model
    assert info.head_name is None
    assert info.head_problem is not None and words in info.head_problem
    engine.send(ask(tokens=8))
    end = finished(engine.until(is_end))
    assert end.stats.new_tokens == 8 and end.stats.mode is Mode.PLAIN


def test_loading_reports_progress_and_the_second_time_reads_the_cache(engine: Engine, folder: Path) -> None:
    engine.send(Load(str(folder), ""))
    engine.until(lambda event: isinstance(event, Loaded))
    engine.send(Load(str(folder), ""))
    events = engine.until(lambda event: isinstance(event, Loaded))
    words = [event.message for event in events if isinstance(event, Loading)]
    assert "Reading the weights" in words
    assert not any("Quantising" in word for word in words)


def test_the_calibration_is_told_at_load_and_when_asked_for(
    engine: Engine, folder: Path, head: Path, known_machine: KnownMachine
) -> None:
    engine.send(Calibrate())
    failed = engine.until(lambda event: isinstance(event, Failed))[-1]
    assert isinstance(failed, Failed) and "No model" in failed.message and failed.request_id is None
    info = engine.load(folder, str(head)).model
    engine.until(lambda event: isinstance(event, Calibrated))
    engine.send(Calibrate())
    events = engine.until(lambda event: isinstance(event, Calibrated))
    assert [type(event) for event in events] == [Loading, Loaded, Calibrated]
    first, second = (event.calibration for event in engine.calibrated)
    assert first.method == second.method == info.method == "eagle3"
    assert known_machine.fresh == [False, True]  # measured again
    assert [seconds for _, seconds in second.passes] == [2 * seconds for _, seconds in first.passes]
    for told in (first, second):
        assert told.passes[0][0] == 1 and told.curve[0].nodes == 1 and told.steps > 3
        assert told.chosen in told.curve and told.drafting
    engine.send(ask())  # the session goes on
    finished(engine.until(is_end))


def test_a_change_of_the_choice_is_told_in_the_reply(
    engine: Engine, folder: Path, known_machine: KnownMachine
) -> None:
    """Where measuring found that drafting can only lose, it is off, in words and on the curve."""
    known_machine.pays = LOSES
    engine.send(Load(str(folder), "", draft=str(folder)))
    engine.until(lambda event: isinstance(event, Calibrated))
    engine.send(ask(tokens=PAUSE, adapt=True, method="draft-model"))  # no longer than the pause
    events = engine.until(is_end)
    told = [event.calibration for event in engine.calibrated if event.request_id == "a"]
    assert [(each.method, each.paused, each.chosen.nodes) for each in told] == [("draft-model", True, 1)]
    notices = [event.notice for event in events if isinstance(event, Step) and event.notice]
    assert notices == [told[0].notice] == [finished(events).notice] and "slower" in notices[0]
    assert all(event.mode is Mode.PLAIN for event in events if isinstance(event, Step) and event.index)
