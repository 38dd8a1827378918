"""Texts in the user's language: which one, plural forms, and what a bad translation does."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from PySide6.QtCore import QTranslator
from PySide6.QtWidgets import QApplication

from app.language import fields_of, mark, same_fields, tr, tr_n
from app.language.choice import Language, best_of
from app.language.mnemonics import plain


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
    "broken", ["{n} Token", "Token", "{count} {count} Token", "{count:d} Token", "{count!r} Token", "{count Token"]
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
