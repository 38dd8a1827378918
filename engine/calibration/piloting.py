"""The pilots of one session: which of them a reply follows, what each begins with, and what they have learned."""

from __future__ import annotations

from dataclasses import replace

from engine.calibration.experience import Experience, Manner, as_drawn
from engine.calibration.pilot import Freedom, Pilot
from engine.calibration.timing import Timing
from engine.calibration.tuning import open_tunings
from engine.drafting.drafter import Options, TreeLimits
from engine.drafting.method import Method
from engine.drafting.static_growth import DRAW
from engine.settings import GenerationSettings, SettingValue


class Pilots:
    """One for each method with its settings, and apart for replies that are drawn and those that are not."""

    def __init__(self, timing: Timing | None, experience: Experience) -> None:
        """``experience`` is of earlier chats; without a ``timing`` there are no pilots."""
        self._timing = timing
        self._experience = experience
        self._pilots: dict[tuple[Manner, tuple[tuple[str, SettingValue | None], ...]], Pilot] = {}

    def retime(self, timing: Timing | None) -> None:
        """Begin anew with another measurement, and with what this chat has learned about guesses."""
        self._experience = {**self._experience, **self.learned()}
        self._timing = timing
        self._pilots.clear()

    def get(
        self, method: Method, options: Options, settings: GenerationSettings, weighs: bool, limits: TreeLimits
    ) -> Pilot:
        """The pilot of replies with ``method``, its ``options`` and these ``settings``. Its drafter
        ``weighs`` nodes or not, and ``limits`` are the sizes to begin with."""
        assert self._timing is not None
        manner = Manner.of(method.info.id, settings)
        key = manner, tuple(options.items())
        if key not in self._pilots:
            learned = self._experience.get(manner)
            samples = self._timing.samples.get(method.info.id, ())
            if learned is not None:
                samples = learned.samples
            elif manner.drawn and not options.get(DRAW.name):  # at load replies were greedy
                samples = as_drawn(samples, settings.temperature)
            self._pilots[key] = Pilot(
                replace(self._timing, samples={method.info.id: samples}),
                method.info.id,
                # A drafter that does not weigh lets every row in, whatever it is worth.
                limits if weighs else replace(limits, worth=0.0),
                Freedom.of(weighs, options),
                method.info.name,
                open_tunings(method.tunings, options),
                begin=learned.tuning if learned is not None else None,
                promise=learned is not None or not manner.drawn,
                experienced=learned is not None,
                weighs=weighs,
            )
        return self._pilots[key]

    @property
    def refuted(self) -> bool:
        """Whether steps were so quick that the timing must have been of a disturbed moment."""
        return any(pilot.clock.refuted for pilot in self._pilots.values())

    def learned(self) -> Experience:
        """What the next chat should know of this one."""
        found = ((manner, pilot.learned()) for (manner, _), pilot in self._pilots.items())
        return {manner: each for manner, each in found if each is not None}
