"""Every method under the pilot: what the user is told, and that no change of the choice changes the reply."""

from __future__ import annotations

from typing import Any

import pytest

from engine import generation
from engine.calibration import tuning
from engine.calibration.pilot import PAUSE, Pilot
from engine.calibration.timing import Sample, Timing
from engine.drafting.drafter import TreeLimits
from engine.drafting.method import Equipment
from engine.drafting.registry import METHODS, methods_for
from engine.generation import Session
from engine.protocol import GenerationSettings
from tests.engine import simulated_machine, tiny
from tests.engine.test_methods import LOSSLESS, decoder, equipment, ids_of, run

__all__ = ["decoder", "equipment"]  # fixtures

FLAT = ((1, 1.0), (64, 1.0))
"""Any number of rows costs the same."""


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> dict[str, float]:
    """Seconds that the pilot is told of, instead of this machine's."""
    told = {"draft": 0.0, "rest": 1.0}
    real = Pilot.learn

    def learn(
        self: Pilot,
        tree: Any,
        path: Any,
        emitted: int,
        draft: float,
        rest: float,
        limits: Any,
        unread: int = 1,
    ) -> str:
        draft = told["draft"] if limits is not None else 0.0
        return real(self, tree, path, emitted, draft, told["rest"], limits, 1)

    monkeypatch.setattr(Pilot, "learn", learn)
    monkeypatch.setattr(generation, "Pilot", simulated_machine.Pilot)  # thinking takes it no time
    return told


def adapted(equipment: Equipment, timing: Timing) -> Session:
    return Session(equipment.decoder, methods_for(equipment), tiny.LIMITS, equipment.context, timing)


@pytest.mark.parametrize("method", LOSSLESS)
def test_a_pause_and_its_end_are_told_in_words(
    equipment: Equipment, clock: dict[str, float], method: str
) -> None:
    """At load it lost, so it begins switched off; after a while it is tried."""
    clock["draft"] = 0.5
    wrong = tuple(Sample(((0.5, 1, False),), 24, 8, 0.0) for _ in range(12))
    session = adapted(equipment, Timing(FLAT, {method: (0.5, 0.0)}, {method: wrong}))
    how = GenerationSettings(method=method, max_new_tokens=2 * PAUSE)
    records = run(session, how)
    notices = [
        (sum(len(r.emitted) for r in records[:at]), r.notice) for at, r in enumerate(records) if r.notice
    ]
    name = next(each.info.name for each in METHODS if each.info.id == method)
    assert notices[0] == (
        1,  # with the first step after the prompt's
        f"{name} pauses: it makes the reply slower here. It is tried again after {PAUSE} tokens.",
    )
    assert not any(record.drafting for record in records[1:PAUSE])
    assert notices[1] == (PAUSE + 1, f"{name} is tried again.")
    plain = run(session, GenerationSettings(method="plain", max_new_tokens=2 * PAUSE))
    assert ids_of(records) == ids_of(plain)


def test_trials_of_other_settings_do_not_change_the_reply(
    equipment: Equipment, clock: dict[str, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Windows of other widths come and go within a reply."""
    monkeypatch.setattr(tuning, "EVERY", 6)
    monkeypatch.setattr(tuning, "LENGTH", 5)
    for more in ({}, {"temperature": 2.5, "seed": 5, "repetition_penalty": 1.2}):
        session = adapted(equipment, Timing(FLAT, {}, {}))
        how: dict[str, Any] = {"max_new_tokens": 220, **more}
        pilot = session.pilot_for(GenerationSettings(method="lookahead", **how))
        assert pilot is not None
        seen: list[Any] = []
        begin = pilot.plan

        def plan(
            unread: int = 1, pilot: Pilot = pilot, seen: list[Any] = seen, begin: Any = begin
        ) -> TreeLimits | None:
            seen.append(tuple(pilot.tuning.items()))
            found: TreeLimits | None = begin(unread)
            return found

        pilot.plan = plan  # type: ignore[method-assign]
        ours = ids_of(run(session, GenerationSettings(method="lookahead", **how)))
        assert ours == ids_of(run(session, GenerationSettings(method="plain", **how)))
        if not more:
            assert len(set(seen)) > 1, seen
