"""Downloads as the main window tells of them while the picker is closed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app.hub.client import DIED
from app.hub.rehearsal import GB
from app.main_window import MainWindow
from engine.protocol.hub import DownloadState, Phase, Problem
from engine.protocol.hub_messages import HubFailed, Queue
from tests.app.conftest import OpenWindow

WAIT = 20_000
FIRST = DownloadState("1", "org/one", Phase.RUNNING, GB, 4 * GB, 1e6, 100.0)
SECOND = DownloadState("2", "org/two", Phase.QUEUED, 0, GB)
Tell = Callable[..., None]


@pytest.fixture
def window(open_window: OpenWindow) -> MainWindow:
    return open_window()


@pytest.fixture
def tell(window: MainWindow) -> Tell:
    return lambda *states: window.dialogs.hub_client.queue.emit(Queue(states))


def test_the_status_bar_tells_what_runs(window: MainWindow, tell: Tell) -> None:
    button = window.dialogs.downloads
    assert not button.isVisible() and not window.dialogs.hub_client.is_running, "nothing is started for it"
    tell(FIRST, SECOND)
    assert button.isVisible() and button.text() == "Downloading 2 models, 20%"
    assert button.accessibleName() == button.text()
    tell(replace(FIRST, done=4 * GB - 1))
    assert button.text() == "Downloading 1 model, 99%"
    tell(replace(FIRST, phase=Phase.PLANNING, total=0, done=0))
    assert button.text() == "Downloading 1 model"
    tell(replace(FIRST, phase=Phase.PAUSED))
    assert not button.isVisible() and not window.notices.downloads.isVisible(), "whoever paused it knows"


def test_its_end_is_told_until_somebody_has_seen_it(window: MainWindow, tell: Tell) -> None:
    banner = window.notices.downloads
    tell(replace(FIRST, phase=Phase.DONE))
    assert not banner.isVisible(), "it was here before"
    tell(FIRST, SECOND)
    problem = Problem("disk", "The disk is full.", "Make room.")
    tell(replace(FIRST, phase=Phase.DONE), replace(SECOND, phase=Phase.FAILED, problem=problem))
    assert not window.dialogs.downloads.isVisible()
    assert banner.label.text() == (
        "org/one is downloaded.\nThe download of org/two stopped. The disk is full. Make room."
    )
    tell(replace(SECOND, phase=Phase.RUNNING))
    assert banner.label.text() == "org/one is downloaded.", "it goes on after all"
    window.dialogs.hub_client.failed.emit(HubFailed(0, DIED))
    assert (
        "org/two stopped. The part of Eyrie" in banner.label.text()
        and not window.dialogs.downloads.isVisible()
    )
    banner.offers()[0].click()
    assert not banner.isVisible() and window.dialogs.hub is not None and window.dialogs.hub.isVisible()
    tell(FIRST)
    tell(replace(FIRST, phase=Phase.DONE))
    assert not banner.isVisible(), "the open picker tells it"


def test_it_leads_to_the_downloads(qtbot: QtBot, window: MainWindow, tell: Tell) -> None:
    tell(FIRST)
    button = window.dialogs.downloads
    button.setFocus()
    qtbot.keyClick(button, Qt.Key.Key_Space)
    hub = window.dialogs.hub
    assert hub is not None and hub.isVisible()

    def reached() -> bool:
        at = QApplication.focusWidget() or hub.focusWidget()
        return at is not None and hub.queue.isAncestorOf(at)

    qtbot.waitUntil(reached, timeout=WAIT)
    hub.hide()
