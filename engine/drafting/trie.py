"""Several continuations as one draft tree: common beginnings are shared."""

from __future__ import annotations

from collections.abc import Sequence

from engine.settings import Shape
from engine.tree import DraftTree


def tree_of(
    root: int, continuations: Sequence[Sequence[int]], nodes: int, depth: int, shape: Shape
) -> DraftTree:
    """A tree of at most ``nodes`` rows (root included) and ``depth`` levels under ``root``.

    Earlier continuations come first where room is short. A node's probability is the share of
    its parent's continuations that go on with its token, each counted as often as it is given.
    """
    tokens, parents, weights = [root], [-1], [len(continuations)]
    children: list[dict[int, int]] = [{}]
    for continuation in continuations:
        node = 0
        for token in continuation[:depth]:
            child = children[node].get(token)
            if child is None:
                if len(tokens) == nodes:
                    break
                child = len(tokens)
                children[node][token] = child
                tokens.append(token)
                parents.append(node)
                weights.append(0)
                children.append({})
            weights[child] += 1
            node = child
    own = [1.0] + [weights[node] / weights[parents[node]] for node in range(1, len(tokens))]
    paths = [1.0]
    for node in range(1, len(tokens)):
        paths.append(paths[parents[node]] * own[node])
    return DraftTree(tuple(tokens), tuple(parents), tuple(own), tuple(paths), shape)
