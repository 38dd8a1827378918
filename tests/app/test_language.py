"""Texts in the user's language: which one, plural forms, and what a bad translation does."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from xml.sax.saxutils import escape

import pytest
from PySide6.QtCore import QLocale, QTranslator
from PySide6.QtWidgets import QApplication, QDialogButtonBox, QDoubleSpinBox, QMenu
from pytestqt.qtbot import QtBot

from app.client import DIED, RESTART, EngineClient
from app.language import engine_texts, fields_of, installing, mark, same_fields, tr, tr_n
from app.language.choice import OWN_NAMES, Language, best_of
from app.language.engine_texts import of_engine
from app.language.mnemonics import plain
from engine.protocol import Failed
from tests.app.conftest import OpenWindow
from tests.app.fake_engine import FakeEngine, Script, say


class Planted(QTranslator):
    """A translator with a few texts in it."""

    def __init__(self, texts: dict[tuple[str, str], str]) -> None:
        super().__init__()
        self._texts = texts

    def isEmpty(self) -> bool:
        return False

    def translate(self, context: str, text: str, comment: str = "", n: int = -1) -> str:  # type: ignore[override]
        return self._texts.get((context, text), "")


@pytest.fixture
def planted(qapp: QApplication) -> Iterator[dict[tuple[str, str], str]]:
    texts: dict[tuple[str, str], str] = {}
    translator = Planted(texts)
    qapp.installTranslator(translator)
    yield texts
    qapp.removeTranslator(translator)


def test_a_text_is_translated_in_its_context(planted: dict[tuple[str, str], str]) -> None:
    planted["Panel", "Open"] = "Offen"
    planted["File", "Open"] = "Öffnen"
    assert (tr("Panel", "Open"), tr("File", "Open"), tr("Other", "Open")) == ("Offen", "Öffnen", "Open")
    assert tr("File", mark("File", "Open")) == "Öffnen"


@pytest.mark.parametrize(
    "broken",
    ["{n} Token", "Token", "{count} {count} Token", "{count:d} Token", "{count!r} Token", "{count Token"],
)
def test_a_translation_with_other_placeholders_is_not_used(
    planted: dict[tuple[str, str], str], broken: str
) -> None:
    planted["Panel", "{count} tokens"] = broken
    assert tr("Panel", "{count} tokens").format(count=3) == "3 tokens"


def test_placeholders_may_change_their_order(planted: dict[tuple[str, str], str]) -> None:
    planted["Panel", "{a:.1f} of {b}"] = "von {b}: {a:.1f}"
    assert tr("Panel", "{a:.1f} of {b}").format(a=1, b="x") == "von x: 1.0"


@pytest.mark.parametrize(("n", "text"), [(0, "0 chats"), (1, "1 chat"), (2, "2 chats")])
def test_english_has_two_forms(qapp: QApplication, n: int, text: str) -> None:
    assert tr_n("Chats", "%n chat", "%n chats", n) == text


def test_a_number_that_qt_has_no_room_for(qapp: QApplication) -> None:
    assert tr_n("Hub", "%n like", "%n likes", 10**15) == f"{10**15} likes"


def test_plural_forms_of_a_language_and_a_broken_one(planted: dict[tuple[str, str], str]) -> None:
    planted["Chats", "%n chats in {folder}"] = "%n Chats in {folder}"
    assert tr_n("Chats", "%n chat in {folder}", "%n chats in {folder}", 1) == "1 Chats in {folder}"
    planted["Chats", "%n chats in {folder}"] = "%n Chats in {Ordner}"
    assert tr_n("Chats", "%n chat in {folder}", "%n chats in {folder}", 1) == "1 chat in {folder}"


def test_braces_that_are_no_placeholders() -> None:
    assert fields_of("{{0}} {a:.2f}") == [("a", ".2f", "")]
    assert same_fields("a } b", "x } y")
    assert not same_fields("a b", "x } y")


@pytest.mark.parametrize(
    ("wanted", "language"),
    [
        (["de-AT", "de", "en"], Language.GERMAN),
        (["fr-FR", "fr", "ja-JP"], Language.JAPANESE),
        (["zh-Hans-CN"], Language.CHINESE),
        (["zh"], Language.CHINESE),
        (["zh-Hant-TW", "zh-TW", "en-GB"], Language.ENGLISH),
        (["en-US", "de"], Language.ENGLISH),
        (["C"], Language.ENGLISH),
        ([], Language.ENGLISH),
    ],
)
def test_the_systems_language(wanted: list[str], language: Language) -> None:
    assert best_of(wanted) is language


@pytest.mark.parametrize(
    ("text", "shown"),
    [("&Save as…", "Save as"), ("設定(&S)…", "設定"), ("Cut && pas&te", "Cut & paste"), ("A (b)", "A (b)")],
)
def test_a_menus_text_without_its_mnemonic(text: str, shown: str) -> None:
    assert plain(text) == shown


@pytest.fixture
def german(
    planted: dict[tuple[str, str], str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., None]:
    """``german({source: translation})``: what the engine can say, and how that is in German."""

    def say(texts: dict[str, str]) -> None:
        messages = "".join(f"<message><source>{escape(text)}</source></message>" for text in texts)
        file = f"<TS><context><name>engine</name>{messages}</context></TS>"
        (tmp_path / "eyrie_de.ts").write_text(file, encoding="utf-8")
        planted.update({("engine", source): translated for source, translated in texts.items()})

    monkeypatch.setattr(engine_texts, "folder", lambda: tmp_path)
    monkeypatch.setattr(engine_texts, "shown", lambda: Language.GERMAN)
    engine_texts.templates.cache_clear()
    engine_texts._translated.cache_clear()
    return say


def test_the_engines_texts_are_found_with_their_fields_filled_in(german: Callable[..., None]) -> None:
    german(
        {
            "No model is loaded.": "Kein Modell geladen.",
            "{0} is damaged: {1}": "{1}, also ist {0} beschädigt.",
            "The file {0} is damaged: {1}": "Datei {0}: {1}",
            "it holds {{{0}}}.": "es enthält {{{0}}}.",
            "broken {0} here": "kaputt {1} da",
        }
    )
    assert of_engine("No model is loaded.") == "Kein Modell geladen."
    assert of_engine("The file a {b} c is damaged: line 1\nline 2") == "Datei a {b} c: line 1\nline 2"
    assert of_engine("The file x is damaged: it holds {0}.") == "Datei x: es enthält {0}."
    assert of_engine("model is damaged: too short") == "too short, also ist model beschädigt."
    assert of_engine("No model is loaded. Something new. No model is loaded.") == (
        "Kein Modell geladen. Something new. Kein Modell geladen."
    )
    assert of_engine("Nothing of this is known.") == "Nothing of this is known."
    assert of_engine("broken 5 here") == "broken 5 here"
    assert of_engine("") == ""


@pytest.fixture
def english_again(qapp: QApplication) -> Iterator[None]:
    before = QLocale()
    yield
    installing.install(qapp, Language.ENGLISH)
    QLocale.setDefault(before)


@pytest.mark.parametrize(
    ("language", "close", "number"),
    [
        (Language.GERMAN, "Schließen", "0,50"),
        (Language.JAPANESE, "閉じる", "0.50"),
        (Language.CHINESE, "关闭", "0.50"),
    ],
)
def test_a_language_is_put_in_force_and_taken_back(
    qapp: QApplication, qtbot: QtBot, english_again: None, language: Language, close: str, number: str
) -> None:
    assert installing.install(qapp, language) is language
    box, field = QDialogButtonBox(QDialogButtonBox.StandardButton.Close), QDoubleSpinBox()
    qtbot.addWidget(box)
    qtbot.addWidget(field)
    field.setValue(0.5)
    assert box.button(QDialogButtonBox.StandardButton.Close).text().startswith(close)
    if language is Language.GERMAN:
        assert tr("Menu", "&New chat") == "&Neuer Chat"
    assert field.text() == number
    installing.install(qapp, Language.ENGLISH)
    assert tr("Menu", "&New chat") == "&New chat"


def test_what_is_kept_with_replies_is_english_and_shown_in_every_language(
    qapp: QApplication, english_again: None
) -> None:
    """A reply that a dying engine has left is read again under another language."""
    installing.install(qapp, Language.GERMAN)
    client = EngineClient(FakeEngine(Script(say(""))).transport)
    failures: list[Failed] = []
    client.failed.connect(failures.append)
    client._active = {"r": None}
    client._abandon_replies("")
    (failure,) = failures
    assert (failure.message, failure.next_step) == (DIED, RESTART)
    assert of_engine(DIED) == "Die Engine wurde unerwartet beendet." and of_engine(RESTART) != RESTART


@pytest.mark.parametrize("language", OWN_NAMES)
def test_no_menu_gives_a_letter_twice(
    qapp: QApplication, open_window: OpenWindow, english_again: None, language: Language
) -> None:
    installing.install(qapp, language)
    window = open_window(loaded=False)
    bar = window.menuBar()
    assert "(" not in window.top_bar.button(window.commands.hub).text(), "a letter on a button"
    menus = [menu for action in bar.actions() if isinstance(menu := action.menu(), QMenu)]
    assert menus
    wrong = {}
    for title, actions in [("", bar.actions()), *((menu.title(), menu.actions()) for menu in menus)]:
        letters = [found[1].casefold() for each in actions if (found := re.search("&([^&])", each.text()))]
        if twice := sorted({each for each in letters if letters.count(each) > 1}):
            wrong[title] = twice
    assert wrong == {}
