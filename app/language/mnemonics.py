"""Menu texts without their mnemonics, for tool tips, lists and accessible names."""

from __future__ import annotations

import re

ASIDE = re.compile(r"\s*\(&[^&]\)")
"""How languages whose words hold no Latin letter give one: ``設定(&S)…``."""


def plain(text: str) -> str:
    """``&Save as…`` as ``Save as``."""
    return ASIDE.sub("", text).replace("&&", "\0").replace("&", "").replace("\0", "&").rstrip("…")
