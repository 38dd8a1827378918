"""A comparison as it is kept: plain data, to JSON and back. No Qt.

Figures are kept, words are not: what a comparison says is made from its figures when it is shown
(:mod:`app.compare.words`), in the language of that moment.
"""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, replace
from typing import Any

from app.compare.comparison import Difference, Outcome, Place, Which
from engine.protocol import FinishReason, Mode, ReplyStats

VERSION = 1
TEXT_KEPT = 40_000
"""Characters of a reply that are kept."""


@dataclass(frozen=True, slots=True)
class SideFacts:
    name: str
    drafting: bool = True
    lossy: bool = False
    """Its replies need not follow the target's own distribution."""
    method: str = ""
    options: tuple[tuple[str, Any], ...] = ()
    head: str = ""
    """Name of the head that was loaded."""


@dataclass(frozen=True, slots=True)
class Reply:
    """The figures of one reply."""

    prompt: int
    repeat: int
    which: Which
    tokens: int
    steps: int
    seconds: float
    """Of decoding; the prompt and the first token are left out."""
    first_token: float
    """Seconds until the first token."""
    reason: FinishReason
    mode: Mode
    notice: str = ""
    as_first: bool = True
    """Whether its tokens are those of the side's first reply to this prompt."""

    @classmethod
    def of(
        cls, prompt: int, repeat: int, which: Which, stats: ReplyStats, reason: FinishReason, notice: str, as_first: bool
    ) -> Reply:
        return cls(
            prompt, repeat, which, stats.new_tokens, stats.steps, stats.decode_seconds,
            stats.time_to_first_token, reason, stats.mode, notice, as_first,
        )  # fmt: skip

    @property
    def tokens_per_second(self) -> float:
        return (self.tokens - 1) / self.seconds if self.seconds > 0 and self.tokens > 1 else 0.0

    @property
    def acceptance_length(self) -> float:
        return (self.tokens - 1) / self.steps if self.steps and self.tokens > 1 else 0.0


@dataclass(frozen=True, slots=True)
class Margin:
    """How near the race was at the difference; see :class:`engine.protocol.MarginMeasured`."""

    difference: float | None
    """Logit of A's token less that of B's; ``None`` where one of them was forbidden."""
    noise: float
    chance_a: float
    chance_b: float
    best_text: str = ""
    """The target's own choice, where it is neither A's nor B's."""

    @property
    def is_tie(self) -> bool:
        """Whether rounding alone can have turned it round."""
        return self.difference is not None and abs(self.difference) <= self.noise


@dataclass(frozen=True, slots=True)
class Answers:
    """One prompt and the first replies to it."""

    prompt: str
    texts: tuple[str, str] = ("", "")
    """Of A and B."""
    outcome: Outcome | None = None
    """``None`` until both have been there."""
    difference: Difference | None = None
    margin: Margin | None = None
    margin_problem: str = ""
    """Why there is no margin."""

    def text(self, which: Which) -> str:
        return self.texts[0 if which is Which.A else 1]

    def with_text(self, which: Which, text: str) -> Answers:
        text = text[:TEXT_KEPT]
        a, b = self.texts
        return replace(self, texts=(text, b) if which is Which.A else (a, text))


@dataclass(frozen=True, slots=True)
class Record:
    id: str
    created: float
    """Seconds since the epoch."""
    model: str
    device: str
    weight_format: str
    a: SideFacts
    b: SideFacts
    temperature: float
    seed: int
    max_new_tokens: int
    adapt: bool
    repeats: int
    answers: tuple[Answers, ...]
    """One for each prompt, in order."""
    replies: tuple[Reply, ...] = ()
    stopped: bool = False
    problem: str = ""
    """What ended it early, and what to do."""

    def side(self, which: Which) -> SideFacts:
        return self.a if which is Which.A else self.b

    def replies_of(self, which: Which, prompt: int | None = None) -> list[Reply]:
        return [
            reply for reply in self.replies if reply.which is which and prompt in (None, reply.prompt)
        ]

    def pairs(self, prompt: int | None = None) -> list[tuple[Reply, Reply]]:
        """(A's reply, B's reply) of the same prompt and repeat, where both are there."""
        b = {(reply.prompt, reply.repeat): reply for reply in self.replies_of(Which.B, prompt)}
        return [
            (reply, b[key])
            for reply in self.replies_of(Which.A, prompt)
            if (key := (reply.prompt, reply.repeat)) in b
        ]


# --------------------------------------------------------------------------- as text


def to_json(record: Record) -> str:
    names = tuple(Reply.__dataclass_fields__)
    # One by one: there may be thousands, and asdict copies everything in them.
    replies = [{name: getattr(reply, name) for name in names} for reply in record.replies]
    table = asdict(replace(record, replies=()))
    return json.dumps({"version": VERSION, **table, "replies": replies}, ensure_ascii=False)


def from_json(text: str) -> Record:
    """:raises ValueError: it is no comparison, or a newer Eyrie's."""
    try:
        values = json.loads(text)
        if values.pop("version") != VERSION:
            raise ValueError("it was written by another version of Eyrie")
        values["a"], values["b"] = _side(values["a"]), _side(values["b"])
        values["answers"] = tuple(map(_answers, values["answers"]))
        values["replies"] = tuple(map(_reply, values["replies"]))
        record = Record(**values)
    except (TypeError, KeyError, AttributeError, RecursionError, ValueError, IndexError) as error:
        raise ValueError(f"a comparison cannot be read: {error}") from error
    numbers = (record.created, record.temperature, record.seed, record.max_new_tokens, record.repeats)
    words = (record.id, record.model, record.device, record.weight_format, record.problem)
    if not all(map(_is_number, numbers)) or not all(isinstance(each, str) for each in words):
        raise ValueError("a comparison cannot be read: a field is of another kind")
    if not record.answers or any(not 0 <= reply.prompt < len(record.answers) for reply in record.replies):
        raise ValueError("a comparison cannot be read: its replies belong to no prompt")
    return record


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _side(values: dict[str, Any]) -> SideFacts:
    made = SideFacts(**{**values, "options": tuple((str(name), value) for name, value in values["options"])})
    if not isinstance(made.name, str) or not isinstance(made.head, str):
        raise ValueError("the name of a side is no text")
    return made


def _reply(values: dict[str, Any]) -> Reply:
    made = Reply(
        **{
            **values,
            "which": Which(values["which"]),
            "reason": FinishReason(values["reason"]),
            "mode": Mode(values["mode"]),
        }
    )
    numbers = (made.prompt, made.repeat, made.tokens, made.steps, made.seconds, made.first_token)
    if not all(map(_is_number, numbers)) or not isinstance(made.notice, str):
        raise ValueError("a figure of a reply is no number")
    return made


def _answers(values: dict[str, Any]) -> Answers:
    difference, margin = values["difference"], values["margin"]
    texts = tuple(values["texts"])
    if len(texts) != 2 or not all(isinstance(text, str) for text in (*texts, values["prompt"])):
        raise ValueError("a reply is no text")
    if difference is not None:
        difference = Difference(
            **{**difference, "a": Place(**difference["a"]), "b": Place(**difference["b"])}
        )
    outcome = values["outcome"]
    return Answers(
        **{
            **values,
            "texts": texts,
            "outcome": Outcome(outcome) if outcome is not None else None,
            "difference": difference,
            "margin": Margin(**margin) if margin is not None else None,
        }
    )
