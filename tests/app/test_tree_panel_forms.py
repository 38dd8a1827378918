"""Chains in one row, n-grams above their window: where the boxes go and what is said of them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from PySide6.QtGui import QFont
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app import theme
from app.tree_panel.description import caption_words, details, ranks, rows, summary
from app.tree_panel.explanation import explanation, match_words
from app.tree_panel.forms import PASS, PLACE, place
from app.tree_panel.heading import Heading
from app.tree_panel.history import ReplyHistory
from app.tree_panel.jumps import item_in_picture, place_in_text
from app.tree_panel.layout import Kind, Metrics, TreeLayout, items_of
from app.tree_panel.picture import StepPicture
from app.tree_panel.tree_view import TreeView
from engine.protocol import Match, MethodInfo, MethodSetting, Needs, SettingKind, Shape, Step
from tests.app.tree_panel_steps import chain_step, plain_steps, step, steps, window_step

METRICS = Metrics()


def laid_out(one: Step) -> TreeLayout:
    items = items_of(one)
    return place(one, items, [40.0 + 7 * (number % 5) for number in range(len(items))], METRICS)


def apart(tree: TreeLayout) -> bool:
    return all(
        box.right <= other.x or other.right <= box.x or box.bottom <= other.y or other.bottom <= box.y
        for number, box in enumerate(tree.boxes)
        for other in tree.boxes[number + 1 :]
    )


@pytest.mark.parametrize("accepted", range(5))
def test_a_chain_stays_in_one_row(accepted: int) -> None:
    tree = laid_out(chain_step(1, accepted=accepted))
    guesses, bonus = tree.boxes[:5], tree.boxes[5]
    assert len({box.y for box in guesses}) == 1
    assert [box.x for box in guesses] == sorted({box.x for box in guesses})
    assert apart(tree)
    if accepted == 4:
        assert bonus.y == guesses[0].y and bonus.x > guesses[-1].right
    else:  # it stands where the guess was that it replaces, below it
        assert bonus.x == guesses[accepted + 1].x and bonus.y > guesses[0].bottom
    assert tree.spine == (*range(accepted + 1), 5)


def test_a_tree_is_no_chain_whatever_it_is_called() -> None:
    one = replace(step(1, 20, 4, seed=6), shape=Shape.CHAIN)
    items = items_of(one)
    assert len({box.y for box in laid_out(one).boxes}) > 2
    assert len(items) == 21


@pytest.mark.parametrize("grams", [0, 1, 3])
def test_the_window_is_a_grid_of_rows_and_places(grams: int) -> None:
    one = window_step(1, columns=5, levels=3, grams=grams)
    tree = laid_out(one)
    count = len(one.nodes)
    cells = [[tree.boxes[count + level * 5 + column] for column in range(5)] for level in range(3)]
    for row in cells:
        assert len({box.y for box in row}) == 1 and [box.x for box in row] == sorted({box.x for box in row})
    # A place in the text has one column, in all rows and in the guesses above.
    assert cells[0][2].x == cells[1][1].x == cells[2][0].x
    ys = [row[0].y for row in cells]
    assert ys == sorted(set(ys))
    if grams:
        assert tree.boxes[1].x == cells[0][0].x
        assert max(box.bottom for box in tree.boxes[:count]) < ys[0]
    assert apart(tree) and tree.ground is not None
    assert all(tree.ground.contains(box.x, box.y) for row in cells for box in row)
    assert not tree.ground.contains(tree.boxes[0].x, tree.boxes[0].y)
    assert max(box.right for box in tree.boxes) <= tree.width and tree.ground.bottom <= tree.height
    # Lines lead from what a row took over; within a row neighbours need none.
    assert tree.loose == frozenset(range(count, count + 5))
    names = [caption_words(caption) for caption in tree.captions]
    assert [name for name in names if name.endswith("ago") or name == "last pass"] == [
        "3 passes ago", "2 passes ago", "last pass"
    ]  # fmt: skip
    assert [caption.number for caption in tree.captions if caption.what == PLACE] == list(range(1, 8))
    labels = [caption.box for caption in tree.captions if caption.what == PASS]
    assert all(box.right <= cells[0][0].x for box in labels)


def test_the_table_tells_every_form() -> None:
    chain = rows(chain_step(1, accepted=2))
    assert [row.kind for row in chain] == [
        Kind.ROOT, Kind.ACCEPTED, Kind.ACCEPTED, Kind.REJECTED, Kind.UNREACHED, Kind.BONUS
    ]  # fmt: skip
    assert (chain[3].target_probability, chain[3].target_rank) == ("90 %", "4")
    assert chain[-1].target_rank == "1" and chain[0].target_rank == ""
    one = window_step(1, columns=5, levels=3)
    table = rows(one)
    assert [row.item for row in table] == list(range(len(one.nodes) + 15 + 1))
    window = [row for row in table if row.kind is Kind.WINDOW]
    assert len(window) == 15 and {row.draft_probability for row in window} == {""}
    assert window[0].verdict.startswith("Window (3 passes ago)") and window[-1].verdict.startswith("Window (last pass)")
    assert "a window of 3 rows over 5 places" in summary(one)
    assert "2 of 4 guesses accepted" in summary(chain_step(1, accepted=2))


def test_hovering_tells_probabilities_and_ranks() -> None:
    items = items_of(step(1, 24, 3, seed=5))
    for number, item in enumerate(items):
        found = ranks(items, number)
        if item.kind in (Kind.ROOT, Kind.BONUS):
            assert found is None
            continue
        assert found is not None
        siblings = sorted(
            (each.draft_probability for each in items if each.parent == item.parent and each.draft_probability),
            reverse=True,
        )
        assert siblings[found.own - 1] == item.draft_probability and found.siblings == len(siblings)
        paths = sorted((each.path_probability for each in items[1:-1]), reverse=True)
        assert paths[found.path - 1] == item.path_probability and found.guesses == 23
        if found.siblings > 1:
            assert f"number {found.own} of its {found.siblings} guesses" in details(items, number)
        assert f"number {found.path} of all 23" in details(items, number)
    chain = items_of(chain_step(1, accepted=2))
    assert "The target gave it 90 %, more than any other token" in details(chain, 1)
    assert "The target gave it 90 %, number 4 of all tokens" in details(chain, 3)
    assert "not worked out" in details(chain, 4)


def test_tokens_lead_to_the_text_and_back() -> None:
    played = [step(0), chain_step(1, accepted=3), window_step(2), plain_steps(["a", " b", " c", "d"])[3], *steps(40)[4:]]
    history = ReplyHistory("r")
    for one in played:
        history.add(one)
    for position, one in enumerate(played):
        items = items_of(one)
        emitted = [*one.accepted, len(items) - 1] if one.nodes else range(len(items))
        for number, piece in zip(emitted, one.pieces, strict=True):
            found = place_in_text(history, position, number)
            assert found is not None and found.index == one.index
            assert one.text[found.begin : found.end] == piece.text
            assert item_in_picture(one, found.begin) == number
        if one.nodes:
            root = place_in_text(history, position, 0)
            assert root is not None and root.index == played[position - 1].index
            assert root.end == len(played[position - 1].text)
    failed = place_in_text(history, 1, 4)  # the guess that the bonus token replaced
    assert failed is not None and played[1].text[failed.begin : failed.end] == " old"
    assert place_in_text(history, 2, len(played[2].nodes)) is None  # the window never becomes text
    assert place_in_text(history, 0, 0) is not None and item_in_picture(played[1], 999) is None


def test_a_token_behind_the_end_of_the_reply_leads_nowhere() -> None:
    cut = replace(chain_step(1, accepted=3), pieces=chain_step(1, accepted=3).pieces[:2])
    history = ReplyHistory("r")
    history.add(cut)
    assert place_in_text(history, 0, 2) is not None
    assert place_in_text(history, 0, 3) is None and place_in_text(history, 0, 5) is None
    assert place_in_text(history, 0, 0) is None  # from before the reply


def test_every_form_is_painted_and_the_one_marked_token_stands_out(qtbot) -> None:
    view = TreeView()
    qtbot.addWidget(view)
    view.resize(900, 420)
    view.show()
    for one in (chain_step(1), window_step(1), window_step(2, grams=0), step(3)):
        view.show_step(one)
        plain = view.grab().toImage()
        view.point_at(1 if len(one.nodes) > 1 else 0)
        assert view.grab().toImage() != plain
        view.point_at(None)
        assert view.grab().toImage() == plain


def test_pointing_at_a_token_brings_it_into_view(qtbot) -> None:
    view = TreeView()
    qtbot.addWidget(view)
    view.resize(360, 220)
    view.show()
    view.show_step(step(1, 60, 8, seed=3))
    for number in range(0, 60, 7):
        view.point_at(number)
        seen = view.item_rect(number)
        assert 0 <= seen.left() < view.viewport().width() and seen.top() >= 0
        assert seen.bottom() <= view.viewport().height()


def test_a_number_that_is_the_same_everywhere_is_not_written(qapp) -> None:
    def written(one: Step) -> list[str]:
        picture = StepPicture()
        picture.lay_out(one, QFont(), theme.palette(dark=False))
        return [words for _, words in picture._written]

    assert set(written(window_step(1))) == {""}
    assert "80 %" in written(chain_step(1))


def test_the_explanation_is_of_the_form_that_is_drawn() -> None:
    said = {shape: explanation(shape) for shape in Shape}
    assert len(set(said.values())) == len(Shape)
    assert "grid" in said[Shape.WINDOW] and "row" in said[Shape.CHAIN] and "tree" in said[Shape.TREE]
    setting = MethodSetting("rule", "Rule", "…", SettingKind.CHOICE, "a", choices=("a", "b"), lossy=("b",))
    method = MethodInfo("x", "Xenon", "It looks twice.", Needs.NOTHING, Shape.TREE, (setting,))
    assert "Xenon" in explanation(Shape.TREE, method) and "It looks twice." in explanation(Shape.TREE, method)
    assert "typical acceptance" in explanation(Shape.TREE, method)
    assert "typical acceptance" not in said[Shape.TREE]


def test_a_match_says_where_the_guesses_come_from() -> None:
    said = match_words(Match(" the old man", 3, 41))
    assert "␣the␣old␣man" in said and "41 tokens earlier" in said


def test_a_long_name_of_a_method_is_shortened_and_not_cut(qtbot: QtBot, look: QApplication) -> None:
    name = "A method whose name has more words than the heading has room"
    heading = Heading()
    qtbot.addWidget(heading)
    heading.set_methods([MethodInfo("prompt-lookup", name, "It looks.", Needs.NOTHING, Shape.CHAIN)])
    heading.resize(360, 60)
    heading.show()
    heading.show_step(chain_step(1))
    label = heading.method
    assert label.text().endswith("…") and name.startswith(label.text()[:-1]) and label.accessibleName() == name
    assert label.fontMetrics().horizontalAdvance(label.text()) <= label.contentsRect().width()
