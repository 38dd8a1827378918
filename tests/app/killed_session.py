"""A session to be killed: streams chat after chat into a data folder, and says what it has shown.

Run by ``test_killed_sessions.py`` in a process of its own, without a display::

    python -m tests.app.killed_session FOLDER SHOWN

``SHOWN`` is a file to which every growth of a reply is written the moment
the window's objects have it, and every prompt when the engine has got it: a line
``<seconds> <chat> <message> <length>``. What was there some time before the kill must be
in the database.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from PySide6.QtWidgets import QApplication

from app.chat.book import ChatBook
from app.chat.keeping import Keeper
from app.chat.replies import Replies
from app.client import EngineClient
from app.rehearsal import RehearsalEngine, Script
from app.storage.store import ChatStore
from app.transport import ThreadTransport
from engine.protocol import GenerationSettings, Load

REPLY = "The quick brown fox jumps over the lazy dog, and then it sits down to think. " * 30
SETTINGS = GenerationSettings(max_new_tokens=100_000)


def main(folder: str, shown: str) -> None:
    app = QApplication([])
    book = ChatBook(Keeper(ChatStore(Path(folder))))
    engine = RehearsalEngine(
        # Short and long replies, so that kills fall between two of them as well.
        Script(lambda _: REPLY[: 40 + 370 * number % 1100], tokens_per_second=400.0, chunk_seconds=0.0)
    )
    client = EngineClient(lambda: ThreadTransport(engine.run))
    replies = Replies(client)
    number = 0
    with open(shown, "a", encoding="utf-8", buffering=1) as log:

        def ask() -> None:
            nonlocal number
            number += 1
            if number % 5 == 0:
                book.new()
            chat = book.current
            last = chat.messages[-1] if chat.messages else None
            if last is not None and number % 3 == 0:
                reply = replies.regenerate(chat, last, SETTINGS)
            else:
                reply = replies.ask(chat, f"Prompt {number} " + "x" * (number % 700), SETTINGS)
            assert reply is not None
            chat.draft = f"draft {number}"

        def on_started(_event: object) -> None:
            if (chat := replies.chat) is not None:
                prompt = chat.messages[-2]
                log.write(f"{time.monotonic():.4f} {chat.id} {prompt.id} {len(prompt.text)}\n")

        def on_step(_step: object) -> None:
            reply, chat = replies.running, replies.chat
            if reply is not None and chat is not None:
                log.write(f"{time.monotonic():.4f} {chat.id} {reply.id} {len(reply.text)}\n")

        client.ready.connect(lambda _: client.send(Load()))
        client.loaded.connect(lambda _: ask())
        client.started.connect(on_started)
        replies.stepped.connect(on_step)
        replies.ended.connect(lambda *_: ask())
        client.start()
        app.exec()


if __name__ == "__main__":
    main(*sys.argv[1:])
