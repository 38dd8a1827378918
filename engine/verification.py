"""Which drafted tokens stand: the step that makes speculation lossless.

The target has seen every node of the draft tree in one pass. From the root down, the
target chooses its own next token at the node reached: the most likely one, or one
drawn from its own processed distribution. If that token is among the node's children,
the walk goes on from that child; if not, the token itself is the *bonus* token and the
walk ends.

That is all, greedy and sampled alike. With a drafter that proposes deterministically
(EAGLE-2 and EAGLE-3: q = 1), it has the distribution of rejection sampling down the
children, p(x) after p(x) with the residual renormalised (``evaluate_posterior`` in
eagle/model/utils.py of SafeAILab/EAGLE), and spares its renormalisations: a child is
reached with probability p(child), and given that no child was, the token follows p
restricted to the rest. One draw per emitted token means that the same seed gives the
same text with and without drafts wherever the logits are the same.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from engine.tree import DraftTree


@dataclass(frozen=True, slots=True)
class Verified:
    path: tuple[int, ...]
    """Accepted nodes, root left out, shallowest first."""
    bonus: int
    """Token id that the target chose after the last accepted node."""


def verify(tree: DraftTree, choose: Callable[[int], int]) -> Verified:
    """Walk down from the root; ``choose(node)`` is the target's token after that node.

    ``choose`` is called once for each node on the accepted path, root included, in order.
    """
    node = 0
    path: list[int] = []
    while True:
        token = choose(node)
        child = tree.children[node].get(token)
        if child is None:
            return Verified(tuple(path), token)
        path.append(child)
        node = child
