from __future__ import annotations

import random

import pytest

from engine.stopping import StopMatcher


def reference(text: str, stops: list[str]) -> tuple[str, str | None]:
    """Reads character by character: the first character that completes a stop string ends the text."""
    for end in range(1, len(text) + 1):
        complete = [stop for stop in stops if text[:end].endswith(stop)]
        if complete:
            longest = max(complete, key=len)
            return text[: end - len(longest)], longest
    return text, None


def cut(text: str, chance: random.Random) -> list[str]:
    pieces = []
    while text:
        length = chance.randint(0, 5)
        pieces.append(text[:length])
        text = text[length:]
    return pieces


def test_any_cutting_gives_what_reading_the_whole_text_gives() -> None:
    chance = random.Random(7)
    hits = 0
    for _ in range(4000):
        alphabet = chance.choice(["ab", "abc", "\nU:a"])
        stops = [
            "".join(chance.choices(alphabet, k=chance.randint(1, 5))) for _ in range(chance.randint(0, 3))
        ]
        text = "".join(chance.choices(alphabet, k=chance.randint(0, 20)))
        matcher = StopMatcher(stops)
        shown = ""
        for piece in cut(text, chance):
            shown += matcher.push(piece)
            open_end = text if not matcher.stopped else reference(text, stops)[0]
            assert open_end.startswith(shown), "text was shown that a stop string takes away"
        shown += matcher.flush()
        expected, hit = reference(text, stops)
        assert (shown, matcher.hit, matcher.stopped) == (expected, hit, hit is not None)
        hits += matcher.stopped
    assert 500 < hits < 3900, "the random texts must cover both outcomes"


def test_only_what_may_begin_a_stop_string_is_held_back() -> None:
    chance = random.Random(8)
    for _ in range(2000):
        stops = ["".join(chance.choices("ab", k=chance.randint(1, 5))) for _ in range(2)]
        text = "".join(chance.choices("abc", k=12))
        matcher = StopMatcher(stops)
        shown = matcher.push(text)
        if not matcher.stopped:
            held = text[len(shown) :]
            assert held == "" or any(stop.startswith(held) and stop != held for stop in stops)
            longer = [text[-n:] for n in range(len(held) + 1, len(text) + 1)]
            assert not any(stop.startswith(end) for stop in stops for end in longer)


def test_a_hit_inside_one_push_keeps_the_text_before_it() -> None:
    matcher = StopMatcher(["\n\nUser:", "\nUser:"])
    assert matcher.push(" Rome.\n\nUser: And of Spain?") == " Rome."
    assert matcher.stopped
    assert matcher.hit == "\n\nUser:"
    assert matcher.push("Madrid.") == ""
    assert matcher.flush() == ""


def test_a_stop_string_across_pushes_is_never_shown() -> None:
    matcher = StopMatcher(["\nUser:"])
    assert [matcher.push(piece) for piece in ["Rome.", "\n", "Us", "er", ": x"]] == ["Rome.", "", "", "", ""]
    assert matcher.stopped


def test_a_beginning_that_leads_nowhere_is_shown_after_all() -> None:
    matcher = StopMatcher(["\nUser:"])
    assert [matcher.push(piece) for piece in ["a\nUs", "age\n"]] == ["a", "\nUsage"]
    assert not matcher.stopped
    assert matcher.flush() == "\n"
    assert matcher.flush() == ""


@pytest.mark.parametrize("stops", [[], [""], ["", ""]])
def test_without_stop_strings_everything_passes(stops: list[str]) -> None:
    matcher = StopMatcher(stops)
    assert matcher.push("abc") == "abc"
    assert not matcher.stopped
    assert matcher.flush() == ""
