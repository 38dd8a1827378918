"""From the search field to a reply with EAGLE, in the real window with both real processes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app.client import EngineClient
from app.main_window import MainWindow
from app.settings.store import SettingsStore
from app.transport import ProcessTransport
from engine.protocol import Load, Mode, Step
from tests.hub.tiny_repositories import HEAD, TARGET, repositories
from tests.hub_server import HubServer

WAIT = 90_000


@pytest.mark.alone
@pytest.mark.slow
def test_search_choose_download_load_and_chat(
    qtbot: QtBot,
    look: QApplication,
    clients: list[EngineClient],
    store: SettingsStore,
    data_dir: Path,
    tiny_pair: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with HubServer(repositories(tiny_pair)) as hub:
        for name, value in {
            "HF_ENDPOINT": hub.endpoint,
            "HF_HOME": str(tmp_path / "home"),
            "HF_HUB_OFFLINE": "0",
            "HF_HUB_DISABLE_UPDATE_CHECK": "1",
        }.items():
            monkeypatch.setenv(name, value)
        monkeypatch.delenv("HF_TOKEN", raising=False)
        monkeypatch.delenv("HF_HUB_CACHE", raising=False)
        store.update(max_new_tokens=24, temperature=0.0)
        client = EngineClient(ProcessTransport)
        clients.append(client)
        # Nothing is loaded at first: what is asked for does not exist.
        window = MainWindow(client, store, data_dir, Load(str(tmp_path / "none")))
        qtbot.addWidget(window, before_close_func=lambda _: client.wait_closed())
        window.resize(1200, 800)
        window.show()
        window.start()
        window.commands.hub.trigger()
        picker = window.dialogs.hub
        assert picker is not None and picker.isVisible()

        picker.tabs.setCurrentWidget(picker.search)
        picker.search.field.setText("gemma")
        qtbot.waitUntil(lambda: picker.search.list.choose(TARGET), timeout=WAIT)
        qtbot.waitUntil(lambda: picker.choice.head == HEAD, timeout=WAIT)
        picker.pane.fetch_button.click()
        qtbot.waitUntil(picker.pane.load_button.isVisible, timeout=WAIT)
        picker.pane.load_button.click()
        qtbot.waitUntil(lambda: client.model is not None, timeout=WAIT)
        model = client.model
        assert model is not None and model.head_name is not None, model
        assert Path(model.path).is_relative_to(tmp_path / "home" / "hub" / "models--tests--tiny-gemma")

        steps: list[Step] = []
        client.step.connect(steps.append)
        window.send_prompt("Hello")
        with qtbot.waitSignal(client.finished, timeout=WAIT) as ended:
            pass
        finished = ended.args[0]
        # A random head helps nobody, so drafting may pause; but it was on.
        assert finished.stats.mode in (Mode.EAGLE, Mode.MIXED)
        assert finished.stats.drafted_tokens > 0 or "pauses" in finished.notice
        assert any(len(step.nodes) > 1 for step in steps) == (finished.stats.drafted_tokens > 0)
        assert "".join(step.text for step in steps) == finished.text
        window.dialogs.hub_client.close()
        # Nothing but the loopback hub was asked, and the records of the queue are gone.
        assert not list((data_dir / "downloads").glob("*.json"))
        refs = tmp_path / "home" / "hub" / "models--tests--tiny-gemma" / "refs" / "main"
        assert refs.read_text() == hub.repositories[TARGET].head
        assert json.loads(Path(model.path, "config.json").read_text())["model_type"] == "gemma3_text"
