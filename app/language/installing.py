"""Puts the chosen language in force: our translations, and Qt's own for its dialogs and menus.

Texts are put into the widgets as these are made, so installing comes before the widgets; see
:mod:`app.stage` for a choice that is made later.
"""

from __future__ import annotations

import logging
from functools import lru_cache
from importlib.resources import files
from pathlib import Path

from PySide6.QtCore import QCoreApplication, QLibraryInfo, QLocale, QTranslator

from app.language.choice import Language, best_of

log = logging.getLogger(__name__)

_installed: list[QTranslator] = []
_shown = Language.ENGLISH


def folder() -> Path:
    """Where our translations are."""
    return Path(str(files("resources"))) / "translations"


@lru_cache(maxsize=8)
def locale_of(language: Language) -> QLocale:
    """How numbers and dates are written: the system's way where that speaks the language."""
    own = QLocale("en_GB" if language is Language.ENGLISH else language.value)
    system = QLocale.system()
    same = (system.language(), system.script()) == (own.language(), own.script())
    return QLocale(system.name()) if same else own


def language_of(choice: Language) -> Language:
    """The language meant: the system's, if it is left to that and we have it."""
    return best_of(QLocale.system().uiLanguages()) if choice is Language.SYSTEM else choice


def shown() -> Language:
    """The language that is in force."""
    return _shown


def install(app: QCoreApplication, choice: Language) -> Language:
    """Take ``choice`` in the place of what was installed before.

    A file that is missing or damaged leaves the English texts, and a line in the log.
    """
    global _shown
    for translator in _installed:
        app.removeTranslator(translator)
        translator.deleteLater()
    _installed.clear()
    _shown = language_of(choice)
    QLocale.setDefault(locale_of(_shown))  # for the fields that numbers are typed into
    if _shown is Language.ENGLISH:
        return _shown
    qt = Path(QLibraryInfo.path(QLibraryInfo.LibraryPath.TranslationsPath))
    # The one installed last is asked first.
    for path in (qt / f"qtbase_{_shown.value}.qm", folder() / f"eyrie_{_shown.value}.qm"):
        translator = QTranslator(app)
        if translator.load(str(path)) and app.installTranslator(translator):
            _installed.append(translator)
        else:
            log.warning("no translation: %s", path)
            translator.deleteLater()
    return _shown
