"""A chat as a plain Python object: a tree of messages of which one path is shown. No widgets here.

Editing a prompt or writing a reply again adds a version beside the old one and
shows it; nothing is overwritten. A stored chat reads its messages the first time
somebody asks for them: ten thousand chats are listed without their contents.
"""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from typing import Any, Protocol

from app.chat.message import ChatMessage, Live, MessageState, Run
from app.chat.notifier import Notifier
from app.language import mark, tr
from engine.protocol import Message, Role, Step

__all__ = [
    "OVERRIDABLE", "TITLE_LENGTH", "UNTITLED", "Chat", "ChatMessage", "ChatWatcher", "Live", "MessageState",
    "Run", "title_from",
]  # fmt: skip

TITLE_LENGTH = 40
UNTITLED = mark("Chats", "New chat")
"""Title of a chat before its first prompt, as it is stored; see :attr:`Chat.shown_title`."""
OVERRIDABLE = (
    "temperature", "top_p", "top_k", "min_p", "repetition_penalty", "presence_penalty", "frequency_penalty",
    "no_repeat_ngram", "max_new_tokens", "seed",
)  # fmt: skip
"""What a chat may set differently from the settings."""


def title_from(prompt: str) -> str:
    """A title from the first prompt: its first line, cut at a word."""
    line = next((line.strip() for line in prompt.splitlines() if line.strip()), "")
    line = " ".join(line.split())
    # A prompt of nothing but an attached file is called by the file's name.
    line = re.sub("^`{3,}file ", "", line)
    if len(line) <= TITLE_LENGTH:
        return line or UNTITLED
    cut = line[: TITLE_LENGTH - 1]
    if " " in cut[TITLE_LENGTH // 2 :]:
        cut = cut[: cut.rindex(" ")]
    return cut.rstrip(" ,.;:") + "…"


class Saved(Protocol):
    """Tells when something is on disk."""

    @property
    def done(self) -> bool: ...

    def wait(self, seconds: float) -> bool: ...


class ChatWatcher(Protocol):
    """Hears of every change of a chat that must outlive the session."""

    def about(self, chat: Chat, shown: bool) -> None:
        """The chat itself changed. ``shown``: in a way that its list shows (not the draft)."""

    def added(self, chat: Chat, message: ChatMessage) -> Saved | None:
        """A message came in; what it returns tells when it is safe."""

    def chosen(self, chat: Chat, message: ChatMessage) -> None:
        """Another version is shown."""

    def grew(self, message: ChatMessage, step: Step) -> None: ...

    def resumed(self, chat: Chat, message: ChatMessage) -> Saved | None: ...

    def ended(self, chat: Chat, message: ChatMessage) -> None: ...


class Chat:
    """A conversation, the text typed but not sent, and a title."""

    def __init__(
        self,
        title: str = UNTITLED,
        chat_id: str = "",
        load: Callable[[Chat], None] | None = None,
        stored: bool = False,
    ) -> None:
        """``load`` fills a stored chat when its messages are first asked for; ``stored``: it has some."""
        self.id = chat_id or uuid.uuid4().hex
        self.title = title
        self.has_own_title = title != UNTITLED
        self.created = self.updated = time.time()
        self.pinned = False
        self.folder = ""
        self.system_prompt = ""
        self.overrides: Mapping[str, Any] = {}
        """Fields of ``GenerationSettings`` (:data:`OVERRIDABLE`) in which this chat has its own value."""
        self.watcher: ChatWatcher | None = None
        self._draft = ""
        self._load = load
        self._stored = stored
        self._path: list[ChatMessage] = []
        if load is None:
            self._make_tree()

    def _make_tree(self) -> None:
        self._nodes: dict[str, ChatMessage] = {}
        self._children: dict[str | None, list[ChatMessage]] = {}
        self._chosen: dict[str | None, str] = {}

    @cached_property
    def changed(self) -> Notifier[Chat]:
        """Messages were added, another version is shown, or the title changed."""
        return Notifier()

    # ------------------------------------------------------------------ reading

    @property
    def shown_title(self) -> str:
        """The title for people: the one of a chat without a prompt is translated."""
        return tr("Chats", UNTITLED) if self.title == UNTITLED else self.title

    @property
    def is_loaded(self) -> bool:
        return self._load is None

    @property
    def messages(self) -> list[ChatMessage]:
        """The path that is shown, from the first prompt to the newest message."""
        if self._load is not None:
            load, self._load = self._load, None
            load(self)
        return self._path

    @property
    def all_messages(self) -> list[ChatMessage]:
        """Every version, in the order they were made."""
        _ = self.messages
        return list(self._nodes.values())

    @property
    def is_empty(self) -> bool:
        return not self._path if self._load is None else not self._stored

    @property
    def is_untouched(self) -> bool:
        """Nothing was written in it or set for it: one such chat is as good as another."""
        set_for_it = self.has_own_title or self.pinned or self.folder or self.system_prompt or self.overrides
        return self.is_empty and not self.draft.strip() and not set_for_it

    @property
    def running(self) -> ChatMessage | None:
        return next((message for message in reversed(self._path) if message.is_running), None)

    @property
    def last_prompt(self) -> ChatMessage | None:
        return next((message for message in reversed(self.messages) if message.role is Role.USER), None)

    def message(self, message_id: str) -> ChatMessage | None:
        _ = self.messages
        return self._nodes.get(message_id)

    def is_chosen(self, message: ChatMessage) -> bool:
        return self._chosen.get(message.parent_id) == message.id

    def versions(self, message: ChatMessage) -> tuple[int, int]:
        """Which version this is, from 1, and how many there are."""
        siblings = self._children.get(message.parent_id, [])
        return (siblings.index(message) + 1 if message in siblings else 1), max(1, len(siblings))

    def request(self, system_prompt: str = "") -> tuple[Message, ...]:
        """What to send to the engine. ``system_prompt`` is used where the chat has none of its own.

        A question that got no answer is left out with its empty reply, unless it is the
        last one: chat templates want the roles to alternate.
        """
        kept: list[Message] = []
        if told := self.system_prompt.strip() or system_prompt.strip():
            kept.append(Message(Role.SYSTEM, told))
        for message in self.messages:
            if message.role is Role.ASSISTANT and not message.text:
                if message.state is MessageState.DONE and kept and kept[-1].role is Role.USER:
                    kept.pop()
                continue
            kept.append(Message(message.role, message.text))
        return tuple(kept)

    # ------------------------------------------------------------------ the chat itself

    @property
    def draft(self) -> str:
        """Typed but not sent."""
        return self._draft

    @draft.setter
    def draft(self, text: str) -> None:
        if text != self._draft:
            self._draft = text
            self._about(shown=False)

    def rename(self, title: str) -> None:
        title = " ".join(title.split())
        if title and title not in (self.title, self.shown_title):
            self.title = title
            self.has_own_title = True
            self._about()
            self.changed(self)

    def pin(self, pinned: bool) -> None:
        if pinned != self.pinned:
            self.pinned = pinned
            self._about()

    def move(self, folder: str) -> None:
        folder = " ".join(folder.split())
        if folder != self.folder:
            self.folder = folder
            self._about()

    def instruct(self, system_prompt: str, overrides: Mapping[str, Any]) -> None:
        """Set the system prompt and what this chat has its own way."""
        self.system_prompt, self.overrides = system_prompt, dict(overrides)
        self._about(shown=False)
        self.changed(self)

    def _about(self, shown: bool = True) -> None:
        if self.watcher is not None:
            self.watcher.about(self, shown)

    # ------------------------------------------------------------------ the tree

    def restore(self, messages: Iterable[ChatMessage], chosen: Iterable[ChatMessage]) -> None:
        """Take stored messages, parents first, without telling anybody."""
        self._load = None
        self._make_tree()
        for message in messages:
            self._plant(message)
        for message in chosen:
            self._chosen[message.parent_id] = message.id
        self._walk()

    def add(self, messages: Iterable[ChatMessage]) -> Saved | None:
        """Put messages behind the last one shown."""
        parent = self.messages[-1].id if self.messages else None
        return self._grow_from(parent, messages)

    def branch(self, beside: ChatMessage, messages: Iterable[ChatMessage]) -> Saved | None:
        """Put messages in the place of one, which stays as another version."""
        return self._grow_from(beside.parent_id, messages)

    def show_version(self, message: ChatMessage, step: int) -> ChatMessage | None:
        """Show the version before (-1) or after (+1) a message, with what followed it then."""
        siblings = self._children.get(message.parent_id, [])
        place = siblings.index(message) + step
        if not 0 <= place < len(siblings) or step == 0:
            return None
        self._choose(siblings[place])
        return siblings[place]

    def reveal(self, message: ChatMessage) -> None:
        """Show the branch in which a message is."""
        node: ChatMessage | None = message
        while node is not None:
            if not self.is_chosen(node):
                self._choose(node)
            node = self._nodes.get(node.parent_id) if node.parent_id else None

    def _choose(self, message: ChatMessage) -> None:
        self._chosen[message.parent_id] = message.id
        self._walk()
        if self.watcher is not None:
            self.watcher.chosen(self, message)
        self.changed(self)

    def _grow_from(self, parent: str | None, messages: Iterable[ChatMessage]) -> Saved | None:
        saved: Saved | None = None
        self.updated = time.time()
        planted = list(messages)
        for message in planted:
            message.parent_id = parent
            self._plant(message)
            parent = message.id
        self._walk()
        prompt = next((message for message in self._path if message.role is Role.USER), None)
        if not self.has_own_title and prompt is not None:
            self.title = title_from(prompt.text)
        self._about()
        if self.watcher is not None:
            for message in planted:
                saved = self.watcher.added(self, message)
        self.changed(self)
        return saved

    def _plant(self, message: ChatMessage) -> None:
        self._nodes[message.id] = message
        self._children.setdefault(message.parent_id, []).append(message)
        self._chosen[message.parent_id] = message.id

    def _walk(self) -> None:
        """Follow the chosen versions from the root."""
        path: list[ChatMessage] = []
        at = self._chosen.get(None)
        while at is not None and (node := self._nodes.get(at)) is not None:
            path.append(node)
            at = self._chosen.get(node.id)
        self._path = path
