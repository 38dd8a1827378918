"""Ends a reply at a stop string without ever showing the beginning of one."""

from __future__ import annotations

from collections.abc import Iterable


class StopMatcher:
    """Watches streamed text for stop strings.

    The stop string that is complete first ends the reply; of several that are
    complete at the same character the longest counts. That depends on the text
    alone, never on how it was cut into pushes.
    """

    def __init__(self, stop_strings: Iterable[str]) -> None:
        """Empty strings are left out: they would end every reply at once."""
        self._stops = tuple(dict.fromkeys(stop for stop in stop_strings if stop))
        self._held = ""
        self._hit: str | None = None

    @property
    def stopped(self) -> bool:
        return self._hit is not None

    @property
    def hit(self) -> str | None:
        """The stop string that was found."""
        return self._hit

    def push(self, text: str) -> str:
        """The text that may be shown now: nothing that belongs, or may come to belong, to a stop string."""
        if self._hit is not None:
            return ""
        text = self._held + text
        self._held = ""
        found = min(
            ((at + len(stop), at, stop) for stop in self._stops if (at := text.find(stop)) >= 0), default=None
        )
        if found is not None:
            _, start, self._hit = found
            return text[:start]
        keep = self._open_suffix(text)
        if keep:
            self._held = text[-keep:]
            return text[:-keep]
        return text

    def flush(self) -> str:
        """What was held back, once generation ended for another reason; empty after a hit."""
        held, self._held = self._held, ""
        return held

    def _open_suffix(self, text: str) -> int:
        """Length of the longest end of ``text`` that begins a stop string, in characters."""
        longest = max((len(stop) for stop in self._stops), default=1) - 1
        for length in range(min(longest, len(text)), 0, -1):
            end = text[-length:]
            if any(stop.startswith(end) for stop in self._stops):
                return length
        return 0
