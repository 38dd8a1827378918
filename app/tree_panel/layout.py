"""Where the boxes of a draft tree go. No Qt.

Time runs from left to right: a column for each depth. What the target accepted lies in one
straight line along the top, so that the emitted text can be read off it and stays where it is
from step to step; every other subtree hangs below, its parent centred on its children.

The packing is Reingold and Tilford's ("Tidier drawings of trees", 1981): subtrees are pushed
together until their contours touch, merging the shorter contour into the taller one, which
makes the whole O(nodes).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from engine.protocol import Step, Verdict


class Kind(StrEnum):
    """What a box stands for; finer than `Verdict`, because a guess can fail in two ways."""

    ROOT = "root"
    ACCEPTED = "accepted"
    REJECTED = "rejected"
    """Its parent was accepted, and the target chose another token there."""
    UNREACHED = "unreached"
    """A guess before it was wrong, so it was never looked at."""
    BONUS = "bonus"
    WINDOW = "window"
    """Not a guess: a row of the window, which the target computes for the method's sake."""


@dataclass(frozen=True, slots=True)
class Item:
    """One token to place: a node of the step, or its bonus token, which comes last."""

    text: str
    token_id: int
    parent: int
    """Index of the parent item, -1 for the root."""
    depth: int
    kind: Kind
    draft_probability: float | None
    path_probability: float | None
    target_probability: float | None
    target_rank: int | None = None


@dataclass(frozen=True, slots=True)
class Metrics:
    """Sizes in one unit, whichever the caller draws in."""

    height: float = 24.0
    """Of every box."""
    gap_x: float = 28.0
    """Between columns: the room for edges."""
    gap_y: float = 7.0
    """Least distance between boxes above each other."""
    margin: float = 12.0
    column_grain: float = 16.0
    """Column widths are rounded up to this, so that they do not tremble from step to step."""
    line: float = 16.0
    """Height of a line of small text."""


@dataclass(frozen=True, slots=True)
class Box:
    x: float
    y: float
    """Left and top."""
    width: float
    height: float

    @property
    def right(self) -> float:
        return self.x + self.width

    @property
    def bottom(self) -> float:
        return self.y + self.height

    @property
    def centre_y(self) -> float:
        return self.y + self.height / 2

    def contains(self, x: float, y: float) -> bool:
        return self.x <= x <= self.right and self.y <= y <= self.bottom


@dataclass(frozen=True, slots=True)
class Caption:
    """A place for words beside the boxes; which words is the painter's matter."""

    what: str
    number: int
    box: Box


@dataclass(frozen=True, slots=True)
class TreeLayout:
    items: tuple[Item, ...]
    boxes: tuple[Box, ...]
    """One for each item, in the same order."""
    width: float
    height: float
    spine: tuple[int, ...]
    """Items of the straight line: root, accepted nodes, bonus."""
    loose: frozenset[int] = frozenset()
    """Items without a line to their parent."""
    captions: tuple[Caption, ...] = ()
    ground: Box | None = None
    """Lies under the boxes of the window and sets them off."""

    def at(self, x: float, y: float) -> int | None:
        """The item under a point."""
        for number, box in enumerate(self.boxes):
            if box.contains(x, y):
                return number
        return None

    def ancestry(self, number: int) -> tuple[int, ...]:
        """The item and everything before it, root last."""
        chain = [number]
        while self.items[chain[-1]].parent >= 0:
            chain.append(self.items[chain[-1]].parent)
        return tuple(chain)


def items_of(step: Step) -> tuple[Item, ...]:
    """The tokens a step shows: its nodes, its window, then the bonus token if there is one.

    So the number of an item is the index that parents use.

    A step without nodes gives its pieces as a chain of target tokens. Raises `ValueError` when a
    node comes before its parent.
    """
    items: list[Item] = []
    reached: list[bool] = []
    for number, node in enumerate((*step.nodes, *step.window)):
        if not -1 <= node.parent < number or (node.parent < 0) != (number == 0):
            raise ValueError(f"node {number} has the parent {node.parent}; parents come first")
        parent_open = number == 0 or (reached[node.parent])
        if number == 0:
            kind = Kind.ROOT
        elif number >= len(step.nodes):
            kind = Kind.WINDOW
        elif node.verdict is Verdict.ACCEPTED:
            kind = Kind.ACCEPTED
        else:
            kind = Kind.REJECTED if parent_open else Kind.UNREACHED
        reached.append(kind in (Kind.ROOT, Kind.ACCEPTED))
        items.append(
            Item(
                node.text,
                node.token_id,
                node.parent,
                # The column is what the parents say, whatever the field says.
                0 if number == 0 else items[node.parent].depth + 1,
                kind,
                node.draft_probability,
                node.path_probability,
                node.target_probability,
                node.target_rank,
            )
        )
    bonus = step.bonus
    if bonus is not None and items:
        parent = bonus.parent if 0 <= bonus.parent < len(step.nodes) else 0
        items.append(
            Item(
                bonus.text,
                bonus.token_id,
                parent,
                items[parent].depth + 1,
                Kind.BONUS,
                None,
                None,
                bonus.target_probability,
                bonus.target_rank,
            )
        )
    if not items:
        for number, piece in enumerate(step.pieces):
            probability = bonus.target_probability if bonus is not None else None
            text = bonus.text if bonus is not None and len(step.pieces) == 1 else piece.text
            rank = bonus.target_rank if bonus is not None else None
            items.append(
                Item(text, piece.token_id, number - 1, number, Kind.BONUS, None, None, probability, rank)
            )
    return tuple(items)


def replaced_by(items: Sequence[Item], number: int) -> int | None:
    """The item that the target put in the place where the path of a wrong guess left the text."""
    while items[number].kind is Kind.UNREACHED:
        number = items[number].parent
    for other, item in enumerate(items):
        if item.parent == items[number].parent and item.kind in (Kind.ACCEPTED, Kind.BONUS):
            return other
    return None


@dataclass(slots=True)
class _Contour:
    """Upper and lower outline of a subtree, deepest level first, off by a common shift."""

    top: list[float] = field(default_factory=list)
    bottom: list[float] = field(default_factory=list)
    shift: float = 0.0
    highest: float = 0.0
    """Least of ``top``."""


def arrange(items: Sequence[Item], widths: Sequence[float], metrics: Metrics) -> TreeLayout:
    """Place ``items`` (parents before children, one root) in boxes of the given widths.

    The same input always gives the same layout. Siblings keep their order, except beside the
    accepted path: there the accepted one comes first, then the small subtrees before the large.
    """
    if not items:
        return TreeLayout((), (), 0.0, 0.0, ())
    children: list[list[int]] = [[] for _ in items]
    for number, item in enumerate(items):
        if item.parent >= 0:
            children[item.parent].append(number)
    spine = straight(items, children)
    on_spine = set(spine)
    sizes = [1] * len(items)
    for number in range(len(items) - 1, 0, -1):
        sizes[items[number].parent] += sizes[number]
    for following in spine[1:]:
        siblings = children[items[following].parent]
        # Below the line first what needs little room, so that it stays near the line.
        siblings.sort(key=lambda sibling: (sibling != following, sizes[sibling]))

    pitch = metrics.height + metrics.gap_y
    offsets = [0.0] * len(items)  # centre, relative to the parent's
    contours: list[_Contour | None] = [None] * len(items)
    for number in range(len(items) - 1, -1, -1):  # children come later, so they are done first
        contours[number] = _join(number, children[number], contours, offsets, on_spine, pitch)

    centres = [0.0] * len(items)
    for number, item in enumerate(items):
        centres[number] = offsets[number] + (centres[item.parent] if item.parent >= 0 else 0.0)
    lefts = columns(items, widths, metrics)
    top = min(centres)
    half = metrics.height / 2
    boxes = tuple(
        Box(lefts[item.depth], metrics.margin + centre - top, width, metrics.height)
        for item, width, centre in zip(items, widths, centres, strict=True)
    )
    return TreeLayout(
        tuple(items),
        boxes,
        max(box.right for box in boxes) + metrics.margin,
        max(centres) - top + 2 * half + 2 * metrics.margin,
        spine,
    )


def straight(items: Sequence[Item], children: Sequence[Sequence[int]]) -> tuple[int, ...]:
    """Root, then at each level the accepted child, else the bonus token."""
    chain = [0]
    while True:
        below = children[chain[-1]]
        following = next((c for c in below if items[c].kind is Kind.ACCEPTED), None)
        if following is None:
            following = next((c for c in below if items[c].kind is Kind.BONUS), None)
        if following is None:
            return tuple(chain)
        chain.append(following)


def _join(
    number: int,
    below: Sequence[int],
    contours: list[_Contour | None],
    offsets: list[float],
    on_spine: set[int],
    pitch: float,
) -> _Contour:
    """Pack the subtrees of one node and put the node beside them; returns the whole's contour."""
    if not below:
        return _Contour([0.0], [0.0])
    straight = number in on_spine and below[0] in on_spine
    whole: _Contour | None = None
    centres: list[float] = []
    for child in below:
        part = contours[child]
        contours[child] = None
        assert part is not None
        if whole is None:
            whole = part
            centres.append(0.0)
            continue
        # Levels both reach: the last entries of the lists. Push down until the boxes clear.
        shared = min(len(whole.top), len(part.top))
        push = max(
            whole.bottom[-level] + whole.shift + pitch - part.top[-level] - part.shift
            for level in range(1, shared + 1)
        )
        if straight:
            # Nothing may rise beside the line, not even where the line has ended.
            push = max(push, pitch - part.highest - part.shift)
        part.shift += push
        centres.append(push)
        if len(part.top) <= len(whole.top):
            for level in range(1, shared + 1):
                whole.bottom[-level] = part.bottom[-level] + part.shift - whole.shift
            whole.highest = min(whole.highest, part.highest + part.shift - whole.shift)
        else:
            for level in range(1, shared + 1):
                part.top[-level] = whole.top[-level] + whole.shift - part.shift
            part.highest = min(part.highest, whole.highest + whole.shift - part.shift)
            whole = part
    assert whole is not None
    centre = centres[0] if straight else (centres[0] + centres[-1]) / 2
    for child, child_centre in zip(below, centres, strict=True):
        offsets[child] = child_centre - centre
    whole.shift -= centre
    whole.top.append(-whole.shift)
    whole.bottom.append(-whole.shift)
    whole.highest = min(whole.highest, -whole.shift)
    return whole


def columns(items: Sequence[Item], widths: Sequence[float], metrics: Metrics) -> list[float]:
    """Left edge of each depth."""
    deepest = max(item.depth for item in items)
    column = [0.0] * (deepest + 1)
    for item, width in zip(items, widths, strict=True):
        column[item.depth] = max(column[item.depth], width)
    lefts: list[float] = []
    left = metrics.margin
    for width in column:
        lefts.append(left)
        grain = metrics.column_grain
        left += (-(-width // grain) * grain if grain > 0 else width) + metrics.gap_x
    return lefts
