"""What others wrote is never taken for HTML: not in a label, not in a tooltip."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from PySide6.QtCore import QAbstractItemModel, QAbstractListModel, QModelIndex, Qt
from PySide6.QtWidgets import QAbstractItemView, QLabel, QWidget
from pytestqt.qtbot import QtBot

from app.tool_tip import letter_for_letter
from engine.protocol import Role
from tests.app.conftest import OpenWindow
from tests.app.fake_engine import SENTENCE, Script, say

HOSTILE = '<b>bold</b> <img src="file:///etc/passwd"> &amp;'
SAFE = letter_for_letter("<|").split("&lt;|")


def rows(model: QAbstractItemModel, under: QModelIndex) -> Iterator[QModelIndex]:
    for row in range(model.rowCount(under)):
        for column in range(1 if isinstance(model, QAbstractListModel) else model.columnCount(under)):
            index = model.index(row, column, under)
            yield index
            yield from rows(model, index)


def rich_texts(root: QWidget) -> list[str]:
    """Every text below ``root`` that Qt shows as HTML and that has not been made safe."""
    found = []
    for widget in [root, *root.findChildren(QWidget)]:
        tips = [widget.toolTip()]
        if isinstance(widget, QAbstractItemView) and widget.model() is not None:
            tips += [
                str(index.data(Qt.ItemDataRole.ToolTipRole) or "") for index in rows(widget.model(), QModelIndex())
            ]
        found += [tip for tip in tips if "<" in tip.removeprefix(SAFE[0]).removesuffix(SAFE[1])]
        if isinstance(widget, QLabel) and widget.textFormat() is not Qt.TextFormat.PlainText:
            found += [widget.text()] if "<" in widget.text() else []
    return found


def test_the_check_finds_what_it_is_for(qtbot: QtBot) -> None:
    label = QLabel(HOSTILE)
    qtbot.addWidget(label)
    label.setToolTip(HOSTILE)
    assert rich_texts(label) == [HOSTILE, HOSTILE]
    label.setTextFormat(Qt.TextFormat.PlainText)
    label.setToolTip(letter_for_letter(HOSTILE))
    assert rich_texts(label) == [] and letter_for_letter("a\nb") == "a\nb"


def test_titles_prompts_and_file_names_are_shown_as_they_are(
    qtbot: QtBot, open_window: OpenWindow, tmp_path: Path
) -> None:
    window = open_window(Script(say(SENTENCE * 2000), tokens_per_second=200, chunk_seconds=0.0))
    chat = window.book.current
    window.send_prompt(HOSTILE)
    chat.rename(HOSTILE)
    window.commands.new_chat.trigger()
    assert "<b>" in window.composer.hint.text() and rich_texts(window) == []
    window.replies.stop()
    qtbot.waitUntil(lambda: window.replies.running is None, timeout=20000)
    file = tmp_path / "<b>x<.txt"
    file.write_text("text")
    window.composer.attach([file, tmp_path / "<img>"])
    assert window.composer.files.chips and "<img>" in window.composer.hint.text()
    assert rich_texts(window) == []
    with qtbot.waitSignal(window.exchange.ended, timeout=20000):
        window.exchange.export_to(chat, tmp_path / "<i>a", markdown=True)
    assert "<i>" in window.status.text() and rich_texts(window) == []
    window.commands.palette.trigger()
    assert window.dialogs.palette is not None
    window.dialogs.palette.field.setText("bold")
    assert rich_texts(window.dialogs.palette) == []
    window.book.select(chat)
    window.open_compare()
    assert window.compare_dialog is not None and rich_texts(window.compare_dialog) == []
    assert window.comparison()[-1].role is Role.USER
