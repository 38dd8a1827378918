"""What earlier chats brought: kept between starts, and where the next chat begins."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from engine.calibration.experience import (
    DRAWN,
    ENOUGH,
    KEPT,
    Learned,
    Manner,
    as_drawn,
    keep_experience,
    recall_experience,
)
from engine.calibration.pilot import PROBE_NODES, Freedom
from engine.calibration.piloting import Pilots
from engine.calibration.timing import WITNESSES, Sample, Timing
from engine.drafting.drafter import TreeLimits
from engine.drafting.method import Equipment
from engine.drafting.registry import METHODS, methods_for
from engine.generation import Switches
from engine.loaded import LoadedModel
from engine.protocol import Generate
from engine.remembered import keep
from engine.settings import GenerationSettings
from engine.worker import Worker
from tests.engine import tiny
from tests.engine.known_times import known_timing
from tests.engine.simulated_machine import Machine, Pilot
from tests.engine.test_methods import decoder, equipment, run

__all__ = ["decoder", "equipment"]  # fixtures

BEGIN = TreeLimits(nodes=12, depth=8, top_k=3, worth=0.1)
ALL = Freedom(nodes=True, depth=True, worth=True)
SAMPLE = Sample(((0.6, 1, 1.0), (0.3, 2, 0.0)), 12, 8, 0.1, extra=2)
GREEDY, DRAWING = GenerationSettings(), GenerationSettings(temperature=1.0, seed=1)


def test_it_is_kept_by_method_and_manner_and_damage_is_no_obstacle(data_dir: Path) -> None:
    assert recall_experience("m") == {}
    first = {Manner("eagle3", False): Learned((SAMPLE,) * 3, {"top_k": 4})}
    keep_experience("m", first)
    second = {Manner("eagle3", True): Learned((replace(SAMPLE, extra=0),), {})}
    keep_experience("m", second)
    assert recall_experience("m") == {**first, **second} and recall_experience("other") == {}
    newer = {Manner("eagle3", False): Learned((SAMPLE,) * (KEPT + 9), {})}
    keep_experience("m", newer)
    assert len(recall_experience("m")[Manner("eagle3", False)].samples) == KEPT
    (file,) = data_dir.rglob("experience/*.json")
    text = file.read_text("utf-8")
    for damage in (
        "",
        "[]",
        "{}",
        text[:90],
        text.replace("0.6", "6.0"),
        text.replace('"version": 1', '"version": 0'),
    ):
        assert damage != text
        file.write_text(damage, "utf-8")
        assert recall_experience("m") == {}
    keep("experience", "m", {"version": 1, "manners": [{"method": "eagle3"}]})
    assert recall_experience("m") == {}


def test_a_method_that_lost_in_earlier_chats_is_not_tried_at_full_size_again() -> None:
    """At load it looked well; the chats are another matter."""
    machine = Machine(row=0.06, base=0.3, level=0.1, low=0.8, high=0.95, reading=0.002)
    timing = machine.timing(12)
    machine.mood = lambda _: (0.0, 0.15)

    def cost(pilot: Any, tokens: int) -> float:
        """Plain steps lost in a chat of so many tokens; the largest tree drafted."""
        machine.read = machine.tokens - 40
        begin, end = machine.time - machine.plain, machine.tokens + tokens
        sizes.clear()
        while machine.tokens < end:
            limits = pilot.plan(machine.tokens - machine.read)
            sizes.append(limits.nodes if limits is not None else 0)
            unread = machine.tokens - machine.read
            pilot.learn(*machine.step(limits), limits, unread)
        return machine.time - machine.plain - begin

    sizes: list[int] = []
    chat = Pilot(timing, "m", BEGIN, ALL)
    first = cost(chat, 60)
    assert first > 2 and max(sizes) > PROBE_NODES
    while chat.learned() is None:
        machine.guided(chat)
    learned = chat.learned()
    assert learned is not None and len(learned.samples) >= ENOUGH
    again = Pilot(
        replace(timing, samples={"m": learned.samples}),
        "m",
        BEGIN,
        ALL,
        begin=learned.tuning,
        experienced=True,
    )
    assert again.paused
    assert cost(again, 60) < first / 2 and max(sizes) <= PROBE_NODES
    # Where the chats have become easy it is back soon all the same.
    machine.mood = None
    assert machine.piloted(again, machine.tokens + 600) and not again.paused


def test_greedy_steps_promise_nothing_for_drawn_replies(equipment: Equipment) -> None:
    """A drafter that is right three times in four where it claims a quarter: drawn, a quarter is what it gets."""
    method = next(each for each in METHODS if each.info.id == "eagle3")
    right = tuple(Sample(((0.25, 1, float(i % 4 > 0)),), 24, 8, 0.0) for i in range(16))
    timing = Timing(((1, 1.0), (8, 1.2), (64, 2.0)), {"eagle3": (0.3, 0.05)}, {"eagle3": right})
    options = dict.fromkeys(("nodes", "depth", "top_k"))
    pilots = Pilots(timing, {})

    def begin(settings: GenerationSettings, pilots: Pilots = pilots) -> Any:
        return pilots.get(method, {**options, "threshold": 0.0}, settings, True, BEGIN)

    assert not begin(GREEDY).paused and begin(GREEDY).gain > 1.2
    drawn = begin(DRAWING)
    assert drawn.paused and drawn is not begin(GREEDY)
    assert begin(replace(GREEDY, temperature=DRAWN / 2)) is begin(GREEDY)
    assert not pilots.get(method, {**options, "draw": True}, DRAWING, True, BEGIN).paused
    # A drafter that does not weigh its guesses has every row, whatever the least share is said to be.
    assert (
        pilots.get(method, {"nodes": 9}, GREEDY, False, BEGIN).limits.worth == 0 != begin(GREEDY).limits.worth
    )
    assert [g for each in as_drawn(right[:2]) for g in each.guesses] == [(0.25, 1, 0.25)] * 2
    cool = [g for each in as_drawn(right[:2], 0.6) for g in each.guesses]
    assert [stood for *_, stood in cool] == pytest.approx([0.15, 0.55])
    # What drawn replies really brought is believed.
    known = {Manner("eagle3", True): Learned(right, {})}
    assert not begin(DRAWING, Pilots(timing, known)).paused


def test_an_unsteady_timing_keeps_nothing_switched_off() -> None:
    machine = Machine(row=0.05, base=0.1, level=0.04, low=0.3, high=0.8, seed=2)
    timing = replace(machine.timing(12), draft={"m": (1.4, 0.0)})
    assert Pilot(timing, "m", BEGIN, ALL).paused
    doubted = Pilot(replace(timing, steady=False), "m", BEGIN, ALL)
    assert not doubted.paused
    machine.guided(doubted)  # a plain step, to know its cost
    planned = doubted.plan()
    assert planned is not None and planned.nodes <= PROBE_NODES
    assert machine.piloted(doubted, 400) > 1.1


def test_a_session_hands_on_what_it_learned(equipment: Equipment, data_dir: Path) -> None:
    methods = methods_for(equipment)
    timing = known_timing(methods, pays=True)
    session = SimpleNamespace(pilots=Pilots(timing, {}))
    model: Any = SimpleNamespace(kept_as="model", learn=None)
    LoadedModel.learn(model, session)  # type: ignore[arg-type]
    assert recall_experience("model") == {}
    method, options = methods.choose(replace(GREEDY, method="eagle3"))
    pilot = session.pilots.get(method, options, GREEDY, True, BEGIN)
    machine = Machine(row=0.02, base=0.1, level=0.02, low=0.5, high=0.9)
    for _ in range(ENOUGH + 12):
        machine.guided(pilot)
    LoadedModel.learn(model, session)  # type: ignore[arg-type]
    found = recall_experience("model")[Manner("eagle3", False)]
    assert found.samples == pilot.learned().samples and len(found.samples) > ENOUGH
    # Measuring again forgets times, not what the guesses were worth.
    session.pilots.retime(timing)
    fresh = session.pilots.get(method, options, GREEDY, True, BEGIN)
    assert fresh is not pilot and len(fresh.view()) == len(found.samples) < len(pilot.view())


def test_a_timing_that_a_chat_refutes_is_dropped(
    equipment: Equipment, data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    timing = known_timing(methods_for(equipment), pays=True)
    method, options = methods_for(equipment).choose(replace(GREEDY, method="eagle3"))
    pilots = Pilots(timing, {})
    clock = pilots.get(method, options, GREEDY, True, BEGIN).clock
    keep("timings", "model", {})
    model: Any = SimpleNamespace(kept_as="model")
    for _ in range(WITNESSES):
        assert list(data_dir.rglob("timings/*.json"))
        clock.saw_pass(1, timing.seconds(1) / 3)
        LoadedModel.learn(model, SimpleNamespace(pilots=pilots))  # type: ignore[arg-type]
    assert not list(data_dir.rglob("timings/*.json"))


def test_experience_does_not_change_a_reply(equipment: Equipment) -> None:
    from engine.generation import Session

    methods = methods_for(equipment)
    wrong = {Manner("eagle3", False): Learned((Sample(((0.5, 1, 0.0),), 12, 8, 0.0),) * 30, {"top_k": 6})}
    how = GenerationSettings(method="eagle3", max_new_tokens=40)
    replies = []
    for known in (None, wrong):
        session = Session(
            equipment.decoder, methods, tiny.LIMITS, equipment.context, known_timing(methods, True), known
        )
        pilot = session.pilot_for(how)
        assert pilot is not None and pilot.paused == (known is not None)
        assert known is None or pilot.tuning == {"top_k": 6}
        replies.append([token for record in run(session, how) for token in record.emitted])
    assert replies[0] == replies[1]


def test_the_worker_learns_from_a_reply_when_its_end_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[Any] = []
    session, end = SimpleNamespace(), SimpleNamespace(request_id="a")
    chat = SimpleNamespace(stop_strings=(), eos_token_ids=(), thinking_tags=None)
    worker = Worker(SimpleNamespace(send=told.append))  # type: ignore[arg-type]
    monkeypatch.setattr("engine.worker.run_reply", lambda *_args, **_more: end)
    model = SimpleNamespace(prompt=lambda *_: [1], tokenizer=None, chat=chat, learn=told.append)
    worker._model, worker._session = model, session  # type: ignore[assignment]
    worker._switches["a"] = Switches()
    worker._generate(Generate("a", (), GREEDY))
    assert told == [end, session]
