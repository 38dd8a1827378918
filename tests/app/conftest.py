"""Windows on scripted engines. Every engine that a test starts has ended when the test is over."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QWidget
from pytestqt.qtbot import QtBot
from shiboken6 import isValid

from app import garbage, qt_guard, style
from app.client import EngineClient
from app.hub.rehearsal import RehearsalHub
from app.main_window import MainWindow
from app.settings.store import SettingsStore
from app.theme import ThemeChoice
from app.transport import ThreadTransport
from tests.app.fake_engine import FakeEngine, Script, say

qt_guard.protect_immortals()

LICENCES = ("Gemma Terms of Use",)


@pytest.fixture(scope="session")
def qapp_cls() -> type[QApplication]:
    return QApplication


@pytest.fixture(autouse=True)
def released_keys(qapp: QApplication) -> Iterator[None]:
    """No key stays down into the next test.

    After ``keyClick`` with a modifier Qt goes on believing in it, and a row selected by the next test
    is then added to a selection instead of replacing it.
    """
    yield
    if QGuiApplication.keyboardModifiers() != Qt.KeyboardModifier.NoModifier:
        widget = QWidget()
        QTest.keyClick(widget, Qt.Key.Key_Escape)
        widget.deleteLater()
    assert QGuiApplication.keyboardModifiers() == Qt.KeyboardModifier.NoModifier


@pytest.fixture
def look(qapp: QApplication) -> Iterator[QApplication]:
    """The application's own style, in the light theme."""
    before = qapp.styleSheet(), qapp.palette(), qapp.font()
    qapp.setStyle("Fusion")
    style.apply(qapp, ThemeChoice.LIGHT, None)
    yield qapp
    with garbage.held():
        qapp.setStyleSheet(before[0])
        qapp.setPalette(before[1])
        qapp.setFont(before[2])


@pytest.fixture
def clients() -> Iterator[list[EngineClient]]:
    """Clients put in here are shut down, and their threads are gone, before the test ends."""
    made: list[EngineClient] = []
    yield made
    for client in made:
        client.wait_closed()
        client.deleteLater()
    for thread in threading.enumerate():
        if thread.name.startswith("eyrie-"):
            thread.join(20)
            assert not thread.is_alive(), f"{thread.name} still runs"


@pytest.fixture
def store(data_dir: Path) -> SettingsStore:
    data_dir.mkdir(parents=True)
    store = SettingsStore(data_dir)
    store.update(licences_seen=LICENCES, max_new_tokens=30000)
    return store


OpenWindow = Callable[..., MainWindow]


@pytest.fixture
def open_window(
    qtbot: QtBot, look: QApplication, clients: list[EngineClient], store: SettingsStore, data_dir: Path
) -> Iterator[OpenWindow]:
    """``open_window(script)`` shows a window; by default once its model is loaded.

    The fake engine is ``window.engine_`` there for the tests to look into.
    """
    windows: list[MainWindow] = []

    def open_(script: Script | None = None, loaded: bool = True) -> MainWindow:
        engine = FakeEngine(script or Script(say("A reply."), chunk_seconds=0.0))
        client = EngineClient(engine.transport)
        clients.append(client)
        window = MainWindow(client, store, data_dir, hub=lambda: ThreadTransport(RehearsalHub().run))
        window.engine_ = engine  # type: ignore[attr-defined]
        windows.append(window)
        qtbot.addWidget(window, before_close_func=lambda _: client.wait_closed())
        window.resize(1200, 800)
        window.show()
        qtbot.waitExposed(window)
        window.start()
        if loaded:
            qtbot.waitUntil(lambda: client.model is not None, timeout=20000)
        return window

    yield open_
    for window in filter(isValid, windows):
        window.dialogs.hub_client.close()


@pytest.fixture(scope="session")
def tiny_pair(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files of a small random model and of heads for it: see ``tests/hub/tiny_repositories.py``."""
    from tests.hub.tiny_repositories import make

    folder = tmp_path_factory.mktemp("tiny")
    make(folder)
    return folder
