"""Earlier prompts that are being edited: what was typed in their place and not sent yet. No widgets here.

As with drafts, every chat has its own, and what was typed outlives a change of the chat and the session.
"""

from __future__ import annotations

import json

from app.chat.conversation import Chat, ChatMessage
from app.chat.keeping import Keeper

NOTE = "unsent edits"


class Edits:
    """At most one edit a chat."""

    def __init__(self, keeper: Keeper | None = None) -> None:
        self._store = keeper.store if keeper is not None else None
        self._kept: dict[str, tuple[str, str]] = {}
        if self._store is not None:
            self._kept = _read(self._store.note(NOTE))

    def of(self, chat: Chat) -> tuple[ChatMessage, str] | None:
        """The prompt of a chat that is being edited, and the text in its place."""
        message_id, text = self._kept.get(chat.id, ("", ""))
        message = chat.message(message_id) if message_id else None
        return (message, text) if message is not None else None

    def put(self, chat: Chat, message: ChatMessage, text: str) -> None:
        self._kept[chat.id] = (message.id, text)
        self._keep()

    def drop(self, chat: Chat) -> None:
        """It was sent, or given up."""
        if self._kept.pop(chat.id, None) is not None:
            self._keep()

    def _keep(self) -> None:
        if self._store is not None:
            self._store.put_note(NOTE, json.dumps(self._kept) if self._kept else "")


def _read(text: str) -> dict[str, tuple[str, str]]:
    """What was kept; nothing where that is not understood."""
    try:
        return {str(chat): (str(message), str(typed)) for chat, (message, typed) in json.loads(text).items()}
    except (ValueError, TypeError, AttributeError):
        return {}
