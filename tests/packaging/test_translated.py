"""Every text of the project is translated into every language, and what users get is what the files say.

When this fails: ``python packaging/translations.py`` brings the files up to date, and tells what
is left to be translated.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import translations
from PySide6.QtCore import QTranslator
from translation_files import FORMS, read
from translation_sources import collect

ROOT = Path(__file__).resolve().parent.parent.parent


def test_every_text_is_translated_and_nothing_is_left_of_old_ones() -> None:
    found = translations.check(collect(ROOT))
    assert found == [], f"run: {translations.COMMAND}"


@pytest.mark.parametrize("language", FORMS)
def test_the_compiled_texts_are_those_of_the_file(language: str) -> None:
    translator = QTranslator()
    assert translator.load(str(translations.qm_path(language)))
    wrong = []
    for (context, source), entry in read(translations.ts_path(language)).items():
        if entry.plural:
            got = tuple(translator.translate(context, source, "", n) for n in (1, 2)[-FORMS[language] :])
        else:
            got = (translator.translate(context, source),)
        if got != entry.forms:
            wrong.append(f"{context}: “{source}” is {got}, not {entry.forms}")
    assert wrong == [], f"run: {translations.COMMAND}"
