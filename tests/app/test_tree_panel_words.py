"""Tokens and verdicts in words: visible, safe, and saying what they mean."""

from __future__ import annotations

import pytest
from PySide6.QtGui import Qt

from app.tree_panel.description import details, rows, summary, times_text, verdict
from app.tree_panel.layout import Kind, items_of
from app.tree_panel.token_text import isolated, percent, quoted, visible
from engine.protocol import StepTimes
from tests.app.tree_panel_steps import plain_steps, step, window_step

MARKUP = ("<b>bold</b>", "<img src=x>", "&lt;script&gt;", "</td><h1>", "<!doctype html>", "<?xml version='1.0'?>")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (" the", "␣the"),
        ("a\n", "a↵"),
        ("\t\t", "⇥⇥"),
        (" " * 12 + "x", "␣×12x"),
        ("\r\n", "␍↵"),
        ("", "∅"),
        ("<b>", "<b>"),
        ("漢字", "漢字"),
        ("🦅", "🦅"),
        ("👩‍👧", "👩‍👧"),  # joined by a zero-width joiner, which stays
        ("\u202eabc", "‹202E›abc"),
        ("\x00\x1b", "‹0000›‹001B›"),
        ("\ud800", "‹D800›"),
        ("\ufffd", "\ufffd"),
    ],
)
def test_every_character_can_be_seen(text: str, shown: str) -> None:
    assert visible(text) == shown


def test_a_token_is_one_short_line_however_long_it_is() -> None:
    long = visible("ab\n" * 100_000)
    assert len(long) <= 50 and long.endswith("…") and "\n" not in long
    assert visible(" " * 1_000_000) == "␣×1000000"


def test_a_token_cannot_turn_a_sentence_round() -> None:
    said = quoted(" עולם")
    assert said == "“\u2068␣עולם\u2069”"
    assert isolated("x") == "\u2068x\u2069"


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0.624, "62 %"),
        (0.0, "0 %"),
        (0.001, "<1 %"),
        (0.9999, ">99 %"),
        (1.0, "100 %"),
        (None, "–"),
        (float("nan"), "?"),
        (1.5, "?"),
    ],
)
def test_percentages_say_when_they_are_rounded(value: float | None, shown: str) -> None:
    assert percent(value) == shown


@pytest.mark.parametrize("token", MARKUP)
def test_tooltips_stay_plain_text(token: str) -> None:
    items = items_of(step(1, 12, 4, seed=1, words=(token,), root=token))
    for number in range(len(items)):
        said = details(items, number)
        assert token.replace(" ", "␣") in said
        assert not Qt.mightBeRichText(said)


def test_a_tooltip_tells_all_that_is_known() -> None:
    items = items_of(step(1, 20, 4, seed=6))
    number = next(n for n, item in enumerate(items) if item.kind is Kind.REJECTED)
    item = items[number]
    said = details(items, number)
    chosen = next(
        other for other in items if other.parent == item.parent and other.kind in (Kind.ACCEPTED, Kind.BONUS)
    )
    assert f"id {item.token_id}" in said and f"depth {item.depth}" in said
    assert f"draft gave it {percent(item.draft_probability)}" in said
    assert f"whole path {percent(item.path_probability)}" in said
    assert f"target gave it {percent(item.target_probability)}" in said
    assert f"the target chose {quoted(chosen.text)} here" in said


def test_every_kind_has_its_own_verdict() -> None:
    seen = {}
    for one in (window_step(1), *(step(1, 20, 4, seed=seed) for seed in range(20))):
        items = items_of(one)
        seen.update({item.kind: verdict(items, number).split(":")[0] for number, item in enumerate(items)})
    assert set(seen) == set(Kind)
    assert len(set(seen.values())) == len(Kind)


def test_the_table_has_a_row_for_every_token_in_order() -> None:
    one = step(3, 20, 4, seed=2)
    table = rows(one)
    assert [row.token_id for row in table] == [*(node.token_id for node in one.nodes), one.bonus.token_id]
    assert [row.depth for row in table[:-1]] == [node.depth for node in one.nodes]
    assert table[5].token == visible(one.nodes[5].text)
    assert table[5].follows == visible(one.nodes[one.nodes[5].parent].text)
    assert table[5].draft_probability == percent(one.nodes[5].draft_probability)
    assert table[0].draft_probability == "" and table[0].follows == ""
    assert table[-1].target_probability == percent(one.bonus.target_probability)


def test_summaries_name_what_was_emitted() -> None:
    one = step(4, 20, 4, seed=9)
    said = summary(one)
    assert said.startswith(f"Step 4: {len(one.accepted)} of 19 guesses accepted, {len(one.pieces)} token")
    assert all(quoted(piece.text) in said for piece in one.pieces)
    assert summary(step(0)).startswith("Prompt pass")
    assert "plain decoding" in summary(plain_steps(["a", "b"])[1])


def test_the_time_of_a_step_has_a_twin_in_words() -> None:
    said = times_text(StepTimes(0.0042, 0.0213, 0.0006, 1.25))
    assert said == "1.28 s in all: draft 4.2 ms, verify 21.3 ms, accept 0.6 ms, other 1.25 s"
