"""Made-up steps that obey the protocol, for the tests of the tree panel and of the comparison."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from app.tree_panel.panel import TreePanel
from engine.protocol import (
    Bonus,
    Finished,
    FinishReason,
    Match,
    Mode,
    Origin,
    Piece,
    ReplyStats,
    Shape,
    Step,
    StepTimes,
    TreeNode,
    Verdict,
)

WORDS = (" the", " cat", "sat", " on", "\n", " mat", ".", " a", " dog", "ing", "  ", "(")


def step(
    index: int,
    nodes: int = 8,
    depth: int = 4,
    seed: int = 0,
    request_id: str = "r",
    words: Sequence[str] = WORDS,
    root: str = " root",
) -> Step:
    """A step with a random tree of ``nodes`` rows; index 0 is a prompt pass, nodes=0 plain decoding."""
    r = random.Random(f"{seed}/{index}")
    if index == 0 or nodes == 0:
        piece = Piece(r.randrange(1000), r.choice(words), Origin.TARGET)
        return Step(request_id, index, (piece,), StepTimes(0.0, 0.02, 0.0, 0.001))
    parents, depths, probabilities, paths = [-1], [0], [1.0], [1.0]
    while len(parents) < nodes:
        parent = r.choice([n for n in range(len(parents)) if depths[n] < depth])
        parents.append(parent)
        depths.append(depths[parent] + 1)
        probabilities.append(r.uniform(0.01, 0.99))
        paths.append(paths[parent] * probabilities[-1])
    accepted: list[int] = []
    at = 0
    while True:
        children = [n for n in range(nodes) if parents[n] == at]
        if not children or r.random() < 0.35:
            break
        at = r.choice(children)
        accepted.append(at)
    tree = tuple(
        TreeNode(
            token_id=1000 + n,
            text=root if n == 0 else r.choice(words),
            parent=parents[n],
            depth=depths[n],
            draft_probability=probabilities[n],
            path_probability=paths[n],
            verdict=Verdict.ROOT if n == 0 else Verdict.ACCEPTED if n in accepted else Verdict.REJECTED,
            target_probability=r.random() if n and parents[n] in (0, *accepted) else None,
        )
        for n in range(nodes)
    )
    bonus = Bonus(7, r.choice(words), at, r.random())
    pieces = [Piece(tree[n].token_id, tree[n].text, Origin.DRAFT) for n in accepted]
    pieces.append(Piece(bonus.token_id, bonus.text, Origin.TARGET))
    times = StepTimes(r.uniform(0.001, 0.004), r.uniform(0.01, 0.03), 0.0005, 0.001)
    return Step(request_id, index, tuple(pieces), times, tree, tuple(accepted), bonus, Mode.EAGLE)


def chain_step(
    index: int,
    texts: Sequence[str] = (" of", " the", " sea", "."),
    accepted: int = 2,
    bonus: str = " old",
    match: Match | None = None,
    request_id: str = "r",
) -> Step:
    """A step whose guesses are one chain, of which the first ``accepted`` stood."""
    nodes = [TreeNode(10, " man", -1, 0, 1.0, 1.0, Verdict.ROOT)]
    for number, text in enumerate(texts, 1):
        verdict = Verdict.ACCEPTED if number <= accepted else Verdict.REJECTED
        target = 0.9 if number <= accepted + 1 else None
        rank = (1 if number <= accepted else 4) if target else None
        nodes.append(TreeNode(10 + number, text, number - 1, number, 0.8, 0.8**number, verdict, target, rank))
    pieces = [Piece(node.token_id, node.text, Origin.DRAFT) for node in nodes[1 : accepted + 1]]
    pieces.append(Piece(99, bonus, Origin.TARGET))
    return Step(
        request_id,
        index,
        tuple(pieces),
        StepTimes(0.001, 0.02, 0.0005, 0.001),
        tuple(nodes),
        tuple(range(1, accepted + 1)),
        Bonus(99, bonus, accepted, 0.6, 1),
        Mode.EAGLE,
        method="prompt-lookup",
        shape=Shape.CHAIN,
        match=match,
    )


def window_step(
    index: int, columns: int = 5, levels: int = 3, grams: int = 2, request_id: str = "r"
) -> Step:
    """A step of n-grams from a pool, beside a window of so many columns and levels."""
    nodes = [TreeNode(10, " man", -1, 0, 1.0, 1.0, Verdict.ROOT)]
    for gram in range(grams):
        parent = 0
        for depth in range(1, levels + 1):
            verdict = Verdict.ACCEPTED if gram == 0 and depth == 1 else Verdict.REJECTED
            nodes.append(TreeNode(20 + len(nodes), f" g{gram}{depth}", parent, depth, 1.0, 1.0, verdict))
            parent = len(nodes) - 1
    window: list[TreeNode] = []
    for level in range(levels):
        for column in range(columns):
            if level:
                parent = len(nodes) + (level - 1) * columns + column
            else:
                parent = len(nodes) + column - 1 if column else 0
            text = f"w{level}{column}"
            depth = 1 + level + column
            window.append(TreeNode(200 + len(window), text, parent, depth, 1.0, 1.0, Verdict.WINDOW))
    accepted = (1,) if grams else ()
    pieces = [Piece(nodes[number].token_id, nodes[number].text, Origin.DRAFT) for number in accepted]
    pieces.append(Piece(99, " old", Origin.TARGET))
    return Step(
        request_id,
        index,
        tuple(pieces),
        StepTimes(0.0002, 0.04, 0.0005, 0.001),
        tuple(nodes),
        accepted,
        Bonus(99, " old", accepted[-1] if accepted else 0),
        Mode.EAGLE,
        method="lookahead",
        shape=Shape.WINDOW,
        window=tuple(window),
    )


def steps(count: int, nodes: int = 8, depth: int = 4, seed: int = 0, request_id: str = "r") -> list[Step]:
    """Prompt pass and ``count - 1`` steps."""
    return [step(index, nodes, depth, seed, request_id) for index in range(count)]


def plain_steps(texts: Sequence[str], request_id: str = "r", seconds: float = 0.02, first_id: int = 0) -> list[Step]:
    """One token a step, ids counted from ``first_id``."""
    return [
        Step(
            request_id,
            index,
            (Piece(first_id + index, text, Origin.TARGET),),
            StepTimes(0.0, seconds, 0.0, 0.0),
        )
        for index, text in enumerate(texts)
    ]


def finished(
    played: Sequence[Step],
    mode: Mode = Mode.EAGLE,
    reason: FinishReason = FinishReason.EOS,
    decode_seconds: float | None = None,
    reused: int = 0,
    notice: str = "",
) -> Finished:
    """The end of a reply that consisted of these steps."""
    pieces = [piece for one in played for piece in one.pieces]
    parts = ("draft", "verify", "accept", "other")
    times = StepTimes(*(sum(getattr(one.times, part) for one in played[1:]) for part in parts))
    stats = ReplyStats(
        mode=mode,
        prompt_tokens=12,
        reused_tokens=reused,
        new_tokens=len(pieces),
        steps=len(played) - 1,
        drafted_tokens=sum(max(0, len(one.nodes) - 1) for one in played),
        accepted_tokens=sum(len(one.accepted) for one in played),
        accepted_by_depth=(),
        proposed_by_depth=(),
        time_to_first_token=0.25,
        decode_seconds=times.total if decode_seconds is None else decode_seconds,
        times=times,
    )
    return Finished(
        played[0].request_id,
        reason,
        stats,
        tuple(piece.token_id for piece in pieces),
        "".join(piece.text for piece in pieces),
        notice,
    )


def play(panel: TreePanel, played: Sequence[Step], begin: bool = True) -> None:
    """Send steps to a panel, as the first of a reply unless ``begin`` is False."""
    if begin:
        panel.begin_reply(played[0].request_id)
    for one in played:
        panel.add_step(one)


def shows(panel: TreePanel, index: int) -> Callable[[], bool]:
    """For waiting: whether the panel has drawn the step with this number."""
    return lambda: panel.view.step is not None and panel.view.step.index == index
