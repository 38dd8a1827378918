"""Lossless in distribution: chi-square of sampled verification against the plain sampler."""

from __future__ import annotations

import functools
import itertools
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import pytest
import torch

from engine.errors import PromptError
from engine.protocol import GenerationSettings
from engine.sampling import Purpose, Sampler
from engine.tree import DraftTree, ancestor_mask
from engine.verification import verify

VOCABULARY = 5
SAMPLES = 20_000


def tree_of(tokens: Sequence[int], parents: Sequence[int]) -> DraftTree:
    ones = (1.0,) * len(tokens)
    return DraftTree(tuple(tokens), tuple(parents), ones, ones)


#: Four levels; good and bad guesses, siblings that share the mass, one dead branch.
TREE = tree_of(
    tokens=[0, 1, 2, 3, 4, 0, 2, 1, 3, 2, 0, 4],
    parents=[-1, 0, 0, 1, 1, 2, 3, 3, 6, 6, 8, 8],
)


def next_logits(path: Sequence[int]) -> torch.Tensor:
    """A toy target: fixed, uneven logits for every history."""
    return _logits(tuple(path))


@functools.cache
def _logits(path: tuple[int, ...]) -> torch.Tensor:
    seed = 17
    for token in path:
        seed = (seed * 31 + token + 7) % 100_003
    return torch.randn(VOCABULARY, generator=torch.Generator().manual_seed(seed)) * 1.5


class Toy:
    """The toy target's word on a tree whose root is token 0."""

    def __init__(self, tree: DraftTree, sampler: Sampler) -> None:
        self.tree = tree
        self.sampler = sampler

    def path(self, node: int) -> list[int]:
        return [self.tree.tokens[step] for step in self.tree.path(node)[1:]]

    def choose(self, node: int) -> int:
        path = self.path(node)
        return self.sampler.choose(next_logits([0, *path]), [0], path)

    def probabilities(self, node: int) -> torch.Tensor:
        path = self.path(node)
        return self.sampler.probabilities(next_logits([0, *path]), [0], path)

    def uniform(self, node: int, purpose: Purpose, index: int = 0) -> float:
        return self.sampler.noise.uniform(1 + self.tree.depths[node], purpose, index)


def by_tree(sampler: Sampler, length: int) -> tuple[int, ...]:
    """``length`` tokens after the root: a verify pass, then plain sampling from the bonus on."""
    outcome = verify(TREE, Toy(TREE, sampler))
    tokens = [TREE.tokens[node] for node in outcome.path] + [outcome.bonus]
    while len(tokens) < length:
        known = [0, *tokens]
        tokens.append(sampler.choose(next_logits(known), known))
    return tuple(tokens[:length])


def exact_distribution(settings: GenerationSettings, length: int) -> dict[tuple[int, ...], float]:
    """Probabilities of every continuation by brute force, filters written out plainly."""

    def processed(path: Sequence[int]) -> list[float]:
        logits = [float(x) / settings.temperature for x in next_logits(path)]
        order = sorted(range(VOCABULARY), key=lambda token: -logits[token])
        allowed = order[: settings.top_k] if settings.top_k else order
        total = sum(math.exp(logits[token]) for token in allowed)
        mass, kept = 0.0, []
        for token in allowed:
            if mass >= settings.top_p:
                break
            kept.append(token)
            mass += math.exp(logits[token]) / total
        kept_total = sum(math.exp(logits[token]) for token in kept)
        return [math.exp(logits[t]) / kept_total if t in kept else 0.0 for t in range(VOCABULARY)]

    found = {}
    for tokens in itertools.product(range(VOCABULARY), repeat=length):
        probability = 1.0
        for place, token in enumerate(tokens):
            probability *= processed([0, *tokens[:place]])[token]
        if probability > 0:
            found[tokens] = probability
    return found


def chi_square_z(counts: Counter[tuple[int, ...]], expected: dict[tuple[int, ...], float]) -> float:
    """Standard score of Pearson's statistic (Wilson-Hilferty); rare cells are pooled."""
    samples = sum(counts.values())
    assert set(counts) <= set(expected), "a continuation of probability zero was produced"
    statistic, cells = 0.0, 0
    pooled_seen = pooled_wanted = 0.0
    for tokens, probability in expected.items():
        wanted = probability * samples
        if wanted < 8:
            pooled_seen += counts[tokens]
            pooled_wanted += wanted
            continue
        statistic += (counts[tokens] - wanted) ** 2 / wanted
        cells += 1
    if pooled_wanted >= 8:
        statistic += (pooled_seen - pooled_wanted) ** 2 / pooled_wanted
        cells += 1
    freedom = cells - 1
    spread = 2 / (9 * freedom)
    return ((statistic / freedom) ** (1 / 3) - (1 - spread)) / math.sqrt(spread)


@pytest.mark.parametrize(
    "settings",
    [
        GenerationSettings(temperature=1.0, seed=1),
        GenerationSettings(temperature=0.6, seed=2),
        GenerationSettings(temperature=1.3, top_k=3, seed=3),
        GenerationSettings(temperature=1.0, top_p=0.8, seed=4),
    ],
    ids=["plain", "cold", "top-k", "top-p"],
)
def test_verified_tokens_follow_the_target_down_the_tree(settings: GenerationSettings) -> None:
    counts = Counter(by_tree(Sampler(replace(settings, seed=seed)), 4) for seed in range(SAMPLES))
    assert abs(chi_square_z(counts, exact_distribution(settings, 4))) < 4


def test_the_chi_square_notices_a_biased_rule() -> None:
    """Accepting a child whenever its probability is high is not lossless, and shows."""
    settings = GenerationSettings(temperature=1.0)

    def biased(seed: int, length: int) -> tuple[int, ...]:
        sampler = Sampler(replace(settings, seed=seed))
        tokens: list[int] = []
        node = 0
        while True:
            probabilities = torch.softmax(next_logits([0, *tokens]), -1)
            good = [c for t, c in TREE.children[node].items() if probabilities[t] > 0.03]
            if not good:
                break
            node = good[0]
            tokens.append(TREE.tokens[node])
        while len(tokens) < length:
            tokens.append(sampler.choose(next_logits([0, *tokens]), [0, *tokens]))
        return tuple(tokens[:length])

    counts = Counter(biased(seed, 4) for seed in range(SAMPLES))
    assert chi_square_z(counts, exact_distribution(settings, 4)) > 10


def test_greedy_takes_the_longest_matching_path() -> None:
    """Against an exhaustive search over all root-to-node paths."""
    generator = torch.Generator().manual_seed(0)
    for _ in range(200):
        tokens, parents = [0], [-1]
        for _node in range(14):
            parent = int(torch.randint(0, len(tokens), (1,), generator=generator))
            token = int(torch.randint(0, VOCABULARY, (1,), generator=generator))
            if any(p == parent and t == token for t, p in zip(tokens, parents, strict=True)):
                continue
            tokens.append(token)
            parents.append(parent)
        tree = tree_of(tokens, parents)
        best = torch.randint(0, VOCABULARY, (len(tree),), generator=generator).tolist()
        target = Toy(tree, Sampler(GenerationSettings()))
        target.choose = best.__getitem__  # type: ignore[method-assign]
        outcome = verify(tree, target)
        matching = [
            path
            for path in (tree.path(node) for node in range(len(tree)))
            if all(tree.tokens[b] == best[a] for a, b in itertools.pairwise(path))
        ]
        longest = max(matching, key=len)
        assert list(outcome.path) == longest[1:]
        assert outcome.bonus == best[longest[-1]]


def test_one_draw_per_emitted_token() -> None:
    """The same seed gives the same text with and without drafts."""
    for seed in range(50):
        settings = GenerationSettings(temperature=1.0, seed=seed)
        drafted = by_tree(Sampler(settings), 6)
        plain = Sampler(settings)
        tokens: list[int] = []
        while len(tokens) < 6:
            tokens.append(plain.choose(next_logits([0, *tokens]), [0, *tokens]))
        assert drafted == tuple(tokens)


def test_filters_of_a_large_vocabulary_match_a_full_sort() -> None:
    torch.manual_seed(0)
    for spread in (0.1, 3.0):  # flat: the nucleus holds thousands; peaked: a handful
        logits = torch.randn(5000) * spread
        for top_p in (0.3, 0.9, 0.999):
            sampler = Sampler(GenerationSettings(temperature=0.9, top_p=top_p, seed=0))
            probabilities, tokens = sampler.distribution(logits)
            sorted_p, order = torch.softmax(logits / 0.9, -1).sort(descending=True)
            kept = int((sorted_p.cumsum(0) - sorted_p < top_p).sum())
            assert tokens is not None and set(tokens.tolist()) == set(order[:kept].tolist())
            torch.testing.assert_close(probabilities, sorted_p[:kept])


@pytest.mark.parametrize(
    "bad", [{"temperature": -0.1}, {"top_p": 0.0}, {"top_p": 1.1}, {"top_k": -1}, {"max_new_tokens": 0}]
)
def test_settings_out_of_range_are_refused(bad: dict[str, float]) -> None:
    with pytest.raises(PromptError):
        Sampler(GenerationSettings(**bad))  # type: ignore[arg-type]


def test_the_mask_is_ancestry() -> None:
    mask = ancestor_mask(TREE.parents)
    for row in range(len(TREE)):
        assert [column for column in range(len(TREE)) if mask[row, column]] == sorted(TREE.path(row))
    assert TREE.depth == 5
    assert TREE.positions(100).tolist() == [100 + depth for depth in TREE.depths]


@pytest.mark.parametrize(
    ("tokens", "parents"),
    [([], []), ([1], [0]), ([1, 2], [-1, 1]), ([1, 2, 2], [-1, 0, 0]), ([1, 2], [-1, -1])],
)
def test_what_is_not_a_tree_is_refused(tokens: list[int], parents: list[int]) -> None:
    with pytest.raises(ValueError, match=r"root|parent|children"):
        tree_of(tokens, parents)
