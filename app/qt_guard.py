"""Keeps ``None`` alive under a PySide6 that forgets to count it.

The PySide6 6.12.0 wheels return ``None`` from every method without a value and
take no reference to it. Since Python 3.12 ``None`` is immortal and nothing
happens; Python 3.11 counts down, and aborts with "deallocating None" after a few
thousand calls. Measured, not looked up by version, so that a repaired wheel is
left alone.
"""

from __future__ import annotations

import ctypes
import logging
import sys

from PySide6.QtCore import QObject

log = logging.getLogger(__name__)

PROBES = 64
MANY = 1 << 48
"""References no session can use up."""


def loses_none() -> bool:
    """Whether calls into Qt take references to ``None`` away."""
    probe = QObject()
    before = sys.getrefcount(None)
    for _ in range(PROBES):
        probe.setObjectName("probe")
    return before - sys.getrefcount(None) > PROBES // 2


def protect_none() -> bool:
    """Give ``None`` the count that an immortal object has, if this binding needs it."""
    if sys.version_info >= (3, 12) or not loses_none():
        return False
    # The count is the first field of every object in a CPython without free threading.
    ctypes.c_ssize_t.from_address(id(None)).value += MANY
    log.warning("this PySide6 loses references to None: protected")
    return True
