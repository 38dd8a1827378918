"""What a model has its own way: its method, its sampling, its system prompt; and who wins over whom."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QComboBox, QDoubleSpinBox, QSpinBox
from pytestqt.qtbot import QtBot

from app.chat.conversation import OVERRIDABLE, Chat
from app.rehearsal import REHEARSAL_MODEL
from app.rehearsal_methods import LOOKUP, MEDUSA, TREE
from app.settings.model_dialog import LOSSY, ModelSettingsDialog
from app.settings.own_values import FIELDS
from app.settings.per_model import ModelSettings, of_model, resolve, with_model
from app.settings.store import FILE_NAME, LIMITS, Settings, SettingsStore
from engine.protocol import Generate, GenerationSettings, Role
from tests.app.conftest import OpenWindow
from tests.app.fake_engine import Script, say

MODEL = replace(REHEARSAL_MODEL, methods=(TREE, LOOKUP, MEDUSA), method="eagle3", thinking_optional=True)


def test_every_value_has_a_name_limits_and_a_default() -> None:
    assert {field for field, _, _ in FIELDS} == set(OVERRIDABLE)
    for field, _, _ in FIELDS:
        low, high = LIMITS[field]
        value = getattr(GenerationSettings(), field)
        assert value is None or low <= value <= high
        assert getattr(Settings(), field) == value, "the settings begin where the engine does"


def test_the_narrower_wins() -> None:
    chat = Chat()
    settings = Settings(temperature=0.1, top_p=0.9, top_k=10)
    own = ModelSettings(
        {"temperature": 0.2, "top_p": 0.8}, "eagle3", {"eagle3": {"nodes": 9}, "prompt-lookup": {"x": 1}}, True
    )
    settings = replace(settings, models=with_model(settings, MODEL, own))
    chat.instruct("", {"temperature": 0.3})
    asked = resolve(settings, MODEL, chat)
    assert (asked.temperature, asked.top_p, asked.top_k) == (0.3, 0.8, 10)
    assert (asked.method, asked.options, asked.thinking) == ("eagle3", (("nodes", 9),), True)
    other = resolve(settings, replace(MODEL, name="Another"), chat)
    assert (other.top_p, other.method, other.options, other.thinking) == (0.9, "", (), None)
    assert resolve(settings, replace(MODEL, methods=(LOOKUP, MEDUSA)), chat).method == "", (
        "it is not there any more"
    )
    assert with_model(settings, MODEL, ModelSettings()) == {}


@pytest.mark.parametrize(
    "raw",
    [
        {"values": {"temperature": "hot", "nonsense": 1, "top_k": 10**9}},
        {"options": 3, "thinking": "yes"},
        {"values": []},
    ],
)
def test_what_the_file_has_wrong_is_left_out(raw: dict[str, object]) -> None:
    assert of_model(Settings(models={MODEL.name: raw}), MODEL) == ModelSettings()


def test_the_dialog_sets_and_restores(qtbot: QtBot, store: SettingsStore, data_dir: Path) -> None:
    dialog = ModelSettingsDialog(MODEL, store)
    qtbot.addWidget(dialog)
    dialog.show()
    shown = [dialog.method.itemText(place) for place in range(dialog.method.count())]
    assert shown == ["Automatic (EAGLE-3)", "EAGLE-3", "Prompt lookup", "Medusa – not available"]
    dialog.method.setCurrentIndex(3)
    assert "needs Medusa heads" in dialog._about.text() and dialog.options == []
    dialog.method.setCurrentIndex(1)
    nodes, _, rule, _ = dialog.options
    assert (
        nodes.own.text() == "Automatic" and rule.own.text() == "Default (lossless)" and rule.warning.isHidden()
    )
    nodes.own.setChecked(False)
    assert isinstance(nodes.field, QSpinBox) and isinstance(rule.field, QComboBox)
    nodes.field.setValue(12)
    rule.own.setChecked(False)
    rule.field.setCurrentText("typical")
    assert not rule.warning.isHidden() and rule.warning.text() == LOSSY
    dialog.method.setCurrentIndex(2)
    dialog.method.setCurrentIndex(1)
    assert [option.value() for option in dialog.options] == [12, None, "typical", None], (
        "looking at another method loses nothing"
    )
    min_p = dialog.values.fields["min_p"]
    min_p.own.setChecked(True)
    assert isinstance(min_p.number, QDoubleSpinBox)
    min_p.number.setValue(0.05)
    dialog.thinking.setCurrentIndex(2)
    dialog.prompt.setPlainText("Be brief.")
    qtbot.mouseClick(dialog.save_button, Qt.MouseButton.LeftButton)
    wanted = ModelSettings(
        {"min_p": 0.05}, "eagle3", {"eagle3": {"nodes": 12, "acceptance": "typical"}}, False, "Be brief."
    )
    assert of_model(store.current, MODEL) == wanted
    assert store.save() and of_model(SettingsStore(data_dir).current, MODEL) == wanted
    assert json.loads((data_dir / FILE_NAME).read_text("utf-8"))["models"][MODEL.name]["method"] == "eagle3"
    again = ModelSettingsDialog(MODEL, store)
    qtbot.addWidget(again)
    assert again.entered() == wanted
    again.restore_button.click()
    again.save_button.click()
    assert store.current.models == {}


def test_what_is_set_for_a_model_is_asked_for(qtbot: QtBot, open_window: OpenWindow) -> None:
    window = open_window(Script(say("A reply."), model=MODEL, chunk_seconds=0.0))
    own = ModelSettings({"top_k": 5}, "prompt-lookup", system_prompt="Be brief.")
    window.store.update(models=with_model(window.store.current, MODEL, own))
    window.send_prompt("one")
    qtbot.waitUntil(lambda: window.replies.running is None, timeout=20000)
    sent = window.engine_.sent(Generate)[0]  # type: ignore[attr-defined]
    assert (sent.settings.top_k, sent.settings.method) == (5, "prompt-lookup")
    assert [m.role for m in sent.messages] == [Role.SYSTEM, Role.USER]
    assert [m.content for m in window.comparison()] == ["Be brief.", "one"]
    window.commands.model_settings.trigger()
    dialog = window.findChild(ModelSettingsDialog)
    assert dialog is not None and dialog.isVisible()
    dialog.close()
