"""All chats, the one used last first, and which one is shown. No widgets here."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from app.chat.conversation import Chat, ChatMessage, Saved
from app.chat.keeping import Keeper
from app.chat.notifier import Notifier
from engine.protocol import Step

CURRENT = "current chat"
"""Name of the note that says which chat was shown last."""


@dataclass(frozen=True, slots=True)
class Removed:
    """A deleted chat, and where it was, so that it can come back."""

    chat: Chat
    row: int
    was_current: bool


class ChatBook:
    """The list of chats. There is always a current one; an untouched one is never kept twice.

    With a keeper every change outlives the session; without one (tests, rehearsals)
    the chats live in memory.
    """

    def __init__(self, keeper: Keeper | None = None) -> None:
        self._keeper = keeper
        self.chats: list[Chat] = keeper.chats() if keeper is not None else []
        shown = keeper.store.note(CURRENT) if keeper is not None else ""
        if not self.chats:
            self.chats.append(Chat())
        self._current = next((chat for chat in self.chats if chat.id == shown), self.chats[0])
        for chat in self.chats:
            chat.watcher = self
        self.rearranged: Notifier[Chat | None] = Notifier()
        """Chats came, went, or stand elsewhere; the subject is the only one that has moved, if it is one."""
        self.renamed: Notifier[Chat] = Notifier()
        """What the list shows of one chat has changed, and perhaps its place."""
        self.current_changed: Notifier[Chat] = Notifier()

    @property
    def keeper(self) -> Keeper | None:
        return self._keeper

    @property
    def current(self) -> Chat:
        return self._current

    @property
    def folders(self) -> list[str]:
        """Names of the folders in use."""
        return sorted({chat.folder for chat in self.chats if chat.folder}, key=str.casefold)

    def find(self, chat_id: str) -> Chat | None:
        return next((chat for chat in self.chats if chat.id == chat_id), None)

    def select(self, chat: Chat) -> None:
        if chat is not self._current and chat in self.chats:
            self._current = chat
            if self._keeper is not None:
                self._keeper.store.put_note(CURRENT, chat.id)
            self.current_changed(chat)

    def new(self) -> Chat:
        """Show an empty chat: the one there is, or a new one at the top."""
        empty = next((chat for chat in self.chats if chat.is_untouched), None)
        if empty is None:
            empty = Chat()
            self._insert(0, empty)
        self.select(empty)
        return empty

    def take(self, chats: Iterable[Chat]) -> None:
        """Add chats that came from outside, the last one on top."""
        taken = list(chats)
        for chat in taken:
            chat.watcher = self
        self.chats[:0] = reversed(taken)
        self.rearranged(None)

    def remove(self, chat: Chat) -> Removed:
        row = self.chats.index(chat)
        was_current = chat is self._current
        del self.chats[row]
        if not self.chats:
            fresh = Chat()
            fresh.watcher = self
            self.chats.append(fresh)
        if self._keeper is not None:
            self._keeper.delete(chat)
        if was_current:
            self._current = self.chats[min(row, len(self.chats) - 1)]
        self.rearranged(None)
        if was_current:
            self.current_changed(self._current)
        return Removed(chat, row, was_current)

    def restore(self, removed: Removed) -> None:
        """Undo :meth:`remove`."""
        if removed.chat in self.chats:
            return
        if self._keeper is not None:
            self._keeper.undelete(removed.chat)
        self._insert(min(removed.row, len(self.chats)), removed.chat)
        if removed.was_current:
            self.select(removed.chat)

    def find_reply(self, request_id: str) -> Chat | None:
        """The chat in which a reply is, of those that were opened in this session."""
        for chat in self.chats:
            if chat.is_loaded and any(message.request_id == request_id for message in chat.messages):
                return chat
        return None

    def _insert(self, row: int, chat: Chat) -> None:
        chat.watcher = self
        self.chats.insert(row, chat)
        self.rearranged(None)

    # ------------------------------------------------------------------ what the chats tell

    def about(self, chat: Chat, shown: bool) -> None:
        if self._keeper is not None:
            self._keeper.about(chat, shown)
        if shown:
            self._sort_in(chat)

    def _sort_in(self, chat: Chat) -> None:
        """A chat that was written in goes to the top."""
        row = self.chats.index(chat) if chat in self.chats else 0
        if row and chat.updated > self.chats[0].updated:
            self.chats.insert(0, self.chats.pop(row))
            self.rearranged(chat)
        else:
            self.renamed(chat)

    def added(self, chat: Chat, message: ChatMessage) -> Saved | None:
        return self._keeper.added(chat, message) if self._keeper is not None else None

    def chosen(self, chat: Chat, message: ChatMessage) -> None:
        if self._keeper is not None:
            self._keeper.chosen(chat, message)

    def grew(self, message: ChatMessage, step: Step) -> None:
        if self._keeper is not None:
            self._keeper.grew(message, step)

    def resumed(self, chat: Chat, message: ChatMessage) -> Saved | None:
        return self._keeper.resumed(chat, message) if self._keeper is not None else None

    def ended(self, chat: Chat, message: ChatMessage) -> None:
        if self._keeper is not None:
            self._keeper.ended(chat, message)
