"""What the pilot believes at present, as plain data for the application's curve."""

from __future__ import annotations

from dataclasses import replace

from engine.calibration.pilot import Pilot
from engine.protocol import Calibration, CurvePoint

SIZES = (2, 3, 4, 6, 8, 10, 12, 16, 20, 24, 32, 48, 64)
"""Nodes for which the curve is told, as far as recent trees can tell."""


def forecast(pilot: Pilot) -> Calibration:
    """The calibration of the pilot's method now."""
    clock, limits = pilot.clock, pilot.limits
    plain = clock.passing(1)
    start = CurvePoint(1, 1.0, plain, 1 / plain)
    view = pilot.view()
    curve = [start]
    chosen = start
    sizes = sorted({*SIZES, limits.nodes})
    outlooks = view.outlooks([replace(limits, nodes=nodes) for nodes in sizes], limits)
    for nodes, found in zip(sizes, outlooks, strict=True):
        if found is None:
            continue
        point = CurvePoint(nodes, found.tokens, found.seconds, found.gain / plain)
        curve.append(point)
        if nodes == limits.nodes and not pilot.paused:
            chosen = point
    levels = range(1, limits.depth + 1) if clock.knows_drafting else ()
    return Calibration(
        method=pilot.method,
        passes=tuple((rows, clock.passing(rows)) for rows in clock.measured_rows),
        drafting=tuple((level, clock.drafting(level)) for level in levels),
        curve=tuple(curve),
        chosen=chosen,
        depth=limits.depth,
        worth=limits.worth,
        top_k=limits.top_k,
        options=tuple((name, value) for name, value in pilot.tuning.items() if not hasattr(limits, name)),
        acceptance=view.acceptance(limits),
        steps=len(view),
        paused=pilot.paused,
        notice=pilot.notice,
    )
