"""Which drafted tokens stand: the step that makes speculation lossless.

The target has seen every node of the draft tree in one pass. From the root down, the
target chooses its own next token at the node reached: the most likely one, or one
drawn from its own processed distribution. If that token is among the node's children,
the walk goes on from that child; if not, the token itself is the *bonus* token and the
walk ends.

That is all, greedy and sampled alike, where the children were chosen without chance
(EAGLE-2, EAGLE-3, Medusa, lookahead, prompt lookup: q = 1). It has the distribution of
rejection sampling down the children, p(x) after p(x) with the residual renormalised
(``evaluate_posterior`` in eagle/model/utils.py of SafeAILab/EAGLE), and spares its
renormalisations: a child is reached with probability p(child), and given that no child
was, the token follows p restricted to the rest. One number per emitted token means that
the same seed gives the same text with and without drafts wherever the logits are the same.

Children that were *drawn* from a distribution q (EAGLE-1, a draft model) are tried one by
one, each with probability min(1, p/q); after a failure p becomes the normalised positive
part of p - q, and q loses the token (Leviathan et al., arXiv 2211.17192, section 2.3;
without replacement as in ``evaluate_posterior`` of SafeAILab/EAGLE, branch v1). The
text follows p as well, but a seed's text is another one than that of plain decoding.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from engine.sampling import Purpose, draw
from engine.tree import DraftTree


@dataclass(frozen=True, slots=True)
class Verified:
    path: tuple[int, ...]
    """Accepted nodes, root left out, shallowest first."""
    bonus: int
    """Token id that the target chose after the last accepted node."""


class Target(Protocol):
    """The target's word on the nodes of a tree that it has seen."""

    def choose(self, node: int) -> int:
        """Its token after ``node``, greedy or drawn."""
        ...

    def probabilities(self, node: int) -> Tensor:
        """Its processed distribution after ``node``. [vocab] float64, sum 1"""
        ...

    def uniform(self, node: int, purpose: Purpose, index: int = 0) -> float:
        """A random number in [0, 1) for the position after ``node``."""
        ...


def verify(tree: DraftTree, target: Target) -> Verified:
    """Walk down from the root to the bonus token; see above."""
    node = 0
    path: list[int] = []
    while True:
        if node in tree.draws and tree.children[node]:
            child, token = _try_drawn(tree, node, target)
        else:
            token = target.choose(node)
            child = tree.children[node].get(token)
        if child is None:
            return Verified(tuple(path), token)
        path.append(child)
        node = child


def _try_drawn(tree: DraftTree, node: int, target: Target) -> tuple[int | None, int]:
    """(accepted child or None, token): rejection sampling over children that were drawn."""
    p = target.probabilities(node)
    q = tree.draws[node].double()
    for index, (token, child) in enumerate(tree.children[node].items()):
        # u < p/q, without the division.
        if target.uniform(node, Purpose.ACCEPT, index) * float(q[token]) < float(p[token]):
            return child, token
        p = _normal((p - q).clamp_min(0.0), p)
        q = q.clone()
        q[token] = 0
        q = _normal(q, q)
    return None, draw(p, target.uniform(node, Purpose.RESIDUAL))


def _normal(weights: Tensor, otherwise: Tensor) -> Tensor:
    """Weights [n] that sum to 1; ``otherwise`` where rounding left none."""
    total = weights.sum()
    return weights / total if float(total) > 0 else otherwise


def verify_typical(tree: DraftTree, target: Target, threshold: float, delta: float) -> Verified:
    """Medusa's typical acceptance. **Changes the distribution**, which is why nobody gets it unasked.

    A guess stands when p(guess) > min(threshold, delta · exp(-H(p))), whatever the target would
    have drawn; the longest path that stands is taken, the likelier of equals (Cai et al.,
    arXiv 2401.10774, section 2.3.1). The bonus token is drawn from p.
    """
    p = {0: target.probabilities(0)}
    likelihood = {0: 1.0}
    best = 0
    for node in range(1, tree.guesses):
        parent = tree.parents[node]
        if parent not in p:
            continue
        before = p[parent]
        chance = float(before[tree.tokens[node]])
        entropy = float(torch.special.entr(before).sum())
        if chance <= min(threshold, delta * math.exp(-entropy)):
            continue
        p[node] = target.probabilities(node)
        likelihood[node] = likelihood[parent] * chance
        if (tree.depths[node], likelihood[node]) > (tree.depths[best], likelihood[best]):
            best = node
    return Verified(tuple(tree.path(best)[1:]), target.choose(best))
