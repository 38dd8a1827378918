"""What a step and its tokens are called, in words for people.

Tooltips, the table and screen readers all read from here, so that they say the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from app.language import mark, tr, tr_n
from app.language.numbers import decimal
from app.tree_panel.forms import GRAMS, PASS, PLACE, WINDOW, window_rows
from app.tree_panel.history import Figures
from app.tree_panel.layout import Caption, Item, Kind, items_of, replaced_by
from app.tree_panel.token_text import percent, quoted, visible
from engine.protocol import Step, StepTimes

SHORT = {
    Kind.ROOT: mark("Panel", "Root"),
    Kind.ACCEPTED: mark("Panel", "Accepted"),
    Kind.REJECTED: mark("Panel", "Rejected"),
    Kind.UNREACHED: mark("Panel", "Not reached"),
    Kind.BONUS: mark("Panel", "Bonus token"),
    Kind.WINDOW: mark("Panel", "Window"),
}


@dataclass(frozen=True, slots=True)
class Ranks:
    """Places of a guess among others, 1 for the likeliest."""

    own: int
    """Among the guesses after the same token."""
    siblings: int
    path: int
    """Of its whole path among all guesses of the step."""
    guesses: int


def ranks(items: Sequence[Item], number: int) -> Ranks | None:
    """Where a guess stands by the draft's probabilities; None where it gave none."""
    item = items[number]
    if item.kind in (Kind.ROOT, Kind.BONUS, Kind.WINDOW) or item.draft_probability is None:
        return None
    guesses = [other for other in items if other.draft_probability is not None and _guessed(other)]
    siblings = [other for other in guesses if other.parent == item.parent]
    own = 1 + sum((other.draft_probability or 0) > item.draft_probability for other in siblings)
    path = 1 + sum((other.path_probability or 0) > (item.path_probability or 0) for other in guesses)
    return Ranks(own, len(siblings), path, len(guesses))


def _guessed(item: Item) -> bool:
    return item.kind in (Kind.ACCEPTED, Kind.REJECTED, Kind.UNREACHED)


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table beside the tree."""

    depth: int
    token: str
    token_id: int
    follows: str
    """The parent's token, "" for the root."""
    draft_probability: str
    draft_rank: str
    target_probability: str
    target_rank: str
    verdict: str
    kind: Kind
    item: int
    """Number of the item."""

    @property
    def cells(self) -> tuple[str, ...]:
        return (
            str(self.depth),
            self.token,
            self.draft_probability,
            self.draft_rank,
            self.verdict,
            self.target_probability,
            self.target_rank,
            self.follows,
            str(self.token_id),
        )


COLUMNS = (
    mark("Panel", "Depth"),
    mark("Panel", "Token"),
    mark("Panel", "Draft"),
    mark("Panel", "Draft rank"),
    mark("Panel", "Verdict"),
    mark("Panel", "Target"),
    mark("Panel", "Target rank"),
    mark("Panel", "Follows"),
    mark("Panel", "Token id"),
)
"""Draft and Target are the probabilities that each gave the token after the one it follows, and the
token's place in the order of these, 1 for the likeliest."""


def verdict(items: Sequence[Item], number: int) -> str:
    """The verdict on one token, in a sentence without a full stop."""
    item = items[number]
    if item.kind is Kind.ROOT:
        return tr("Panel", "Root: chosen by the target in the step before")
    if item.kind is Kind.ACCEPTED:
        return tr("Panel", "Accepted: the target chose this token too")
    if item.kind is Kind.UNREACHED:
        return tr("Panel", "Not reached: a guess before it was rejected")
    if item.kind is Kind.WINDOW:
        return _window_verdict(items, number)
    if item.kind is Kind.REJECTED:
        chosen = replaced_by(items, number)
        if chosen is None:
            return tr("Panel", "Rejected: the target chose another token here")
        return tr("Panel", "Rejected: the target chose {token} here").format(token=quoted(items[chosen].text, 24))
    if items[0].kind is Kind.ROOT:
        return tr("Panel", "Bonus token: chosen by the target itself, root of the next step")
    return tr("Panel", "Chosen by the target")


def _window_verdict(items: Sequence[Item], number: int) -> str:
    rows = window_rows(items)
    row = next(place for place, numbers in enumerate(rows) if number in numbers)
    return tr("Panel", "Window ({row}): not a guess, but where the next guesses come from").format(
        row=_passes_ago(len(rows) - row)
    )


def _passes_ago(count: int) -> str:
    return tr_n("Panel", "last pass", "%n passes ago", count)


def caption_words(caption: Caption) -> str:
    """The words at a place beside the boxes."""
    if caption.what == GRAMS:
        return tr("Panel", "Guesses, checked in this pass")
    if caption.what == WINDOW:
        return tr("Panel", "Window: places ahead that the target fills in on the side")
    if caption.what == PLACE:
        return f"+{caption.number}"
    assert caption.what == PASS, caption.what
    return _passes_ago(caption.number)


def details(items: Sequence[Item], number: int) -> str:
    """All that is known about one token, a line each, as plain text.

    The first line is ours and holds no token, so that Qt, which looks there for markup, never
    takes the text for HTML.
    """
    item = items[number]
    name = tr("Panel", SHORT[item.kind]) if items[0].kind is Kind.ROOT else tr("Panel", "Target token")
    lines = [
        tr("Panel", "{kind}, depth {depth}").format(kind=name, depth=item.depth),
        tr("Panel", "Token {token}, id {id}").format(token=quoted(item.text), id=item.token_id),
    ]
    if item.kind not in (Kind.ROOT, Kind.WINDOW):
        place = ranks(items, number)
        if item.draft_probability is not None:
            lines.append(_draft_words(item, place))
        if item.path_probability is not None:
            lines.append(_path_words(item, place))
        if item.target_probability is not None:
            lines.append(_target_words(item))
        elif _guessed(item):
            lines.append(tr("Panel", "What the target would have given it was not worked out"))
    lines.append(verdict(items, number))
    return "\n".join(lines)


def _draft_words(item: Item, place: Ranks | None) -> str:
    words = tr("Panel", "The draft gave it {percent}").format(percent=percent(item.draft_probability))
    if place is None or place.siblings < 2:
        return words
    return words + tr("Panel", ", number {rank} of its {count} guesses here").format(
        rank=place.own, count=place.siblings
    )


def _path_words(item: Item, place: Ranks | None) -> str:
    words = tr("Panel", "and the whole path {percent}").format(percent=percent(item.path_probability))
    if place is None:
        return words
    return words + tr("Panel", ", number {rank} of all {count}").format(rank=place.path, count=place.guesses)


def _target_words(item: Item) -> str:
    words = tr("Panel", "The target gave it {percent}").format(percent=percent(item.target_probability))
    if item.target_rank is None:
        return words
    if item.target_rank == 1:
        return words + tr("Panel", ", more than any other token")
    return words + tr("Panel", ", number {rank} of all tokens").format(rank=item.target_rank)


def rows(step: Step) -> tuple[Row, ...]:
    """The step as a table: nodes in their order, the window's rows, and the bonus token last."""
    items = items_of(step)
    made = []
    for number, item in enumerate(items):
        silent = item.kind in (Kind.ROOT, Kind.WINDOW)
        place = ranks(items, number)
        made.append(
            Row(
                depth=item.depth,
                token=visible(item.text),
                token_id=item.token_id,
                follows=visible(items[item.parent].text) if item.parent >= 0 else "",
                draft_probability="" if silent else percent(item.draft_probability),
                draft_rank=str(place.own) if place is not None else "",
                target_probability="" if silent else percent(item.target_probability),
                target_rank="" if silent or item.target_rank is None else str(item.target_rank),
                verdict=verdict(items, number),
                kind=item.kind,
                item=number,
            )
        )
    return tuple(made)


def summary(step: Step) -> str:
    """One step in a sentence or two, for screen readers and exported pictures."""
    emitted = " ".join(quoted(piece.text, 24) for piece in step.pieces if piece.text)
    if step.index == 0:
        return tr("Panel", "Prompt pass: the target read the prompt and chose the first token, {tokens}.").format(
            tokens=emitted or "∅"
        )
    if not step.nodes:
        return tr("Panel", "Step {step}, plain decoding: the target chose {tokens}.").format(
            step=step.index, tokens=emitted or tr("Panel", "a token")
        )
    said = tr("Panel", "Step {step}: {accepted} of {guesses} accepted, {count} emitted: {tokens}.").format(
        step=step.index,
        accepted=len(step.accepted),
        guesses=tr_n("Panel", "%n guess", "%n guesses", len(step.nodes) - 1),
        count=tr_n("Panel", "%n token", "%n tokens", len(step.pieces)),
        tokens=emitted or "∅",
    )
    rows_of_window = window_rows(items_of(step))
    if rows_of_window:
        said += " " + tr("Panel", "Beside them a window of {rows} over {places}.").format(
            rows=tr_n("Panel", "%n row", "%n rows", len(rows_of_window)),
            places=tr_n("Panel", "%n place", "%n places", max(map(len, rows_of_window))),
        )
    return said


def milliseconds(seconds: float) -> str:
    """``0.0123`` as ``"12.3 ms"``, long times in seconds."""
    if seconds >= 10:
        return f"{decimal(seconds, 0)} s"
    if seconds >= 1:
        return f"{decimal(seconds, 2)} s"
    return f"{decimal(seconds * 1000, 1 if seconds < 0.1 else 0)} ms"


TIME_PARTS = (mark("Panel", "draft"), mark("Panel", "verify"), mark("Panel", "accept"), mark("Panel", "other"))


def time_parts(times: StepTimes) -> tuple[tuple[str, float], ...]:
    """Name (as in `StepTimes`) and seconds of each part of a step, in the order they happen."""
    return tuple((name, max(0.0, getattr(times, name))) for name in TIME_PARTS)


def times_text(times: StepTimes) -> str:
    parts = ", ".join(f"{tr('Panel', name)} {milliseconds(seconds)}" for name, seconds in time_parts(times))
    return tr("Panel", "{total} in all: {parts}").format(total=milliseconds(times.total), parts=parts)


def step_label(figures: Figures) -> str:
    """``"Step 12 of 40"``; the prompt pass has no number of its own."""
    if figures.index == 0:
        if not figures.last_index:
            return tr("Panel", "Prompt pass")
        steps = tr_n("Panel", "%n step", "%n steps", figures.last_index)
        return tr("Panel", "Prompt pass, then {steps}").format(steps=steps)
    return tr("Panel", "Step {step} of {last}").format(step=figures.index, last=figures.last_index)
