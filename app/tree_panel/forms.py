"""Every step in its own form: a tree, a chain in one row, or n-grams above their window. No Qt.

Which form a step has is said by its data, never by the name of a method. All forms share the
columns: a token's distance from the root is its place from left to right.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from app.tree_panel.layout import (
    Box,
    Caption,
    Item,
    Kind,
    Metrics,
    TreeLayout,
    arrange,
    columns,
    straight,
)
from engine.protocol import Shape, Step

_LABELS = 92.0
"""Room for the names of the window's rows, left of the rows."""

GRAMS, WINDOW, PASS, PLACE = "grams", "window", "pass", "place"
"""What a caption is about: the n-grams, the window, one of its rows (number: passes ago), a column."""


def place(step: Step, items: Sequence[Item], widths: Sequence[float], metrics: Metrics) -> TreeLayout:
    """The boxes of a step whose tokens are ``items``, with the given widths of boxes."""
    if any(item.kind is Kind.WINDOW for item in items):
        return _above_window(items, widths, metrics)
    if step.shape is Shape.CHAIN and _is_chain(items):
        return _in_one_row(items, widths, metrics)
    return arrange(items, widths, metrics)


def _is_chain(items: Sequence[Item]) -> bool:
    guesses = [item for item in items if item.kind is not Kind.BONUS]
    return bool(guesses) and all(item.parent == number - 1 for number, item in enumerate(guesses))


def _in_one_row(items: Sequence[Item], widths: Sequence[float], metrics: Metrics) -> TreeLayout:
    """Guesses stay in their row; a bonus token that replaces one stands below it."""
    lefts = columns(items, widths, metrics)
    taken = {item.depth for item in items if item.kind is not Kind.BONUS}
    boxes = []
    for item, width in zip(items, widths, strict=True):
        below = item.kind is Kind.BONUS and item.depth in taken
        y = metrics.margin + (metrics.height + metrics.gap_y if below else 0.0)
        boxes.append(Box(lefts[item.depth], y, width, metrics.height))
    return TreeLayout(
        tuple(items),
        tuple(boxes),
        max(box.right for box in boxes) + metrics.margin,
        max(box.bottom for box in boxes) + metrics.margin,
        straight(items, _children(items)),
    )


def _children(items: Sequence[Item]) -> list[list[int]]:
    below: list[list[int]] = [[] for _ in items]
    for number, item in enumerate(items):
        if item.parent >= 0:
            below[item.parent].append(number)
    return below


def window_rows(items: Sequence[Item]) -> list[list[int]]:
    """Items of the window, a list for each of its rows: within a row depth grows from token to token."""
    rows: list[list[int]] = []
    for number, item in enumerate(items):
        if item.kind is Kind.WINDOW:
            if not rows or item.depth <= items[rows[-1][-1]].depth:
                rows.append([])
            rows[-1].append(number)
    return rows


def _above_window(items: Sequence[Item], widths: Sequence[float], metrics: Metrics) -> TreeLayout:
    guesses = [number for number, item in enumerate(items) if item.kind is not Kind.WINDOW]
    # The bonus token stands behind the window and so has another number among the guesses alone.
    chosen = [items[number] for number in guesses]
    upper = arrange(chosen, [widths[number] for number in guesses], metrics)
    rows = window_rows(items)
    roomy = [max(width, _LABELS) if item.depth == 0 else width for item, width in zip(items, widths, strict=True)]
    lefts = columns(items, roomy, metrics)
    pad = metrics.gap_y
    head = metrics.line + pad
    boxes: list[Box] = [Box(0.0, 0.0, 0.0, 0.0)] * len(items)
    for number, box in zip(guesses, upper.boxes, strict=True):
        boxes[number] = replace(box, x=lefts[items[number].depth], y=box.y + head)
    top = upper.height + head
    pitch = metrics.height + metrics.gap_y
    first = top + 2 * head
    for row, numbers in enumerate(rows):
        for number in numbers:
            item = items[number]
            boxes[number] = Box(lefts[item.depth], first + row * pitch, widths[number], metrics.height)
    right = max(box.right for box in boxes)
    ground = Box(
        metrics.margin / 2, top - pad, right + metrics.margin / 2, 2 * head + len(rows) * pitch + pad
    )
    return TreeLayout(
        tuple(items),
        tuple(boxes),
        right + metrics.margin,
        ground.bottom + metrics.margin,
        tuple(guesses[number] for number in upper.spine),
        _loose(items, rows),
        tuple(_captions(items, boxes, rows, lefts, ground, metrics)),
        ground,
    )


def _loose(items: Sequence[Item], rows: Sequence[Sequence[int]]) -> frozenset[int]:
    """Neighbours in a row need no line, nor does the row's beginning; what a row took from the one above does."""
    row_of = {number: row for row, numbers in enumerate(rows) for number in numbers}
    return frozenset(
        number for number, row in row_of.items() if row_of.get(items[number].parent, row) == row
    )


def _captions(
    items: Sequence[Item],
    boxes: Sequence[Box],
    rows: Sequence[Sequence[int]],
    lefts: Sequence[float],
    ground: Box,
    metrics: Metrics,
) -> list[Caption]:
    left, line = metrics.margin, metrics.line
    wide = ground.right - left
    made = [
        Caption(GRAMS, 0, Box(left, metrics.margin / 2, wide, line)),
        Caption(WINDOW, len(rows), Box(left, ground.y + metrics.gap_y, wide, line)),
    ]
    depths = sorted({items[number].depth for numbers in rows for number in numbers})
    y = ground.y + metrics.gap_y + line + metrics.gap_y
    made += [Caption(PLACE, depth, Box(lefts[depth], y, 60.0, line)) for depth in depths]
    for row, numbers in enumerate(rows):
        box = boxes[numbers[0]]
        room = lefts[1] - metrics.margin - metrics.gap_y
        made.append(Caption(PASS, len(rows) - row, Box(left, box.y, room, box.height)))
    return made
