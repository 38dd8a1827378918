"""What was stored comes back as it was, and what was not stored by us breaks nothing."""

from __future__ import annotations

import json
from dataclasses import asdict, fields
from typing import Any

import pytest

from app.chat import figures
from app.chat.conversation import Live
from app.chat.keeping import message_from
from app.chat.plain_data import built, fitted
from app.language import numbers
from app.storage.records import MessageRecord
from engine.protocol import (
    Failed,
    FinishReason,
    GenerationSettings,
    Mode,
    ReplyStats,
    StepTimes,
    TreeSettings,
)

STATS = ReplyStats(
    Mode.EAGLE, 3, 0, 40, 16, 60, 23, (10, 8, 5), (16, 16, 16), 0.1, 0.9, StepTimes(0.1, 0.7, 0.0, 0.1), "eagle3"
)
SETTINGS = GenerationSettings(
    temperature=0.5, stop=("a", "b"), seed=None, tree=TreeSettings(nodes=9), method="medusa",
    options=(("nodes", 3), ("rule", "typical"), ("draw", True), ("worth", 0.5)), thinking=False,
)  # fmt: skip
FACTS = {
    "stats": asdict(STATS), "settings": asdict(SETTINGS), "problem": asdict(Failed("No.", "Wait.", request_id=None)),
    "live": asdict(Live(4, 20.0, 2.5, Mode.MIXED, "eagle3")),
}  # fmt: skip
WRONG = (None, True, -1, 10**30, 1e400, float("nan"), "", "words", [], [1], [[1, 2, 3]], {}, {"a": 1}, 3.5)


def message(facts: Any, reason: str | None = "eos") -> Any:
    return message_from(MessageRecord("m", "c", None, "assistant", "Lima", reason=reason, facts=json.dumps(facts)))


def test_everything_comes_back() -> None:
    back = message(FACTS)
    assert (back.stats, back.settings, back.problem) == (STATS, SETTINGS, Failed("No.", "Wait."))
    assert back.live == Live(4, 20.0, 2.5, Mode.MIXED, "eagle3") and back.reason is FinishReason.EOS
    assert type(back.stats.decode_seconds) is float and type(back.settings.options) is tuple


def test_fields_of_a_newer_version_are_passed_over() -> None:
    assert built(StepTimes, {**asdict(STATS.times), "sampling": 3.0}) == STATS.times


@pytest.mark.parametrize("part", FACTS)
def test_a_wrong_value_breaks_nothing(part: str) -> None:
    """Every value of every part is made into something else in turn; what is shown of the message is made each time."""
    for name in (*(field for field in FACTS[part]), None):
        for wrong in WRONG:
            facts = json.loads(json.dumps(FACTS))
            if name is None:
                facts[part] = wrong
            else:
                facts[part][name] = wrong
            back = message(facts)
            assert back.text == "Lima"
            if back.stats is not None:
                assert figures.summary(back.stats, back.reason) and figures.details(back.stats)
            assert figures.live(back.live)
            for other in FACTS.keys() - {part}:
                assert getattr(back, other) is not None, "the other parts are what they were"


def test_kinds_are_told_apart() -> None:
    assert fitted(int | None, None) is None and fitted(tuple[int, ...], [1, 2]) == (1, 2)
    assert fitted(float, 3) == 3.0 and fitted(bool | int | str, True) is True
    for hint, value in ((int, True), (int, 3.0), (float, "3"), (str, 3), (bool, 1), (tuple[int, str], [1])):
        with pytest.raises(ValueError, match="is no"):
            fitted(hint, value)
    assert {field.name for field in fields(ReplyStats)} == FACTS["stats"].keys()
    assert message({}, reason="because").reason is None


def test_a_date_that_is_none_is_shown_as_some_date() -> None:
    assert numbers.moment(float("nan")) == numbers.moment(float("inf")) == numbers.moment(0)
