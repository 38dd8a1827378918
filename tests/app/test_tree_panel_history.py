"""What the panel keeps of a reply, and the figures it makes of it."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from app.tree_panel.history import ReplyHistory
from engine.protocol import Match, Mode, Piece, StepTimes
from tests.app.tree_panel_steps import chain_step, finished, plain_steps, step, steps, window_step


def filled(played, **options) -> ReplyHistory:
    history = ReplyHistory(played[0].request_id, **options)
    for one in played:
        history.add(one)
    return history


def test_every_step_comes_back_as_it_was() -> None:
    played = steps(30, nodes=40, depth=8)
    history = filled(played)
    assert len(history) == 30
    assert [history.step(position) for position in range(30)] == played
    assert history.step(-1) == played[-1]
    with pytest.raises(IndexError):
        history.step(30)


def test_every_form_comes_back_as_it_was() -> None:
    played = [
        step(0),
        replace(chain_step(1, match=Match(" the old man", 3, 41)), notice="Drafting pauses."),
        window_step(2),
        window_step(3, grams=0),
        step(4),
    ]
    assert [filled(played).step(position) for position in range(5)] == played


def test_a_notice_holds_until_drafting_goes_on() -> None:
    plain = [step(index, nodes=0) for index in range(5)]
    played = [step(0), replace(step(1), notice="Paused."), plain[2], plain[3], step(4), step(5)]
    history = filled(played)
    assert history.notices == (1,) and history.notice_of(1) == "Paused." and history.notice_of(2) == ""
    held = [history.notice_at(position) for position in range(6)]
    assert held == [None, (1, "Paused."), (1, "Paused."), (1, "Paused."), None, None]


def test_the_recent_length_counts_the_steps_of_the_window() -> None:
    played = [replace(one, times=StepTimes(0.0, 0.5, 0.0, 0.0)) for one in steps(12)]
    history = filled(played)
    assert history.recent_length(0) == 0.0
    for position in range(1, 12):
        recent = played[max(1, position - 3) : position + 1]  # two seconds are four steps
        assert history.recent_length(position) == pytest.approx(sum(len(one.pieces) for one in recent) / len(recent))


def test_a_step_of_another_reply_is_refused() -> None:
    history = ReplyHistory("r")
    with pytest.raises(ValueError, match="other"):
        history.add(step(1, request_id="other"))
    assert len(history) == 0


def test_sixty_nodes_take_a_few_bytes_each() -> None:
    history = filled(steps(200, nodes=60, depth=8))
    assert history.tree_memory <= 199 * 60 * 44
    objects = sys.getsizeof(history.step(5).nodes[1])
    assert history.tree_memory / (199 * 60) < objects  # less than even the bare objects


def test_the_oldest_trees_go_when_the_bound_is_reached_and_their_figures_stay() -> None:
    played = steps(100, nodes=20, depth=5)
    free = filled(played)
    bound = free.tree_memory // 4
    history = filled(played, tree_bytes=bound)
    assert history.tree_memory <= bound
    assert history.dropped_tree(1) and history.step(1).nodes == () and not history.has_tree(1)
    assert history.step(1).pieces == played[1].pieces and history.step(1).bonus == played[1].bonus
    assert history.step(-1) == played[-1] and history.has_tree(-1)
    assert history.acceptance_by_depth() == free.acceptance_by_depth()
    assert [history.figures(n) for n in range(100)] == [free.figures(n) for n in range(100)]


def test_tau_and_speed_leave_the_prompt_pass_out() -> None:
    played = steps(21, nodes=10, depth=4, seed=3)
    history = filled(played)
    assert history.figures(0).acceptance_length == 0
    for position in (1, 7, 20):
        emitted = sum(len(one.pieces) for one in played[1 : position + 1])
        seconds = sum(one.times.total for one in played[1 : position + 1])
        figures = history.figures(position)
        assert figures.acceptance_length == pytest.approx(emitted / position)
        assert figures.tokens_per_second == pytest.approx(emitted / seconds)
        assert figures.tokens == emitted + 1
        assert figures.accepted == sum(len(one.accepted) for one in played[: position + 1])
        assert figures.drafted == 9 * position
        assert (figures.index, figures.last_index) == (position, 20)


def test_a_finished_reply_shows_the_figures_of_the_engine() -> None:
    played = steps(12)
    history = filled(played)
    end = finished(played, decode_seconds=10.0)  # the engine's clock, not the sum of the steps
    history.finish(end)
    assert history.figures().tokens_per_second == end.stats.tokens_per_second
    assert history.figures().acceptance_length == pytest.approx(end.stats.acceptance_length)
    assert history.figures(5).tokens_per_second > 10 * end.stats.tokens_per_second


def test_recent_speed_looks_back_over_its_window_only() -> None:
    slow = plain_steps(["x"] * 11, seconds=1.0)
    fast = [replace(one, index=one.index + 11, times=StepTimes(0, 0.1, 0, 0)) for one in plain_steps(["y"] * 40)]
    history = filled(slow + fast)
    assert history.recent_speed(10) == pytest.approx(1.0)
    assert history.recent_speed(50) == pytest.approx(10.0)
    assert history.recent_speed(11) == pytest.approx(3 / 2.1)  # 0.1 s and the two steps that reach into the 2 s
    assert history.recent_speed(0) == 0.0
    lone = filled(plain_steps(["x"] * 3, seconds=5.0))
    assert lone.recent_speed(2) == pytest.approx(0.2)  # one step longer than the window still counts


def test_acceptance_by_depth_agrees_with_counting() -> None:
    played = steps(60, nodes=12, depth=5, seed=8)
    history = filled(played)
    for position in (0, 1, 17, 58, 59):
        seen = played[: position + 1]
        deepest = max((node.depth for one in seen for node in one.nodes), default=0)
        expected = [
            (
                depth,
                sum(len(one.accepted) >= depth for one in seen),
                sum(any(node.depth == depth for node in one.nodes) for one in seen),
            )
            for depth in range(1, deepest + 1)
        ]
        levels = history.acceptance_by_depth(position)
        assert [(level.depth, level.accepted, level.proposed) for level in levels] == expected


def test_columns_are_means_over_their_steps() -> None:
    played = steps(20, nodes=10, seed=2)
    history = filled(played)
    for first, last in ((0, 0), (0, 4), (3, 3), (5, 11), (19, 19)):
        members = played[first : last + 1]
        tokens, accepted = history.column(first, last)
        assert tokens == pytest.approx(sum(len(one.pieces) for one in members) / len(members))
        assert accepted == pytest.approx(sum(len(one.accepted) for one in members) / len(members))


def test_steps_are_found_by_their_number() -> None:
    history = ReplyHistory("r")
    for index in (3, 4, 6):  # joined in the middle of a reply
        history.add(step(index))
    assert [history.position_of(index) for index in (3, 4, 5, 6, 7)] == [0, 1, None, 2, None]


def test_a_plain_reply_has_a_tau_of_one() -> None:
    history = filled(plain_steps(["a", "b", "c", "d"]))
    assert history.figures().acceptance_length == 1.0
    assert history.figures().mode is Mode.PLAIN
    assert history.figures().acceptance_rate is None
    assert history.acceptance_by_depth() == ()
    assert not history.has_tree(2) and not history.dropped_tree(2)


def test_a_step_cut_at_a_stop_counts_what_was_emitted() -> None:
    whole = next(one for one in steps(60, nodes=12, seed=4) if len(one.accepted) >= 2)
    cut = replace(whole, index=1, pieces=whole.pieces[:1])
    history = filled([step(0), cut])
    assert history.figures().acceptance_length == 1.0
    assert history.tokens_of(1) == 1 and history.accepted_of(1) == len(whole.accepted)


def test_odd_times_do_not_spoil_the_figures() -> None:
    odd = replace(step(1), times=StepTimes(float("nan"), 0.01, 0, 0), pieces=(Piece(1, "x", step(1).pieces[0].origin),))
    history = filled([step(0), odd, step(2)])
    assert history.figures().tokens_per_second > 0


@pytest.mark.parametrize(
    "module",
    ["app.tree_panel.shelf", "app.tree_panel.forms", "app.tree_panel.jumps", "app.compare.comparison"],
)
def test_what_needs_no_window_needs_no_qt(module: str) -> None:
    code = f"import sys; sys.modules['PySide6'] = None; import {module}"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).parents[2])
