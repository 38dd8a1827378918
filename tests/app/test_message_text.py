"""Text of a message: rendered without HTML, with marks that are not part of it."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QPoint, QRect, Qt
from PySide6.QtGui import QColor, QGuiApplication, QTextCursor
from PySide6.QtWidgets import QApplication, QToolButton
from pytestqt.qtbot import QtBot

from app import style, theme
from app.chat.conversation import Run
from app.chat.highlight import overlaid
from app.chat.message_text import MessageText
from app.chat.token_marks import TokenMarks
from app.markdown.blocks import Kind, displayed, units
from engine.protocol import Origin
from tests.app.markdown_samples import FRAGMENTS

HOSTILE = (
    "<script>alert(1)</script> <img src=http://example.invalid/x.png> <b>bold</b> &amp; "
    '<a href="file:///etc/passwd">link</a>\n![i](http://example.invalid/x.png) [l](http://example.invalid)\n'
)


@pytest.fixture
def marks() -> TokenMarks:
    return TokenMarks()


@pytest.fixture
def text(qtbot: QtBot, look: QApplication, marks: TokenMarks) -> MessageText:
    widget = MessageText(marks)
    qtbot.addWidget(widget)
    widget.resize(500, 50)
    widget.show()
    widget.build()
    return widget


@pytest.fixture
def prompt(qtbot: QtBot, look: QApplication) -> MessageText:
    widget = MessageText(TokenMarks(), literal=True)
    qtbot.addWidget(widget)
    widget.resize(500, 50)
    widget.show()
    return widget


def copied(widget: MessageText) -> str:
    widget.selectAll()
    data = widget.createMimeDataFromSelection()
    assert not data.hasHtml()
    return data.text()


@pytest.mark.parametrize(
    "sample",
    ["One line", "Two\nlines\n", "\n\n\nempty lines\n\n", HOSTILE, "# no heading\n- *no* list",
     "Tabs\tand  double  spaces\u00a0and nbsp", "Emoji 😀👩‍🚀 combining é, العربية, 日本語"],
)  # fmt: skip
def test_a_prompt_is_shown_as_typed(prompt: MessageText, sample: str) -> None:
    prompt.hold(sample, 0)
    prompt.build()
    assert prompt.document().toRawText().replace("\u2029", "\n") == sample
    assert copied(prompt) == prompt.source() == sample


def test_characters_with_a_meaning_to_qt_are_replaced(prompt: MessageText) -> None:
    hostile = "a\r\nb\u2028c\0d\ufdd0e\ufffcf\ud800g"
    prompt.hold(hostile, 0)
    prompt.build()
    assert prompt.toPlainText() == "a \nb\nc\ufffdd\ufffde\ufffdf\ufffdg"
    assert len(displayed(hostile)) == len(hostile), "offsets stay what they are"
    assert units("a😀") == 3


def test_hostile_text_makes_no_anchor_and_loads_nothing(text: MessageText, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded: list[object] = []
    monkeypatch.setattr(MessageText, "loadResource", lambda *arguments: loaded.append(arguments))
    text.feed(HOSTILE)
    text.grab()
    block = text.document().begin()
    while block.isValid():
        for fragment in block:
            made = fragment.fragment().charFormat()
            assert not made.isAnchor() and not made.isImageFormat() and made.fontWeight() <= 400
        block = block.next()
    assert loaded == []
    assert "<script>alert(1)</script>" in text.toPlainText()


def test_links_and_images_are_only_told_of(qtbot: QtBot, text: MessageText) -> None:
    text.feed("See [here](https://example.invalid/a) or ![a cat](http://example.invalid/cat.png).")
    text.settle()
    for word, address in (("here", "https://example.invalid/a"), ("a cat", "http://example.invalid/cat.png")):
        point = point_of(text, word)
        assert address in text.explain(point)
        with qtbot.waitSignal(text.link_clicked) as clicked:
            qtbot.mouseClick(text.viewport(), Qt.MouseButton.LeftButton, pos=point)
        assert clicked.args == [address]
        move_to(text, word)
        with qtbot.waitSignal(text.link_clicked) as clicked:
            qtbot.keyClick(text, Qt.Key.Key_Return)
        assert clicked.args == [address]


def position_of(widget: MessageText, needle: str) -> int:
    shown = widget.document().toRawText().replace("\u2029", "\n").replace("\u2028", "\n")
    return units(shown[: shown.index(needle)])


def move_to(widget: MessageText, needle: str) -> None:
    cursor = QTextCursor(widget.document())
    cursor.setPosition(position_of(widget, needle) + 1)
    widget.setTextCursor(cursor)


def point_of(widget: MessageText, needle: str) -> QPoint:
    cursor = QTextCursor(widget.document())
    cursor.setPosition(position_of(widget, needle) + 1)
    return widget.cursorRect(cursor).center()


def mark_of(widget: MessageText, needle: str) -> tuple[bool, bool]:
    """Whether the first character of ``needle`` is marked with a background, and with dots."""
    position = position_of(widget, needle)
    block = widget.document().findBlock(position)
    for found in block.layout().formats():
        if found.start <= position - block.position() < found.start + found.length:
            made = found.format
            dotted = made.underlineStyle() == made.UnderlineStyle.DotLine
            return made.hasProperty(made.Property.BackgroundBrush), dotted
    return False, False


def fill(widget: MessageText, marks: TokenMarks) -> None:
    """😀 takes two positions in a document and one in Python, and marks of Markdown take none."""
    pieces = [("😀 **The", Origin.TARGET, 0), (" fox", Origin.DRAFT, 1), ("** jumps", Origin.DRAFT, 1),
              ("\n\n", Origin.TARGET, 1), ("- far", Origin.DRAFT, 2), (" away", Origin.TARGET, 2)]  # fmt: skip
    position, runs = 0, []
    for piece, origin, step in pieces:
        runs.append(Run(position, position + len(piece), origin, step))
        marks.follow(runs, len(runs) - 1)
        widget.feed(piece)
        position += len(piece)
    widget.settle()


def test_accepted_tokens_are_marked_by_more_than_colour(text: MessageText, marks: TokenMarks) -> None:
    fill(text, marks)
    for accepted in ("fox", "jumps", "far"):
        assert mark_of(text, accepted) == (True, True), accepted
    for other in ("The", "away"):
        assert mark_of(text, other) == (False, False), other


def test_marks_are_a_layer_that_can_be_taken_away(text: MessageText, marks: TokenMarks) -> None:
    fill(text, marks)
    before = text.document().toHtml()
    text.set_highlight(False)
    assert mark_of(text, "fox") == (False, False)
    assert text.document().toHtml() == before
    assert copied(text) == "😀 The fox jumps\n\n• far away"
    text.set_highlight(True)
    assert mark_of(text, "fox") == (True, True)


def test_a_step_can_be_pointed_at(qtbot: QtBot, text: MessageText, marks: TokenMarks) -> None:
    fill(text, marks)
    wanted = theme.tokens(text).step_fill

    def background(needle: str) -> QColor:
        position = position_of(text, needle)
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
    text.set_highlight(False)
    assert background("away") == wanted, "pointing at a step works without the marks as well"
    text.point_at(None)
    assert background("far") != wanted


def test_a_mark_lies_over_the_colours_of_code() -> None:
    base = [(2, 3, "keyword"), (8, 2, "string")]
    assert list(overlaid(base, 0, 12)) == [
        (0, 2, ""), (2, 5, "keyword"), (5, 8, ""), (8, 10, "string"), (10, 12, "")
    ]  # fmt: skip
    assert list(overlaid(base, 3, 4)) == [(3, 4, "keyword")]


def test_marks_follow_the_theme(text: MessageText, marks: TokenMarks, look: QApplication) -> None:
    fill(text, marks)
    style.apply(look, theme.ThemeChoice.DARK, None)
    block = text.document().begin()
    colours = {each.format.background().color().name() for each in block.layout().formats()}
    assert colours == {theme.DARK.accepted_fill.name()}


def test_the_height_follows_the_text(text: MessageText) -> None:
    heights = [text.height()]
    for _ in range(3):
        text.feed("a line that is long enough to wrap at this width, or nearly so, I would say\n")
        text.settle()
        heights.append(text.height())
    assert heights == sorted(set(heights))
    tall = text.height()
    text.resize(180, 50)
    assert text.height() > tall


def test_tokens_explain_themselves(qtbot: QtBot, text: MessageText, marks: TokenMarks) -> None:
    fill(text, marks)
    point = point_of(text, "fox")
    assert text.explain(point) == "Step 1: drafted, and accepted by the target"
    with qtbot.waitSignal(text.step_clicked) as clicked:
        qtbot.mouseClick(text.viewport(), Qt.MouseButton.LeftButton, pos=point)
    assert clicked.args[0] == 1 and text.source()[clicked.args[1]] in "fox"
    move_to(text, "away")
    with qtbot.waitSignal(text.step_clicked) as clicked:
        qtbot.keyClick(text, Qt.Key.Key_Return)
    assert clicked.args[0] == 2


def test_code_is_coloured_and_copied(qtbot: QtBot, text: MessageText) -> None:
    code = 'def f(x):\n    return "text"  # why'
    text.feed(f"Look:\n\n```python\n{code}\n```\n\nDone.")
    text.settle()
    (button,) = [each for each in text.findChildren(QToolButton) if each.isVisible()]
    assert button.accessibleName() == "Copy this code (python)"
    qtbot.mouseClick(button, Qt.MouseButton.LeftButton)
    assert QGuiApplication.clipboard().text() == code
    assert list(text.code_blocks()) == [code]
    named = theme.tokens(text)
    for word, ink in (("def", named.root), ('"text"', named.accepted), ("# why", named.muted)):
        position = position_of(text, word)
        block = text.document().findBlock(position)
        inks = [f.format.foreground().color() for f in block.layout().formats()
                if f.start <= position - block.position() < f.start + f.length]  # fmt: skip
        assert inks == [ink], word
    assert text.rect().contains(button.geometry()), "the button lies in the bar above its code"


def test_copying_keeps_lists_tables_and_code(text: MessageText) -> None:
    text.feed("1. one\n2. **two**\n   - deep\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n```\nx\n  y\n```\n\n> q\n")
    text.settle()
    assert copied(text) == "1. one\n2. two\n  ◦ deep\n\na\tb\n1\t2\n\nx\n  y\n\nq"


def test_everything_is_drawn(text: MessageText, marks: TokenMarks) -> None:
    """All kinds of blocks, in both directions of writing, painted once in each theme."""
    text.feed("".join(FRAGMENTS) + "\n\n- عنصر\n\n> اقتباس\n")
    text.settle()
    kinds = {unit.block.kind for unit in text.writer.units}
    assert kinds == set(Kind)
    image = text.grab().toImage()
    assert len({image.pixelColor(x, y).name() for x in range(0, image.width(), 3) for y in range(0, image.height(), 7)}) > 8


def test_a_held_text_takes_its_room_before_it_is_built(text: MessageText) -> None:
    source = "Some words that make a paragraph of a usual length here.\n\n" * 100
    text.hold(source, 0)
    assert not text.is_built and text.document().isEmpty()
    guessed = text.height()
    text.build()
    assert text.is_built and 0.5 < guessed / text.height() < 2


def test_the_finished_part_can_go_on_in_another_piece(text: MessageText) -> None:
    text.feed("One.\n\nTwo.\n\nThree **and\nmore")
    text.settle()
    cut = text.take_tail()
    assert cut == (12, "Three **and\nmore") and text.source() == "One.\n\nTwo.\n\n"
    assert text.toPlainText() == "One.\nTwo." and text.end == 12
