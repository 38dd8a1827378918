"""Between the chats of the window and the database: writes what changes, reads what is opened.

No widgets here. The application's objects know nothing of tables, and the storage
nothing of chats; this is the one place that knows both.
"""

from __future__ import annotations

import json
import logging
import sqlite3
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from app.chat.conversation import Chat, ChatMessage, Live, MessageState, Run
from app.chat.plain_data import fitted
from app.garbage import held
from app.language import mark, tr
from app.storage.records import ChatRecord, MessageRecord
from app.storage.steps import pack_runs, unpack_runs
from app.storage.store import ChatStore
from app.storage.writer import Ticket
from engine.protocol import (
    Failed,
    FinishReason,
    GenerationSettings,
    ReplyStats,
    Role,
    Step,
)

log = logging.getLogger(__name__)

CUT_OFF = Failed(
    mark("engine", "Eyrie ended while this reply was written."),
    mark("engine", "What had come is kept: continue it, or write it again."),
    kind="closed",
)
"""Stored in English, as what the engine says is, and translated where it is shown."""


class Keeper:
    """A :class:`app.chat.conversation.ChatWatcher` that keeps everything in a store."""

    def __init__(self, store: ChatStore) -> None:
        self.store = store
        self._known: set[str] = set()
        """Chats that have a row."""

    # ------------------------------------------------------------------ reading

    def chats(self) -> list[Chat]:
        """All stored chats without their messages, the one used last first."""
        self._mend()
        made = []
        for record in self.store.chats():
            made.append(self.open(record))
        return made

    def open(self, record: ChatRecord) -> Chat:
        """A stored chat, which reads its messages when they are asked for."""
        self._known.add(record.id)
        chat = Chat(record.title, record.id, self._load, bool(record.messages))
        chat.has_own_title = bool(record.own_title)
        chat.created, chat.updated = record.created, record.updated
        chat.pinned, chat.folder = bool(record.pinned), record.folder
        chat.system_prompt = record.system_prompt
        if record.settings != "{}":
            chat.overrides = _table(record.settings)
        chat._draft = record.draft
        return chat

    def _load(self, chat: Chat) -> None:
        try:
            records = self.store.messages(chat.id)
        except sqlite3.Error as error:
            # What is stored stays as it is: the next start checks the database and repairs it.
            log.error("a chat cannot be read: %s", error)
            self.store.distrust(
                tr("Chats", "“{chat}” cannot be read ({error}). Start Eyrie again to have it checked.").format(
                    chat=chat.shown_title, error=error
                )
            )
            records = []
        messages = [message_from(record) for record in records]
        chosen = [message for record, message in zip(records, messages, strict=True) if record.chosen]
        chat.restore(messages, chosen)

    def _mend(self) -> None:
        """Close the replies that a killed session has left open."""
        if self.store.read_only:
            return
        for record, steps in self.store.interrupted():
            message = message_from(record)
            for step in steps:
                message.append(step)
            message.fail(CUT_OFF)
            self.store.finish(record_from(record.chat_id, message, record.chosen)).wait(5.0)
            log.warning("a reply was cut off; %d characters of it are kept", len(message.text))

    def steps(self, message: ChatMessage) -> Iterator[list[Step]]:
        """The steps of a reply that has ended, some at a time."""
        return self.store.steps(message.id, message.request_id)

    # ------------------------------------------------------------------ writing

    def about(self, chat: Chat, shown: bool) -> None:
        if chat.id in self._known or not chat.is_untouched:
            self._put(chat, urgent=shown)

    def keep(self, chat: Chat) -> None:
        """Give a chat a row even if it has no messages, because something else belongs to it."""
        if chat.id not in self._known:
            self._put(chat)

    def _put(self, chat: Chat, urgent: bool = True) -> Ticket:
        self._known.add(chat.id)
        return self.store.put_chat(chat_record(chat), urgent)

    def added(self, chat: Chat, message: ChatMessage) -> Ticket:
        if chat.id not in self._known:
            self._put(chat)
        saved = self.store.put_message(record_from(chat.id, message, True))
        if chat.versions(message)[1] > 1:
            saved = self.store.choose(chat.id, message.parent_id, message.id)
        return saved

    def chosen(self, chat: Chat, message: ChatMessage) -> None:
        self.store.choose(chat.id, message.parent_id, message.id)

    def grew(self, message: ChatMessage, step: Step) -> None:
        self.store.grow(message.id, step)

    def resumed(self, chat: Chat, message: ChatMessage) -> Ticket:
        return self.store.put_message(record_from(chat.id, message, chat.is_chosen(message)))

    def ended(self, chat: Chat, message: ChatMessage) -> None:
        runs = tuple(message.runs)
        self.store.finish(
            record_from(chat.id, message, chat.is_chosen(message), with_runs=False),
            (lambda: pack_runs(runs)) if runs else None,
        )

    def delete(self, chat: Chat) -> None:
        if chat.id in self._known:
            self.store.delete(chat.id)

    def undelete(self, chat: Chat) -> None:
        if chat.id in self._known:
            self.store.restore(chat.id)


# --------------------------------------------------------------------------- chats and rows


def chat_record(chat: Chat) -> ChatRecord:
    return ChatRecord(
        chat.id, chat.title, chat.has_own_title, chat.created, chat.updated, chat.pinned, chat.folder,
        chat.draft, chat.system_prompt, json.dumps(dict(chat.overrides)),
    )  # fmt: skip


def record_from(chat_id: str, message: ChatMessage, chosen: bool, with_runs: bool = True) -> MessageRecord:
    facts: dict[str, Any] = {}
    if message.stats is not None:
        facts["stats"] = asdict(message.stats)
    elif message.live.tokens:
        facts["live"] = asdict(message.live)
    if message.problem is not None:
        facts["problem"] = asdict(message.problem)
    if message.settings is not None:
        facts["settings"] = asdict(message.settings)
    return MessageRecord(
        id=message.id,
        chat_id=chat_id,
        parent_id=message.parent_id,
        role=message.role,
        text=message.text,
        created=message.created,
        chosen=chosen,
        request_id=message.request_id,
        model=message.model_name,
        state="writing" if message.is_running else "done",
        reason=message.reason,
        notice=message.notice,
        facts=json.dumps(facts) if facts else "{}",
        runs=pack_runs(message.runs) if with_runs and message.runs else None,
    )


def message_from(record: MessageRecord) -> ChatMessage:
    """A row as a message. What a newer Eyrie may have written differently is left out, never fatal."""
    message = ChatMessage(_role(record.role), record.text, record.request_id, record.model)
    message.id, message.parent_id, message.created = record.id, record.parent_id, record.created
    message.state = MessageState.DONE
    message.notice = record.notice
    facts = _table(record.facts)
    message.reason = _part(FinishReason | None, record.reason or None)
    message.stats = _part(ReplyStats | None, facts.get("stats"))
    message.problem = _part(Failed | None, facts.get("problem"))
    message.settings = _part(GenerationSettings | None, facts.get("settings"))
    live = _part(Live | None, facts.get("live"))
    length, blob = len(message.text), record.runs
    if blob is not None or live is not None:
        message.take_back(lambda: _runs(blob, length), live)
    return message


def _runs(blob: bytes | None, length: int) -> list[Run]:
    """Where a text came from. Of 50,000 tokens: Python's collector, set off by so many, would take most of the time."""
    with held():
        return list(map(Run._make, unpack_runs(blob, length)))


def _role(name: str) -> Role:
    return Role(name) if name in tuple(Role) else Role.USER


def _part(kind: Any, value: object) -> Any:
    """A part of what is known of a message; ``None`` where it is not what it should be."""
    try:
        return fitted(kind, value)
    except ValueError as error:
        log.warning("something of a message is not understood: %s", error)
        return None


def _table(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}
