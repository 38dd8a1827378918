"""The dynamic tree against EAGLE-2's published steps, written out slowly on the reference head."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from engine.drafting.drafter import TreeLimits
from engine.drafting.eagle import EagleDrafter
from engine.heads.checkpoint import Eagle3Checkpoint
from engine.heads.eagle3 import Eagle3Head
from engine.heads.eagle3_inference import Eagle3Inference
from engine.heads.projections import dense_linear, int8_linear
from engine.models.cache import KVCache
from engine.tree import DraftTree
from tests.engine import tiny


@pytest.fixture(scope="module")
def checkpoint() -> Eagle3Checkpoint:
    return tiny.checkpoint()


@pytest.fixture(scope="module")
def embedding() -> Tensor:
    torch.manual_seed(3)
    return torch.randn(tiny.VOCABULARY, 64)


class SlowTree:
    """Recomputes everything from the start for each node: one causal pass over its own path."""

    def __init__(self, checkpoint: Eagle3Checkpoint, embedding: Tensor) -> None:
        self.head = Eagle3Head.from_checkpoint(checkpoint)
        self.embedding = embedding
        self.ids = checkpoint.draft_ids.tolist()

    @torch.no_grad()
    def log_probabilities(self, features: Tensor, tokens: list[int], path: list[int]) -> Tensor:
        """Draft log-probabilities after ``path`` (drafted tokens) hung under ``tokens[-1]``."""
        states = self.head.fuse(features)  # one per token before the root
        following = tokens[1:]
        out = self._pass(states, following)
        for token in path:
            states = torch.cat((states, out[-1:]))
            following = [*following, token]
            out = self._pass(states, following)
        return torch.log_softmax(self.head.logits(out[-1:])[0], -1)

    def _pass(self, states: Tensor, following: list[int]) -> Tensor:
        rows = len(following)
        mask = torch.ones(rows, rows, dtype=torch.bool).tril()
        embedded = self.embedding[torch.tensor(following)]
        return self.head(states, embedded, torch.arange(rows), mask)

    def tree(self, features: Tensor, tokens: list[int], limits: TreeLimits) -> DraftTree:
        paths: list[list[int]] = [[]]
        scores, own = [0.0], [0.0]
        parents = [-1]
        beam = [0]
        for _level in range(limits.depth):
            fresh = []
            for node in beam:
                logs = self.log_probabilities(features, tokens, paths[node])
                for log, index in zip(*(x.tolist() for x in logs.topk(limits.top_k)), strict=True):
                    fresh.append(len(paths))
                    paths.append([*paths[node], self.ids[index]])
                    scores.append(scores[node] + log)
                    own.append(log)
                    parents.append(node)
            beam = sorted(fresh, key=lambda node: (-scores[node], node))[: limits.top_k]
        best = sorted(range(1, len(paths)), key=lambda node: (-scores[node], node))[: limits.nodes - 1]
        chosen = [0, *sorted(best)]
        place = {node: i for i, node in enumerate(chosen)}
        return DraftTree(
            tokens=(tokens[-1], *(paths[node][-1] for node in chosen[1:])),
            parents=(-1, *(place[parents[node]] for node in chosen[1:])),
            probabilities=tuple(torch.tensor([own[node] for node in chosen]).exp().tolist()),
            path_probabilities=tuple(torch.tensor([scores[node] for node in chosen]).exp().tolist()),
        )


def by_path(tree: DraftTree) -> dict[tuple[int, ...], float]:
    return {
        tuple(tree.tokens[step] for step in tree.path(node)): tree.path_probabilities[node]
        for node in range(len(tree))
    }


@pytest.mark.parametrize(
    "limits", [TreeLimits(8, 3, 3), TreeLimits(20, 4, 4), TreeLimits(60, 3, 6), TreeLimits(2, 1, 1)]
)
@torch.inference_mode()
def test_the_tree_is_the_published_one(
    checkpoint: Eagle3Checkpoint, embedding: Tensor, limits: TreeLimits
) -> None:
    slow = SlowTree(checkpoint, embedding)
    for seed in range(3):
        generator = torch.Generator().manual_seed(seed)
        tokens = torch.randint(2, tiny.VOCABULARY, (9,), generator=generator).tolist()
        features = torch.randn(8, 3 * 64, generator=generator)
        drafter = EagleDrafter(Eagle3Inference(checkpoint, embedding, dense_linear), 128)
        drafter.observe(features[:5])
        drafter.observe(features[5:])
        ours, published = (
            by_path(drafter.propose(tokens, limits)),
            by_path(slow.tree(features, tokens, limits)),
        )
        assert set(ours) == set(published)
        for path, probability in ours.items():
            assert probability == pytest.approx(published[path], rel=1e-4, abs=1e-7)


@torch.inference_mode()
def test_a_node_below_its_worth_is_left_out(checkpoint: Eagle3Checkpoint, embedding: Tensor) -> None:
    limits = TreeLimits(20, 4, 4)
    tokens = list(range(2, 11))
    features = torch.randn(8, 3 * 64, generator=torch.Generator().manual_seed(1))
    published = by_path(SlowTree(checkpoint, embedding).tree(features, tokens, limits))
    worth = sorted(published.values())[len(published) // 2] * 1.001
    drafter = EagleDrafter(Eagle3Inference(checkpoint, embedding, dense_linear), 128)
    drafter.observe(features)
    ours = by_path(drafter.propose(tokens, replace(limits, worth=worth)))
    parents = {path: published.get(path[:-1], 1.0) for path in published if path}
    assert set(ours) - {()} == {
        path for path in parents if published[path] > worth and (len(path) == 1 or parents[path] >= 2 * worth)
    }
    assert 1 < len(ours) < len(published)


@torch.inference_mode()
def test_the_stable_cache_holds_true_features_only(checkpoint: Eagle3Checkpoint, embedding: Tensor) -> None:
    """After several proposals and acceptances the tree equals that of a fresh drafter."""
    generator = torch.Generator().manual_seed(9)
    tokens = torch.randint(2, tiny.VOCABULARY, (30,), generator=generator).tolist()
    features = torch.randn(29, 3 * 64, generator=generator)
    limits = TreeLimits(12, 4, 4)
    head = Eagle3Inference(checkpoint, embedding, dense_linear)
    drafter = EagleDrafter(head, 128)
    known = 0
    for more in (6, 1, 3, 4, 1, 1, 7):
        drafter.observe(features[known : known + more])
        known += more
        tree = drafter.propose(tokens[: known + 1], limits)
        fresh = EagleDrafter(head, 128)
        fresh.observe(features[:known])
        expected = by_path(fresh.propose(tokens[: known + 1], limits))
        assert set(by_path(tree)) == set(expected)
    assert drafter.truncate(10) == 9
    drafter.observe(features[9:14])
    tree = drafter.propose(tokens[:15], limits)
    fresh = EagleDrafter(head, 128)
    fresh.observe(features[:14])
    assert set(by_path(tree)) == set(by_path(fresh.propose(tokens[:15], limits)))


@torch.inference_mode()
def test_int8_drafts_are_nearly_those_of_float(checkpoint: Eagle3Checkpoint, embedding: Tensor) -> None:
    generator = torch.Generator().manual_seed(2)
    tokens = torch.randint(2, tiny.VOCABULARY, (20,), generator=generator).tolist()
    features = torch.randn(19, 3 * 64, generator=generator)
    # As in real residual streams: some columns are far larger, and fc makes up for it.
    size = torch.ones(192)
    size[[3, 70, 150]] = 3000.0
    features = features * size
    tensors = dict(checkpoint.tensors)
    tensors["fc.weight"] = tensors["fc.weight"] / size
    checkpoint = Eagle3Checkpoint(checkpoint.config, tensors)
    trees = []
    for make in (dense_linear, int8_linear):
        drafter = EagleDrafter(Eagle3Inference(checkpoint, embedding, make), 128)
        drafter.observe(features)
        trees.append(by_path(drafter.propose(tokens, TreeLimits(8, 3, 3))))
    common = set(trees[0]) & set(trees[1])
    assert len(common) >= 6
    assert all(trees[0][path] == pytest.approx(trees[1][path], abs=0.05) for path in common)


@torch.inference_mode()
def test_missing_features_are_a_programming_error(checkpoint: Eagle3Checkpoint, embedding: Tensor) -> None:
    drafter = EagleDrafter(Eagle3Inference(checkpoint, embedding, dense_linear), 128)
    with pytest.raises(ValueError, match="observed"):
        drafter.propose([2, 3, 4], tiny.LIMITS)
    drafter.observe(torch.zeros(1, 192))
    with pytest.raises(ValueError, match="1 positions"):
        drafter.propose([2, 3, 4], tiny.LIMITS)


@torch.inference_mode()
def test_a_tree_wider_than_the_room_left_in_the_context_is_drafted(
    checkpoint: Eagle3Checkpoint, embedding: Tensor
) -> None:
    """The head's cache has slots behind the context, and none of a tree's is lost when it grows."""
    head = Eagle3Inference(checkpoint, embedding, dense_linear)
    generator = torch.Generator().manual_seed(4)
    tokens = torch.randint(2, tiny.VOCABULARY, (1024,), generator=generator).tolist()
    features = torch.randn(1023, 3 * 64, generator=generator)
    limits = TreeLimits(30, 4, 6)
    trees = []
    for context in (1024, 4096):  # the first cache starts with 1,024 slots and must grow for the tree
        drafter = EagleDrafter(head, context)
        if context == 4096:
            drafter._cache = KVCache(1, 2, 16, 4096, initial=4096)
        drafter.observe(features)
        trees.append(by_path(drafter.propose(tokens, limits)))
    assert trees[0] == pytest.approx(trees[1])
    assert max(map(len, trees[0])) > 2
