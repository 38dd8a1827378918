"""Memory that was needed once and is not used any more, given back to the system.

glibc keeps what was freed for what may be asked for next. After a model was loaded that is
about a hundred megabytes of the demo's conversion and of files that were read
(https://sourceware.org/glibc/manual/latest/html_node/Malloc-Tunable-Parameters.html).
"""

from __future__ import annotations

import contextlib
import ctypes
import sys


def give_back() -> None:
    """Some milliseconds; elsewhere than with glibc nothing happens."""
    if sys.platform != "linux":
        return
    with contextlib.suppress(OSError, AttributeError):  # another libc
        ctypes.CDLL(None).malloc_trim(0)
