"""Texts in the user's language.

Sources are English; the other languages come from ``resources/translations``. A text is
translated when it is shown::

    tr("Panel", "Accepted {count} tokens").format(count=n)
    tr_n("Chats", "%n chat", "%n chats", n)

Both take literal strings, because ``packaging/translations.py`` reads them from the source. A
text that stands in a constant is marked there and translated where it is shown::

    HELP = mark("Panel", "Tokens per second")
    label.setToolTip(tr("Panel", HELP))

What the engine says is English, since its process knows no language; see
:mod:`app.language.engine_texts`.
"""

from __future__ import annotations

from functools import lru_cache
from string import Formatter

from PySide6.QtCore import QCoreApplication

NUMBER = "%n"
"""Stands for the number in both forms of a plural text."""


def mark(context: str, text: str) -> str:
    """``text`` itself: says that it is to be translated where it is shown, in ``context``."""
    return text


def tr(context: str, text: str) -> str:
    """``text`` in the chosen language, or itself where that has no usable translation.

    A translation with other placeholders than its source is not used, so that ``format`` on
    the result takes the same names as on the source.
    """
    translated = QCoreApplication.translate(context, text)
    return translated if translated and same_fields(text, translated) else text


def tr_n(context: str, one: str, many: str, n: int) -> str:
    """``one`` or ``many``, with ``%n`` replaced by the number; other languages have forms of their own.

    The translators' key is ``many``.
    """
    form = n if abs(n) < 2**31 else 10**9 + n % 10**6  # Qt has no larger; its last digits choose the form
    translated = QCoreApplication.translate(context, many, "", form).replace(str(form), str(n))
    if translated in ("", many.replace(NUMBER, str(n))) or not same_fields(many, translated):
        return (one if n == 1 else many).replace(NUMBER, str(n))
    return translated


def fields_of(text: str) -> list[tuple[str, str | None, str | None]]:
    """The placeholders of a text for ``str.format``: name, how it is written, conversion; sorted.

    :raises ValueError: the text has a brace that ``str.format`` would not take
    """
    parts = Formatter().parse(text)
    return sorted((name, spec or "", way or "") for _, name, spec, way in parts if name is not None)


@lru_cache(maxsize=8192)
def same_fields(source: str, translated: str) -> bool:
    """Whether a translation can stand for its source: it has exactly the same placeholders."""
    try:
        wanted = fields_of(source)
    except ValueError:
        return True  # braces of another meaning: such a text is never formatted
    try:
        return fields_of(translated) == wanted
    except ValueError:
        return False
