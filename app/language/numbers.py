"""Numbers, sizes, dates and times as the user's language writes them.

The words come from the chosen language, so the numbers do as well: in the way of the
system's region where that speaks the language (a Swiss reader of German keeps 1’234.5), and
else in the way of the language's largest region.
"""

from __future__ import annotations

from PySide6.QtCore import QDateTime, QLocale

from app.language.choice import Language
from app.language.installing import locale_of, shown

LATEST = 1e11
"""Seconds; later than any calendar goes."""


def locale() -> QLocale:
    """The locale of the language that is in force."""
    return locale_of(shown())


def whole(number: int) -> str:
    """1234 as 1,234."""
    return locale().toString(number)


def decimal(number: float, digits: int) -> str:
    """1234.5 as 1,234.50, with ``digits`` after the point."""
    return locale().toString(float(number), "f", digits)


def significant(number: float, digits: int) -> str:
    """12.5 as 12.5 and 12.04 as 12 with three ``digits``: those behind the point that say something."""
    behind = f"{number:.{digits}g}".partition(".")[2]
    return decimal(number, len(behind) if behind.isdecimal() else 0)


def percent(share: float) -> str:
    """0.5 as 50%; the sign and the space before it are the language's."""
    text = locale().toString(float(share) * 100, "f", 0)
    return f"{text}\N{NO-BREAK SPACE}%" if shown() is Language.GERMAN else f"{text}%"


def moment(seconds: float) -> str:
    """Date and time of day of ``seconds`` since the epoch, in the short form."""
    return locale().toString(_qt(seconds), QLocale.FormatType.ShortFormat)


def day(seconds: float) -> str:
    """The date of ``seconds`` since the epoch, in the short form."""
    return locale().toString(_qt(seconds).date(), QLocale.FormatType.ShortFormat)


def _qt(seconds: float) -> QDateTime:
    return QDateTime.fromSecsSinceEpoch(round(seconds) if 0 <= seconds < LATEST else 0)
