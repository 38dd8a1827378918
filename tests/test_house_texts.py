"""Nothing that a user reads in ``app`` is hard-coded: every text goes through ``app.language``."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
TRANSLATED = {"tr", "tr_n", "mark", "of_engine"}
SHOWING = {
    "setText", "setToolTip", "setStatusTip", "setWhatsThis", "setAccessibleName", "setAccessibleDescription",
    "setWindowTitle", "setPlaceholderText", "setTitle", "setLabelText", "setSuffix", "setPrefix",
    "setSpecialValueText", "setIconText", "setTabText", "setHeaderLabels", "setNameFilters",
    "setInformativeText", "addAction", "addMenu", "addRow", "addItem", "addItems", "addButton", "addTab",
    "QLabel", "QPushButton", "QToolButton", "QCheckBox", "QRadioButton", "QGroupBox", "QAction", "QMenu",
    "QMessageBox", "QTreeWidgetItem", "Offer", "Stop", "Failed", "QAccessibleAnnouncementEvent",
}  # fmt: skip
"""Calls whose texts come onto the screen or to a screen reader."""
NAMES = {"Eyrie", "EAGLE", "Markdown", "Software", "hf"}
"""Said in every language as they are, or read by programs."""
LEFT_OUT = {
    "application.py": "speaks to a terminal",
    "screenshots.py": "speaks to a terminal",
    "transport.py": "its texts are details for a report",
    "rehearsal.py": "plays the part of the engine",
    "rehearsal_methods.py": "plays the part of the engine",
    "sample.py": "plays the part of a model",
}


def hard_coded(source: str) -> list[str]:
    """Texts of a file of ``app`` that do not go through ``tr``, as ``line N: text``."""
    found: dict[tuple[int, str], None] = {}
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and _called(node) in SHOWING:
            for argument in node.args:
                for literal in _literals(argument):
                    if _has_words(literal.value):
                        found[literal.lineno, literal.value] = None
    for literal in _sentences(tree):
        found[literal.lineno, literal.value] = None
    return [f"line {line}: {text}" for line, text in sorted(found)]


def _called(node: ast.Call) -> str:
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def _literals(node: ast.AST) -> Iterator[ast.Constant]:
    """Text literals whose value gets into ``node``'s; what other functions are given stays theirs."""
    if isinstance(node, ast.Constant):
        if isinstance(node.value, str):
            yield node
    elif isinstance(node, ast.Call):
        if isinstance(node.func, ast.Attribute) and node.func.attr in ("format", "join", "strip", "replace"):
            yield from _literals(node.func.value)
            if node.func.attr == "join":
                yield from _literals(node.args[0])
    elif isinstance(node, ast.IfExp):
        yield from _literals(node.body)
        yield from _literals(node.orelse)
    elif isinstance(node, ast.expr) and not isinstance(node, ast.Compare | ast.Subscript | ast.Lambda):
        for child in ast.iter_child_nodes(node):
            yield from _literals(child)


def _has_words(text: str) -> bool:
    return bool(set(re.findall(r"[^\W\d_]{2,}", re.sub(r"\{[^}]*\}", "", text))) - NAMES)


def _sentences(node: ast.AST) -> Iterator[ast.Constant]:
    """Whole sentences anywhere but in docstrings, logs, assertions and errors of programming."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return
    if isinstance(node, ast.Assert):
        return
    if isinstance(node, ast.Raise) and re.match(
        r"(Value|Type|Key|Runtime|Timeout|OS)Error", ast.unparse(node)[6:]
    ):
        return
    if isinstance(node, ast.Call) and (
        _called(node) in TRANSLATED or ast.unparse(node.func).startswith(("log.", "logging."))
    ):
        return
    if isinstance(node, ast.Constant):
        if isinstance(node.value, str) and re.fullmatch(r"[A-Z“][^\n]* [^\n]*(?:[.!]|\w\?)", node.value.strip()):
            yield node
        return
    for child in ast.iter_child_nodes(node):
        yield from _sentences(child)


def test_no_text_of_the_application_is_hard_coded() -> None:
    found = {}
    for path in sorted((ROOT / "app").rglob("*.py")):
        name = path.relative_to(ROOT).as_posix()
        if path.name not in LEFT_OUT and (texts := hard_coded(path.read_text("utf-8"))):
            found[name] = texts
    assert found == {}


@pytest.mark.parametrize(
    "source",
    [
        'label = QLabel("Open a file")',
        'button.setToolTip(f"{name} is here")',
        'button.setText("Done" if last else tr("Tour", "Next"))',
        'self.setAccessibleName("Chat: {}".format(name))',
        'box.addButton("Close", Role.AcceptRole)',
        'table.setHeaderLabels([tr("A", "Command"), "Keys"])',
        'label.setText(", ".join((first, "nothing")))',
        'HELP = "This is what it does."',
        'show(Failed("It broke.", "Try again."))',
    ],
)
def test_a_hard_coded_text_is_found(source: str) -> None:
    assert hard_coded(source) != []


@pytest.mark.parametrize(
    "source",
    [
        'label = QLabel(tr("File", "Open a file"))',
        'label.setText(tr("A", "{name} is here").format(name=name))',
        'label.setText(f"{first} · {second}")',
        'label.setText("→ 100 %")',
        'self.setWindowTitle("Eyrie")',
        'label.setProperty("textRole", "small")',
        'label.setText(settings["title"] if state == "open" else shown("title"))',
        'HELP = mark("A", "This is what it does.")',
        'log.warning("This went wrong: it is broken.")',
        '"""A docstring of two words."""',
        'raise ValueError("This is a fault of the program.")',
    ],
)
def test_a_translated_or_wordless_text_is_not_found(source: str) -> None:
    assert hard_coded(source) == []
