"""Formulas: set by another process, shown as their source where that fails."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator

import pytest
from PySide6.QtGui import QColor
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app.chat.formula_pictures import tex_of
from app.chat.message_text import MessageText
from app.chat.token_marks import TokenMarks
from app.markdown import formulas


@pytest.fixture
def setter(qtbot: QtBot) -> Iterator[formulas.FormulaSetter]:
    made = formulas.FormulaSetter()
    yield made
    made.close()


@pytest.mark.parametrize(
    ("source", "tex"),
    [("$x$", "x"), ("$$ x $$", "x"), ("\\(x\\)", "x"), ("\\[\nx\n\\]", "x"), ("$$\nx", ""), ("$$$$", ""), ("x", "")],
)
def test_marks_are_taken_off(source: str, tex: str) -> None:
    assert tex_of(source) == tex


def test_formulas_are_set_or_given_back(qtbot: QtBot, setter: formulas.FormulaSetter) -> None:
    asked = ["\\frac{a}{b}", "\\begin{pmatrix}1&2\\end{pmatrix}", "\\unknown x", "\\frac{", "漢", "x" * 10]
    assert all(setter.formula(tex, True) is None for tex in asked)
    qtbot.waitUntil(lambda: not setter.is_busy, timeout=20000)
    assert [setter.formula(tex, True) is not None for tex in asked] == [True, True, False, False, False, True]
    formula = setter.formula(asked[0], True)
    assert formula is not None and formula.height > formula.depth > 0
    placed = formula.placed(20.0, 4.0, 9.0)
    image = formula.image(placed, QColor("#ff0000"), 2.0)
    assert abs(image.width() - 2 * placed.width) <= 1
    reds = sum(image.pixelColor(x, y).red() > 128 for x in range(image.width()) for y in range(image.height()))
    assert reds > 50


def test_base_lines_meet() -> None:
    """Qt sets a picture on the font's descent, or half an x above the middle; the room added makes up for it."""
    for height, depth in ((20.0, 1.0), (40.0, 18.0), (60.0, 10.0)):
        placed = formulas.Formula("", 10.0, height, depth).placed(formulas.SIZE, 5.0, 9.0)
        above = placed.above + height - depth
        if placed.middle:
            assert above == pytest.approx((placed.whole_height + 4.5) / 2)
        else:
            assert placed.whole_height - above == pytest.approx(5.0)


def test_a_process_that_hangs_costs_one_formula(
    qtbot: QtBot, setter: formulas.FormulaSetter, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not hasattr(signal, "SIGSTOP"):
        pytest.skip("processes cannot be held here")
    monkeypatch.setattr(formulas, "SLOWEST_MS", 300)
    setter.formula("first", False)
    child = setter._child
    assert child is not None
    os.kill(child.process.pid, signal.SIGSTOP)
    setter.formula("x", False)
    monkeypatch.setattr(formulas, "SLOWEST_MS", 300)
    qtbot.waitUntil(lambda: setter._child is not child, timeout=20000)
    monkeypatch.setattr(formulas, "SLOWEST_MS", 20000)
    qtbot.waitUntil(lambda: not setter.is_busy, timeout=20000)
    assert setter.formula("first", False) is None and not setter.is_busy
    assert setter.formula("x", False) is not None
    assert child.process.poll() is not None


def test_pictures_with_anything_but_shapes_are_refused(setter: formulas.FormulaSetter) -> None:
    shapes = '<svg xmlns="http://www.w3.org/2000/svg"><path d="M 1 1 L 2 2"/><rect width="1"/></svg>'
    hostile = '<svg><image href="http://example.invalid/x.png"/></svg>'
    for number, (tex, svg) in enumerate((("a", hostile), ("b", shapes)), 1):
        setter._waiting[number] = (tex, False)
        setter._take({"id": number, "svg": svg, "width": 1, "height": 1, "depth": 0})
    assert setter.formula("a", False) is None and setter.formula("b", False) is not None
    assert not setter.is_busy


def test_a_text_gets_its_pictures(qtbot: QtBot, look: QApplication) -> None:
    widget = MessageText(TokenMarks())
    qtbot.addWidget(widget)
    widget.resize(500, 50)
    widget.show()
    widget.build()
    widget.feed("Before $\\frac{1}{2}$ and $\\nothing{x}$.\n\n$$\nE = mc^2\n$$\n")
    widget.settle()
    assert "$\\frac{1}{2}$" in widget.toPlainText(), "the source stands there until the picture comes"
    qtbot.waitUntil(lambda: widget.document().toRawText().count("\ufffc") == 2, timeout=20000)
    assert "$\\nothing{x}$" in widget.toPlainText()
    widget.selectAll()
    assert widget.createMimeDataFromSelection().text() == "Before $\\frac{1}{2}$ and $\\nothing{x}$.\n\n$$\nE = mc^2\n$$"


def test_the_window_does_not_load_the_library() -> None:
    """Setting takes tens of milliseconds of Python: it must stay out of this process."""
    import subprocess

    code = "import sys, app.main_window; sys.exit('ziamath' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
