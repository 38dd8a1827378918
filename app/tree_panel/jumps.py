"""From a token of a step's picture to its place in the text, and back. No Qt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from app.tree_panel.history import ReplyHistory
from app.tree_panel.layout import Item, Kind, items_of, replaced_by
from engine.protocol import Step


@dataclass(frozen=True, slots=True)
class Place:
    """A token in the text of a step."""

    index: int
    """Number of the step that wrote it."""
    begin: int
    end: int
    """Where it stands among the characters that the step wrote; both the same where it added none."""


def place_in_text(history: ReplyHistory, position: int, number: int) -> Place | None:
    """Where an item of the step at ``position`` stands in the reply.

    A guess that failed leads to what the target chose instead of it. None for what never became
    text: a row of the window, a token behind the reply's end, a root from before the reply.
    """
    step = history.step(position)
    items = items_of(step)
    found: int | None = number
    if items[number].kind in (Kind.REJECTED, Kind.UNREACHED):
        found = replaced_by(items, number)
    if found is None:
        return None
    if items[found].kind is Kind.ROOT:
        if position == 0:
            return None
        before = history.step(position - 1)
        return _piece(before, len(before.pieces) - 1)
    return _piece(step, _piece_of(step, items, found))


def _piece_of(step: Step, items: Sequence[Item], number: int) -> int:
    """Place of an item among the step's pieces, -1 if it has none."""
    if not step.nodes:
        return number
    if items[number].kind is Kind.BONUS:
        return len(step.accepted)
    return step.accepted.index(number) if number in step.accepted else -1


def _piece(step: Step, place: int) -> Place | None:
    if not 0 <= place < len(step.pieces):
        return None
    begin = sum(len(piece.text) for piece in step.pieces[:place])
    return Place(step.index, begin, begin + len(step.pieces[place].text))


def item_in_picture(step: Step, offset: int) -> int | None:
    """The item whose text holds the character at ``offset`` of what the step wrote."""
    end = 0
    for place, piece in enumerate(step.pieces):
        end += len(piece.text)
        if offset < end:
            if not step.nodes:
                return place
            return step.accepted[place] if place < len(step.accepted) else _bonus(step)
    return None


def _bonus(step: Step) -> int | None:
    return len(step.nodes) + len(step.window) if step.bonus is not None else None
