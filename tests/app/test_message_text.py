"""Literal text, appended in any pieces, with marks that are not part of it."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QRect, Qt
from PySide6.QtGui import QColor, QTextBlockFormat, QTextCursor
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app import style, theme
from app.chat.conversation import Run
from app.chat.message_text import MessageText, displayed, units
from engine.protocol import Origin

HOSTILE = (
    "<script>alert(1)</script> <img src=http://example.invalid/x.png> <b>bold</b> &amp; "
    '<a href="file:///etc/passwd">link</a>\n# heading\n**strong** [link](http://example.invalid) ![i](x)\n'
)
SAMPLES = [
    "One line",
    "Two\nlines\n",
    "\n\n\nempty lines\n\n",
    HOSTILE,
    "Tabs\tand  double  spaces\u00a0and nbsp",
    "Emoji 😀👩‍🚀 combining é, العربية, 日本語",
    "```python\ndef f():\n    return 1\n```\nafter\n~~~\ntilde\n~~~\n",
]


@pytest.fixture
def text(qtbot: QtBot, look: QApplication) -> MessageText:
    widget = MessageText()
    qtbot.addWidget(widget)
    widget.resize(500, 50)
    widget.show()
    return widget


def raw(widget: MessageText) -> str:
    """The document's own text, with block separators as newlines."""
    cursor = QTextCursor(widget.document())
    cursor.select(QTextCursor.SelectionType.Document)
    return cursor.selectedText().replace("\u2029", "\n")


@pytest.mark.parametrize("sample", SAMPLES)
@pytest.mark.parametrize("size", [1, 3, 1000])
def test_text_is_shown_as_written_however_it_is_cut(text: MessageText, sample: str, size: int) -> None:
    for begin in range(0, len(sample), size):
        text.append_text(sample[begin : begin + size])
    assert raw(text) == sample
    assert text.plain_text() == sample
    text.selectAll()
    data = text.createMimeDataFromSelection()
    assert data.text() == sample and not data.hasHtml()


def test_characters_with_a_meaning_to_qt_are_replaced(text: MessageText) -> None:
    text.append_text("a\r\nb\u2028c\0d\ufdd0e\ufffcf\ud800g")
    assert raw(text) == "a\nb\nc\ufffdd\ufffde\ufffdf\ufffdg"
    assert units(displayed("a😀\r\n")) == 4


def test_hostile_text_makes_no_format_and_loads_nothing(
    text: MessageText, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded: list[object] = []
    monkeypatch.setattr(MessageText, "loadResource", lambda *arguments: loaded.append(arguments))
    text.append_text(HOSTILE)
    text.grab()
    block = text.document().begin()
    while block.isValid():
        for fragment in block:
            made = fragment.fragment().charFormat()
            assert not made.isAnchor() and not made.isImageFormat() and made.fontWeight() <= 400
        block = block.next()
    assert loaded == []


def test_only_fences_switch_to_code(text: MessageText) -> None:
    text.append_text("before\n```py\nx = 1\n`` not a fence\n```\nafter `code`")
    kinds = []
    block = text.document().begin()
    while block.isValid():
        kinds.append(block.blockFormat().hasProperty(QTextBlockFormat.Property.BackgroundBrush))
        block = block.next()
    assert kinds == [False, True, True, True, True, False]


def mark_of(widget: MessageText, needle: str) -> tuple[bool, bool]:
    """Whether the first character of ``needle`` is marked with a background, and with dots."""
    position = units(widget.plain_text()[: widget.plain_text().index(needle)])
    block = widget.document().findBlock(position)
    for found in block.layout().formats():
        if found.start <= position - block.position() < found.start + found.length:
            made = found.format
            dotted = made.underlineStyle() == made.UnderlineStyle.DotLine
            return made.background().color().alpha() > 0 and made.hasProperty(
                made.Property.BackgroundBrush
            ), dotted
    return False, False


def fill(widget: MessageText) -> None:
    """😀 takes two positions in a document and one in Python: marks must not shift."""
    pieces = [("😀 The", Origin.TARGET, 0), (" fox", Origin.DRAFT, 1), (" jumps", Origin.DRAFT, 1),
              ("\n", Origin.TARGET, 1), ("far", Origin.DRAFT, 2), (" away", Origin.TARGET, 2)]  # fmt: skip
    position = 0
    for piece, origin, step in pieces:
        widget.append_text(piece, [Run(position, position + len(piece), origin, step)], position)
        position += len(piece)


def test_accepted_tokens_are_marked_by_more_than_colour(text: MessageText) -> None:
    fill(text)
    for accepted in ("fox", "jumps", "far"):
        assert mark_of(text, accepted) == (True, True), accepted
    for other in ("The", "away"):
        assert mark_of(text, other) == (False, False), other


def test_marks_are_a_layer_that_can_be_taken_away(text: MessageText) -> None:
    fill(text)
    before = text.document().toHtml()
    text.layer.set_visible(False)
    assert mark_of(text, "fox") == (False, False)
    assert text.document().toHtml() == before
    assert raw(text) == "😀 The fox jumps\nfar away"
    text.layer.set_visible(True)
    assert mark_of(text, "fox") == (True, True)


def test_a_step_can_be_pointed_at(qtbot: QtBot, text: MessageText) -> None:
    fill(text)
    wanted = theme.tokens(text).step_fill

    def background(needle: str) -> QColor:
        position = units(text.plain_text()[: text.plain_text().index(needle)])
        block = text.document().findBlock(position)
        for found in block.layout().formats():
            if found.start <= position - block.position() < found.start + found.length:
                return found.format.background().color()
        return QColor()

    with qtbot.waitSignal(text.position_shown) as shown:
        text.point_at(2)
    assert isinstance(shown.args[0], QRect) and shown.args[0].top() > 0
    assert background("far") == wanted and background("away") == wanted
    assert background("fox") != wanted
    text.layer.set_visible(False)
    assert background("away") == wanted, "pointing at a step works without the marks as well"
    text.point_at(None)
    assert background("far") != wanted


def test_marks_follow_the_theme(text: MessageText, look: QApplication) -> None:
    fill(text)
    style.apply(look, theme.ThemeChoice.DARK, None)
    block = text.document().begin()
    colours = {each.format.background().color().name() for each in block.layout().formats()}
    assert colours == {theme.DARK.accepted_fill.name()}


def test_the_height_follows_the_text(text: MessageText) -> None:
    heights = [text.height()]
    for _ in range(3):
        text.append_text("a line that is long enough to wrap at this width, or nearly so, I would say\n")
        heights.append(text.height())
    assert heights == sorted(set(heights))
    tall = text.height()
    text.resize(180, 50)
    assert text.height() > tall


def test_appending_is_one_edit(text: MessageText) -> None:
    text.append_text("start")
    edits: list[tuple[int, int, int]] = []
    text.document().contentsChange.connect(lambda *change: edits.append(change))
    text.append_text(" and\nthree\nlines")
    assert len(edits) == 1 and edits[0][0] == 5, "an append must not touch what was there"


def test_tokens_explain_themselves(qtbot: QtBot, text: MessageText) -> None:
    fill(text)
    cursor = QTextCursor(text.document())
    cursor.setPosition(units("😀 The f"))
    point = text.cursorRect(cursor).center()
    assert text.explain(point) == "Step 1: drafted by the head, accepted by the target"
    with qtbot.waitSignal(text.step_clicked) as clicked:
        qtbot.mouseClick(text.viewport(), Qt.MouseButton.LeftButton, pos=point)
    assert clicked.args == [1]
