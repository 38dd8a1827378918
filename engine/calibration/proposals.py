"""What a method's proposals cost, and what they were worth: greedy steps behind a prompt, timed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import median

import torch
from torch import Tensor

from engine.calibration.outlook import SUPPORT
from engine.calibration.timing import Sample, Timing, sample_of
from engine.drafting.drafter import Drafter, TreeLimits
from engine.drafting.method import Methods
from engine.models.cache import KVCache
from engine.models.decoder import Decoder
from engine.sampling import Sampler
from engine.settings import GenerationSettings
from engine.target_rows import TargetRows

DRAFT_SECONDS = 0.6
OTHER_SECONDS = 0.1
"""For each method but the default one, beyond the steps that it needs."""
DEPTHS, OTHER_DEPTHS = (8, 8, 3), (4, 2)
"""Levels of the timed proposals, of the default method and of others: mostly deep, since a deep tree
tells about shallower ones too."""
MOST_DRAFTS = 48


def read(decoder: Decoder, cache: KVCache, tokens: Sequence[int], drafter: Drafter | None) -> Tensor:
    """Run known ``tokens`` from an empty cache on; the last one's hidden state [1, hidden]."""
    taps = drafter.taps if drafter is not None else ()
    hidden, tapped = decoder.forward(torch.tensor(tokens), torch.arange(len(tokens)), cache, None, taps)
    cache.keep(len(tokens))
    if drafter is not None:
        drafter.observe(torch.cat(tapped, -1) if tapped else hidden)
    return hidden[-1:]


class Proposals:
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
        self._prompt = len(prompt)
        self._cache = decoder.new_cache(len(prompt) + 512)
        hidden = read(decoder, self._cache, prompt, self._drafter)
        self._tokens = [*prompt, int(decoder.argmax(hidden))]
        self._drafter.start(self._tokens, options, self._sampler)
        self._first: tuple[int, float] = (0, 0.0)
        """(levels, seconds) of the first proposal, for which the prompt was read."""
        self._times: dict[int, list[float]] = {}
        self._passes: list[tuple[int, float]] = []
        """(rows, seconds) of the target's passes over what was proposed."""
        self.samples: list[Sample] = []

    def run(self, clock: Callable[[], float], default: bool) -> None:
        """As many steps as there is time for, and at least as many as speak for a size."""
        depths = DEPTHS if default else OTHER_DEPTHS
        end = clock() + (DRAFT_SECONDS if default else OTHER_SECONDS)
        for step in range(MOST_DRAFTS):
            if clock() > end and step > SUPPORT:
                break
            self.step(clock, depths[step % len(depths)])

    def step(self, clock: Callable[[], float], depth: int) -> None:
        decoder, drafter, limits = self._decoder, self._drafter, self._limits
        worth = limits.worth / 4 if drafter.weighs else 0.0
        wide = TreeLimits(max(24, limits.nodes), depth, max(limits.top_k, 4), worth=worth)
        began = clock()
        tree = drafter.propose(self._tokens, wide)
        seconds = clock() - began
        if self.samples:
            self._times.setdefault(max(1, tree.depth), []).append(seconds)
        else:
            self._first = tree.depth, seconds
        began = clock()
        mask = tree.mask() if len(tree) > 1 else None
        states, tapped = decoder.forward(
            torch.tensor(tree.tokens), tree.positions(self._cache.length), self._cache, mask, drafter.taps
        )
        rows = TargetRows(decoder, self._sampler, self._tokens, tree, states)
        self._passes.append((len(tree), clock() - began))
        found = drafter.accept(tree, rows)
        kept = torch.tensor([0, *found.path])
        self._cache.keep(kept if found.path else 1)
        drafter.observe((torch.cat(tapped, -1) if tapped else states)[kept])
        drafter.learn(tree, found.path, rows.best)
        self._tokens += [*(tree.tokens[node] for node in found.path), found.bonus]
        drawn = tree if len(tree) > 1 else None
        self.samples.append(sample_of(drawn, found.path, wide, drafter.weighs))

    def pace(self, rows: tuple[tuple[int, float], ...]) -> float:
        """How many times what the table of ``rows`` says the passes in between usually took; 1 where it says
        nothing of trees so large."""
        table = Timing(rows, {}, {})
        shares = [seconds / table.seconds(n) for n, seconds in self._passes if n <= rows[-1][0]]
        return median(shares) if shares else 1.0

    def costs(self) -> tuple[tuple[float, float], float]:
        """((base, per level) seconds of a proposal, seconds for each token of the prompt)."""
        base, level = _fit(self._times)
        levels, seconds = self._first
        return (base, level), max(0.0, seconds - base - level * levels) / self._prompt


def _fit(times: dict[int, list[float]]) -> tuple[float, float]:
    """(base, per level): least squares through what each depth usually took, by how often it was timed.
    Hiccups only ever add, so what it usually took is the median of the quicker half."""
    points = [
        (depth, median(sorted(found)[: (len(found) + 1) // 2]), len(found)) for depth, found in times.items()
    ]
    if not points:
        return 0.0, 0.0
    total = sum(count for *_, count in points)
    mean_x = sum(count * x for x, _, count in points) / total
    mean_y = sum(count * y for _, y, count in points) / total
    spread = sum(count * (x - mean_x) ** 2 for x, _, count in points)
    slope = (
        sum(count * (x - mean_x) * (y - mean_y) for x, y, count in points) / spread
        if spread
        else mean_y / mean_x
    )
    slope = min(max(0.0, slope), mean_y / mean_x)  # neither part costs less than nothing
    return mean_y - slope * mean_x, slope
