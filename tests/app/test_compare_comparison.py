"""Whether two replies are the same, where they part, and what may be said about it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app.compare.comparison import CONTEXT, Outcome, Run, compare, first_difference, probabilities_of
from engine.protocol import FinishReason, Mode, Origin, Piece, Step
from tests.app.tree_panel_steps import finished, plain_steps, step


def run(texts, ids=None, **options) -> Run:
    played = plain_steps(texts)
    if ids is not None:
        played = [
            replace(one, pieces=(replace(one.pieces[0], token_id=token),))
            for one, token in zip(played, ids, strict=True)
        ]
    return Run(tuple(piece for one in played for piece in one.pieces), finished(played, **options))


LONG = [f" w{n}" for n in range(40)]


@pytest.mark.parametrize(
    ("left", "right", "index"),
    [
        ((), (), None),
        ((1, 2, 3), (1, 2, 3), None),
        ((1, 2, 3), (1, 9, 3), 1),
        ((5,), (6,), 0),
        ((1, 2), (1, 2, 3), 2),
        ((1, 2, 3), (1, 2), 2),
        ((), (1,), 0),
    ],
)
def test_the_first_token_that_differs(left, right, index) -> None:
    assert first_difference(left, right) == index


def test_equal_ids_are_identical_and_the_speed_up_leaves_the_prompt_out() -> None:
    eagle, plain = run(LONG, decode_seconds=1.0), run(LONG, mode=Mode.PLAIN, decode_seconds=2.5)
    found = compare(eagle, plain, temperature=0.0)
    assert found.outcome is Outcome.IDENTICAL and found.difference is None
    assert found.speed_up == pytest.approx(2.5)
    assert eagle.stats.tokens_per_second == pytest.approx(39.0)  # the first token belongs to the prompt
    assert found.caveats == ()


def test_equal_text_of_different_tokens_is_a_difference() -> None:
    found = compare(run(["a", "bc"], [1, 2]), run(["a", "bc"], [1, 3]), 0.0)
    assert found.outcome is Outcome.DIFFERENT and found.difference.index == 1


def test_a_difference_names_both_tokens_and_what_came_before() -> None:
    eagle = run(["The", " cat", " sat", "."], [1, 2, 3, 4])
    plain = run(["The", " cat", " ran", " off"], [1, 2, 8, 9])
    found = compare(eagle, plain, 0.0).difference
    assert (found.index, found.before) == (2, "The cat")
    assert (found.eagle.token_id, found.eagle.text) == (3, " sat")
    assert (found.plain.token_id, found.plain.text) == (8, " ran")
    assert eagle.finished.text[found.eagle.start : found.eagle.end] == " sat"
    assert plain.finished.text[found.plain.start : found.plain.end] == " ran"


def test_a_reply_that_goes_on_differs_from_one_that_ended() -> None:
    found = compare(run(["a", "b"]), run(["a", "b", "c"]), 0.0)
    assert found.outcome is Outcome.DIFFERENT
    assert found.difference.eagle.token_id is None
    assert found.difference.eagle.start == found.difference.eagle.end == 2
    assert found.difference.plain.text == "c"
    assert any("2 and 3 tokens" in caveat for caveat in found.caveats)


def test_the_context_is_short_however_long_the_reply() -> None:
    texts = ["x" * 30] * 20
    found = compare(run([*texts, "a"], range(21)), run([*texts, "b"], [*range(20), 99]), 0.0).difference
    assert len(found.before) == CONTEXT and found.index == 20


def test_half_a_character_is_marked_by_the_piece_that_completes_it() -> None:
    eagle = run(["a", "", "é", "z"], [1, 2, 3, 4])
    plain = run(["a", "b"], [1, 9])
    found = compare(eagle, plain, 0.0).difference
    assert found.eagle.text == "" and (found.eagle.start, found.eagle.end) == (1, 2)


@pytest.mark.parametrize("reason", [FinishReason.STOPPED, FinishReason.ERROR])
def test_a_run_that_was_cut_short_is_not_called_different(reason) -> None:
    found = compare(run(["a", "b"], reason=reason), run(["a", "b", "c"]), 0.0)
    assert found.outcome is Outcome.PREFIX and found.difference is None
    found = compare(run(["a", "x"], [0, 7], reason=reason), run(["a", "b", "c"]), 0.0)
    assert found.outcome is Outcome.DIFFERENT


def test_a_reply_of_one_token_has_no_speed_up() -> None:
    assert compare(run(["a"]), run(["a"]), 0.0).speed_up is None
    assert compare(run(LONG), run(LONG, decode_seconds=0.0), 0.0).speed_up is None


def test_caveats_are_said_when_they_apply() -> None:
    same = (run(LONG), run(LONG))
    parted = (run(LONG), run(LONG, [*range(39), 99]))

    def said(pair, temperature=0.0, seeded=True, word="") -> bool:
        return any(word in caveat for caveat in compare(*pair, temperature, seeded).caveats)

    assert not said(same, word="temperature")
    assert said(same, 0.7, word="different samples of the same distribution unless seeded")
    assert said(parted, 0.7, seeded=False, word="different samples of the same distribution")
    assert said(parted, word="rounds") and not said(same, word="rounds")
    assert said((run(LONG, mode=Mode.MIXED), run(LONG)), word="mixture")
    assert said((run(LONG, reused=11), run(LONG)), word="11 tokens of the prompt")
    assert said((run(["a", "b"]), run(["a", "b"])), word="short")


def test_probabilities_follow_the_emitted_tokens() -> None:
    one = next(s for n in range(1, 60) if len((s := step(n, 12)).accepted) == 2)
    expected = (*tuple(one.nodes[n].target_probability for n in one.accepted), one.bonus.target_probability)
    assert probabilities_of(one) == expected
    cut: Step = replace(one, pieces=one.pieces[:1])
    assert probabilities_of(cut) == expected[:1]
    assert probabilities_of(plain_steps(["a"])[0]) == (None,)
    two = replace(plain_steps(["a"])[0], pieces=(Piece(1, "a", Origin.TARGET), Piece(2, "b", Origin.TARGET)))
    assert probabilities_of(two) == (None, None)


def test_the_target_s_probability_is_part_of_a_difference() -> None:
    eagle = replace(run(["a", "b"], [1, 2]), target_probabilities=(None, 0.41))
    found = compare(eagle, run(["a", "c"], [1, 3]), 0.0).difference
    assert found.eagle.probability == 0.41 and found.plain.probability is None
