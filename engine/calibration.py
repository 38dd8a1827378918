"""Measures this machine at load, in a few seconds, and keeps what it found.

First the target alone, over more and more rows, in rounds over all counts so that a
hiccup of the machine meets each of them alike, and the least time of each counts. Then every
method's drafter, over larger trees than it will use, on a text of which the answers are
the target's own: the default method's for longer, the others' for a few steps, which show what
they cost and whether they are worth a try. :mod:`engine.pilot` takes it from there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from statistics import median
from time import perf_counter

import torch
from torch import Tensor

from engine.drafting.drafter import Drafter, TreeLimits
from engine.drafting.method import Methods
from engine.models.cache import KVCache
from engine.models.decoder import Decoder
from engine.outlook import SUPPORT
from engine.pilot import Pilot
from engine.remembered import remembered
from engine.sampling import Sampler
from engine.settings import GenerationSettings
from engine.target_rows import TargetRows
from engine.timing import Sample, Timing, sample_of
from engine.tree import DraftTree

ROWS = (1, 8, 16, 4, 32, 2, 12, 64)
"""Counts of rows in the order of their use."""
TOO_DEAR = 2.5
"""Where a pass costs this many plain steps, larger counts are not looked at: no tree brings so much."""
ROWS_SECONDS = 0.9
LEAST_ROUNDS, MOST_ROUNDS = 2, 12
DRAFT_SECONDS = 0.6
PROMPT_TOKENS = 64
DEPTHS, OTHER_DEPTHS = (8, 8, 3), (4, 2)
"""Levels of the timed proposals, of the default method and of others: mostly deep, since a deep tree
tells about shallower ones too."""
OTHER_SECONDS = 0.1
"""For each method but the default one, beyond the steps that it needs."""
MOST_DRAFTS = 48
VERSION = 3
"""Of the file's contents."""


def measure(
    decoder: Decoder,
    methods: Methods,
    limits: TreeLimits,
    text: Sequence[int],
    clock: Callable[[], float] = perf_counter,
) -> Timing:
    """Time the target and the default method on ``text``, token ids of some ordinary prose.

    Takes :data:`ROWS_SECONDS`, :data:`DRAFT_SECONDS` and :data:`OTHER_SECONDS` for each other method,
    and as long as what it has begun.
    """
    drafts: dict[str, tuple[float, float]] = {}
    samples: dict[str, tuple[Sample, ...]] = {}
    reading: dict[str, float] = {}
    with torch.inference_mode():
        prompt = list(text[:PROMPT_TOKENS])
        cache = decoder.new_cache(min(methods.equipment.context, decoder.config.max_positions))
        _read(decoder, cache, prompt, None)
        rows = _time_rows(decoder, cache, prompt[-1], clock)
        for info in methods.infos:
            if info.drafts and not info.problem:
                # The very first proposal also makes room and loads code: it would pass for slow reading.
                _Drafted(decoder, methods, info.id, limits, prompt).step(clock, 1)
                drafted = _Drafted(decoder, methods, info.id, limits, prompt)
                drafted.run(clock, info.id == methods.default)
                drafts[info.id], reading[info.id] = drafted.costs()
                samples[info.id] = tuple(drafted.samples)
    return Timing(rows, drafts, samples, reading)


def _read(decoder: Decoder, cache: KVCache, tokens: Sequence[int], drafter: Drafter | None) -> Tensor:
    """Run known ``tokens`` from an empty cache on; the last one's hidden state [1, hidden]."""
    taps = drafter.taps if drafter is not None else ()
    hidden, tapped = decoder.forward(torch.tensor(tokens), torch.arange(len(tokens)), cache, None, taps)
    cache.keep(len(tokens))
    if drafter is not None:
        drafter.observe(torch.cat(tapped, -1) if tapped else hidden)
    return hidden[-1:]


def _time_rows(
    decoder: Decoder, cache: KVCache, token: int, clock: Callable[[], float]
) -> tuple[tuple[int, float], ...]:
    """Least seconds of a pass over a bushy tree of so many rows, for the counts that may pay."""
    best: dict[int, float] = {}
    most = 32
    end = clock() + ROWS_SECONDS
    _pass(decoder, cache, token, 1)  # warms caches
    for turn in range(MOST_ROUNDS):
        for rows in ROWS:
            if rows > most:
                continue
            if turn >= LEAST_ROUNDS and clock() > end:
                break
            began = clock()
            _pass(decoder, cache, token, rows)
            seconds = clock() - began
            best[rows] = min(seconds, best.get(rows, seconds))
        if turn + 1 >= LEAST_ROUNDS:  # one round alone may have met hiccups
            dear = (rows for rows in sorted(best) if rows > 8 and best[rows] > TOO_DEAR * best[1])
            most = next(dear, max(ROWS))
    # Fewer rows never cost more, and hiccups only ever add: what more rows took bounds them.
    table: list[tuple[int, float]] = []
    least = float("inf")
    for rows in sorted(best, reverse=True):
        least = min(least, best[rows])
        table.append((rows, least))
    return tuple(table[::-1])


def _pass(decoder: Decoder, cache: KVCache, token: int, rows: int) -> None:
    """A pass over a binary tree of ``rows`` rows, down to the chosen tokens; nothing is kept."""
    parents = (-1, *((row - 1) // 2 for row in range(1, rows)))
    ones = (1.0,) * rows
    tree = DraftTree((token,) * rows, parents, ones, ones, window=rows - 1)  # the same token may repeat
    mask = tree.mask() if rows > 1 else None
    hidden, _ = decoder.forward(torch.tensor(tree.tokens), tree.positions(cache.length), cache, mask)
    decoder.argmax(hidden).tolist()


class _Drafted:
    """Greedy steps of one method after a prompt: what its proposals took, and what they were worth."""

    def __init__(
        self, decoder: Decoder, methods: Methods, name: str, limits: TreeLimits, prompt: list[int]
    ) -> None:
        settings = GenerationSettings(method=name)
        method, options = methods.choose(settings)
        assert method.make is not None
        self._decoder = decoder
        self._drafter = method.make(methods.equipment)
        self._limits = limits
        self._sampler = Sampler(settings)
        self._cache = decoder.new_cache(len(prompt) + 512)
        hidden = _read(decoder, self._cache, prompt, self._drafter)
        self._tokens = [*prompt, int(decoder.argmax(hidden))]
        self._drafter.start(self._tokens, options, self._sampler)
        self._first: tuple[int, float] = (0, 0.0)
        """(levels, seconds) of the first proposal, for which the prompt was read."""
        self._times: dict[int, list[float]] = {}
        self.samples: list[Sample] = []

    def run(self, clock: Callable[[], float], default: bool) -> None:
        depths = DEPTHS if default else OTHER_DEPTHS
        end = clock() + (DRAFT_SECONDS if default else OTHER_SECONDS)
        for step in range(MOST_DRAFTS):
            if clock() > end and step > SUPPORT:
                break
            self.step(clock, depths[step % len(depths)])

    def step(self, clock: Callable[[], float], depth: int) -> None:
        decoder, drafter, limits = self._decoder, self._drafter, self._limits
        wide = TreeLimits(max(24, limits.nodes), depth, max(limits.top_k, 4), worth=limits.worth / 4)
        began = clock()
        tree = drafter.propose(self._tokens, wide)
        seconds = clock() - began
        if self.samples:
            self._times.setdefault(max(1, tree.depth), []).append(seconds)
        else:
            self._first = tree.depth, seconds
        mask = tree.mask() if len(tree) > 1 else None
        states, tapped = decoder.forward(
            torch.tensor(tree.tokens), tree.positions(self._cache.length), self._cache, mask, drafter.taps
        )
        rows = TargetRows(decoder, self._sampler, self._tokens, tree, states)
        found = drafter.accept(tree, rows)
        kept = torch.tensor([0, *found.path])
        self._cache.keep(kept if found.path else 1)
        drafter.observe((torch.cat(tapped, -1) if tapped else states)[kept])
        drafter.learn(tree, found.path, rows.best)
        self._tokens += [*(tree.tokens[node] for node in found.path), found.bonus]
        self.samples.append(sample_of(tree if len(tree) > 1 else None, found.path, wide))

    def costs(self) -> tuple[tuple[float, float], float]:
        """((base, per level) seconds of a proposal, seconds for each token of the prompt)."""
        base, level = _fit(self._times)
        levels, seconds = self._first
        return (base, level), max(0.0, seconds - base - level * levels) / PROMPT_TOKENS


def _fit(times: dict[int, list[float]]) -> tuple[float, float]:
    """(base, per level): least squares through the medians of each depth."""
    points = {depth: median(found) for depth, found in times.items()}
    if not points:
        return 0.0, 0.0
    mean_x, mean_y = sum(points) / len(points), sum(points.values()) / len(points)
    spread = sum((x - mean_x) ** 2 for x in points)
    slope = (
        sum((x - mean_x) * (y - mean_y) for x, y in points.items()) / spread if spread else mean_y / mean_x
    )
    return max(0.0, mean_y - slope * mean_x), max(0.0, slope)


# --------------------------------------------------------------------------- kept between starts


def timing_for(
    decoder: Decoder,
    methods: Methods,
    limits: TreeLimits,
    text: Sequence[int],
    name: str,
    fresh: bool = False,
) -> Timing:
    """The timing of this model on this machine: read where it was kept, measured and kept otherwise.

    ``name`` tells apart models, heads, devices and weight formats; ``fresh`` measures again.
    """
    return remembered(
        "timings",
        name,
        lambda: measure(decoder, methods, limits, text),
        read=_read_timing,
        write=lambda timing: {"version": VERSION, **asdict(timing)},
        fresh=fresh,
    )


def _read_timing(raw: object) -> Timing:
    if not isinstance(raw, dict) or raw["version"] != VERSION:
        raise ValueError("another version")
    rows = tuple((int(count), float(seconds)) for count, seconds in raw["rows"])
    if len(rows) < 2 or rows[0][0] != 1 or not all(0 < seconds < 3600 for _, seconds in rows):
        raise ValueError("no table of passes")
    return Timing(
        rows,
        {name: (float(base), float(level)) for name, (base, level) in raw["draft"].items()},
        {
            name: tuple(
                Sample(
                    tuple((float(p), int(depth), bool(stood)) for p, depth, stood in each["guesses"]),
                    int(each["nodes"]),
                    int(each["depth"]),
                    float(each["worth"]),
                    int(each["extra"]),
                )
                for each in found
            )
            for name, found in raw["samples"].items()
        },
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
    return f"up to {limits.nodes} nodes and {limits.depth} levels{worth}"
