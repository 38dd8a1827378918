"""Whether limits of time can be held: a machine given to other work proves nothing about ours."""

from __future__ import annotations

import os


def starved() -> bool:
    """Whether other programs want more processors than there are."""
    return hasattr(os, "getloadavg") and os.getloadavg()[0] > 1.5 * (os.cpu_count() or 1)


def allowed(seconds: float) -> float:
    """A limit in seconds, several times as long while the machine is starved."""
    return seconds * 5 if starved() else seconds
