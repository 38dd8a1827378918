"""All chats of the session, newest first, and which one is shown. No Qt here."""

from __future__ import annotations

from dataclasses import dataclass

from app.chat.conversation import Chat
from app.chat.notifier import Notifier


@dataclass(frozen=True, slots=True)
class Removed:
    """A deleted chat, and where it was, so that it can come back."""

    chat: Chat
    row: int
    was_current: bool


class ChatBook:
    """The list of chats. There is always a current one; an empty one is never kept twice."""

    def __init__(self) -> None:
        self.chats: list[Chat] = [Chat()]
        self._current = self.chats[0]
        self.before_insert: Notifier[int] = Notifier()
        """The row a chat is about to take."""
        self.inserted: Notifier[Chat] = Notifier()
        self.before_remove: Notifier[int] = Notifier()
        self.removed: Notifier[Chat] = Notifier()
        self.current_changed: Notifier[Chat] = Notifier()

    @property
    def current(self) -> Chat:
        return self._current

    def select(self, chat: Chat) -> None:
        if chat is not self._current and chat in self.chats:
            self._current = chat
            self.current_changed(chat)

    def new(self) -> Chat:
        """Show an empty chat: the one there is, or a new one at the top."""
        empty = next((chat for chat in self.chats if chat.is_empty and not chat.draft.strip()), None)
        if empty is None:
            empty = Chat()
            self._insert(0, empty)
        self.select(empty)
        return empty

    def remove(self, chat: Chat) -> Removed:
        row = self.chats.index(chat)
        was_current = chat is self._current
        self.before_remove(row)
        del self.chats[row]
        self.removed(chat)
        if not self.chats:
            self._insert(0, Chat())
        if was_current:
            self._current = self.chats[min(row, len(self.chats) - 1)]
            self.current_changed(self._current)
        return Removed(chat, row, was_current)

    def restore(self, removed: Removed) -> None:
        """Undo :meth:`remove`."""
        if removed.chat in self.chats:
            return
        self._insert(min(removed.row, len(self.chats)), removed.chat)
        if removed.was_current:
            self.select(removed.chat)

    def find_reply(self, request_id: str) -> Chat | None:
        """The chat in which a reply is."""
        for chat in self.chats:
            if any(message.request_id == request_id for message in chat.messages):
                return chat
        return None

    def _insert(self, row: int, chat: Chat) -> None:
        self.before_insert(row)
        self.chats.insert(row, chat)
        self.inserted(chat)
