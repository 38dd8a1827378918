"""A language made up for tests: every text 40 % longer, accented, and in brackets.

German takes about that much more room than English. Under it a layout that has none to spare
cuts its texts, a text that no function translated stays as it was, and one that is put
together from pieces has its brackets in the middle.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from PySide6.QtCore import QCoreApplication, QTranslator

LONGER = 0.4
LEAST = 2
"""Letters that a short text gets more: "OK" may become "Fertig"."""
FILLER = "lôrêm ïpsüm dölör sît ämét cönséctétür ädïpïscïng élït "
ACCENTED = str.maketrans("aeiouAEIOUncsyz", "áéîöüÁÉÎÖÜñçšýž")
KEPT = re.compile(r"\{[^{}]*\}|%L?[npvm\d]|\(\*[^)]*\)|<[^<>]+>|&\w")
"""Placeholders, what a file filter matches, tags, and the letters that are keys."""
UNTOUCHED = ("QShortcut",)
"""Contexts of names that are read back: the keys of a shortcut."""


def lengthened(text: str) -> str:
    """``text`` as it stands in the made-up language; its placeholders stay as they are."""
    core = text.strip()
    if not any(letter.isalpha() for letter in KEPT.sub("", core)):
        return text
    start = text.index(core)
    kept, parts = KEPT.findall(core), KEPT.split(core)
    accented = "".join(
        part.translate(ACCENTED) + (kept[place] if place < len(kept) else "") for place, part in enumerate(parts)
    )
    more = max(LEAST, round(LONGER * sum(map(len, parts))))
    filler = (FILLER * (more // len(FILLER) + 1))[:more].strip()
    gap = " " if more > 8 else ""
    return f"{text[:start]}[{accented}{gap}{filler}]{text[start + len(core) :]}"


class PseudoLanguage(QTranslator):
    """Knows every text of every context, Qt's own dialogs included."""

    def isEmpty(self) -> bool:
        return False

    def translate(  # type: ignore[override]
        self, context: str, text: str, comment: str | None = None, n: int = -1
    ) -> str:
        return text if context in UNTOUCHED else lengthened(text)


@contextmanager
def pseudo_language(app: QCoreApplication) -> Iterator[None]:
    """The made-up language, for widgets that are made meanwhile."""
    translator = PseudoLanguage()
    app.installTranslator(translator)
    try:
        yield
    finally:
        app.removeTranslator(translator)
        translator.deleteLater()
