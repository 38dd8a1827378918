"""Nodes of draft trees as bytes: some 45 a node, where objects take ten times that. No Qt."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable, Iterator

from engine.protocol import TreeNode, Verdict

_NODE = struct.Struct("<iIiHBdddI")
"""token id, text number, parent, depth, verdict, draft, path and target probability, target rank."""
_VERDICTS = tuple(Verdict)
_CODES = {verdict: code for code, verdict in enumerate(_VERDICTS)}


class NodePacker:
    """Packs nodes, and gives back equal ones; a text that many nodes share is kept once."""

    def __init__(self) -> None:
        self._texts: list[str] = []
        self._numbers: dict[str, int] = {}

    def pack(self, nodes: Iterable[TreeNode]) -> bytes:
        return b"".join(map(self._pack, nodes))

    def _pack(self, node: TreeNode) -> bytes:
        number = self._numbers.get(node.text)
        if number is None:
            number = self._numbers[node.text] = len(self._texts)
            self._texts.append(node.text)
        target = math.nan if node.target_probability is None else node.target_probability
        return _NODE.pack(
            node.token_id,
            number,
            node.parent,
            node.depth,
            _CODES[node.verdict],
            node.draft_probability,
            node.path_probability,
            target,
            node.target_rank or 0,
        )

    def unpack(self, packed: bytes) -> Iterator[TreeNode]:
        for token, text, parent, depth, verdict, draft, path, target, rank in _NODE.iter_unpack(packed):
            yield TreeNode(
                token_id=token,
                text=self._texts[text],
                parent=parent,
                depth=depth,
                draft_probability=draft,
                path_probability=path,
                verdict=_VERDICTS[verdict],
                target_probability=None if math.isnan(target) else target,
                target_rank=rank or None,
            )
