"""Everything can be found and done from the keyboard; a second start; the tour."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QMenu
from pytestqt.qtbot import QtBot

from app.actions import Actions
from app.chat.conversation import ChatMessage
from app.command_palette import CommandPalette, commands_of, keys_of, rank
from app.shortcut_list import ShortcutList
from app.single_instance import SingleInstance
from app.transport import PROJECT_ROOT
from engine.protocol import Role
from tests.app.conftest import OpenWindow


def test_every_action_is_in_a_menu_and_keys_are_given_once(open_window: OpenWindow) -> None:
    window = open_window()
    listed = [action for _, actions in commands_of(window) for action in actions]
    made = [value for value in vars(window.commands).values() if isinstance(value, QAction)]
    assert made and all(action in listed for action in made), "an action that no menu shows"
    assert isinstance(window.commands, Actions)
    assert [action.text() for action in listed if not action.shortcuts()] == [], "commands without keys"
    keys = [sequence.toString() for action in listed for sequence in action.shortcuts()]
    assert len(keys) == len(set(keys)), sorted(key for key in keys if keys.count(key) > 1)
    letters: dict[str, list[str]] = {}
    for top in window.menuBar().actions():
        menu = top.menu()
        assert isinstance(menu, QMenu)
        marks = [
            action.text().split("&", 1)[1][:1].lower() for action in menu.actions() if "&" in action.text()
        ]
        twice = [mark for mark in marks if marks.count(mark) > 1]
        if twice:
            letters[top.text()] = twice
    assert letters == {}, "a letter of a menu stands for two commands"


def test_the_question_mark_lists_every_shortcut(qtbot: QtBot, open_window: OpenWindow) -> None:
    window = open_window()
    window.activateWindow()
    window.composer.setFocus()
    qtbot.keyClicks(window.composer.edit, "?")
    assert window.composer.text == "?", "in the prompt it is a character"
    window.chat_list.view.setFocus()
    qtbot.keyClick(window.chat_list.view, "?")
    dialog = window.findChild(ShortcutList)
    assert dialog is not None and dialog.isVisible()
    shown = []
    for place in range(dialog.table.topLevelItemCount()):
        group = dialog.table.topLevelItem(place)
        assert group is not None
        shown += [(group.child(row).text(0), group.child(row).text(1)) for row in range(group.childCount())]
    for _, actions in commands_of(window):
        for action in actions:
            assert not action.shortcuts() or any(keys == keys_of(action) for _, keys in shown), action.text()
    assert ("Send the prompt", "Return") in shown
    dialog.close()


@pytest.mark.parametrize("focus", ["composer", "list"])
def test_the_palette_finds_commands_and_chats(qtbot: QtBot, open_window: OpenWindow, focus: str) -> None:
    window = open_window()
    window.activateWindow()
    first = window.book.current
    first.add([ChatMessage(Role.USER, "About <b>lanterns</b>")])
    window.book.new()
    widget = window.composer.edit if focus == "composer" else window.chat_list.view
    widget.setFocus()
    qtbot.keyClick(widget, Qt.Key.Key_K, Qt.KeyboardModifier.ControlModifier)
    palette = window.dialogs.palette
    assert isinstance(palette, CommandPalette) and palette.isVisible()
    qtbot.keyClicks(palette.field, "lant")
    assert palette.shown() == ["About <b>lanterns</b>"]
    palette.field.clear()
    qtbot.keyClicks(palette.field, "draft tre")
    assert palette.shown()[0].startswith("Draft tree")
    assert window.panel.isVisible()
    qtbot.keyClick(palette.field, Qt.Key.Key_Return)
    assert not window.panel.isVisible() and window.book.current is not first
    window.commands.palette.trigger()
    palette = window.dialogs.palette
    assert palette is not None
    assert not any("last reply" in text for text in palette.shown()), "what cannot be done is not offered"
    qtbot.keyClicks(palette.field, "lanterns")
    qtbot.keyClick(palette.field, Qt.Key.Key_Return)
    assert window.book.current is first


def test_beginnings_of_words_rank_first() -> None:
    texts = ["Move to folder", "Find a command", "Copy diagnostics", "Forget"]
    ranked = sorted((value, text) for text in texts if (value := rank(text, "fo")) is not None)
    assert [text for _, text in ranked] == ["Forget", "Move to folder", "Find a command"]
    assert rank("Find a command", "fcm") is not None and rank("Find", "x") is None and rank("x", "") == 0


def test_the_tour_walks_and_can_be_left(qtbot: QtBot, open_window: OpenWindow) -> None:
    window = open_window()
    window.commands.tour.trigger()
    tour = window.dialogs.tour
    assert tour is not None and tour.isVisible() and tour.size() == window.size()
    titles = []
    window.activateWindow()
    tour.next.setFocus()
    for expected in (tour.skip, tour.next, tour.skip):
        qtbot.keyClick(tour.next if tour.next.hasFocus() else tour.skip, Qt.Key.Key_Tab)
        assert expected.hasFocus(), "Tab does not lead under the tour"
    for _ in window.tour_stops():
        titles.append(tour.title.text())
        assert tour.rect().contains(tour.card.geometry()), "the card is within the window"
        qtbot.mouseClick(tour.next, Qt.MouseButton.LeftButton)
    assert titles == [stop.title for stop in window.tour_stops()]
    assert window.store.current.tour_seen and window.dialogs.tour is None
    assert window.composer.edit.hasFocus(), "what is typed next is a prompt"
    window.commands.tour.trigger()
    again = window.dialogs.tour
    assert again is not None
    window.resize(900, 640)
    assert again.size() == window.size()
    qtbot.keyClick(again, Qt.Key.Key_Escape)
    assert window.dialogs.tour is None


# --------------------------------------------------------------------------- one window a folder

SECOND = """
import sys
from app import application
sys.exit(application.main(["--data-dir", sys.argv[1]]))
"""


def test_a_second_start_shows_the_first_window(qtbot: QtBot, tmp_path: Path) -> None:
    first = SingleInstance(tmp_path)
    assert not first.taken
    process = subprocess.Popen(
        [sys.executable, "-c", SECOND, str(tmp_path)], cwd=PROJECT_ROOT, stdout=subprocess.PIPE, text=True
    )
    with qtbot.waitSignal(first.asked_to_show, timeout=20000):
        pass
    out, _ = process.communicate(timeout=20)
    assert process.returncode == 0 and "runs already" in out
    assert not SingleInstance(tmp_path / "..").taken, "another folder is another instance"
    first.release()
    again = SingleInstance(tmp_path)
    assert not again.taken
    again.release()


def test_a_window_that_does_not_answer_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = SingleInstance(tmp_path)
    monkeypatch.setattr("app.single_instance.KNOCK_MS", 50)
    second = SingleInstance(tmp_path)
    assert first._server is not None and second.taken
    first._server.close()
    assert not second.knock()
    first.release()


def test_the_window_comes_forward(qtbot: QtBot, open_window: OpenWindow) -> None:
    window = open_window()
    window.showMinimized()
    window.come_forward()
    assert window.isVisible() and not window.isMinimized()
