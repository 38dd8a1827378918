"""The comparisons of the chats, as the window shows and changes them. No widgets.

What was kept in this session is told from memory, because the database writes in a thread of its own;
without a database that is all there is.
"""

from __future__ import annotations

import logging
import sqlite3

from app.chat.book import ChatBook
from app.chat.conversation import Chat
from app.compare import words
from app.compare.record import Record, from_json, to_json
from app.language import tr
from app.storage.comparisons import ComparisonRecord

log = logging.getLogger(__name__)


class Shelf:
    def __init__(self, book: ChatBook) -> None:
        self._book = book
        self._lists: dict[str, list[ComparisonRecord]] = {}
        self._data: dict[str, str] = {}
        self._deleted: dict[str, ComparisonRecord] = {}

    def of_chat(self, chat: Chat) -> list[ComparisonRecord]:
        """Newest first."""
        if chat.id not in self._lists:
            keeper, found = self._book.keeper, []
            if keeper is not None:
                try:
                    found = keeper.store.comparisons(chat.id)
                except sqlite3.Error as error:
                    log.error("the comparisons of a chat cannot be read: %s", error)
            self._lists[chat.id] = found
        return self._lists[chat.id]

    def put(self, chat: Chat, record: Record) -> None:
        """Keep a comparison, or what has come to it."""
        row = ComparisonRecord(record.id, chat.id, record.created, words.title(record), to_json(record))
        kept = self.of_chat(chat)
        place = next((place for place, each in enumerate(kept) if each.id == row.id), None)
        if place is None:
            if record.id in self._deleted:
                return
            kept.insert(0, row._replace(data=""))
        else:
            kept[place] = row._replace(data="")
        self._data[row.id] = row.data
        if (keeper := self._book.keeper) is not None:
            keeper.keep(chat)
            keeper.store.put_comparison(row)

    def read(self, comparison_id: str) -> Record:
        """:raises ValueError: it cannot be read; the text says why, for people."""
        keeper = self._book.keeper
        try:
            data = self._data.get(comparison_id) or (keeper.store.comparison(comparison_id) if keeper else "")
            return from_json(data)
        except (sqlite3.Error, ValueError) as error:
            log.error("%s", error)
            raise ValueError(tr("Compare", "This comparison cannot be read. Delete it, and compare again.")) from error

    def delete(self, chat: Chat, comparison_id: str) -> None:
        """Take one out of the list; :meth:`restore` brings it back until the session ends."""
        kept = self.of_chat(chat)
        row = next((each for each in kept if each.id == comparison_id), None)
        if row is None:
            return
        kept.remove(row)
        self._deleted[row.id] = row
        if (keeper := self._book.keeper) is not None:
            keeper.store.delete_comparison(row.id)

    def restore(self, chat: Chat, comparison_id: str) -> None:
        row = self._deleted.pop(comparison_id, None)
        if row is None or row.chat_id != chat.id:
            return
        kept = self.of_chat(chat)
        kept.append(row)
        kept.sort(key=lambda each: (each.created, each.id), reverse=True)
        if (keeper := self._book.keeper) is not None:
            keeper.store.restore_comparison(row.id)
