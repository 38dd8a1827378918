"""Searching the hub page after page, without a hub."""

from __future__ import annotations

from dataclasses import replace

import pytest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app.hub.client import HubClient
from app.hub.rehearsal import MODELS
from app.hub.search_page import SearchPage
from engine.protocol.hub import Problem
from engine.protocol.hub_messages import Found, HubFailed, Search


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Search]:
    """What the hub's process would have been asked."""
    sent: list[Search] = []
    monkeypatch.setattr(HubClient, "send", lambda _self, command: sent.append(command))
    return sent


def test_more_is_brought_below_what_is_there(qtbot: QtBot, look: QApplication, asked: list[Search]) -> None:
    client = HubClient(lambda: pytest.fail("no process is needed"))
    page = SearchPage(client)
    qtbot.addWidget(page)
    page.resize(500, 600)
    page.show()
    qtbot.waitExposed(page)
    models = tuple(replace(MODELS[0], repo_id=f"org/{place:03}") for place in range(120))

    def find(count: int, more: bool) -> None:
        client.found.emit(Found(asked[-1].request_id, models[:count], 0, more, count))

    page.field.setText("org")
    page.search()
    assert asked[-1].pages == 1 and not page.more.isVisible()
    find(60, True)
    assert page.more.isVisible() and page.list.choose("org/059")
    bar = page.list.verticalScrollBar()
    qtbot.waitUntil(lambda: bar.value() > 0, timeout=20000)
    page.more.click()
    assert asked[-1] == replace(asked[0], request_id=asked[-1].request_id, pages=2)
    page.search()  # as Enter in the field: the same question, so nothing new is asked
    assert len(asked) == 2
    client.failed.emit(HubFailed(asked[-1].request_id, Problem("hub", "No network.", "Try again.")))
    assert page.status.text() == "No network. Try again." and len(page.list.row_model().rows) == 60
    page.more.click()
    assert len(asked) == 3 and asked[-1].pages == 2, "the page that is missing"
    resets: list[object] = []
    page.list.model().modelReset.connect(lambda: resets.append(1))
    find(120, False)
    current = page.list.current()
    assert len(page.list.row_model().rows) == 120 and not page.more.isVisible()
    assert not resets and current is not None and current.key == "org/059", "whoever reads stays there"
    page.field.setText("other")
    page.search()
    assert asked[-1].pages == 1
    client.found.emit(Found(asked[-1].request_id, (), 0, True, 60))
    assert "None of the first 60 hits" in page.status.text() and page.more.isVisible()
    client.found.emit(Found(asked[-1].request_id, (), 0, False, 60))
    assert "Nothing was found" in page.status.text() and not page.more.isVisible()
