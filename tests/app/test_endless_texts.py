"""Texts of a hundred thousand characters: never laid out at once, and another theme touches only what is seen."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QApplication, QScrollArea
from pytestqt.qtbot import QtBot
from shiboken6 import isValid

from app import style
from app.chat.held_text import HeldText
from app.chat.message_body import MessageBody
from app.chat.message_text import MessageText
from app.chat.text_flow import FAR
from app.chat.token_marks import TokenMarks
from app.markdown.blocks import LONGEST_ROW, Kind
from app.markdown.plain import plain_text
from app.markdown.reading import Reader
from app.markdown.sections import LONG_LINE, PIECE, cut_in_line, pieces
from app.theme import ThemeChoice

ENDLESS = {
    "word": "abcdefghij" * 10_000,
    "digits": "1234567890" * 10_000,
    "prose": "The quick brown fox jumps over the lazy dog. " * 2200,
    "Japanese": "これは長い文章です。" * 10_000,
}


@pytest.mark.parametrize("kind", ENDLESS)
def test_an_endless_line_is_cut_and_stays_a_paragraph(kind: str) -> None:
    text = "Before.\n\n" + ENDLESS[kind]
    cuts = [*pieces(text), len(text)]
    assert max(end - begin for begin, end in itertools.pairwise(cuts)) < 2 * PIECE
    for begin, end in itertools.pairwise(cuts):
        tops = Reader().read(text[begin:end])
        assert {block.kind for top in tops for block in top.blocks} == {Kind.PARAGRAPH}
        assert all(span.text in text for top in tops for line in top.blocks[-1].lines for span in line)
    if kind == "prose":
        assert all(text[cut - 2 : cut] == ". " for cut in cuts[2:-1]), "sentences stay whole"


def test_lists_code_and_shorter_lines_are_not_cut_within() -> None:
    word = "abcdefghij" * 1000
    assert cut_in_line(word[: LONG_LINE - 1], 3000) is None
    for begin in ("- ", "> ", "| ", "# ", "    "):
        assert cut_in_line(begin + word, 3000) is None
    assert min(pieces(f"```\n{word}\n```\n\n" + "Text. " * 100)[1:]) > len(word)


@pytest.mark.parametrize("form", ["{}", "Before.\n\n{}\n\nBehind.", "- a\n- {}\n- b", "> {}", "```json\n[\n{}\n]\n```\n", "    {}"])
def test_a_line_is_laid_out_in_rows_and_stays_one(qtbot: QtBot, look: QApplication, form: str) -> None:
    line = "abcd efgh " * 900 + "x" * 9000
    source = form.format(line)
    widget = MessageText(TokenMarks())
    qtbot.addWidget(widget)
    widget.resize(500, 50)
    widget.show()
    widget.build()
    for begin in range(0, len(source), 1700):
        widget.feed(source[begin : begin + 1700])
    widget.settle()
    block = widget.document().begin()
    while block.isValid():
        assert block.length() <= LONGEST_ROW + 1
        block = block.next()
    whole = [block for top in Reader().read(source) for block in top.blocks]
    assert [unit.block for unit in widget.writer.units] == whole, "read in parts it is what it is as a whole"
    widget.selectAll()
    assert line in widget.createMimeDataFromSelection().text() and line in plain_text(source)
    if "json" in form:
        assert list(widget.code_blocks()) == [f"[\n{line}\n]"]
        (button,) = widget.stops()[1:]
        button.click()  # type: ignore[attr-defined]
        assert QGuiApplication.clipboard().text() == f"[\n{line}\n]"


def test_a_prompt_is_laid_out_in_rows_and_copied_as_typed(qtbot: QtBot, look: QApplication) -> None:
    typed = "One\n" + "word " * 3000 + "\n```\n" + "y" * 9000 + "\n```\nend"
    widget = MessageText(TokenMarks(), literal=True)
    qtbot.addWidget(widget)
    widget.hold(typed, 0)
    widget.build()
    assert max(len(row.spans[0].text) for row in widget.writer.rows if row.spans) <= LONGEST_ROW
    widget.selectAll()
    copied = widget.createMimeDataFromSelection().text()
    assert copied.split() == typed.replace("```", "").split() and "word " * 3000 in copied


@pytest.fixture
def body(qtbot: QtBot, look: QApplication) -> Iterator[MessageBody]:
    area = QScrollArea()
    area.setWidgetResizable(True)
    body = MessageBody("Reply")
    area.setWidget(body)
    qtbot.addWidget(area)
    area.resize(700, 500)
    area.show()
    yield body
    assert isValid(area)


def test_an_endless_line_that_streams_in_goes_on_in_another_piece(body: MessageBody) -> None:
    text = "Before.\n\n" + ENDLESS["prose"][:30_000]
    for end in range(500, len(text) + 1, 500):
        body.show_text(text[:end], running=True)
        body.realise(0, 10**6)
    body.show_text(text)
    assert body.answer.text == text
    assert max(len(piece.source()) for piece in body.pieces()) <= LONG_LINE + 1500
    shown = " ".join(piece.toPlainText() for piece in body.pieces())
    assert shown.split() == text.split()
    code = "```\n" + "abcdefghij " * 1000
    body.show_text(code, running=True)
    assert len(body.pieces()) == 1, "code stays in one"


def test_another_theme_colours_what_is_seen_and_the_rest_when_it_is(
    qtbot: QtBot, body: MessageBody, qapp: QApplication, monkeypatch: pytest.MonkeyPatch
) -> None:
    body.show_text("A paragraph with `code` in it.\n\n" * 1500)
    body.realise(0, 10**6)
    assert len(body.pieces()) > 8 and all(piece.is_built for piece in body.pieces())

    def seen() -> list[MessageText]:
        return [piece for piece in body.pieces() if not piece.visibleRegion().isEmpty()]

    qtbot.waitUntil(lambda: 1 <= len(seen()) < 4, timeout=20000)  # once everything is laid out
    coloured: list[MessageText] = []
    real = MessageText.freshen

    def count(piece: MessageText) -> None:
        if piece._stale:
            coloured.append(piece)
        real(piece)

    monkeypatch.setattr(MessageText, "freshen", count)
    style.apply(qapp, ThemeChoice.DARK, None)
    qapp.processEvents()
    coloured.sort(key=body.pieces().index)
    assert coloured == seen(), "each once, and no other"
    body.realise(0, 10**6)
    assert sorted(coloured, key=body.pieces().index) == body.pieces()


def test_what_is_far_away_is_let_go_of_and_nothing_moves(qtbot: QtBot, body: MessageBody) -> None:
    body.show_text("A paragraph of some words, which is one of many.\n\n" * 2000)
    body.realise(0, 10**6)
    flow = body.answer
    qtbot.waitUntil(lambda: flow.pieces[-1].y() > 2 * FAR, timeout=20000)  # once everything is laid out
    before = [(piece.y(), piece.height(), piece.source()) for piece in flow.pieces]
    chosen = next(piece for piece in flow.pieces if piece.y() > FAR + 1000)
    assert isinstance(chosen, MessageText)
    chosen.selectAll()
    far = [place for place, piece in enumerate(flow.pieces) if piece.y() > 500 + FAR and piece is not chosen][:-1]
    for _ in flow.pieces:
        body.realise(0, 500)
    held = [place for place, piece in enumerate(flow.pieces) if not piece.is_built]
    assert held == far and len(held) > 5, "but for what is selected, and the last, which may grow"
    qtbot.wait(1)
    assert [(piece.y(), piece.height(), piece.source()) for piece in flow.pieces] == before
    y = flow.pieces[held[0]].y()
    assert body.realise(y, y + 10) and flow.pieces[held[0]].is_built
    qtbot.waitUntil(lambda: (flow.pieces[held[0]].y(), flow.pieces[held[0]].height()) == before[held[0]][:2], timeout=20000)


def test_a_held_text_is_built_when_the_keyboard_comes_to_it(qtbot: QtBot, body: MessageBody) -> None:
    body.show_text("A paragraph.\n\n```python\nx = 1\n```\n\n" * 300)
    body.activateWindow()
    held = body.answer.pieces[1]
    assert isinstance(held, HeldText) and held.accessibleName() == "Reply, part 2"
    held.setFocus()
    qtbot.waitUntil(lambda: body.answer.pieces[1].is_built, timeout=20000)
    made = body.answer.pieces[1]
    assert made.hasFocus() and made.accessibleName() == "Reply, part 2" and held.became is made
