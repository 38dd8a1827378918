"""Asks the engine for replies and writes its events into the chats.

The only place where the chats' model and the client meet. A reply belongs to its
chat, not to what is on the screen: it goes on while another chat is shown.
"""

from __future__ import annotations

import uuid

from PySide6.QtCore import QObject, Signal, Slot

from app.chat.conversation import Chat, ChatMessage
from app.client import EngineClient
from engine.protocol import (
    Failed,
    Finished,
    Generate,
    GenerationSettings,
    PromptProgress,
    Role,
    SetEagle,
    Started,
    Step,
    Stop,
)


class Replies(QObject):
    """At most one reply runs at a time; ``running`` is it."""

    changed = Signal()
    """A reply was asked for, or ended."""
    failed = Signal(object, object)
    """``(Chat, Failed)``: a reply of ours failed."""
    ended = Signal(object, object)
    """``(Chat, ChatMessage)``: a reply of ours finished."""

    def __init__(self, client: EngineClient, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._client = client
        self._chat: Chat | None = None
        self._reply: ChatMessage | None = None
        client.started.connect(self._on_started)
        client.prompt_progress.connect(self._on_progress)
        client.step.connect(self._on_step)
        client.finished.connect(self._on_finished)
        client.failed.connect(self._on_failed)

    @property
    def running(self) -> ChatMessage | None:
        return self._reply

    @property
    def chat(self) -> Chat | None:
        """The chat of the running reply."""
        return self._chat

    def ask(self, chat: Chat, prompt: str, settings: GenerationSettings) -> ChatMessage | None:
        """Add a prompt to a chat and ask for its reply; ``None`` when that cannot be done now."""
        if self._reply is not None or self._client.model is None:
            return None
        return self._start(chat, [ChatMessage(Role.USER, prompt)], settings)

    def regenerate(self, chat: Chat, reply: ChatMessage, settings: GenerationSettings) -> ChatMessage | None:
        """Ask again for a reply; the old one and what followed it go."""
        if self._reply is not None or self._client.model is None or reply not in chat.messages:
            return None
        chat.cut(reply)
        return self._start(chat, [], settings)

    def stop(self) -> None:
        if self._reply is not None:
            self._client.send(Stop(self._reply.request_id))

    def set_eagle(self, enabled: bool) -> None:
        """Switch EAGLE for the rest of the running reply."""
        if self._reply is not None:
            self._client.send(SetEagle(self._reply.request_id, enabled))

    def _start(self, chat: Chat, prompts: list[ChatMessage], settings: GenerationSettings) -> ChatMessage:
        model = self._client.model
        assert model is not None
        reply = ChatMessage(Role.ASSISTANT, "", uuid.uuid4().hex, model.name)
        self._chat, self._reply = chat, reply
        chat.add([*prompts, reply])
        self._client.send(Generate(reply.request_id, chat.request(), settings))
        self.changed.emit()
        return reply

    def _mine(self, request_id: str | None) -> ChatMessage | None:
        return self._reply if self._reply is not None and self._reply.request_id == request_id else None

    @Slot(object)
    def _on_started(self, event: Started) -> None:
        if (reply := self._mine(event.request_id)) is not None:
            reply.begin(event)

    @Slot(object)
    def _on_progress(self, event: PromptProgress) -> None:
        if (reply := self._mine(event.request_id)) is not None:
            reply.read(event)

    @Slot(object)
    def _on_step(self, event: Step) -> None:
        if (reply := self._mine(event.request_id)) is not None:
            reply.append(event)

    @Slot(object)
    def _on_finished(self, event: Finished) -> None:
        if (reply := self._mine(event.request_id)) is not None:
            chat, self._chat, self._reply = self._chat, None, None
            reply.finish(event)
            self.changed.emit()
            self.ended.emit(chat, reply)

    @Slot(object)
    def _on_failed(self, event: Failed) -> None:
        if (reply := self._mine(event.request_id)) is not None:
            chat, self._chat, self._reply = self._chat, None, None
            reply.fail(event)
            self.changed.emit()
            self.failed.emit(chat, event)
