"""How far the engine's choice lies from the best fixed setting, without counting luck for the best one.

Whoever picks the fastest of several settings and compares with it over the same replies compares with
the luckiest one: of ten settings that are equally fast, measured with some noise, the best looks faster
than any of them is, and a choice that is just as good looks slower (the winner's curse). So the best
setting is picked on one half of the replies and compared with on the other, and both ways round,
which leaves no luck in it; over many ways to cut in halves, since one of them would again be luck.

Where every prompt was answered several times, each prompt gives replies to both halves; otherwise
prompts are split, and a setting that fits one half's prompts better than the other's counts for less
than it could: then the truth lies between this figure and the plain one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.bench.rows import Row

CUTS = 400
RESAMPLES = 1000
TAIL = 0.05
"""On each side of the interval that is given."""
LEAST = 4
"""Replies that must be there to be halved."""

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Crossed:
    ratio: float
    """The choice's speed over that of the fixed setting: 0.95 is 5 % slower."""
    low: float
    high: float
    """Where 90 % of the ratios lie when prompts are drawn again with replacement, each time cut anew."""
    by_repeat: bool
    """Whether each prompt's own replies were split."""


def crossed(automatic: Sequence[Row], fixed: Sequence[Sequence[Row]], seed: int = 0) -> Crossed | None:
    """The rows of one temperature, of the choice and of every fixed setting; None where too few replies
    are there in every way."""
    ways = [{(row.prompt, row.repeat): row for row in rows} for rows in (automatic, *fixed)]
    units = [unit for unit in ways[0] if all(unit in way for way in ways)]
    if len(units) < LEAST or len(ways) < 2:
        return None
    tokens = np.array([[way[unit].tokens - 1 for unit in units] for way in ways], dtype=np.float64)
    seconds = np.array([[way[unit].seconds for unit in units] for way in ways])
    names = list(dict.fromkeys(prompt for prompt, _ in units))
    prompt = np.array([names.index(name) for name, _ in units])
    by_repeat = bool((np.bincount(prompt) > 1).all())
    random = np.random.default_rng(seed)
    once = np.ones(len(units))
    logs = [np.log(_compared(tokens, seconds, once, _half(prompt, by_repeat, random))) for _ in range(CUTS)]
    drawn = []
    for _ in range(RESAMPLES):
        counts = np.bincount(random.integers(len(names), size=len(names)), minlength=len(names))
        weights = counts[prompt].astype(np.float64)
        # Only what was drawn is cut, and what was drawn twice lies twice in the same half.
        drawn.append(_compared(tokens, seconds, weights, _half(prompt, by_repeat, random, weights > 0)))
    drawn.sort()
    edge = int(TAIL * RESAMPLES)
    return Crossed(float(np.exp(np.mean(logs))), float(drawn[edge]), float(drawn[-edge - 1]), by_repeat)


def _half(
    prompt: NDArray[np.int64],
    by_repeat: bool,
    random: np.random.Generator,
    there: NDArray[np.bool_] | None = None,
) -> NDArray[np.bool_]:
    """Half of the units, by chance: of every prompt's own where ``by_repeat``."""
    chosen = np.zeros(len(prompt), dtype=bool)
    if by_repeat:
        for number in range(prompt.max() + 1):
            own = random.permutation(np.flatnonzero(prompt == number))
            # Of three, one or two: neither half may be the larger one throughout.
            chosen[own[: (len(own) + int(random.integers(2))) // 2]] = True
        return chosen
    present = np.flatnonzero(there) if there is not None else np.arange(len(prompt))
    numbers = random.permutation(np.unique(prompt[present]))
    chosen[np.isin(prompt, numbers[: len(numbers) // 2])] = True
    return chosen


def _compared(tokens: Floats, seconds: Floats, weights: Floats, half: NDArray[np.bool_]) -> float:
    """Row 0's speed over the best other row's, which is chosen on the one half for the other."""
    sums = np.zeros((2, 2))  # (choice, best) × (tokens, seconds)
    for here in (weights * half, weights * ~half):
        there = weights - here
        rates = (tokens[1:] @ here) / np.maximum(seconds[1:] @ here, 1e-12)
        for place, row in enumerate((0, 1 + int(rates.argmax()))):
            sums[place] += tokens[row] @ there, seconds[row] @ there
    (ours, our_seconds), (best, best_seconds) = sums
    return float((ours / our_seconds) / (best / best_seconds))
