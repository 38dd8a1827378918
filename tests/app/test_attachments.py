"""Text files in a prompt: read with care, part of its text, and found in it again."""

from __future__ import annotations

from pathlib import Path

import pytest
from PySide6.QtCore import QMimeData, QPoint, QPointF, Qt, QUrl
from PySide6.QtGui import QDragEnterEvent, QDropEvent
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app.banner import Banner, Offer
from app.chat.attachments import MOST_BYTES, Attachment, AttachmentError, joined, parted, read
from app.chat.composer import Composer

FILES = [
    Attachment("notes.txt", "one\ntwo"),
    Attachment("main.py", "print('```')\n```\nx\n````"),
    Attachment("leer.md", ""),
    Attachment("名前 ü.txt", "```file other.txt\ninner\n```"),
]


@pytest.mark.parametrize("typed", ["", "Look at this.", "Two\n\nparts\n```py\nx\n```", "ends with\n```file a.txt\nx\n```\nmore"])
@pytest.mark.parametrize("count", [0, 1, 2, 4])
def test_files_are_found_again(typed: str, count: int) -> None:
    text = joined(typed, FILES[:count])
    assert parted(text) == (typed, FILES[:count])


def test_text_that_only_looks_like_a_file_stays_text() -> None:
    for text in ("```file a.txt\nnot closed", "```file a.txt\nx\n```\nafter", "see ```file a.txt", "```file \nx\n```"):
        typed, files = parted(text)
        assert joined(typed, files) == text and not files


def test_a_file_is_read_as_text(tmp_path: Path) -> None:
    path = tmp_path / "größe.txt"
    path.write_bytes("\ufeffa\r\nb\r\n".encode())
    assert read(path) == Attachment("größe.txt", "a\nb")
    (tmp_path / "most").write_bytes(b"x" * MOST_BYTES)
    assert len(read(tmp_path / "most").text) == MOST_BYTES


@pytest.mark.parametrize("how", ["utf-8-sig", "utf-16", "utf-16-be", "utf-32"])
def test_a_file_that_says_how_it_is_written_is_read(tmp_path: Path, how: str) -> None:
    path = tmp_path / "from Windows.txt"
    mark = "\ufeff" if how == "utf-16-be" else ""
    path.write_bytes((mark + "Grüße 鷲\r\n\r\nEnd\r\n").encode(how))
    assert read(path).text == "Grüße 鷲\n\nEnd"


@pytest.mark.parametrize(
    ("content", "said"),
    [(b"", "is empty"), (b"\xef\xbb\xbf\n", "is empty"), (b"\xff\xfe\x00", "not text in UTF-8"), (b"a\0b", "not a text file"), (b"x" * (MOST_BYTES + 1), "256 kB"), (None, "not a file")],
)
def test_what_cannot_be_attached_is_said(
    qtbot: QtBot, look: QApplication, tmp_path: Path, content: bytes | None, said: str
) -> None:
    path = tmp_path / "data"
    path.mkdir() if content is None else path.write_bytes(content)
    with pytest.raises(AttachmentError, match=said):
        read(path)
    composer = Composer()
    qtbot.addWidget(composer)
    composer.show()
    composer.attach([path])
    assert said in composer.hint.text() and composer.text == ""
    qtbot.keyClicks(composer.edit, "x")
    assert said not in composer.hint.text()


def test_files_are_dropped_shown_and_taken_away(qtbot: QtBot, look: QApplication, tmp_path: Path) -> None:
    paths = [tmp_path / "a.txt", tmp_path / "b.txt"]
    for path in paths:
        path.write_text(path.stem * 3, "utf-8")
    composer = Composer()
    qtbot.addWidget(composer)
    composer.resize(600, 100)
    composer.show()
    assert not composer.send_button.isEnabled()
    data = QMimeData()
    data.setUrls([QUrl.fromLocalFile(str(path)) for path in paths])
    button, none = Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier
    enter = QDragEnterEvent(QPoint(9, 9), Qt.DropAction.CopyAction, data, button, none)
    composer.dragEnterEvent(enter)
    assert enter.isAccepted()
    composer.dropEvent(QDropEvent(QPointF(9, 9), Qt.DropAction.CopyAction, data, button, none))
    assert [chip.label.text() for chip in composer.files.chips] == ["a.txt", "b.txt"]
    assert composer.send_button.isEnabled(), "files alone can be sent"
    with qtbot.waitSignal(composer.text_changed) as changed:
        qtbot.mouseClick(composer.files.chips[0].button, Qt.MouseButton.LeftButton)
    assert changed.args == ["```file b.txt\nbbb\n```"]
    assert composer.files.chips[0].button.accessibleName() == "Take b.txt away"
    qtbot.keyClicks(composer.edit, "Why?")
    with qtbot.waitSignal(composer.submitted) as sent:
        qtbot.keyClick(composer.edit, Qt.Key.Key_Return)
    assert sent.args == ["Why?\n\n```file b.txt\nbbb\n```"]
    draft = composer.text
    composer.set_text("")
    assert composer.text == "" and not composer.files.isVisible()
    composer.set_text(draft)
    assert composer.edit.toPlainText() == "Why?" and len(composer.files.chips) == 1


def test_a_long_draft_is_seen_when_the_window_opens(qtbot: QtBot, look: QApplication) -> None:
    """It is there before the window has its width: a paragraph of 100,000 characters too."""
    composer = Composer()
    qtbot.addWidget(composer)
    composer.set_text("word " * 20_000)
    composer.resize(600, 300)
    composer.show()
    qtbot.waitUntil(lambda: composer.edit.height() > 7 * composer.edit.fontMetrics().lineSpacing(), timeout=20000)
    composer.set_text("word " * 30)
    several = composer.edit.height()
    composer.resize(300, 300)
    qtbot.waitUntil(lambda: composer.edit.height() > several, timeout=20000)


def test_buttons_of_a_banner_leave_its_text_room(qtbot: QtBot, look: QApplication) -> None:
    banner = Banner(error=True)
    qtbot.addWidget(banner)
    act = Offer("Restart engine", lambda: None)
    banner.say("The engine stopped unexpectedly. What was received is kept.", (act,), "details")
    for width, below in ((900, False), (380, True), (900, False)):
        banner.resize(width, 120)
        first = banner.offers()[0]
        qtbot.waitUntil(
            lambda below=below, first=first: (first.y() >= banner.label.geometry().bottom()) is below, timeout=20000
        )
        assert banner.label.width() > width / 2


def test_many_files_leave_the_window_its_size(qtbot: QtBot, look: QApplication, tmp_path: Path) -> None:
    composer = Composer()
    qtbot.addWidget(composer)
    composer.show()
    heights = []
    for count in (1, 4, 5, 40):
        composer.files.show_files([Attachment(f"{number}.txt", "text") for number in range(count)])
        heights.append(composer.files.height())
        assert composer.text.count("```file ") == count
    one, four, five, forty = heights
    chip = composer.files.chips[0]
    assert one >= chip.sizeHint().height() and four > 3 * one and five == forty < four
    qtbot.waitUntil(lambda: composer.files.verticalScrollBar().maximum() > 0, timeout=20000)
    assert composer.minimumSizeHint().height() < 300


def test_a_pasted_file_is_attached(qtbot: QtBot, look: QApplication, tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("text", "utf-8")
    composer = Composer()
    qtbot.addWidget(composer)
    data = QMimeData()
    data.setUrls([QUrl.fromLocalFile(str(path))])
    data.setText(str(path))
    composer.edit.insertFromMimeData(data)
    assert composer.edit.toPlainText() == "" and composer.text == "```file a.txt\ntext\n```"
