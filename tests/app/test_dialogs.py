"""Settings, licence and notices: what is told, and that it is told once."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication, QPlainTextEdit
from pytestqt.qtbot import QtBot

from app.client import EngineClient
from app.diagnostics import diagnostics, version
from app.licence_dialog import LicenceDialog
from app.main_window import MainWindow
from app.redaction import without_secrets
from app.rehearsal import REHEARSAL_MODEL
from app.settings.dialog import SettingsDialog
from app.settings.store import FILE_NAME, Settings, SettingsStore
from app.theme import ThemeChoice
from engine.protocol import Failed
from tests.app.conftest import OpenWindow
from tests.app.fake_engine import FakeEngine, Script, say


def test_changes_apply_at_once_and_are_saved(
    qtbot: QtBot, look: QApplication, store: SettingsStore, data_dir: Path
) -> None:
    dialog = SettingsDialog(store)
    qtbot.addWidget(dialog)
    dialog.show()
    dialog.temperature.setValue(0.8)
    dialog.top_k.setValue(40)
    dialog.seed.automatic.setChecked(False)
    dialog.seed.number.setValue(99)
    dialog.tree_nodes.automatic.setChecked(False)
    dialog.tree_nodes.number.setValue(24)
    dialog.theme.setCurrentIndex(dialog.theme.findData(ThemeChoice.DARK))
    dialog.highlight.setChecked(False)
    now = store.current
    assert (now.temperature, now.top_k, now.seed, now.tree_nodes, now.theme, now.highlight) == (
        0.8, 40, 99, 24, ThemeChoice.DARK, False,
    )  # fmt: skip
    qtbot.mouseClick(dialog.close_button, Qt.MouseButton.LeftButton)
    assert SettingsStore(data_dir).current == now


def test_defaults_come_back(qtbot: QtBot, look: QApplication, store: SettingsStore) -> None:
    store.update(temperature=1.2, seed=4, font_size=20)
    dialog = SettingsDialog(store)
    qtbot.addWidget(dialog)
    assert dialog.seed.value() == 4 and dialog.font_size.value() == 20
    qtbot.mouseClick(dialog.restore, Qt.MouseButton.LeftButton)
    assert store.current.generation() == Settings().generation()
    assert dialog.temperature.value() == 0 and dialog.seed.value() is None
    assert not dialog.seed.number.isEnabled() and store.current.licences_seen


def test_a_corrupt_settings_file_is_told(
    qtbot: QtBot, look: QApplication, clients: list[EngineClient], data_dir: Path
) -> None:
    data_dir.mkdir(parents=True)
    (data_dir / FILE_NAME).write_text("{broken", encoding="utf-8")
    client = EngineClient(FakeEngine(Script(say("x"))).transport)
    clients.append(client)
    window = MainWindow(client, SettingsStore(data_dir), data_dir)
    qtbot.addWidget(window)
    window.show()
    banner = window.notices.settings
    assert banner.isVisible() and "defaults apply" in banner.label.text()
    assert "settings.broken" in banner.label.text()
    window.client.shutdown()


def test_settings_are_saved_after_a_moment_and_at_the_end(
    qtbot: QtBot, open_window: OpenWindow, data_dir: Path
) -> None:
    window = open_window()
    window.store.update(top_k=11)
    path = data_dir / FILE_NAME
    qtbot.waitUntil(
        lambda: path.exists() and json.loads(path.read_text("utf-8"))["top_k"] == 11, timeout=20000
    )
    window.store.update(top_k=12)
    with qtbot.waitSignal(window.gone, timeout=20000):
        window.close()
    assert SettingsStore(data_dir).current.top_k == 12


def test_the_window_remembers_its_parts(qtbot: QtBot, open_window: OpenWindow) -> None:
    window = open_window()
    window.commands.panel.trigger()
    assert not window.panel.isVisible()
    window.resize(1111, 777)
    with qtbot.waitSignal(window.gone, timeout=20000):
        window.close()
    again = open_window()
    assert not again.panel.isVisible() and not again.commands.panel.isChecked()
    assert again.chat_list.isVisible()


def test_the_licence_is_shown_once_as_plain_text(
    qtbot: QtBot, open_window: OpenWindow, store: SettingsStore
) -> None:
    store.update(licences_seen=())
    window = open_window()
    qtbot.waitUntil(lambda: window.dialogs.licence is not None, timeout=20000)
    dialog = window.dialogs.licence
    assert isinstance(dialog, LicenceDialog) and dialog.isVisible()
    text = dialog.findChild(QPlainTextEdit)
    assert text is not None and text.toPlainText() == REHEARSAL_MODEL.licence_text
    qtbot.mouseClick(dialog.accept_button, Qt.MouseButton.LeftButton)
    assert store.current.licences_seen == (REHEARSAL_MODEL.licence_name,)
    window.client.restart()
    qtbot.waitUntil(lambda: window.client.model is not None, timeout=20000)
    assert window.dialogs.licence is None


def test_the_demo_notice_stays_away_once_dismissed(
    qtbot: QtBot, open_window: OpenWindow, store: SettingsStore
) -> None:
    window = open_window()
    assert window.notices.demo.isVisible()
    qtbot.mouseClick(window.notices.demo._close, Qt.MouseButton.LeftButton)
    assert store.current.demo_notice_dismissed
    window.client.restart()
    qtbot.waitUntil(lambda: window.client.model is not None, timeout=20000)
    assert not window.notices.demo.isVisible()


def test_compare_opens_with_the_typed_text_or_the_last_prompt(qtbot: QtBot, open_window: OpenWindow) -> None:
    window = open_window()
    assert window.comparison() == ()
    qtbot.keyClicks(window.composer.edit, "typed")
    assert [message.content for message in window.comparison()] == ["typed"]
    window.send_prompt("asked")
    qtbot.waitUntil(lambda: window.replies.running is None, timeout=20000)
    window.composer.set_text("")
    assert [message.content for message in window.comparison()] == ["asked"]
    window.commands.compare.trigger()
    assert window.compare_dialog is not None and window.compare_dialog.isVisible()
    assert not window.client.active, "it runs when it is told to"
    window.compare_dialog.close()


def test_diagnostics_name_the_machine_and_no_chat(
    qtbot: QtBot, open_window: OpenWindow, data_dir: Path
) -> None:
    window = open_window()
    window.send_prompt("a secret prompt")
    qtbot.waitUntil(lambda: window.replies.running is None, timeout=20000)
    text = diagnostics(window.client, window.store, data_dir)
    assert version() in text and REHEARSAL_MODEL.name in text and "secret" not in text
    assert "Chats: " in text
    token = "hf_" + "a1B2" * 8
    assert without_secrets(f"at {token}, sk-proj-12345678 and hf_hub") == "at hf_…, sk-… and hf_hub"
    assert without_secrets("by http://me:word@proxy:80/x") == "by http://…@proxy:80/x"
    window.notices.show_failure(Failed("No.", "Wait.", detail=f"Authorization: {token}"))
    details = window.notices.error.offers()[-1]
    details.click()
    assert QApplication.clipboard().text().endswith("Authorization: hf_…"), "what is copied of an error, too"


@pytest.mark.parametrize("tour_first", [True, False])
def test_the_tour_and_the_licence_come_one_after_the_other(
    qtbot: QtBot, open_window: OpenWindow, store: SettingsStore, tour_first: bool
) -> None:
    store.update(licences_seen=())
    window = open_window(loaded=False)
    dialogs = window.dialogs
    if tour_first:
        dialogs.start_tour()
        qtbot.waitUntil(lambda: window.client.model is not None, timeout=20000)
        assert dialogs.tour is not None and dialogs.licence is None
        dialogs.tour.end()
        assert dialogs.licence is not None and dialogs.licence.isVisible()
    else:
        qtbot.waitUntil(lambda: dialogs.licence is not None, timeout=20000)
        dialogs.start_tour()
        assert dialogs.tour is None
        dialogs.licence.accept()
        assert dialogs.tour is not None and dialogs.tour.isVisible() and dialogs.licence is None
        dialogs.tour.end()
