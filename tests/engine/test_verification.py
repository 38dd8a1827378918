"""Lossless in distribution: chi-square of sampled verification against the plain sampler."""

from __future__ import annotations

import functools
import itertools
import math
from collections import Counter
from collections.abc import Callable, Sequence

import pytest
import torch

from engine.drafting.nodes import Nodes
from engine.drafting.static_growth import grow
from engine.drafting.tree_shapes import parse_tree
from engine.errors import PromptError
from engine.protocol import GenerationSettings
from engine.sampling import Noise, Purpose, Sampler
from engine.tree import DraftTree, ancestor_mask
from engine.verification import verify, verify_typical

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


class Remembering(Sampler):
    """The sampler itself, but what it makes of a history is worked out once for all samples."""

    def __init__(self, settings: GenerationSettings, reply_begins: int = 0) -> None:
        super().__init__(settings, reply_begins)
        self._processed: dict[tuple[int, ...], torch.Tensor] = {}
        self._distributions: dict[int, tuple[torch.Tensor, torch.Tensor | None]] = {}
        self._kept: list[torch.Tensor] = []

    def processed(self, logits: torch.Tensor, tokens: Sequence[int], path: Sequence[int]) -> torch.Tensor:
        history = (*tokens, *path)
        if history not in self._processed:
            self._processed[history] = super().processed(logits, tokens, path).clone()
        return self._processed[history]

    def distribution(self, logits: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor | None]:
        key = id(logits)
        if key not in self._distributions:
            self._kept.append(logits)  # an id is good as long as its tensor lives
            self._distributions[key] = super().distribution(logits)
        return self._distributions[key]


def samples(
    settings: GenerationSettings, one: Callable[[Sampler], tuple[int, ...]], count: int = SAMPLES
) -> Counter[tuple[int, ...]]:
    """``count`` outcomes of ``one``, each with a seed of its own."""
    sampler = Remembering(settings, reply_begins=1)
    counts: Counter[tuple[int, ...]] = Counter()
    for seed in range(count):
        sampler.noise = Noise(seed)
        counts[one(sampler)] += 1
    return counts


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
    """Probabilities of every continuation by brute force, processors and filters written out plainly.

    The prompt is the root, token 0; the reply is what follows it.
    """

    def processed(history: Sequence[int]) -> list[float]:
        logits = [float(x) for x in next_logits(history)]
        for token, bias in settings.logit_bias:
            logits[token] += bias
        for token in set(history):
            penalty = settings.repetition_penalty
            logits[token] = logits[token] / penalty if logits[token] > 0 else logits[token] * penalty
        for token in history[1:]:
            logits[token] -= settings.frequency_penalty
        for token in set(history[1:]):
            logits[token] -= settings.presence_penalty
        size = settings.no_repeat_ngram
        grams = {tuple(history[i : i + size]) for i in range(len(history) - size + 1)} if size else set()
        banned = {t for t in range(VOCABULARY) if (*history, t)[len(history) + 1 - size :] in grams}
        scaled = [x / settings.temperature for x in logits]
        order = sorted((t for t in range(VOCABULARY) if t not in banned), key=lambda token: -scaled[token])
        allowed = order[: settings.top_k] if settings.top_k else order
        total = sum(math.exp(scaled[token]) for token in allowed)
        mass, kept = 0.0, []
        for token in allowed:
            if mass >= settings.top_p:
                break
            kept.append(token)
            mass += math.exp(scaled[token]) / total
        kept = [t for t in kept if math.exp(scaled[t] - scaled[kept[0]]) >= settings.min_p]
        kept_total = sum(math.exp(scaled[token]) for token in kept)
        return [math.exp(scaled[t]) / kept_total if t in kept else 0.0 for t in range(VOCABULARY)]

    found = {}
    for tokens in itertools.product(range(VOCABULARY), repeat=length):
        probability = 1.0
        for place, token in enumerate(tokens):
            probability *= processed((0, *tokens[:place]))[token]
            if not probability:
                break
        else:
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


PROCESSED = {
    "plain": GenerationSettings(temperature=1.0),
    "cold": GenerationSettings(temperature=0.6),
    "top-k": GenerationSettings(temperature=1.3, top_k=3),
    "top-p": GenerationSettings(temperature=1.0, top_p=0.8),
    "min-p": GenerationSettings(temperature=1.2, min_p=0.25),
    "repetition": GenerationSettings(temperature=1.0, repetition_penalty=1.7),
    "presence": GenerationSettings(temperature=1.0, presence_penalty=0.9),
    "frequency": GenerationSettings(temperature=1.0, frequency_penalty=0.6),
    "n-gram": GenerationSettings(temperature=1.0, no_repeat_ngram=2),
    "bias": GenerationSettings(temperature=1.0, logit_bias=((3, 1.5), (0, -2.0))),
    "all": GenerationSettings(
        temperature=1.1,
        top_k=4,
        top_p=0.95,
        min_p=0.02,
        repetition_penalty=1.2,
        presence_penalty=0.3,
        frequency_penalty=0.2,
        no_repeat_ngram=3,
        logit_bias=((2, 0.7),),
    ),
}


@pytest.mark.parametrize("settings", PROCESSED.values(), ids=PROCESSED)
def test_verified_tokens_follow_the_target_down_the_tree(settings: GenerationSettings) -> None:
    """First to third new token, with every processor; a prefix's penalty for all nodes would show."""
    counts = samples(settings, lambda sampler: by_tree(sampler, 3))
    assert abs(chi_square_z(counts, exact_distribution(settings, 3))) < 4


class ToyDrafter(Nodes):
    """Grows on a distribution of its own, which is not the target's."""

    def __init__(self) -> None:
        super().__init__(0)
        self.beam = [0]

    def logits(self) -> list[torch.Tensor]:  # the very tensors, which are remembered
        paths = []
        for node in self.beam:
            path: list[int] = []
            while node > 0:
                path.append(self.tokens[node])
                node = self.parents[node]
            paths.append([1, 0, *path[::-1]])
        return [next_logits(path) for path in paths]

    def top(self, count: int) -> tuple[list[list[int]], list[list[float]]]:
        values, ids = torch.log_softmax(torch.stack(self.logits()), -1).topk(count)
        return ids.tolist(), values.tolist()

    def advance(self, nodes: Sequence[int]) -> None:
        self.beam = list(nodes)


DRAWN = parse_tree("[[0], [1], [0, 0], [0, 1]]", {})


def by_draws(sampler: Sampler, length: int) -> tuple[int, ...]:
    """As :func:`by_tree`, over children drawn without replacement and verified by p/q."""
    tree = grow(ToyDrafter(), DRAWN, sampler, 0)
    outcome = verify(tree, Toy(tree, sampler))
    tokens = [tree.tokens[node] for node in outcome.path] + [outcome.bonus]
    while len(tokens) < length:
        known = [0, *tokens]
        tokens.append(sampler.choose(next_logits(known), known))
    return tuple(tokens[:length])


@pytest.mark.parametrize("name", PROCESSED)
def test_drawn_guesses_follow_the_target_too(name: str) -> None:
    counts = samples(PROCESSED[name], lambda sampler: by_draws(sampler, 3))
    assert abs(chi_square_z(counts, exact_distribution(PROCESSED[name], 3))) < 4


def test_typical_acceptance_does_not_follow_the_target() -> None:
    """It is labelled so for a reason; and this shows that the test can fail."""
    settings = PROCESSED["plain"]

    def typical(sampler: Sampler) -> tuple[int, ...]:
        outcome = verify_typical(TREE, Toy(TREE, sampler), threshold=0.09, delta=0.3)
        tokens = [TREE.tokens[node] for node in outcome.path] + [outcome.bonus]
        while len(tokens) < 3:
            known = [0, *tokens]
            tokens.append(sampler.choose(next_logits(known), known))
        return tuple(tokens[:3])

    assert chi_square_z(samples(settings, typical, 5000), exact_distribution(settings, 3)) > 10


def test_drawing_everything_accepts_everything() -> None:
    """Where the drafter is the target, p = q and no guess is ever refused."""

    class Twin(ToyDrafter):
        def logits(self) -> list[torch.Tensor]:
            return [next_logits([0])]

    sampler = Remembering(PROCESSED["plain"], reply_begins=1)
    for seed in range(200):
        sampler.noise = Noise(seed)
        tree = grow(Twin(), parse_tree("[[0]]", {}), sampler, 0)
        assert verify(tree, Toy(tree, sampler)).path == (1,)


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
    "bad",
    [
        {"temperature": -0.1},
        {"top_p": 0.0},
        {"top_p": 1.1},
        {"top_k": -1},
        {"max_new_tokens": 0},
        {"min_p": 1.1},
        {"repetition_penalty": 0.0},
        {"no_repeat_ngram": -1},
    ],
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
