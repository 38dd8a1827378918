"""Chats and their messages as plain Python objects. No Qt here.

Positions in a message's text count Python characters; a view translates them to
units of its own. A reply grows only through the events of the engine, so that
whatever shows it can follow by appending.
"""

from __future__ import annotations

import uuid
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from app.chat.notifier import Notifier
from engine.protocol import (
    Failed,
    Finished,
    FinishReason,
    Message,
    Mode,
    Origin,
    PromptProgress,
    ReplyStats,
    Role,
    Started,
    Step,
)

TITLE_LENGTH = 40
UNTITLED = "New chat"
LIVE_STEPS = 24
"""Steps over which the live speed is averaged."""


class MessageState(StrEnum):
    WAITING = "waiting"
    """Sent; the engine has not begun."""
    READING = "reading"
    """The engine reads the prompt."""
    WRITING = "writing"
    DONE = "done"


@dataclass(frozen=True, slots=True)
class Run:
    """A stretch of text from one step and one origin: ``text[start:end]``."""

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


class ChatMessage:
    """One message. A reply also keeps where its tokens came from and what it cost."""

    def __init__(self, role: Role, text: str = "", request_id: str = "", model_name: str = "") -> None:
        self.id = uuid.uuid4().hex
        self.role = role
        self.text = text
        self.request_id = request_id
        self.model_name = model_name
        self.state = MessageState.WAITING if request_id else MessageState.DONE
        self.runs: list[Run] = []
        self.progress: PromptProgress | None = None
        self.stats: ReplyStats | None = None
        self.reason: FinishReason | None = None
        self.notice = ""
        self.problem: Failed | None = None
        self.changed: Notifier[ChatMessage] = Notifier()
        self._ranges: dict[int, tuple[int, int]] = {}
        self._recent: deque[tuple[int, float]] = deque(maxlen=LIVE_STEPS)
        self._tokens = 0
        self._steps = 0
        self._modes: set[Mode] = set()

    @property
    def is_running(self) -> bool:
        return self.state is not MessageState.DONE

    @property
    def live(self) -> Live:
        seconds = sum(spent for _, spent in self._recent)
        return Live(
            tokens=self._tokens,
            tokens_per_second=sum(tokens for tokens, _ in self._recent) / seconds if seconds > 0 else 0.0,
            acceptance_length=(self._tokens - 1) / self._steps if self._steps else 0.0,
            mode=Mode.MIXED if len(self._modes) > 1 else next(iter(self._modes), Mode.PLAIN),
        )

    def step_range(self, index: int) -> tuple[int, int] | None:
        """Where the text of a step lies: ``text[start:end]``."""
        return self._ranges.get(index)

    def step_at(self, position: int) -> int | None:
        """Index of the step that wrote the character at ``position``."""
        for run in reversed(self.runs):
            if run.start <= position < run.end:
                return run.step
        return None

    # ------------------------------------------------------------------ the engine's events

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
        for piece in step.pieces:
            end = position + len(piece.text)
            last = self.runs[-1] if self.runs else None
            if last is not None and last.step == step.index and last.origin is piece.origin:
                self.runs[-1] = Run(last.start, end, piece.origin, step.index)
            elif end > position:
                self.runs.append(Run(position, end, piece.origin, step.index))
            position = end
        self.text += step.text
        self._ranges[step.index] = (begin, position)
        self._tokens += len(step.pieces)
        if step.index > 0:
            self._steps += 1
            self._modes.add(step.mode)
            self._recent.append((len(step.pieces), step.times.total))
        self.changed(self)

    def finish(self, event: Finished) -> None:
        if event.text != self.text:
            # The engine's word counts; the runs that no longer fit are dropped.
            same = _common_prefix(event.text, self.text)
            self.runs = [run for run in self.runs if run.end <= same]
            self._ranges = {step: pair for step, pair in self._ranges.items() if pair[1] <= same}
            self.text = event.text
        self.state = MessageState.DONE
        self.stats = event.stats
        self.reason = event.reason
        self.notice = event.notice
        self.changed(self)

    def fail(self, event: Failed) -> None:
        """End with what was received and the reason."""
        self.state = MessageState.DONE
        self.reason = FinishReason.ERROR
        self.problem = event
        self.changed(self)


def _common_prefix(one: str, other: str) -> int:
    for place, (left, right) in enumerate(zip(one, other, strict=False)):
        if left != right:
            return place
    return min(len(one), len(other))


def title_from(prompt: str) -> str:
    """A title from the first prompt: its first line, cut at a word."""
    line = next((line.strip() for line in prompt.splitlines() if line.strip()), "")
    line = " ".join(line.split())
    if len(line) <= TITLE_LENGTH:
        return line or UNTITLED
    cut = line[: TITLE_LENGTH - 1]
    if " " in cut[TITLE_LENGTH // 2 :]:
        cut = cut[: cut.rindex(" ")]
    return cut.rstrip(" ,.;:") + "…"


class Chat:
    """A conversation, the text typed but not sent, and a title."""

    def __init__(self, title: str = UNTITLED) -> None:
        self.id = uuid.uuid4().hex
        self.title = title
        self.has_own_title = title != UNTITLED
        self.messages: list[ChatMessage] = []
        self.draft = ""
        self.changed: Notifier[Chat] = Notifier()
        """Messages were added or removed, or the title changed."""

    @property
    def is_empty(self) -> bool:
        return not self.messages

    @property
    def running(self) -> ChatMessage | None:
        return next((message for message in reversed(self.messages) if message.is_running), None)

    @property
    def last_prompt(self) -> ChatMessage | None:
        return next((message for message in reversed(self.messages) if message.role is Role.USER), None)

    def rename(self, title: str) -> None:
        title = " ".join(title.split())
        if title and title != self.title:
            self.title = title
            self.has_own_title = True
            self.changed(self)

    def add(self, messages: Iterable[ChatMessage]) -> None:
        self.messages.extend(messages)
        prompt = next((message for message in self.messages if message.role is Role.USER), None)
        if not self.has_own_title and prompt is not None:
            self.title = title_from(prompt.text)
        self.changed(self)

    def cut(self, message: ChatMessage) -> None:
        """Drop a message and everything after it."""
        if message in self.messages:
            del self.messages[self.messages.index(message) :]
            self.changed(self)

    def request(self) -> tuple[Message, ...]:
        """What to send to the engine.

        A question that got no answer is left out with its empty reply, unless it is the
        last one: chat templates want the roles to alternate.
        """
        kept: list[Message] = []
        for message in self.messages:
            if message.role is Role.ASSISTANT and not message.text:
                if message.state is MessageState.DONE and kept and kept[-1].role is Role.USER:
                    kept.pop()
                continue
            kept.append(Message(message.role, message.text))
        return tuple(kept)
