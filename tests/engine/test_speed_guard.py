"""No method slows a chat by more than 5 %: every cost shape against drafters that turn out badly.

The clock is simulated, so that only the pilot's decisions count. Speeds are against plain
decoding, over the whole chat up to a point.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random
from statistics import fmean

import pytest

from engine.calibration.pilot import Freedom
from engine.drafting.drafter import TreeLimits
from tests.engine.simulated_machine import Machine, Mood, Pilot, Reply

GOOD, BAD = (0.7, 0.95), (0.0, 0.15)
LENGTHS = (200, 400, 800)
"""Tokens after which the chat is looked at."""

SHAPES = {
    "a head": Machine(row=0.06, base=0.3, level=0.1, low=0, high=0, reading=0.005),
    "a head, dear rows": Machine(row=0.2, base=0.2, level=0.05, low=0, high=0, reading=0.005),
    "several heads at once": Machine(row=0.08, base=0.15, level=0.0, low=0, high=0),
    "a draft model": Machine(row=0.06, base=0.05, level=0.3, low=0, high=0, reading=0.02, width=1),
    "a draft model as large": Machine(row=0.06, base=0.05, level=1.0, low=0, high=0, reading=0.1, width=1),
    "a window": Machine(row=0.05, base=0.0, level=0.0, low=0, high=0, window=12),
    "a wide window": Machine(row=0.12, base=0.0, level=0.0, low=0, high=0, window=28),
    "a look into the text": Machine(row=0.08, base=0.001, level=0.0, low=0, high=0, width=1),
}
MOODS: dict[str, Mood] = {
    "always bad": lambda _: BAD,
    "good, then bad": lambda token: GOOD if token < 100 else BAD,
    "bad, then good": lambda token: BAD if token < 100 else GOOD,
    "by turns": lambda token: GOOD if token // 60 % 2 else BAD,
    "by short turns": lambda token: GOOD if token // 12 % 3 == 0 else BAD,
    "worse with length": lambda token: (max(0.0, 0.8 - token / 250), max(0.1, 0.95 - token / 250)),
    "a little too bad": lambda _: (0.2, 0.4),
}


@pytest.mark.parametrize("mood", MOODS)
@pytest.mark.parametrize("shape", SHAPES)
def test_no_chat_is_slowed_by_more_than_five_per_cent(shape: str, mood: str) -> None:
    for promise in (BAD, GOOD):  # what measuring at load found
        for limits, free, grows in (
            (TreeLimits(12, 8, 3, worth=0.1), Freedom(True, True, True), 0.001),
            (TreeLimits(26, 5, 4), Freedom(False, False, False), 0.0),
        ):
            machine = replace(
                SHAPES[shape], mood=MOODS[mood], low=promise[0], high=promise[1], growth=grows, seed=1
            )
            pilot = Pilot(machine.timing(12), "m", limits, free)
            machine.read = -200  # the prompt
            for length in LENGTHS:
                speed = machine.piloted(pilot, length)
                assert speed >= 0.95, (promise, free, length, speed)


HARD, EASY, FAIR = (0.0, 0.15), (0.2, 0.85), (0.1, 0.65)
TEXTS = {
    "two hard, ten easy": [HARD] * 2 + [EASY] * 10,
    "as measured": [EASY, FAIR, FAIR, FAIR, FAIR, HARD, FAIR, EASY, FAIR, EASY, EASY, FAIR, HARD, FAIR],
    "one hard, one easy": [HARD, EASY] * 6,
    "mostly hard": [HARD, HARD, EASY, HARD, HARD, HARD] * 2,
    "all hard": [HARD] * 14,
}
"""What the replies of a chat are like, in order."""


@pytest.mark.parametrize("texts", TEXTS)
def test_a_chat_of_many_texts_is_near_the_best_fixed_size(texts: str) -> None:
    """Drafting pauses where a text is hard, and is there again where the next one is easy."""
    shape = replace(SHAPES["a head"], base=0.2, level=0.04, low=FAIR[0], high=FAIR[1])
    sizes = [TreeLimits(nodes, depth, 3) for nodes, depth in ((2, 2), (4, 2), (4, 4), (8, 4), (12, 4))]
    ours = []
    fixed: dict[TreeLimits, list[float]] = {limits: [] for limits in sizes}
    for seed in range(4):
        random = Random(seed)
        replies = [
            Reply(random.randint(40, 300), random.choice((10, 14, 25, 48, 48, 64)), mood)
            for mood in TEXTS[texts]
        ]
        for limits, found in fixed.items():
            found.append(replace(shape, seed=seed).answers(replies, limits))
        machine = replace(shape, seed=seed)
        pilot = Pilot(machine.timing(12), "m", TreeLimits(12, 8, 3, worth=0.1), Freedom(True, True, True))
        ours.append(machine.answers(replies, pilot))
    best = max(fmean(found) for found in fixed.values())
    assert fmean(ours) > 0.95 * best, (fmean(ours), best)
    assert min(ours) > 0.95, ours


def test_a_table_from_a_bad_moment_does_no_harm() -> None:
    """Rows cost twice what the timing says."""
    for mood in MOODS.values():
        machine = replace(SHAPES["a head"], mood=mood, low=0.7, high=0.9, wrong=2.0)
        pilot = Pilot(machine.timing(12), "m", TreeLimits(26, 5, 4), Freedom(False, False, False))
        for length in LENGTHS:
            assert machine.piloted(pilot, length) >= 0.95


def test_the_guard_is_needed_and_does_not_stop_what_pays() -> None:
    """Without a pilot these chats are slower; and with one, a good drafter keeps most of its gain."""
    limits = TreeLimits(26, 5, 4)
    for shape in ("a head, dear rows", "a wide window", "a draft model as large"):
        assert replace(SHAPES[shape], mood=MOODS["always bad"]).fixed(limits, 200) < 0.5
    good = replace(SHAPES["a head"], low=GOOD[0], high=GOOD[1])
    best = replace(good).fixed(TreeLimits(12, 8, 3, worth=0.1), 300)
    machine = replace(good, mood=MOODS["bad, then good"])
    pilot = Pilot(machine.timing(12), "m", TreeLimits(12, 8, 3, worth=0.1), Freedom(True, True, True))
    machine.piloted(pilot, 400)  # the bad part, and the pauses after it
    time, tokens = machine.time, machine.tokens
    machine.piloted(pilot, 1600)
    assert (machine.tokens - tokens) / (machine.time - time) > 0.9 * best
