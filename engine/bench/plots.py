"""The bench's results as pictures. Needs matplotlib, which comes with the extra ``bench``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from engine.bench.report import CATEGORIES
from engine.bench.summary import Result
from engine.errors import EngineError


def require_matplotlib() -> None:
    """Before hours are spent measuring. :class:`EngineError` where it is not installed."""
    try:
        import matplotlib.figure  # noqa: F401
    except ImportError as error:
        raise EngineError(
            "Plots need matplotlib, which is not installed.",
            "Install it with “pip install matplotlib”, or leave --plots out.",
        ) from error


def plot(results: Sequence[Result], folder: Path, title: str) -> list[Path]:
    """Three pictures for each temperature; returns where they are."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for temperature in dict.fromkeys(each.temperature for each in results):
        here = [each for each in results if each.temperature == temperature]
        for name, draw in (("speed-up", _speed_up), ("acceptance", _acceptance), ("time", _time)):
            path = folder / f"{name}-t{temperature:g}.png"
            _save(partial(draw, results=here), path, f"{title}, T={temperature:g}")
            written.append(path)
    return written


def _save(draw: Callable[[Any], None], path: Path, title: str) -> None:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 4.5), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    draw(axes)
    axes.set_title(title, fontsize=10)
    figure.savefig(path, dpi=120)


def _speed_up(axes: Any, results: Sequence[Result]) -> None:
    """Bars by category, a colour a method."""
    names = ["all", *dict.fromkeys(name for each in results for name in each.categories)]
    width = 0.8 / len(results)
    for number, each in enumerate(results):
        speeds = [each.all, *(each.categories.get(name) for name in names[1:])]
        places = [place + (number - (len(results) - 1) / 2) * width for place in range(len(names))]
        axes.bar(places, [one.speed_up if one else 0 for one in speeds], width, label=each.variant.label)
    axes.axhline(1, color="black", linewidth=0.8, linestyle=":")
    axes.set_xticks(range(len(names)), [CATEGORIES.get(name, name) for name in names], fontsize=8)
    axes.set_ylabel("speed-up over plain decoding (median)")
    axes.legend(fontsize=8)


def _acceptance(axes: Any, results: Sequence[Result]) -> None:
    """A line a method."""
    for each in results:
        shares = each.acceptance_by_depth
        axes.plot(range(1, len(shares) + 1), shares, marker="o", markersize=4, label=each.variant.label)
    axes.set_ylim(0, 1)
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.set_xlabel("depth")
    axes.set_ylabel("steps accepting at that depth, of those guessing there")
    axes.legend(fontsize=8)


def _time(axes: Any, results: Sequence[Result]) -> None:
    """Stacked bars: where a step's time goes, plain decoding first."""
    names = ["plain", *(each.variant.label for each in results)]
    all_ms = [results[0].plain_ms, *(each.step_ms for each in results)]
    left = [0.0] * len(names)
    for part in ("draft", "verify", "accept", "other"):
        values = [ms[part] for ms in all_ms]
        axes.barh(names, values, left=left, label=part)
        left = [a + b for a, b in zip(left, values, strict=True)]
    axes.invert_yaxis()
    axes.set_xlabel("ms per step")
    axes.legend(fontsize=8)
