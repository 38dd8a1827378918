"""The collector of texts and the .ts files: what is found, what is kept, what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
import translations
from PySide6.QtCore import QTranslator
from translation_files import Entry, brought_up_to_date, faults, read, write
from translation_sources import ENGINE, Sources, collect_app, engine_texts


def found_in(source: str) -> Sources:
    found = Sources()
    collect_app(source, "app/some.py", found)
    return found


def test_the_texts_of_the_application_are_found() -> None:
    source = """
NAMES = {1: mark("Panel", "Root")}
label.setText(tr("Panel", "{count} of "
                          "{all}").format(count=1, all=2))
label.setToolTip(tr("Panel", NAMES[1]) + tr_n("Chats", "%n chat", "%n chats", n))
"""
    found = found_in(source)
    assert found.texts == {
        ("Panel", "Root"): False,
        ("Panel", "{count} of {all}"): False,
        ("Chats", "%n chats"): True,
    }
    assert found.faults == []


@pytest.mark.parametrize(
    "source",
    [
        'tr("A", f"{n} tokens")',
        'tr("A", "a" + b)',
        'tr("A", "{n}".format(n=1))',
        'tr(f"{a}", "b")',
        'tr("only")',
        'mark("A", NAME)',
        'tr_n("A", "one", "many")',
        'tr_n("A", ONE, "%n many", n)',
        'tr("A", "x %n"); tr_n("A", "x", "x %n", n)',
    ],
)
def test_a_call_that_cannot_be_collected_is_told(source: str) -> None:
    assert len(found_in(source).faults) == 1


def test_the_texts_of_the_engine_are_found() -> None:
    source = '''
"""A docstring that is a sentence."""
READING = "Reading the weights"
def f(path):
    """Another one. Of two sentences."""
    log.warning("This goes to the log only.")
    assert path, "This is a fault of the program."
    report(READING, 0.5)
    if not path:
        raise ValueError("nothing for people")
    raise ModelError(
        f"{path.name} has {n:,} tensors{'!' if n else ''}, where "
        f"{{{m}}} are expected.",
        "Choose another file. " + HINT,
    )
METHOD = MethodInfo("id", name="Fast", about="It is fast.", settings=(MethodSetting("n", "Nodes", "How many."),))
problem = Problem("kind", "It broke.", "Mend it." if mendable else "Buy a new one.")
why = f"{why} It runs plainly. {hint}"
KEYS = {"a key": 1, "Not a sentence": 2}
'''
    assert list(engine_texts(source)) == [
        "Reading the weights",
        "{0} has {1} tensors{2}, where {{{3}}} are expected.",
        "Choose another file. {0}",
        "Fast",
        "It is fast.",
        "Nodes",
        "How many.",
        "It broke.",
        "Mend it.",
        "Buy a new one.",
        "It runs plainly.",
    ]


def test_a_file_is_read_as_it_was_written(tmp_path: Path) -> None:
    entries = {
        ("A", "<b> & “c”\nnext"): Entry(("<b> & „c“\nnächste",)),
        ("A", "%n chats"): Entry(("%n Chat", "%n Chats"), plural=True),
        ("B", "not yet"): Entry(("",)),
    }
    path = tmp_path / "x.ts"
    write(path, "de", entries)
    assert read(path) == entries
    assert path.read_text(encoding="utf-8").count('type="unfinished"') == 1
    assert read(tmp_path / "none.ts") == {}


def test_what_is_translated_stays_and_what_is_gone_goes() -> None:
    entries = {
        ("A", "old"): Entry(("alt",)),
        ("A", "same"): Entry(("gleich",)),
        ("A", "one"): Entry(("eins",)),
    }
    texts = {("A", "same"): False, ("A", "one"): True, ("B", "new"): False}
    assert brought_up_to_date(entries, texts, "de") == {
        ("A", "same"): Entry(("gleich",)),
        ("A", "one"): Entry(("", ""), plural=True),
        ("B", "new"): Entry(("",)),
    }


@pytest.mark.parametrize(
    ("source", "entry"),
    [
        ("text", Entry(("",))),
        ("{a} of {b}", Entry(("{a} von",))),
        ("{a:.1f}", Entry(("{a:.2f}",))),
        ("{a}", Entry(("{a",))),
        ("%n chats", Entry(("%n Chats",), plural=True)),
        ("%n chats", Entry(("%n Chat", "Chats"), plural=True)),
        ("text", Entry(("Text ",))),
    ],
)
def test_a_wrong_translation_is_told(source: str, entry: Entry) -> None:
    assert len(list(faults("de", {("A", source): entry}))) == 1


@pytest.mark.parametrize(
    ("source", "entry"),
    [
        ("{a} of {b!r}", Entry(("{b!r}: {a}",))),
        ("{{0}} {1}", Entry(("{1} {{0}}",))),
        ("%n chats", Entry(("ein Chat", "%n Chats"), plural=True)),
        (" pt", Entry((" pt",))),
    ],
)
def test_a_right_translation_is_not(source: str, entry: Entry) -> None:
    assert list(faults("de", {("A", source): entry})) == []


def test_a_file_is_compiled_and_read_by_qt(tmp_path: Path) -> None:
    entries = {
        ("A", "Open"): Entry(("Öffnen",)),
        ("B", "Open"): Entry(("Offen",)),
        ("A", "%n chats"): Entry(("%n Chat", "%n Chats"), plural=True),
    }
    write(tmp_path / "x.ts", "de", entries)
    translations.compile_to_qm(tmp_path / "x.ts", tmp_path / "x.qm")
    translator = QTranslator()
    assert translator.load(str(tmp_path / "x.qm"))
    assert translator.translate("A", "Open") == "Öffnen"
    assert translator.translate("B", "Open") == "Offen"
    assert [translator.translate("A", "%n chats", "", n) for n in (0, 1, 2)] == [
        "%n Chats",
        "%n Chat",
        "%n Chats",
    ]
    assert translator.translate(ENGINE, "Open") == ""
