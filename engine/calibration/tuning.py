"""Settings of a method that only a trial can judge: which combination is in use, and which is tried next.

What a smaller tree would have brought can be told from a larger one (:mod:`engine.calibration.outlook`).
How wide a window should be, or how many children a node should have, cannot: other values draft
other guesses. So each combination has a memory of its own, and another one is run for
some steps now and then, while there is something to pay for it with.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from engine.calibration.outlook import Memory
from engine.calibration.timing import Sample
from engine.settings import SettingValue

Tuning = Mapping[str, SettingValue]

EVERY = 96
"""Drafted steps from one trial to the next; twice as many after each that brought nothing."""
LENGTH = 24
"""Steps of a trial."""
MARGIN = 1.05
"""By which a trial must beat what is in use."""

NEARLY = 0.85
"""A gain from which other settings might turn a loss into a gain: near a clear loss lies another."""


class Tunings:
    def __init__(self, values: Sequence[Tuning], start: int, samples: Iterable[Sample]) -> None:
        """``samples`` were made under ``values[start]``."""
        self.values = tuple(values) or ({},)
        self.memories = [Memory() for _ in self.values]
        self.memories[start] = Memory(samples)
        self.gains: dict[int, float] = {}
        """Promised by those that have been tried."""
        self.at = start
        """The one that is run at present."""
        self._base: int | None = None
        """During a trial, what it is compared with."""
        self._left = EVERY
        self._every = EVERY
        self._tried = [0] * len(self.values)

    @property
    def memory(self) -> Memory:
        return self.memories[self.at]

    @property
    def on_trial(self) -> bool:
        return self._base is not None

    def step(self) -> bool:
        """Count a drafted step; whether a trial begins or ends now."""
        self._left -= 1
        return len(self.values) > 1 and self._left <= 0

    def begin(self) -> None:
        """Try a neighbour, the one that was tried least."""
        around = [place for place in (self.at + 1, self.at - 1) if 0 <= place < len(self.values)]
        self._base, self.at = self.at, min(around, key=lambda place: self._tried[place])
        self._tried[self.at] += 1
        self.memories[self.at] = Memory()  # what it brought long ago says little
        self._left = LENGTH

    def end(self, trial: float | None, base: float | None) -> None:
        """Keep what was tried, or go back, by the promised gains of both."""
        if self._base is None:
            return
        if trial is not None:
            self.gains[self.at] = trial
        if trial is None or (base is not None and trial < MARGIN * base):
            self.at = self._base
            self._every *= 2
        else:
            self._every = EVERY
        self._base, self._left = None, self._every

    def after_failure(self, gain: float | None) -> None:
        """What is in use does not pay: take the most promising one."""
        self._base, self._left = None, self._every
        if gain is None:
            return
        self.gains[self.at] = gain
        untried = 1.0 if gain > NEARLY else 0.0
        self.at = max(range(len(self.values)), key=lambda place: self.gains.get(place, untried))


def open_tunings(known: Sequence[Tuning], options: Mapping[str, SettingValue | None]) -> tuple[Tuning, ...]:
    """Of the combinations that a method declares, what they say about settings that were left open."""
    kept = [
        tuple((name, value) for name, value in tuning.items() if options.get(name) is None)
        for tuning in known
    ]
    return tuple(dict(each) for each in dict.fromkeys(kept) if each)
