"""Where two replies to the same prompt part. No Qt.

The claim behind speculative decoding is that it changes the speed and not the text. So this
looks at token ids, not at text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from engine.protocol import Finished, FinishReason, Piece

CONTEXT = 40
"""Characters of text kept before a difference."""


class Which(StrEnum):
    """The two sides."""

    A = "a"
    B = "b"

    @property
    def other(self) -> Which:
        return Which.B if self is Which.A else Which.A


@dataclass(frozen=True, slots=True)
class Run:
    """One reply, complete."""

    pieces: tuple[Piece, ...]
    finished: Finished

    @property
    def token_ids(self) -> tuple[int, ...]:
        return self.finished.token_ids


@dataclass(frozen=True, slots=True)
class Place:
    """One reply at the place where the two part."""

    token_id: int | None
    """``None`` when this reply had already ended."""
    text: str
    """The token's own text; "" when it had ended or the text came later."""
    start: int
    end: int
    """Characters of the reply's text that the token wrote; empty at an end."""


@dataclass(frozen=True, slots=True)
class Difference:
    """Where two replies first differ."""

    index: int
    """Position among the tokens, from 0; all before it are the same."""
    before: str
    """The last `CONTEXT` characters that both wrote."""
    a: Place
    b: Place

    def place(self, which: Which) -> Place:
        return self.a if which is Which.A else self.b


class Outcome(StrEnum):
    IDENTICAL = "identical"
    DIFFERENT = "different"
    PREFIX = "prefix"
    """One reply was stopped or failed, and what there is of both is the same."""


def first_difference(left: Sequence[int], right: Sequence[int]) -> int | None:
    """Index of the first token that differs or that only one sequence has; ``None`` if they are equal."""
    for index, (one, other) in enumerate(zip(left, right, strict=False)):
        if one != other:
            return index
    return None if len(left) == len(right) else min(len(left), len(right))


COMPLETE = (FinishReason.EOS, FinishReason.LENGTH, FinishReason.CONTEXT)
"""How a reply ends that was not broken off."""


def compare(a: Run, b: Run) -> tuple[Outcome, Difference | None]:
    """Whether two replies are the same, and where they part if they are not."""
    at = first_difference(a.token_ids, b.token_ids)
    complete = all(run.finished.reason in COMPLETE for run in (a, b))
    if at is None:
        return (Outcome.IDENTICAL if complete else Outcome.PREFIX), None
    if at == min(len(a.token_ids), len(b.token_ids)) and not complete:
        return Outcome.PREFIX, None
    text = "".join(piece.text for piece in a.pieces[:at])
    return Outcome.DIFFERENT, Difference(at, text[-CONTEXT:], _place(a, at), _place(b, at))


def _place(run: Run, at: int) -> Place:
    start = sum(len(piece.text) for piece in run.pieces[:at])
    if at >= len(run.token_ids):
        return Place(None, "", start, start)
    text = run.pieces[at].text if at < len(run.pieces) else ""
    end = start + len(text)
    if not text:
        # The token's text came with a later one (half a character): mark that.
        following = next((piece.text for piece in run.pieces[at:] if piece.text), "")
        end = start + len(following)
    return Place(run.token_ids[at], text, start, end)
