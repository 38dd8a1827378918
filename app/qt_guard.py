"""Keeps ``None``, ``True`` and ``False`` alive under a PySide6 that forgets to count them.

The PySide6 6.12.0 wheels return these objects from methods without taking a
reference. Since Python 3.12 they are immortal and nothing happens; Python 3.11
counts down, and aborts ("deallocating None", "deallocating True or False") after
some thousand calls. Measured, not looked up by version, so that a repaired wheel
is left alone.
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
IMMORTAL = (None, True, False, Ellipsis, NotImplemented)
"""What is immortal from Python 3.12 on and may be returned by a binding."""


def loses_references() -> bool:
    """Whether calls into Qt take references to ``None`` away."""
    probe = QObject()
    before = sys.getrefcount(None)
    for _ in range(PROBES):
        probe.setObjectName("probe")
    return before - sys.getrefcount(None) > PROBES // 2


def protect_immortals() -> bool:
    """Give these objects the count that immortal ones have, if this binding needs it."""
    if sys.version_info >= (3, 12) or not loses_references():
        return False
    for each in IMMORTAL:
        # The count is the first field of every object in a CPython without free threading.
        ctypes.c_ssize_t.from_address(id(each)).value += MANY
    log.info("this PySide6 loses references to None: protected")
    return True
