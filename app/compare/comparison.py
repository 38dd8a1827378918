"""What two runs of the same prompt say about each other. No Qt.

The claim behind speculative decoding is that it changes the speed and not the text. So this
looks at token ids, not at text, and where they part it says where and how near the race was.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from engine.protocol import Finished, FinishReason, Mode, Piece, ReplyStats, Step

CONTEXT = 40
"""Characters of text shown before a difference."""


@dataclass(frozen=True, slots=True)
class Run:
    """One reply, complete."""

    pieces: tuple[Piece, ...]
    finished: Finished
    target_probabilities: tuple[float | None, ...] = ()
    """The target's probability of each emitted token, where the steps told it."""

    @property
    def stats(self) -> ReplyStats:
        return self.finished.stats

    @property
    def token_ids(self) -> tuple[int, ...]:
        return self.finished.token_ids


@dataclass(frozen=True, slots=True)
class Side:
    """One run at the place where the two part."""

    token_id: int | None
    """``None`` when this reply had already ended."""
    text: str
    """The token's own text; "" when it had ended or the text came later."""
    probability: float | None
    """The target's probability of the token, if it is known."""
    start: int
    end: int
    """Characters of the run's joined pieces that the token wrote; empty at an end."""


@dataclass(frozen=True, slots=True)
class Difference:
    """Where two replies first differ."""

    index: int
    """Position among the tokens, from 0; all before it are the same."""
    before: str
    """The last `CONTEXT` characters that both wrote."""
    eagle: Side
    plain: Side


class Outcome(StrEnum):
    IDENTICAL = "identical"
    DIFFERENT = "different"
    PREFIX = "prefix"
    """One run was stopped or failed, and what there is of both is the same."""


@dataclass(frozen=True, slots=True)
class Comparison:
    outcome: Outcome
    difference: Difference | None
    speed_up: float | None
    """Decode tokens per second with EAGLE over those without; ``None`` when either is unknown."""
    caveats: tuple[str, ...]
    """What to keep in mind, a sentence each."""


def first_difference(left: Sequence[int], right: Sequence[int]) -> int | None:
    """Index of the first token that differs or that only one sequence has; ``None`` if they are equal."""
    for index, (one, other) in enumerate(zip(left, right, strict=False)):
        if one != other:
            return index
    return None if len(left) == len(right) else min(len(left), len(right))


def probabilities_of(step: Step) -> tuple[float | None, ...]:
    """The target's probability of every token a step emitted, as far as it is known."""
    known = [step.nodes[number].target_probability for number in step.accepted if number < len(step.nodes)]
    known.append(step.bonus.target_probability if step.bonus is not None else None)
    known.extend([None] * (len(step.pieces) - len(known)))
    return tuple(known[: len(step.pieces)])


def compare(eagle: Run, plain: Run, temperature: float, seeded: bool = True) -> Comparison:
    """Compare a run with EAGLE to one without it.

    ``temperature`` and ``seeded`` only decide what is said about a difference.
    """
    at = first_difference(eagle.token_ids, plain.token_ids)
    complete = all(run.finished.reason in _COMPLETE for run in (eagle, plain))
    shorter = min(len(eagle.token_ids), len(plain.token_ids))
    if at is None:
        outcome = Outcome.IDENTICAL if complete else Outcome.PREFIX
    elif at == shorter and not complete:
        outcome = Outcome.PREFIX
    else:
        outcome = Outcome.DIFFERENT
    difference = None
    if outcome is Outcome.DIFFERENT:
        assert at is not None
        difference = _difference(eagle, plain, at)
    fast, slow = eagle.stats.tokens_per_second, plain.stats.tokens_per_second
    return Comparison(
        outcome=outcome,
        difference=difference,
        speed_up=fast / slow if fast > 0 and slow > 0 else None,
        caveats=_caveats(eagle, plain, outcome, temperature, seeded),
    )


_COMPLETE = (FinishReason.EOS, FinishReason.LENGTH, FinishReason.CONTEXT)


def _difference(eagle: Run, plain: Run, at: int) -> Difference:
    left, right = _side(eagle, at), _side(plain, at)
    text = "".join(piece.text for piece in eagle.pieces[:at])
    return Difference(at, text[-CONTEXT:], left, right)


def _side(run: Run, at: int) -> Side:
    start = sum(len(piece.text) for piece in run.pieces[:at])
    if at >= len(run.token_ids):
        return Side(None, "", None, start, start)
    text = run.pieces[at].text if at < len(run.pieces) else ""
    probability = run.target_probabilities[at] if at < len(run.target_probabilities) else None
    end = start + len(text)
    if not text:
        # The token's text came with a later one (half a character): mark that.
        following = next((piece.text for piece in run.pieces[at:] if piece.text), "")
        end = start + len(following)
    return Side(run.token_ids[at], text, probability, start, end)


_SEEDED = (
    "The temperature is above 0. Two runs are different samples of the same distribution unless seeded; "
    "both used the same seed here, so they should agree but for near-ties."
)
_UNSEEDED = (
    "The temperature is above 0, and the runs were not seeded: they are different samples of the same "
    "distribution, so a difference says nothing against either."
)
_ROUNDING = (
    "Without sampling the texts should be equal. On a GPU, checking several tokens at once rounds "
    "differently from one at a time, so two nearly equal candidates can swap."
)


def _caveats(
    eagle: Run, plain: Run, outcome: Outcome, temperature: float, seeded: bool
) -> tuple[str, ...]:
    said: list[str] = []
    if eagle.stats.mode is Mode.MIXED:
        said.append("EAGLE was switched during its run, so the speed-up is that of a mixture.")
    tokens = (eagle.stats.new_tokens, plain.stats.new_tokens)
    if tokens[0] != tokens[1]:
        said.append(
            f"The replies have {tokens[0]} and {tokens[1]} tokens. Speed changes with length, so the "
            "speed-up is only exact for replies of the same length."
        )
    if min(tokens) < 32:
        said.append("The replies are short: a longer one gives a steadier figure.")
    if temperature > 0:
        said.append(_SEEDED if seeded else _UNSEEDED)
    elif outcome is Outcome.DIFFERENT:
        said.append(_ROUNDING)
    reused = (eagle.stats.reused_tokens, plain.stats.reused_tokens)
    if reused[0] != reused[1]:
        said.append(
            f"{max(reused)} tokens of the prompt were still in memory for one run and "
            f"{min(reused)} for the other: compare the speed, not the time to the first token."
        )
    return tuple(said)
