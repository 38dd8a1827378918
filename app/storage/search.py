"""Full-text search over titles and contents, one hit a chat."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from app.storage import words
from app.storage.words import Snippet

SCANNED = 400
"""Most messages looked at for one query: those written last."""
READ = 5000
"""Most messages read for signs that the index does not have."""


@dataclass(frozen=True, slots=True)
class Hit:
    """A chat that answers a query: by its title, or by a message of it."""

    chat_id: str
    message_id: str | None
    """The newest message with all the words; ``None`` when only the title has them."""
    snippet: Snippet


class Search:
    """Reads over a connection that is handed in."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def find(self, query: str, limit: int = 100) -> list[Hit]:
        """Chats whose title or one of whose messages has all words of the query, as beginnings of words.

        Titles come first, then messages, both the newest first; a chat appears once.
        """
        expression = words.match(query)
        if not expression:
            return self._find_signs(words.signs(query), limit)
        found: dict[str, Hit] = {}
        for (chat_id,) in self._connection.execute(
            "SELECT chats.id FROM found_titles JOIN chats ON chats.key = found_titles.rowid "
            "WHERE found_titles MATCH ? AND deleted IS NULL ORDER BY found_titles.rowid DESC LIMIT ?",
            (expression, limit),
        ):
            found[chat_id] = Hit(chat_id, None, Snippet("", ()))
        texts = self._connection.execute(
            "SELECT messages.chat_id, messages.id, messages.text FROM found_messages "
            "JOIN messages ON messages.key = found_messages.rowid "
            "JOIN chats ON chats.id = messages.chat_id AND chats.deleted IS NULL "
            "WHERE found_messages MATCH ? ORDER BY found_messages.rowid DESC LIMIT ?",
            (expression, SCANNED),
        )
        return _with_messages(found, texts, query, limit)

    def _find_signs(self, signs: str, limit: int) -> list[Hit]:
        """What has signs in it that are no words: looked for letter by letter, in what was written last."""
        if not signs:
            return []
        found = {
            chat_id: Hit(chat_id, None, Snippet("", ()))
            for (chat_id,) in self._connection.execute(
                "SELECT id FROM chats WHERE instr(title, ?) AND deleted IS NULL ORDER BY key DESC LIMIT ?",
                (signs, limit),
            )
        }
        texts = self._connection.execute(
            "SELECT newest.chat_id, newest.id, text FROM (SELECT * FROM messages ORDER BY key DESC LIMIT ?) AS newest "
            "JOIN chats ON chats.id = newest.chat_id AND chats.deleted IS NULL WHERE instr(text, ?)",
            (READ, signs),
        )
        return _with_messages(found, texts, signs, limit)


def _with_messages(found: dict[str, Hit], texts: Iterable[Any], query: str, limit: int) -> list[Hit]:
    """The chats found by their titles, then those found by (chat, message, text); a chat appears once."""
    for chat_id, message_id, text in texts:
        known = found.get(chat_id)
        if known is not None and known.message_id is not None:
            continue
        if known is None and len(found) >= limit:
            continue
        found[chat_id] = Hit(chat_id, message_id, words.snippet(text, query))
    return list(found.values())
