"""Which languages there are, and which one the system wants. No Qt here."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum


class Language(StrEnum):
    """As the settings keep it; the value of a language names its files."""

    SYSTEM = "system"
    ENGLISH = "en"
    GERMAN = "de"
    JAPANESE = "ja"
    CHINESE = "zh_CN"


OWN_NAMES = {
    Language.ENGLISH: "English",
    Language.GERMAN: "Deutsch",
    Language.JAPANESE: "日本語",
    Language.CHINESE: "简体中文",
}
"""Each language in itself: whoever looks for theirs may not read the one that is shown."""

TRADITIONAL = {"TW", "HK", "MO", "HANT"}


def best_of(wanted: Iterable[str]) -> Language:
    """The first language that we have among ``wanted``: names such as ``de-AT`` or ``zh-Hans-CN``."""
    for name in wanted:
        first, *rest = name.replace("_", "-").split("-")
        if first.lower() == "zh":
            if not TRADITIONAL & {part.upper() for part in rest}:
                return Language.CHINESE
            continue
        for language in OWN_NAMES:
            if language.value == first.lower():
                return language
    return Language.ENGLISH
