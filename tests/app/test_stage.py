"""Another language: another window in the place of the first, and all else as it was."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot
from shiboken6 import isValid

from app.client import EngineClient, EngineState
from app.hub.rehearsal import RehearsalHub
from app.language import installing
from app.language.choice import Language
from app.main_window import MainWindow
from app.settings.store import SettingsStore
from app.shortcut_list import ShortcutList
from app.stage import Stage
from app.transport import ThreadTransport
from engine.protocol import Calibrated, Calibration, CurvePoint, Generate, Load, Shutdown
from engine.protocol.hub_messages import Browse, EnterToken, HubEvent
from tests.app.fake_engine import FakeEngine, Script, say

POINT = CurvePoint(1, 1.0, 0.02, 50.0)
CALIBRATION = Calibration("eagle3", ((1, 0.02),), (), (POINT,), POINT, 1)


@pytest.fixture
def english(qapp: QApplication) -> Iterator[None]:
    installing.install(qapp, Language.ENGLISH)
    yield
    installing.install(qapp, Language.ENGLISH)


@pytest.fixture
def engine() -> FakeEngine:
    return FakeEngine(Script(say("A reply. " * 4000), tokens_per_second=400.0, chunk_seconds=0.0))


class Hub(RehearsalHub):
    """Remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[object] = []

    def answers(self, command: object) -> tuple[HubEvent, ...]:
        self.asked.append(command)
        return super().answers(command)


@pytest.fixture
def hubs() -> list[Hub]:
    """The hub's processes that were started."""
    return []


@pytest.fixture
def stage(
    qtbot: QtBot, look: QApplication, english: None, engine: FakeEngine, store: SettingsStore, data_dir: Path,
    clients: list[EngineClient], hubs: list[Hub],
) -> Iterator[Stage]:  # fmt: skip
    store.update(language=Language.ENGLISH)

    def begin() -> ThreadTransport:
        hubs.append(Hub())
        return ThreadTransport(hubs[-1].run)

    def make(client: EngineClient, load: Load) -> MainWindow:
        clients.append(client)
        return MainWindow(client, store, data_dir, load, hub=begin)

    stage = Stage(look, store, EngineClient(engine.transport), Load("demo", "head"), make)
    stage.window.show()
    stage.window.start()
    qtbot.waitUntil(lambda: stage.window.client.model is not None, timeout=20000)
    yield stage
    stage.window.dialogs.hub_client.close()
    stage.window.close()
    stage.window.client.wait_closed()
    stage.window.deleteLater()
    stage.deleteLater()


def menus(window: MainWindow) -> list[str]:
    return [action.text() for action in window.menuBar().actions()]


def choose(stage: Stage, language: Language) -> None:
    """As a user does: in the settings, which are closed then."""
    stage.window.commands.settings.trigger()
    dialog = stage.window.dialogs.settings
    assert dialog is not None
    dialog.language.setCurrentIndex(dialog.language.findData(language))
    assert "once these settings are closed" in dialog.restart_note.text() and not dialog.restart_note.isHidden()
    dialog.close()


def test_the_window_follows_and_everything_else_stays(qtbot: QtBot, stage: Stage, engine: FakeEngine) -> None:
    first = stage.window
    client = first.client
    client._dispatch(Calibrated(CALIBRATION))
    first.book.current.rename("Mine")
    first.composer.edit.setPlainText("half a thought")
    choose(stage, Language.GERMAN)
    qtbot.waitUntil(lambda: stage.window is not first, timeout=20000)
    second = stage.window
    assert "&Datei" in menus(second) and second.isVisible()
    assert second.book.current.title == "Mine" and second.composer.text == "half a thought"
    assert second.client.model is not None and len(engine.sent(Load)) == 1, "the model is not loaded again"
    assert second.engine.asked_for == Load("demo", "head") and second.client._calibration == CALIBRATION
    assert client.state is EngineState.CLOSED
    qtbot.waitUntil(lambda: not isValid(first), timeout=20000)
    stage._store.update(temperature=0.5, font_size=12)  # nothing of the first window listens any more
    second.send_prompt("Hello")
    qtbot.waitUntil(lambda: second.replies.running is not None and len(second.replies.running.text) > 20, timeout=20000)
    assert len(engine.sent(Generate)) == 1 and engine.sent(Generate)[0].settings.temperature == 0.5
    with qtbot.waitSignal(stage.gone, timeout=20000):
        second.close()


def test_the_hubs_process_goes_on_with_its_token_and_downloads(qtbot: QtBot, stage: Stage, hubs: list[Hub]) -> None:
    first = stage.window
    first.dialogs.hub_client.send(Browse())
    first.dialogs.hub_client.send(EnterToken("hf_session"))
    qtbot.waitUntil(lambda: first.dialogs.downloads.isVisible(), timeout=20000)
    last_id = first.dialogs.hub_client.next_id()
    choose(stage, Language.GERMAN)
    qtbot.waitUntil(lambda: stage.window is not first and not isValid(first), timeout=20000)
    second = stage.window
    assert second.dialogs.hub_client.is_running and second.dialogs.hub_client.next_id() > last_id
    second.dialogs.open_hub()
    assert second.dialogs.hub is not None
    qtbot.waitUntil(lambda: len(hubs[0].asked) >= 3, timeout=20000)
    assert len(hubs) == 1 and EnterToken("hf_session") in hubs[0].asked, "it is the same process"
    qtbot.waitUntil(second.dialogs.downloads.isVisible, timeout=20000)
    assert "heruntergeladen" in second.dialogs.downloads.text()
    second.dialogs.hub.close()


def test_it_waits_until_nothing_is_going_on(qtbot: QtBot, stage: Stage) -> None:
    first = stage.window
    first.send_prompt("Hello")
    qtbot.waitUntil(lambda: first.replies.running is not None and len(first.replies.running.text) > 20, timeout=20000)
    reply = first.replies.running
    assert reply is not None
    looks: list[bool] = []
    stage._timer.timeout.connect(lambda: looks.append(first.replies.running is not None))
    choose(stage, Language.JAPANESE)
    qtbot.waitUntil(lambda: len(looks) >= 2, timeout=20000)
    assert stage.window is first and all(looks), "not in the middle of a reply"
    first.dialogs.open_shortcuts()
    first.replies.stop()
    qtbot.waitUntil(lambda: looks[-2:] == [False, False], timeout=20000)
    assert stage.window is first, "nor over what somebody looks at"
    first.findChildren(ShortcutList)[-1].close()
    qtbot.waitUntil(lambda: stage.window is not first, timeout=20000)
    assert stage.window.book.current.messages[-1].text == reply.text


def test_a_choice_that_is_taken_back_changes_nothing(qtbot: QtBot, stage: Stage) -> None:
    first = stage.window
    stage.window.dialogs.open_shortcuts()
    stage._store.update(language=Language.CHINESE)
    assert stage._timer.isActive()
    stage._store.update(language=Language.ENGLISH)
    qtbot.waitUntil(lambda: not stage._timer.isActive(), timeout=20000)
    assert stage.window is first


@pytest.mark.parametrize("end", ["freed", "died"])
def test_an_engine_that_has_ended_is_told_of_there_too(
    qtbot: QtBot, stage: Stage, engine: FakeEngine, end: str
) -> None:
    first = stage.window
    if end == "freed":
        first.commands.free.trigger()
    else:
        engine.transports[-1]._events.put(None)
        qtbot.waitUntil(lambda: first.client.state is EngineState.DEAD, timeout=20000)
    choose(stage, Language.GERMAN)
    qtbot.waitUntil(lambda: stage.window is not first, timeout=20000)
    notices = stage.window.notices
    banner = notices.engine if end == "freed" else notices.error
    assert banner.isVisible() and banner.offers()
    banner.offers()[0].click()
    qtbot.waitUntil(lambda: stage.window.client.model is not None, timeout=20000)
    engine.transports[0]._commands.put(Shutdown())  # it had only seemed to be dead


def test_chats_that_live_in_memory_only_are_not_given_up(
    qtbot: QtBot, stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = stage.window
    assert first.chats is not None
    monkeypatch.setattr(type(first.chats), "keeps", property(lambda _: False))
    first.commands.settings.trigger()
    dialog = first.dialogs.settings
    assert dialog is not None
    dialog.language.setCurrentIndex(dialog.language.findData(Language.GERMAN))
    assert "the next time" in dialog.restart_note.text()
    dialog.close()
    looks: list[int] = []
    stage._timer.timeout.connect(lambda: looks.append(1))
    qtbot.waitUntil(lambda: len(looks) >= 2, timeout=20000)
    assert stage.window is first
