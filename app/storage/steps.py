"""A reply's steps, and the origins of its text, as small blobs.

A block is zlib over one JSON array a line, one line a step: blocks can be joined
without being parsed, and a reply of a thousand steps takes some 100 kB.
Probabilities keep five digits, which is more than any view shows.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from engine.protocol import (
    Bonus,
    Match,
    Mode,
    Origin,
    Piece,
    Shape,
    Step,
    StepTimes,
    TreeNode,
    Verdict,
)

STEPS_A_BLOCK = 64
"""Steps joined into one block when a reply has ended."""
_VERDICTS = tuple(Verdict)
_ORIGINS = tuple(Origin)
_ORIGIN_NUMBERS = {origin: number for number, origin in enumerate(_ORIGINS)}
_MODES = tuple(Mode)
_SHAPES = tuple(Shape)


def pack(steps: Iterable[Step]) -> bytes:
    """A block of steps."""
    return zlib.compress("\n".join(map(_line, steps)).encode("utf-8", "surrogatepass"), 5)


def unpack(block: bytes, request_id: str) -> list[Step]:
    """The steps of a block. :raises ValueError: the block is damaged."""
    try:
        lines = zlib.decompress(block).decode("utf-8", "surrogatepass").split("\n")
        return [_step(json.loads(line), request_id) for line in lines if line]
    except (zlib.error, LookupError, TypeError) as error:
        raise ValueError(f"the steps of a reply cannot be read: {error}") from error


def join(blocks: Sequence[bytes]) -> Iterator[bytes]:
    """Small blocks made into larger ones, in order."""
    lines: list[bytes] = []
    for block in blocks:
        lines.extend(line for line in zlib.decompress(block).split(b"\n") if line)
    for begin in range(0, len(lines), STEPS_A_BLOCK):
        yield zlib.compress(b"\n".join(lines[begin : begin + STEPS_A_BLOCK]), 6)


def pack_runs(runs: Iterable[tuple[int, int, Origin, int]]) -> bytes:
    """Stretches of text as ``(start, end, origin, step)``."""
    numbers = [n for start, end, origin, step in runs for n in (start, end, _ORIGIN_NUMBERS[origin], step)]
    return zlib.compress(json.dumps(numbers, separators=(",", ":")).encode(), 6)


def unpack_runs(blob: bytes | None, length: int) -> list[tuple[int, int, Origin, int]]:
    """What :func:`pack_runs` was given; nothing when it is damaged or goes beyond ``length``: only colours are lost."""
    if not blob:
        return []
    try:
        numbers = json.loads(zlib.decompress(blob))
        starts, ends, origins, steps = (numbers[part::4] for part in range(4))
        if ends and ends[-1] > length:
            return []
        return list(zip(starts, ends, map(_ORIGINS.__getitem__, origins), steps, strict=True))
    except (zlib.error, ValueError, LookupError, TypeError):
        return []


# --------------------------------------------------------------------------- one step


def _short(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.5g}")


def _line(step: Step) -> str:
    times = step.times
    bonus = step.bonus
    return json.dumps(
        [
            step.index,
            _MODES.index(step.mode),
            [_short(part) for part in (times.draft, times.verify, times.accept, times.other)],
            [[piece.token_id, piece.text, _ORIGINS.index(piece.origin)] for piece in step.pieces],
            [_node(node) for node in step.nodes],
            step.accepted,
            bonus
            and [bonus.token_id, bonus.text, bonus.parent, _short(bonus.target_probability), bonus.target_rank],
            step.method,
            _SHAPES.index(step.shape),
            [_node(node) for node in step.window],
            step.notice,
            step.match and [step.match.text, step.match.tokens, step.match.back],
        ],
        separators=(",", ":"),
        ensure_ascii=False,
    )


def _node(node: TreeNode) -> list[Any]:
    return [
        node.token_id,
        node.text,
        node.parent,
        node.depth,
        _short(node.draft_probability),
        _short(node.path_probability),
        _VERDICTS.index(node.verdict),
        _short(node.target_probability),
        node.target_rank,
    ]


def _step(values: list[Any], request_id: str) -> Step:
    index, mode, times, pieces, nodes, accepted, bonus, *more = values
    # Steps of earlier versions end here.
    method, shape, window, notice, match = more or ("", 0, (), "", None)
    return Step(
        request_id,
        index,
        tuple(Piece(token, text, _ORIGINS[origin]) for token, text, origin in pieces),
        StepTimes(*times),
        tuple(map(_tree_node, nodes)),
        tuple(accepted),
        Bonus(*bonus) if bonus else None,
        _MODES[mode],
        method,
        _SHAPES[shape],
        tuple(map(_tree_node, window)),
        notice,
        Match(*match) if match else None,
    )


def _tree_node(values: list[Any]) -> TreeNode:
    token, text, parent, depth, draft, path, verdict, *target = values
    return TreeNode(token, text, parent, depth, draft, path, _VERDICTS[verdict], *target)
