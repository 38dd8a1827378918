"""Asks the engine for replies and writes its events into the chats.

The only place where the chats' model and the client meet. A reply belongs to its
chat, not to what is on the screen: it goes on while another chat is shown. A prompt
is sent once it is safely stored; what of a reply arrives is stored as it comes.
"""

from __future__ import annotations

import uuid
from dataclasses import replace

from PySide6.QtCore import QObject, QTimer, Signal, Slot

from app.chat.conversation import Chat, ChatMessage, Saved
from app.client import EngineClient
from app.language import mark
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

SAVE_WAIT = 0.02
"""Seconds that sending waits on the spot for the prompt to be stored; then it is looked at again."""
SAVE_LOOK_MS = 10
SAVE_LIMIT_MS = 3000
"""After this the prompt is sent although the disk does not answer; the window says that it is not stored."""


class Replies(QObject):
    """At most one reply runs at a time; ``running`` is it."""

    changed = Signal()
    """A reply was asked for, or ended."""
    failed = Signal(object, object)
    """``(Chat, Failed)``: a reply of ours failed."""
    ended = Signal(object, object)
    """``(Chat, ChatMessage)``: a reply of ours finished."""
    stepped = Signal(object)
    """A step of ours, numbered as in its message."""

    def __init__(self, client: EngineClient, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._client = client
        self._chat: Chat | None = None
        self._reply: ChatMessage | None = None
        self._unsent: Generate | None = None
        self._saved: Saved | None = None
        self._looks = 0
        self.system_prompt = ""
        """For chats that have none of their own."""
        self._timer = QTimer(self)
        self._timer.setInterval(SAVE_LOOK_MS)
        self._timer.timeout.connect(self._send_when_saved)
        client.started.connect(self._on_started)
        client.prompt_progress.connect(self._on_progress)
        client.step.connect(self._on_step)
        client.finished.connect(self._on_finished)
        client.failed.connect(self._on_failed)
        client.engine_died.connect(self._on_died)

    @property
    def running(self) -> ChatMessage | None:
        return self._reply

    @property
    def chat(self) -> Chat | None:
        """The chat of the running reply."""
        return self._chat

    @property
    def _can_ask(self) -> bool:
        return self._reply is None and self._client.model is not None

    # ------------------------------------------------------------------ asking

    def ask(self, chat: Chat, prompt: str, settings: GenerationSettings) -> ChatMessage | None:
        """Add a prompt to a chat and ask for its reply; ``None`` when that cannot be done now."""
        if not self._can_ask:
            return None
        reply = self._new_reply(settings)
        saved = chat.add([ChatMessage(Role.USER, prompt), reply])
        return self._start(chat, reply, saved, settings)

    def regenerate(self, chat: Chat, reply: ChatMessage, settings: GenerationSettings) -> ChatMessage | None:
        """Ask again for a reply; the old one stays as another version."""
        if not self._can_ask or reply not in chat.messages:
            return None
        again = self._new_reply(settings)
        saved = chat.branch(reply, [again])
        return self._start(chat, again, saved, settings)

    def edit(
        self, chat: Chat, prompt: ChatMessage, text: str, settings: GenerationSettings
    ) -> ChatMessage | None:
        """Ask with another text in the place of a prompt; the old one stays, with all that followed it."""
        if not self._can_ask or prompt not in chat.messages:
            return None
        reply = self._new_reply(settings)
        saved = chat.branch(prompt, [ChatMessage(Role.USER, text), reply])
        return self._start(chat, reply, saved, settings)

    def resume(self, chat: Chat, reply: ChatMessage, settings: GenerationSettings) -> ChatMessage | None:
        """Write on where the chat's last reply has ended."""
        if not self._can_ask or not chat.messages or chat.messages[-1] is not reply or not reply.text:
            return None
        reply.request_id = reply.request_id or uuid.uuid4().hex
        reply.settings = settings
        reply.resume()
        saved = chat.watcher.resumed(chat, reply) if chat.watcher is not None else None
        chat.changed(chat)
        return self._start(chat, reply, saved, settings)

    def stop(self) -> None:
        if self._reply is None:
            return
        if self._unsent is not None:
            self._send()
        self._client.send(Stop(self._reply.request_id))

    def set_eagle(self, enabled: bool) -> None:
        """Switch EAGLE for the rest of the running reply."""
        if self._reply is not None:
            self._client.send(SetEagle(self._reply.request_id, enabled))

    def close(self) -> None:
        """End the running reply with what has come: the application ends."""
        if self._reply is not None:
            chat, reply = self._take()
            reply.close()
            self._keep(chat, reply)

    def _new_reply(self, settings: GenerationSettings) -> ChatMessage:
        model = self._client.model
        assert model is not None
        reply = ChatMessage(Role.ASSISTANT, "", uuid.uuid4().hex, model.name)
        reply.settings = settings
        return reply

    def _start(
        self, chat: Chat, reply: ChatMessage, saved: Saved | None, settings: GenerationSettings
    ) -> ChatMessage:
        self._chat, self._reply = chat, reply
        self._unsent = Generate(reply.request_id, chat.request(self.system_prompt), settings)
        if saved is None or saved.wait(SAVE_WAIT):
            self._send()
        else:
            self._saved, self._looks = saved, 0
            self._timer.start()
        self.changed.emit()
        return reply

    @Slot()
    def _send_when_saved(self) -> None:
        self._looks += 1
        if self._saved is None or self._saved.done or self._looks * SAVE_LOOK_MS >= SAVE_LIMIT_MS:
            self._send()

    def _send(self) -> None:
        self._timer.stop()
        command, self._unsent, self._saved = self._unsent, None, None
        if command is not None:
            self._client.send(command)

    # ------------------------------------------------------------------ what comes back

    def _mine(self, request_id: str | None) -> ChatMessage | None:
        return self._reply if self._reply is not None and self._reply.request_id == request_id else None

    def _take(self) -> tuple[Chat, ChatMessage]:
        chat, reply = self._chat, self._reply
        assert chat is not None and reply is not None
        self._timer.stop()
        self._chat = self._reply = self._unsent = self._saved = None
        return chat, reply

    @staticmethod
    def _keep(chat: Chat, reply: ChatMessage) -> None:
        if chat.watcher is not None:
            chat.watcher.ended(chat, reply)

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
            step = replace(event, index=event.index + reply.first_step) if reply.first_step else event
            reply.append(step)
            if self._chat is not None and self._chat.watcher is not None:
                self._chat.watcher.grew(reply, step)
            self.stepped.emit(step)

    @Slot(object)
    def _on_finished(self, event: Finished) -> None:
        if self._mine(event.request_id) is not None:
            chat, reply = self._take()
            reply.finish(event)
            self._keep(chat, reply)
            self.changed.emit()
            self.ended.emit(chat, reply)

    @Slot(object)
    def _on_failed(self, event: Failed) -> None:
        if self._mine(event.request_id) is not None:
            chat, reply = self._take()
            reply.fail(event)
            self._keep(chat, reply)
            self.changed.emit()
            self.failed.emit(chat, event)

    @Slot(str)
    def _on_died(self, _detail: str) -> None:
        """The engine ended before the prompt was sent to it."""
        if self._unsent is not None and self._reply is not None:
            self._on_failed(
                Failed(
                    mark("engine", "The engine stopped before it got the prompt."),
                    mark("engine", "Restart the engine and write the reply again."),
                    kind="worker",
                    request_id=self._reply.request_id,
                )
            )
