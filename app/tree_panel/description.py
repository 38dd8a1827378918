"""What a step and its tokens are called, in words for people. No Qt.

Tooltips, the table and screen readers all read from here, so that they say the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from app.tree_panel.history import Figures
from app.tree_panel.layout import Item, Kind, items_of
from app.tree_panel.token_text import percent, quoted, visible
from engine.protocol import Step, StepTimes

SHORT = {
    Kind.ROOT: "Root",
    Kind.ACCEPTED: "Accepted",
    Kind.REJECTED: "Rejected",
    Kind.UNREACHED: "Not reached",
    Kind.BONUS: "Bonus token",
}

LEGEND = (
    (Kind.ROOT, "Root", "Already chosen in the step before; the guesses start from it."),
    (Kind.ACCEPTED, "Accepted", "A guess that the target confirmed: a token for free."),
    (Kind.BONUS, "Bonus", "Bonus token: chosen by the target itself. It ends the step and is the next root."),
    (Kind.REJECTED, "Rejected", "A guess where the target chose another token."),
    (Kind.UNREACHED, "Not reached", "A guess that follows a rejected one, so it was never looked at."),
)

EXPLANATION = (
    "A language model writes one token (a word or a piece of one) at a time, and each token costs a "
    "pass through the whole model, here called the target.\n\n"
    "EAGLE adds a small, quick helper, the head. It guesses several ways the text may go on: that is "
    "the tree, read from left to right. The target then checks all guesses in a single pass. It keeps "
    "the longest path it agrees with (the straight line at the top) and adds one token of its own, "
    "the bonus token. Everything else is thrown away.\n\n"
    "So one pass can give several tokens, and the target still decides every one of them: wrong "
    "guesses cost a little time, never quality. τ (tau) is how many tokens a pass gave on average; "
    "without EAGLE it is 1."
)


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table beside the tree."""

    depth: int
    token: str
    token_id: int
    follows: str
    """The parent's token, "" for the root."""
    draft_probability: str
    target_probability: str
    verdict: str
    kind: Kind

    @property
    def cells(self) -> tuple[str, ...]:
        return (
            str(self.depth),
            self.token,
            self.draft_probability,
            self.verdict,
            self.target_probability,
            self.follows,
            str(self.token_id),
        )


COLUMNS = ("Depth", "Token", "Head", "Verdict", "Target", "Follows", "Token id")
"""Head and Target are the probabilities that each gave the token."""


def verdict(items: Sequence[Item], number: int) -> str:
    """The verdict on one token, in a sentence without a full stop."""
    item = items[number]
    if item.kind is Kind.ROOT:
        return "Root: chosen by the target in the step before"
    if item.kind is Kind.ACCEPTED:
        return "Accepted: the target chose this token too"
    if item.kind is Kind.UNREACHED:
        return "Not reached: a guess before it was rejected"
    if item.kind is Kind.REJECTED:
        chosen = next(
            (
                other
                for other in items
                if other.parent == item.parent and other.kind in (Kind.ACCEPTED, Kind.BONUS)
            ),
            None,
        )
        if chosen is None:
            return "Rejected: the target chose another token here"
        return f"Rejected: the target chose {quoted(chosen.text, 24)} here"
    if items[0].kind is Kind.ROOT:
        return "Bonus token: chosen by the target itself, root of the next step"
    return "Chosen by the target"


def details(items: Sequence[Item], number: int) -> str:
    """All that is known about one token, a line each, as plain text.

    The first line is ours and holds no token, so that Qt, which looks there for markup, never
    takes the text for HTML.
    """
    item = items[number]
    lines = [
        f"{SHORT[item.kind] if items[0].kind is Kind.ROOT else 'Target token'}, depth {item.depth}",
        f"Token {quoted(item.text)}, id {item.token_id}",
    ]
    if item.kind is not Kind.ROOT:
        if item.draft_probability is not None:
            lines.append(f"The head gave it {percent(item.draft_probability)}")
        if item.path_probability is not None:
            lines.append(f"and the whole path {percent(item.path_probability)}")
        if item.target_probability is not None:
            lines.append(f"The target gave it {percent(item.target_probability)}")
    lines.append(verdict(items, number))
    return "\n".join(lines)


def rows(step: Step) -> tuple[Row, ...]:
    """The step as a table, nodes in their order and the bonus token last."""
    items = items_of(step)
    made = []
    for number, item in enumerate(items):
        root = item.kind is Kind.ROOT
        made.append(
            Row(
                depth=item.depth,
                token=visible(item.text),
                token_id=item.token_id,
                follows=visible(items[item.parent].text) if item.parent >= 0 else "",
                draft_probability="" if root else percent(item.draft_probability),
                target_probability="" if root else percent(item.target_probability),
                verdict=verdict(items, number),
                kind=item.kind,
            )
        )
    return tuple(made)


def counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def summary(step: Step) -> str:
    """One step in a sentence or two, for screen readers and the line under the tree."""
    emitted = " ".join(quoted(piece.text, 24) for piece in step.pieces if piece.text)
    if step.index == 0:
        return f"Prompt pass: the target read the prompt and chose the first token, {emitted or '∅'}."
    if not step.nodes:
        return f"Step {step.index}, plain decoding: the target chose {emitted or 'a token'}."
    guesses = len(step.nodes) - 1
    noun = "guess" if guesses == 1 else "guesses"
    head = f"Step {step.index}: {len(step.accepted)} of {guesses} {noun} accepted"
    return f"{head}, {counted(len(step.pieces), 'token')} emitted: {emitted or '∅'}."


def milliseconds(seconds: float) -> str:
    """``0.0123`` as ``"12.3 ms"``, long times in seconds."""
    if seconds >= 10:
        return f"{seconds:.0f} s"
    if seconds >= 1:
        return f"{seconds:.2f} s"
    return f"{seconds * 1000:.1f} ms" if seconds < 0.1 else f"{seconds * 1000:.0f} ms"


TIME_PARTS = ("draft", "verify", "accept", "other")


def time_parts(times: StepTimes) -> tuple[tuple[str, float], ...]:
    """Name and seconds of each part of a step, in the order they happen."""
    return tuple((name, max(0.0, getattr(times, name))) for name in TIME_PARTS)


def times_text(times: StepTimes) -> str:
    parts = ", ".join(f"{name} {milliseconds(seconds)}" for name, seconds in time_parts(times))
    return f"{milliseconds(times.total)} in all: {parts}"


def step_label(figures: Figures) -> str:
    """``"Step 12 of 40"``; the prompt pass has no number of its own."""
    if figures.index == 0:
        return f"Prompt pass, then {counted(figures.last_index, 'step')}" if figures.last_index else "Prompt pass"
    return f"Step {figures.index} of {figures.last_index}"
