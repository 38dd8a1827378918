"""One message of a chat as a plain Python object. No Qt here.

Positions in a message's text count Python characters; a view translates them to
units of its own. A reply grows only through the events of the engine, so that
whatever shows it can follow by appending.
"""

from __future__ import annotations

import time
import uuid
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from app.chat.notifier import Notifier
from engine.protocol import (
    Failed,
    Finished,
    FinishReason,
    GenerationSettings,
    Mode,
    Origin,
    PromptProgress,
    ReplyStats,
    Role,
    Started,
    Step,
    StepTimes,
)

LIVE_STEPS = 24
"""Steps over which the live speed is averaged."""


class MessageState(StrEnum):
    WAITING = "waiting"
    """Sent; the engine has not begun."""
    READING = "reading"
    """The engine reads the prompt."""
    WRITING = "writing"
    DONE = "done"


class Run(NamedTuple):
    """A stretch of text from one step and one origin: ``text[start:end]``.

    A tuple, because a long reply has ten thousand of them.
    """

    start: int
    end: int
    origin: Origin
    step: int


@dataclass(frozen=True, slots=True)
class Live:
    """What can be said of a reply while it grows."""

    tokens: int = 0
    tokens_per_second: float = 0.0
    acceptance_length: float = 0.0
    """Tau so far; 0 before the first step after the prompt."""
    mode: Mode = Mode.PLAIN
    method: str = ""
    """Id of the method that drafted last; empty where none did."""


class ChatMessage:
    """One message. A reply also keeps where its tokens came from and what it cost."""

    def __init__(self, role: Role, text: str = "", request_id: str = "", model_name: str = "") -> None:
        self.id = uuid.uuid4().hex
        self.parent_id: str | None = None
        """The message before it; several with one parent are versions of each other."""
        self.created = time.time()
        self.role = role
        self.text = text
        self.request_id = request_id
        self.model_name = model_name
        self.settings: GenerationSettings | None = None
        """What a reply was asked for with."""
        self.state = MessageState.WAITING if request_id else MessageState.DONE
        self._runs: list[Run] = []
        self._runs_later: Callable[[], list[Run]] | None = None
        self.progress: PromptProgress | None = None
        self.stats: ReplyStats | None = None
        self.reason: FinishReason | None = None
        self.notice = ""
        self.problem: Failed | None = None
        self.changed: Notifier[ChatMessage] = Notifier()
        self._ranges_known: dict[int, tuple[int, int]] = {}
        self._ranges_later = False
        self._recent: deque[tuple[int, float]] = deque(maxlen=LIVE_STEPS)
        self._tokens = 0
        self._steps = 0
        self._modes: set[Mode] = set()
        self._drafted_by = ""
        self._kept_live: Live | None = None
        # A reply that is continued: where its new part begins, and what the old one cost.
        self._base = 0
        self._first_step = 0
        self._cost_before: ReplyStats | None = None

    @property
    def is_running(self) -> bool:
        return self.state is not MessageState.DONE

    @property
    def method(self) -> str:
        """Id of the drafting method that was asked for; empty where the engine chose."""
        return self.settings.method if self.settings is not None else ""

    @property
    def live(self) -> Live:
        if self._kept_live is not None:
            return self._kept_live
        seconds = sum(spent for _, spent in self._recent)
        return Live(
            tokens=self._tokens,
            tokens_per_second=sum(tokens for tokens, _ in self._recent) / seconds if seconds > 0 else 0.0,
            acceptance_length=(self._tokens - 1) / self._steps if self._steps else 0.0,
            mode=Mode.MIXED if len(self._modes) > 1 else next(iter(self._modes), Mode.PLAIN),
            method=self._drafted_by or self.method,
        )

    @property
    def runs(self) -> list[Run]:
        """Where the text came from, in order. A stored reply unpacks it when it is first asked."""
        if self._runs_later is not None:
            later, self._runs_later = self._runs_later, None
            self._runs = later()
            self._ranges_later = True
        return self._runs

    @property
    def _ranges(self) -> dict[int, tuple[int, int]]:
        """Where the text of each step lies."""
        if self._runs_later is not None or self._ranges_later:
            runs, known = self.runs, self._ranges_known
            self._ranges_later = False
            for start, end, _, step in runs:
                pair = known.get(step)
                known[step] = (pair[0], end) if pair is not None else (start, end)
        return self._ranges_known

    @property
    def first_step(self) -> int:
        """Number that the engine's step 0 gets: above 0 in a reply that is continued."""
        return self._first_step

    def step_range(self, index: int) -> tuple[int, int] | None:
        """Where the text of a step lies: ``text[start:end]``."""
        return self._ranges.get(index)

    def step_at(self, position: int) -> int | None:
        """Index of the step that wrote the character at ``position``."""
        for run in reversed(self.runs):
            if run.start <= position < run.end:
                return run.step
        return None

    def take_back(self, runs: Callable[[], list[Run]] | None, live: Live | None) -> None:
        """What a stored reply had found out about itself; ``runs`` is called when they are wanted."""
        self._runs_later = runs
        self._kept_live = live

    # ------------------------------------------------------------------ the engine's events

    def resume(self) -> None:
        """Wait for more text, to be written behind what is there."""
        self._base = len(self.text)
        self._first_step = max(self._ranges, default=-1) + 1
        self._cost_before, self.stats = self.stats, None
        self._kept_live = self.reason = self.problem = self.progress = None
        self.notice = ""
        self.state = MessageState.WAITING
        self.changed(self)

    def begin(self, event: Started) -> None:
        self.state = MessageState.READING
        self.progress = PromptProgress(self.request_id, event.reused_tokens, event.prompt_tokens)
        self.changed(self)

    def read(self, event: PromptProgress) -> None:
        self.progress = event
        self.changed(self)

    def append(self, step: Step) -> None:
        self.state = MessageState.WRITING
        begin = len(self.text)
        position = begin
        runs = self.runs
        for piece in step.pieces:
            end = position + len(piece.text)
            last = runs[-1] if runs else None
            if last is not None and last.step == step.index and last.origin is piece.origin:
                runs[-1] = Run(last.start, end, piece.origin, step.index)
            elif end > position:
                runs.append(Run(position, end, piece.origin, step.index))
            position = end
        self.text += step.text
        self._ranges[step.index] = (begin, position)
        self.notice = step.notice or self.notice
        self._tokens += len(step.pieces)
        if step.index > self._first_step:
            self._steps += 1
            self._modes.add(step.mode)
            self._drafted_by = step.method or self._drafted_by
            self._recent.append((len(step.pieces), step.times.total))
        self.changed(self)

    def finish(self, event: Finished) -> None:
        text = self.text[: self._base] + event.text
        if text != self.text:
            # The engine's word counts; the runs that no longer fit are dropped.
            same = _common_prefix(text, self.text)
            self._runs = [run for run in self.runs if run.end <= same]
            self._ranges_known = {step: pair for step, pair in self._ranges.items() if pair[1] <= same}
            self.text = text
        self.state = MessageState.DONE
        self.stats = sum_of(self._cost_before, event.stats) if self._cost_before else event.stats
        self.reason = event.reason
        self.notice = event.notice or self.notice
        self.changed(self)

    def fail(self, event: Failed) -> None:
        """End with what was received and the reason."""
        self.state = MessageState.DONE
        self.reason = FinishReason.ERROR
        self.problem = event
        self.changed(self)

    def close(self) -> None:
        """End because the application ends, with what was received."""
        self.state = MessageState.DONE
        self.reason = FinishReason.STOPPED
        self.changed(self)


def sum_of(one: ReplyStats, other: ReplyStats) -> ReplyStats:
    """What both parts of a continued reply cost together."""

    def levels(first: tuple[int, ...], second: tuple[int, ...]) -> tuple[int, ...]:
        long, short = (first, second) if len(first) >= len(second) else (second, first)
        return tuple(count + (short[depth] if depth < len(short) else 0) for depth, count in enumerate(long))

    times = [
        getattr(one.times, name) + getattr(other.times, name)
        for name in ("draft", "verify", "accept", "other")
    ]
    return ReplyStats(
        mode=one.mode if one.mode is other.mode else Mode.MIXED,
        prompt_tokens=one.prompt_tokens,
        reused_tokens=one.reused_tokens,
        new_tokens=one.new_tokens + other.new_tokens,
        # The second prompt pass is counted, for it gave a token in mid-reply.
        steps=one.steps + other.steps + (1 if other.new_tokens else 0),
        drafted_tokens=one.drafted_tokens + other.drafted_tokens,
        accepted_tokens=one.accepted_tokens + other.accepted_tokens,
        accepted_by_depth=levels(one.accepted_by_depth, other.accepted_by_depth),
        proposed_by_depth=levels(one.proposed_by_depth, other.proposed_by_depth),
        time_to_first_token=one.time_to_first_token,
        decode_seconds=one.decode_seconds + other.decode_seconds,
        times=StepTimes(*times),
    )


def _common_prefix(one: str, other: str) -> int:
    for place, (left, right) in enumerate(zip(one, other, strict=False)):
        if left != right:
            return place
    return min(len(one), len(other))
