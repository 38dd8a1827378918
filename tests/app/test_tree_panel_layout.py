"""Where the boxes go: nothing overlaps, time runs to the right, the accepted path is straight."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from app.tree_panel.layout import Item, Kind, Metrics, TreeLayout, arrange, items_of
from engine.protocol import Mode, Origin, Piece, StepTimes, TreeNode, Verdict
from engine.protocol import Step as ProtocolStep
from tests.app.tree_panel_steps import plain_steps, step

METRICS = Metrics()
TREES = [(nodes, depth, seed) for seed in range(12) for nodes, depth in ((1, 1), (2, 1), (8, 3), (26, 5), (60, 8))]


def laid_out(nodes: int, depth: int, seed: int) -> TreeLayout:
    items = items_of(step(1, nodes, depth, seed))
    r = random.Random(seed)
    return arrange(items, [r.uniform(20, 130) for _ in items], METRICS)


@pytest.mark.parametrize(("nodes", "depth", "seed"), TREES)
def test_invariants_of_random_trees(nodes: int, depth: int, seed: int) -> None:
    tree = laid_out(nodes, depth, seed)
    assert len(tree.boxes) == len(tree.items) == nodes + 1  # the bonus token
    for number, box in enumerate(tree.boxes):
        assert box.x >= METRICS.margin and box.right <= tree.width - METRICS.margin + 1e-6
        assert box.y >= METRICS.margin - 1e-6 and box.bottom <= tree.height - METRICS.margin + 1e-6
        parent = tree.items[number].parent
        if parent >= 0:
            assert tree.boxes[parent].right + METRICS.gap_x <= box.x + 1e-6
        for other in tree.boxes[number + 1 :]:
            apart = (
                box.right <= other.x
                or other.right <= box.x
                or box.bottom + METRICS.gap_y <= other.y + 1e-6
                or other.bottom + METRICS.gap_y <= box.y + 1e-6
            )
            assert apart, f"{box} and {other} touch"


@pytest.mark.parametrize(("nodes", "depth", "seed"), TREES)
def test_the_emitted_text_is_one_straight_line_at_the_top(nodes: int, depth: int, seed: int) -> None:
    one = step(1, nodes, depth, seed)
    tree = laid_out(nodes, depth, seed)
    assert tree.spine == (0, *one.accepted, nodes)
    line = {tree.boxes[number].y for number in tree.spine}
    assert len(line) == 1
    below = [box.y for number, box in enumerate(tree.boxes) if number not in tree.spine]
    assert all(y >= line.copy().pop() + METRICS.height + METRICS.gap_y - 1e-6 for y in below)


@pytest.mark.parametrize("seed", range(8))
def test_parents_off_the_line_are_centred_on_their_children(seed: int) -> None:
    tree = laid_out(60, 8, seed)
    checked = 0
    for number, box in enumerate(tree.boxes):
        children = [b.centre_y for b, item in zip(tree.boxes, tree.items, strict=True) if item.parent == number]
        if children and number not in tree.spine:
            assert box.centre_y == pytest.approx((min(children) + max(children)) / 2)
            checked += 1
    assert checked


def test_the_same_tree_is_always_laid_out_the_same() -> None:
    assert laid_out(60, 8, 5) == laid_out(60, 8, 5)


def test_columns_keep_their_place_when_a_token_is_a_little_wider() -> None:
    items = items_of(step(1, 8, 3, 1))
    narrow = arrange(items, [50.0] * len(items), METRICS)
    wider = arrange(items, [55.0] * len(items), METRICS)
    assert [box.x for box in narrow.boxes] == [box.x for box in wider.boxes]


def test_siblings_beside_the_line_that_need_little_room_stay_near_it() -> None:
    #  0 root - 1 (with a subtree 3, 4), 2 (alone); nothing accepted, bonus below the root
    parents = (-1, 0, 0, 1, 1)
    items = [
        Item("x", n, parent, 0 if n == 0 else 1 if n < 3 else 2, Kind.ROOT if n == 0 else Kind.REJECTED, 0.5, 0.5, None)
        for n, parent in enumerate(parents)
    ]
    items.append(Item("b", 9, 0, 1, Kind.BONUS, None, None, None))
    tree = arrange(items, [40.0] * 6, METRICS)
    assert tree.boxes[5].y < tree.boxes[2].y < tree.boxes[1].y


def test_large_and_deep_trees_need_no_recursion() -> None:
    deep = [
        Item("x", n, n - 1, n, Kind.ROOT if n == 0 else Kind.REJECTED, 1.0, 1.0, None) for n in range(5000)
    ]
    tree = arrange(deep, [10.0] * len(deep), METRICS)
    assert len({box.y for box in tree.boxes}) == 1
    flat = [deep[0], *(replace(deep[1], token_id=n) for n in range(5000))]
    tree = arrange(flat, [10.0] * len(flat), METRICS)
    assert len({box.y for box in tree.boxes[1:]}) == 5000


def test_no_items_make_an_empty_layout() -> None:
    tree = arrange((), (), METRICS)
    assert tree.boxes == () and tree.width == tree.height == 0 and tree.at(0, 0) is None


def test_a_guess_fails_in_two_ways() -> None:
    def node(n: int, parent: int, verdict: Verdict) -> TreeNode:
        return TreeNode(n, f"t{n}", parent, 0, 0.5, 0.5, verdict)

    nodes = (
        node(0, -1, Verdict.ROOT),
        node(1, 0, Verdict.ACCEPTED),
        node(2, 0, Verdict.REJECTED),
        node(3, 1, Verdict.REJECTED),
        node(4, 2, Verdict.REJECTED),
        node(5, 4, Verdict.REJECTED),
    )
    piece = Piece(1, "t1", Origin.DRAFT)
    items = items_of(ProtocolStep("r", 1, (piece,), StepTimes(0, 0, 0, 0), nodes, (1,), None, Mode.EAGLE))
    assert [item.kind for item in items] == [
        Kind.ROOT,
        Kind.ACCEPTED,
        Kind.REJECTED,
        Kind.REJECTED,
        Kind.UNREACHED,
        Kind.UNREACHED,
    ]
    assert [item.depth for item in items] == [0, 1, 1, 2, 2, 3]  # from the parents, not from the field


def test_plain_decoding_is_a_token_without_a_tree() -> None:
    (item,) = items_of(plain_steps(["a", " b"])[1])
    assert (item.text, item.kind, item.parent, item.depth) == (" b", Kind.BONUS, -1, 0)


@pytest.mark.parametrize("parents", [(-1, 1), (-1, -1), (0, 0), (-1, 2, 1)])
def test_nodes_before_their_parents_are_refused(parents: tuple[int, ...]) -> None:
    nodes = tuple(
        TreeNode(n, "x", parent, 1, 0.5, 0.5, Verdict.REJECTED) for n, parent in enumerate(parents)
    )
    with pytest.raises(ValueError, match="parents come first"):
        items_of(ProtocolStep("r", 1, (), StepTimes(0, 0, 0, 0), nodes))


def test_points_find_their_box_and_paths_their_root() -> None:
    tree = laid_out(26, 5, 3)
    for number, box in enumerate(tree.boxes):
        assert tree.at(box.x + box.width / 2, box.centre_y) == number
    assert tree.at(0, 0) is None
    last = len(tree.items) - 1
    assert tree.ancestry(last) == tuple(reversed(tree.spine))
