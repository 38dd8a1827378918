"""Comparisons that are kept with a chat, and pictures of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication, QImage
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app import style, theme
from app.chat.book import ChatBook
from app.chat.keeping import Keeper
from app.compare import picture
from app.compare.comparison import Which
from app.compare.dialog import CompareDialog
from app.compare.shelf import Shelf
from app.storage.store import ChatStore
from app.theme import ThemeChoice
from engine.protocol import Load
from tests.app.compare_replies import MESSAGES, SETTINGS, ScriptedClient, chat, client, dialog, plan, play_all

__all__ = ["chat", "client", "dialog"]  # fixtures


def test_comparisons_are_kept_with_the_chat_opened_and_deleted_with_undo(
    qtbot: QtBot, look: QApplication, client: ScriptedClient, tmp_path: Path
) -> None:
    store = ChatStore(tmp_path)
    book = ChatBook(Keeper(store))
    dialog = CompareDialog(client, lambda: Load("tiny"), Shelf(book))
    qtbot.addWidget(dialog)
    dialog.open_for(book.current, SETTINGS, MESSAGES, MESSAGES)
    dialog.show()
    assert not dialog.setup.saved.isVisible()
    dialog.start(plan(seed=3))
    client.play_side()
    client.play_side({5: (777, " dog")})
    client.measure(-2.0, 0.0)
    dialog.show_setup()
    saved = dialog.setup.saved
    assert saved.isVisible() and saved.list.count() == 1 and "Dynamic tree or Plain decoding" in saved.list.item(0).text()
    client.model = None
    dialog.open_for(book.current, SETTINGS, (), ())
    QTest.keyClick(saved.list, Qt.Key.Key_Return)
    page = dialog.run_page
    assert page.card.verdict.text() == "First difference at token 6" and page.panes[Which.B].marked_text == " dog"
    assert "A's token" not in page.card.detail.text() and "B's token is ahead" in page.card.detail.text()
    assert not dialog.again_button.isEnabled() and dialog.share_button.isEnabled()
    dialog.show_setup()
    assert not dialog.start_button.isEnabled()
    saved.delete_button.click()
    assert saved.list.count() == 0 and saved.undo_button.isVisible()
    saved.undo_button.click()
    assert saved.list.count() == 1
    assert store.flush(20)
    store.close()
    again = ChatStore(tmp_path)
    kept = ChatBook(Keeper(again))
    assert len(Shelf(kept).of_chat(kept.current)) == 1, "also with a chat that has no messages"
    again._do(lambda db: db.execute("UPDATE comparisons SET data = 'broken'") and None).wait(20)
    dialog._shelf = Shelf(kept)
    dialog.open_for(kept.current, SETTINGS, (), ())
    dialog.open_saved(dialog.setup.saved.current)
    assert "cannot be read" in dialog.said.text() and dialog.stack.currentIndex() == 0
    again.close()


@pytest.mark.parametrize("dark", [False, True])
def test_the_picture_shows_it_all_and_is_saved_and_copied(
    dialog: CompareDialog, client: ScriptedClient, tmp_path: Path, dark: bool, look: QApplication
) -> None:
    style.apply(look, ThemeChoice.DARK if dark else ThemeChoice.LIGHT, None)
    dialog.start(plan(repeats=2))
    play_all(dialog, client)
    assert dialog.save_picture_to(tmp_path / "shared") and dialog.save_picture_to(tmp_path / "shared.svg")
    image = QImage(str(tmp_path / "shared.png"))
    assert image.width() == picture.WIDTH * picture.SCALE and 400 < image.height() < 3000
    background = theme.palette(dark).base().color()
    assert image.pixelColor(2, 2) == image.pixelColor(image.width() - 3, image.height() - 3) == background
    inked = {image.pixelColor(x, y).name() for x in range(0, image.width(), 7) for y in range(0, image.height(), 7)}
    assert theme.colours(dark).accepted.name() in inked and len(inked) > 3
    svg = (tmp_path / "shared.svg").read_text("utf-8")
    for part in ("Dynamic tree", "Plain decoding", "Tiny", "tokens/s", "Identical"):
        assert part in svg
    assert not dialog.save_picture_to(tmp_path / "none" / "x.png") and "could not be saved" in dialog.said.text()
    dialog.copy_picture.trigger()
    assert QGuiApplication.clipboard().image().width() == image.width()
    dialog.copy_text.trigger()
    assert "Eyrie compared two settings" in QGuiApplication.clipboard().text()


def test_a_shared_text_is_short_plain_and_cannot_turn_round() -> None:
    assert picture.shortened("def f():\n\treturn 1\n\n\n\nend") == "def f():\n    return 1\n\nend"
    assert picture.shortened("a\u202eb") == "a‹202E›b"
    long = picture.shortened("word " * 500)
    assert long.endswith("…") and len(long) <= picture.CHARACTERS + 1
    assert picture.shortened("\n".join("abcdefghijklmnop")).count("\n") == picture.LINES - 1
