"""Which method drafts, how a model is loaded, and that the pair of the last time comes back."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from pytestqt.qtbot import QtBot

from app.method_menu import can_draft, method_in_use
from app.rehearsal import REHEARSAL_MODEL
from app.rehearsal_methods import LOOKUP, MEDUSA, PLAIN, TREE
from app.settings.loading import LoadOptions, complete, last_command, options_for, with_options
from app.settings.model_dialog import ModelSettingsDialog
from app.settings.per_model import ModelSettings, of_model
from app.settings.store import FILE_NAME, Settings, SettingsStore
from engine.protocol import Generate, Load
from tests.app.conftest import OpenWindow
from tests.app.fake_engine import SENTENCE, Script, say

METHODS = replace(REHEARSAL_MODEL, methods=(PLAIN, TREE, LOOKUP, MEDUSA), method="eagle3", thinking_optional=True)


def entries(window) -> dict[str, bool]:
    menu = window.commands.methods
    return {
        action.text(): action.isChecked()
        for action in menu.actions()
        if action.isCheckable() and action.isEnabled()
    }


def test_a_method_is_chosen_beside_the_switch(qtbot: QtBot, open_window: OpenWindow) -> None:
    window = open_window(Script(say("A reply."), model=METHODS, chunk_seconds=0.0))
    assert entries(window) == {
        "Automatic (EAGLE-3)": True,
        "EAGLE-3": False,
        "Prompt lookup": False,
    }
    absent = next(action for action in window.commands.methods.actions() if "Medusa" in action.text())
    assert not absent.isEnabled() and absent.toolTip() == MEDUSA.problem, "it stands there with what it lacks"
    button = window.top_bar.button(window.commands.eagle)
    assert button.text() == "EAGLE-3 on"
    window.commands.eagle.setChecked(False)
    assert button.text() == "EAGLE-3 off"
    lookup = next(each for each in window.commands.methods.actions() if each.text() == "Prompt lookup")
    lookup.trigger()
    assert button.text() == "Prompt lookup on", "who chooses a method wants to see it at work"
    assert entries(window)["Prompt lookup"] and not entries(window)["Automatic (EAGLE-3)"]
    window.send_prompt("Hello")
    qtbot.waitUntil(lambda: bool(window.engine_.sent(Generate)), timeout=20000)
    assert window.engine_.sent(Generate)[0].settings.method == "prompt-lookup"
    assert of_model(window.store.current, METHODS).method == "prompt-lookup"


def test_a_method_chosen_during_a_reply_is_told_to_be_for_the_next(qtbot: QtBot, open_window: OpenWindow) -> None:
    window = open_window(Script(say(SENTENCE * 2000), model=METHODS, tokens_per_second=200, chunk_seconds=0.0))
    lookup = next(each for each in window.commands.methods.actions() if each.text() == "Prompt lookup")
    lookup.trigger()
    assert not window.toast.isVisible()
    window.send_prompt("Hello")
    next(each for each in window.commands.methods.actions() if each.text() == "EAGLE-3").trigger()
    assert window.toast.isVisible() and "next reply" in window.toast.label.text()
    assert not window.toast.button.isVisible()
    window.replies.stop()
    qtbot.waitUntil(lambda: window.replies.running is None, timeout=20000)


def test_a_model_without_a_head_can_still_draft() -> None:
    bare = replace(
        METHODS, head_name=None, methods=(PLAIN, replace(TREE, problem="No head."), LOOKUP), method="plain"
    )
    assert not can_draft(bare, ModelSettings()) and method_in_use(bare, ModelSettings()) == PLAIN
    assert can_draft(bare, ModelSettings(method="prompt-lookup"))
    assert method_in_use(bare, ModelSettings(method="eagle3")) == PLAIN, "it is not there any more"
    assert not can_draft(None, ModelSettings())


def test_without_a_head_the_switch_says_that_other_methods_are_there(open_window: OpenWindow) -> None:
    bare = replace(
        METHODS, head_name=None, head_problem="No head.", methods=(PLAIN, replace(TREE, problem="No head."), LOOKUP),
        method="plain",
    )  # fmt: skip
    window = open_window(Script(say("A reply."), model=bare, chunk_seconds=0.0))
    button = window.top_bar.button(window.commands.eagle)
    assert button.text() == "EAGLE not available" and not button.isEnabled()
    assert "menu beside it" in button.toolTip()
    assert window.top_bar.button(window.commands.methods.menuAction()).isEnabled()


def test_what_is_said_wins_over_what_is_set() -> None:
    options = LoadOptions(8192, "nf4", True, "/models/small")
    settings = replace(Settings(), loads=with_options(Settings(), "/models/one", options))
    assert options_for(settings, "/models/one") == options
    assert complete(settings, Load("/models/one")) == Load(
        "/models/one", context=8192, weight_format="nf4", double_quant=True, draft="/models/small"
    )
    assert complete(settings, Load("/models/one", context=512)).context == 512
    assert complete(settings, Load("/models/two")) == Load("/models/two")
    assert with_options(settings, "/models/one", LoadOptions()) == {}
    wrong = replace(Settings(), loads={"m": {"context": "long", "weight_format": "q9", "draft": 3}})
    assert options_for(wrong, "m") == LoadOptions()


def test_the_pair_of_the_last_time_comes_back(qtbot: QtBot, open_window: OpenWindow, data_dir: Path) -> None:
    window = open_window()
    assert window.store.current.last == {}, "what is loaded by itself was not chosen"
    window.load(Load("/models/one", "/heads/one"))
    qtbot.waitUntil(lambda: bool(window.store.current.last), timeout=20000)
    assert window.store.save()
    again = SettingsStore(data_dir)
    assert last_command(again.current) == Load("/models/one", "/heads/one") and not again.problem
    again.restore_defaults()
    assert last_command(again.current) == Load("/models/one", "/heads/one")


def test_a_damaged_table_of_loads_is_left_out(data_dir: Path) -> None:
    data_dir.mkdir(parents=True)
    (data_dir / FILE_NAME).write_text(json.dumps({"loads": {"m": 3}, "last": []}), encoding="utf-8")
    store = SettingsStore(data_dir)
    assert store.current.loads == {} and store.current.last == {} and "loads" in store.problem


def test_loading_is_set_per_model(qtbot: QtBot, store: SettingsStore, look) -> None:
    dialog = ModelSettingsDialog(METHODS, store, loaded_as="/models/one")
    qtbot.addWidget(dialog)
    dialog.show()
    form = dialog.load_form
    assert form.entered() == LoadOptions()
    form.context.set_value(16384)
    form.weights.setCurrentIndex(form.weights.findData("nf4"))
    form.double_quant.setChecked(True)
    form.draft.setText("/models/small")
    with qtbot.waitSignal(dialog.reload_wanted):
        dialog.save_button.click()
    assert options_for(store.current, "/models/one") == LoadOptions(16384, "nf4", True, "/models/small")
    again = ModelSettingsDialog(METHODS, store, loaded_as="/models/one")
    qtbot.addWidget(again)
    assert again.load_form.entered() == LoadOptions(16384, "nf4", True, "/models/small")
    again.restore_button.click()
    assert again.load_form.entered() == LoadOptions()
    unchanged = []
    third = ModelSettingsDialog(METHODS, store, loaded_as="/models/one")
    qtbot.addWidget(third)
    third.reload_wanted.connect(lambda: unchanged.append(1))
    third.save_button.click()
    assert not unchanged, "a model is not loaded again for nothing"


def test_a_draft_model_is_taken_from_those_on_this_computer(qtbot: QtBot, open_window: OpenWindow) -> None:
    window = open_window()
    window.dialogs.draft_requested.emit("/models/small")
    qtbot.waitUntil(lambda: len(window.engine_.sent(Load)) == 2, timeout=20000)
    assert window.engine_.sent(Load)[-1] == Load("demo", draft="/models/small")
    assert window.engine.command.draft == "/models/small"
