"""Which targets were found to have a head, kept for a day: asking takes some ten requests each."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from pathlib import Path

from engine.hub.part import replace_text

DAY = 24 * 3600.0
MOST = 2000
"""Targets that are remembered; the oldest are forgotten."""


class HeadMemory:
    """May be used by several threads."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._known: dict[str, tuple[bool, float]] = {}
        with contextlib.suppress(OSError, ValueError, TypeError, AttributeError, RecursionError):
            for name, entry in json.loads(path.read_text("utf-8")).items():
                with contextlib.suppress(ValueError, TypeError):  # one that is damaged leaves the others
                    has, when = entry
                    self._known[name] = bool(has), float(when)

    def has_head(self, target: str) -> bool | None:
        """None where it is not known, or was found out too long ago."""
        has, when = self._known.get(target, (None, 0.0))
        return has if 0 <= time.time() - when < DAY else None

    def keep(self, target: str, has_head: bool) -> None:
        with self._lock:
            self._known[target] = has_head, time.time()
            newest = sorted(self._known.items(), key=lambda item: -item[1][1])[:MOST]
            self._known = dict(newest)
            with contextlib.suppress(OSError):  # it is found out again next time
                self._path.parent.mkdir(parents=True, exist_ok=True)
                replace_text(self._path, json.dumps(self._known))
