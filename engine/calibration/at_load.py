"""Measures this machine at load, in a few seconds, and keeps what it found.

First the target alone, over more and more rows (:mod:`engine.calibration.passes`). Then every
method's drafter, over larger trees than it will use, on a text of which the answers are
the target's own (:mod:`engine.calibration.proposals`): the default method's for longer, the others' for a few
steps, which show what they cost and whether they are worth a try. :mod:`engine.calibration.pilot` takes it from there.

What counts are ratios, so all of this must have met the same machine. A plain pass before and
after the proposals of each method tells, and so do the passes in between: where they do not take what
they took before, the proposals are timed again. A measurement that stays disturbed is used, with less trust, and not kept.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from time import perf_counter

import torch

from engine.calibration.passes import EVEN, pace, time_passes
from engine.calibration.pilot import Pilot
from engine.calibration.proposals import Proposals, read
from engine.calibration.timing import Sample, Timing, sample_from
from engine.drafting.drafter import TreeLimits
from engine.drafting.method import Methods
from engine.models.decoder import Decoder
from engine.remembered import forget, remembered

PROMPT_TOKENS = 64
TRIES = 3
"""For the proposals of a method, where the machine is disturbed."""
GUESSED = 1.3
"""How far passes over trees may lie above the line between measured counts of rows."""
MEASUREMENTS, LONG = 2, 8.0
"""A whole measurement that was disturbed is made again, unless it took so many seconds."""
KIND, VERSION = "timings", 5
"""Of the file and its contents."""


def measure(
    decoder: Decoder,
    methods: Methods,
    limits: TreeLimits,
    text: Sequence[int],
    clock: Callable[[], float] = perf_counter,
) -> Timing:
    """Time the target and the default method on ``text``, token ids of some ordinary prose.

    Takes about two seconds where passes are short, up to three times as long on a disturbed machine,
    and in any case as long as what it has begun.
    """
    drafts: dict[str, tuple[float, float]] = {}
    samples: dict[str, tuple[Sample, ...]] = {}
    reading: dict[str, float] = {}
    with torch.inference_mode():
        prompt = list(text[:PROMPT_TOKENS])
        cache = decoder.new_cache(min(methods.equipment.context, decoder.config.max_positions))
        read(decoder, cache, prompt, None)
        passes = time_passes(decoder, cache, prompt[-1], clock)
        steady = passes.steady

        def now() -> float:
            return pace(decoder, cache, prompt[-1], passes.rows[0][1], clock)

        def proposed(name: str) -> Proposals:
            proposals = Proposals(decoder, methods, name, limits, prompt)
            proposals.run(clock, name == methods.default)
            return proposals

        before = now()
        for info in methods.infos:
            if info.drafts and not info.problem:
                # The very first proposal also makes room and loads code: it would pass for slow reading.
                Proposals(decoder, methods, info.id, limits, prompt).step(clock, 1)
                drafted, even, before = _undisturbed(partial(proposed, info.id), now, before, passes.rows)
                steady &= even
                drafts[info.id], reading[info.id] = drafted.costs()
                samples[info.id] = tuple(drafted.samples)
    return Timing(passes.rows, drafts, samples, reading, steady)


def _undisturbed(
    propose: Callable[[], Proposals],
    pace: Callable[[], float],
    before: float,
    rows: tuple[tuple[int, float], ...],
) -> tuple[Proposals, bool, float]:
    """The timed proposals of a method, the most even ones of a few tries; whether the machine ran evenly
    then, from the pace ``before`` to that after it, by the table of ``rows``; and its pace at last."""
    found: list[tuple[float, Proposals]] = []
    for _ in range(TRIES):
        proposals = propose()
        after = pace()
        # Between two counts of the table the line is only a guess: these passes may take a little more.
        meanwhile = proposals.pace(rows) / GUESSED
        uneven = max(before, after, 1 / before, 1 / after, meanwhile)
        found.append((uneven, proposals))
        # Where a plain pass is quicker than all before it, those were disturbed: no new try mends that.
        if uneven <= EVEN or after < 1 / EVEN:
            break
        before = after
    uneven, proposals = min(found, key=lambda each: each[0])
    return proposals, uneven <= EVEN, after


# --------------------------------------------------------------------------- kept between starts


def timing_for(
    decoder: Decoder,
    methods: Methods,
    limits: TreeLimits,
    text: Sequence[int],
    name: str,
    fresh: bool = False,
    clock: Callable[[], float] = perf_counter,
) -> Timing:
    """The timing of this model on this machine: read where it was kept, measured and kept otherwise.

    ``name`` tells apart models, heads, devices and weight formats; ``fresh`` measures again.
    """

    def measured() -> Timing:
        began = clock()
        found = measure(decoder, methods, limits, text, clock)
        for _ in range(1, MEASUREMENTS):
            if found.steady or clock() - began > LONG:
                break
            again = measure(decoder, methods, limits, text, clock)
            if again.steady or again.seconds(1) < found.seconds(1):
                found = again
        return found

    return remembered(
        KIND,
        name,
        measured,
        read=_read_timing,
        write=lambda timing: {"version": VERSION, **asdict(timing)},
        fresh=fresh,
        worth=lambda timing: timing.steady,
    )


def forget_timing(name: str) -> None:
    """Measure at the next load: what was kept has turned out to be of a disturbed moment."""
    forget(KIND, name)


def _read_timing(raw: object) -> Timing:
    if not isinstance(raw, dict) or raw["version"] != VERSION:
        raise ValueError("another version")
    rows = tuple((int(count), float(seconds)) for count, seconds in raw["rows"])
    if len(rows) < 2 or rows[0][0] != 1 or not all(0 < seconds < 3600 for _, seconds in rows):
        raise ValueError("no table of passes")
    return Timing(
        rows,
        {name: (float(base), float(level)) for name, (base, level) in raw["draft"].items()},
        {name: tuple(sample_from(each) for each in found) for name, found in raw["samples"].items()},
        {name: float(seconds) for name, seconds in raw["reading"].items()},
    )


# --------------------------------------------------------------------------- for people


def explain(timing: Timing | None, pilot: Pilot | None, limits: TreeLimits) -> str:
    """What was measured and what follows from it, in lines for a terminal.

    ``limits`` are the sizes where nothing is adapted.
    """
    lines = []
    if timing is not None:
        one = timing.seconds(1)
        passes = (f"{rows}: {1000 * s:.1f} ms ({s / one:.2f}×)" for rows, s in timing.rows)
        lines += ["A pass of the model, by rows:", "  " + ", ".join(passes)]
        for method, (base, level) in timing.draft.items():
            lines.append(f"Drafting with {method}: {1000 * base:.1f} ms and {1000 * level:.1f} ms a level")
        if not timing.steady:
            lines.append(
                "The machine was busy with something else meanwhile: this is measured again next time."
            )
    if pilot is None:
        return "\n".join([*lines, f"Nothing is adapted. The sizes to begin with: {_sizes(limits)}."])
    lines.append(f"Chosen: {_sizes(pilot.limits)}.")
    outlook = pilot.outlook
    if outlook is not None:
        lines.append(
            f"  From {outlook.steps} steps: {outlook.tokens:.2f} tokens in {1000 * outlook.seconds:.1f} ms a step, "
            f"{outlook.gain:.2f}× plain decoding."
        )
    if pilot.paused:
        lines.append("  Drafting pauses, because it loses.")
    return "\n".join(lines)


def _sizes(limits: TreeLimits) -> str:
    worth = f", paths above {limits.worth:.0%}" if limits.worth else ""
    return f"up to {limits.nodes} nodes and {limits.depth} level{'s' if limits.depth > 1 else ''}{worth}"
