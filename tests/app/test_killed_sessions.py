"""A session that is killed at any moment loses the last instant of text and nothing else.

``EYRIE_KILLS=200`` makes it two hundred kills; the continuous integration makes ten.
"""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import statistics
import subprocess
import sys
import time
from pathlib import Path

import pytest

from app.chat.book import ChatBook
from app.chat.conversation import ChatMessage
from app.chat.keeping import Keeper
from app.storage.database import FILE_NAME
from app.storage.store import ChatStore
from app.transport import PROJECT_ROOT
from engine.protocol import FinishReason
from tests.app.busy_machine import allowed
from tests.app.killed_session import REPLY

KILLS = int(os.environ.get("EYRIE_KILLS", "10"))
LOSS = 0.25
"""Seconds of text that may be lost."""

pytestmark = [
    pytest.mark.alone,
    pytest.mark.skipif(os.name == "nt", reason="SIGKILL is asked for"),
]


def kill_after_a_while(folder: Path, shown: Path, seconds: float) -> float:
    """Start a session, let it stream, kill it; the time of the kill."""
    environment = dict(os.environ, QT_QPA_PLATFORM="offscreen", PYTHONPATH=str(PROJECT_ROOT))
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.app.killed_session", str(folder), str(shown)], env=environment
    )
    try:
        before, begun = shown.stat().st_size, time.monotonic()
        while shown.stat().st_size < before + 200:
            assert process.poll() is None and time.monotonic() - begun < 60, "the session does not stream"
            time.sleep(0.002)
        time.sleep(seconds)
        return time.monotonic()
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()


def lines(shown: Path, begin: int) -> list[tuple[float, str, int]]:
    """What was shown since the file had ``begin`` bytes: time, message, characters. A cut last line is left out."""
    found = []
    for line in shown.read_bytes()[begin:].decode().split("\n")[:-1]:
        when, _chat, message, length = line.split()
        found.append((float(when), message, int(length)))
    return found


def kept_in(data: Path) -> dict[str, ChatMessage]:
    """All messages of a data folder after a kill, as the next start finds them."""
    store = ChatStore(data)
    assert store.problem == ""
    book = ChatBook(Keeper(store))
    kept = {message.id: message for chat in book.chats for message in chat.all_messages}
    with sqlite3.connect(data / FILE_NAME) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
    connection.close()
    for message in kept.values():
        assert not message.is_running
        if message.request_id:
            assert REPLY.startswith(message.text)
            assert message.reason in (FinishReason.EOS, FinishReason.ERROR)
            assert (message.stats is None) == (message.reason is FinishReason.ERROR)
    store.close()
    return kept


def test_a_killed_session_loses_a_quarter_of_a_second_at_most(tmp_path: Path) -> None:
    dice = random.Random(11)
    data, shown = tmp_path / "data", tmp_path / "shown"
    data.mkdir()
    shown.touch()
    losses: list[float] = []
    before: dict[str, str] = {}
    for kill in range(KILLS):
        begin = shown.stat().st_size
        killed = kill_after_a_while(data, shown, dice.uniform(0.0, 0.8))
        kept = kept_in(data)
        assert {name: kept[name].text for name in before if name in kept} == before, f"kill {kill}"
        lost_since = killed
        for when, name, length in lines(shown, begin):
            assert name in kept, f"kill {kill}: a message is lost"
            if len(kept[name].text) < length:
                lost_since = min(lost_since, when)
        losses.append(killed - lost_since)
        assert losses[-1] <= allowed(LOSS), f"kill {kill}: {losses[-1]:.3f} s of text are lost"
        before = {name: message.text for name, message in kept.items()}
    print(
        f"{KILLS} kills, {len(before)} messages: {statistics.median(losses) * 1000:.0f} ms of text lost "
        f"in the middle, {max(losses) * 1000:.0f} ms at most"
    )
    assert len(before) > 2 * KILLS
