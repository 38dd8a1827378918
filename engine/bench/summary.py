"""Medians and sums over a bench's replies, ready to print and to write as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from engine.bench.measure import Pair
from engine.protocol import ReplyStats


@dataclass(frozen=True, slots=True)
class Speed:
    """Medians over prompts, of replies long enough to time."""

    prompts: int
    plain: float
    """tokens/s, EAGLE off."""
    eagle: float
    """tokens/s, EAGLE on."""
    speed_up: float
    """Median of the prompts' own ratios."""
    tau: float
    """Tokens per target pass, over all tokens of these replies."""

    @classmethod
    def of(cls, pairs: Sequence[Pair]) -> Speed | None:
        timed = [pair for pair in pairs if pair.long_enough]
        if not timed:
            return None
        stats = [pair.eagle.stats for pair in timed]
        return cls(
            prompts=len(timed),
            plain=median(pair.plain.stats.tokens_per_second for pair in timed),
            eagle=median(one.tokens_per_second for one in stats),
            speed_up=median(pair.speed_up for pair in timed),
            tau=sum(one.new_tokens - 1 for one in stats) / max(1, sum(one.steps for one in stats)),
        )


def acceptance_by_depth(stats: Iterable[ReplyStats]) -> list[float]:
    """Share of the steps with a node at depth d+1 in which one was accepted there."""
    accepted: list[int] = []
    proposed: list[int] = []
    for one in stats:
        for sums, counts in ((accepted, one.accepted_by_depth), (proposed, one.proposed_by_depth)):
            sums.extend([0] * (len(counts) - len(sums)))
            for depth, count in enumerate(counts):
                sums[depth] += count
    return [a / p if p else 0.0 for a, p in zip(accepted, proposed, strict=False)]


def step_milliseconds(stats: Sequence[ReplyStats]) -> dict[str, float]:
    """Where a step's time goes, per step: draft, verify, accept, other and their sum."""
    steps = max(1, sum(one.steps for one in stats))
    parts = {
        name: 1000 * sum(getattr(one.times, name) for one in stats) / steps
        for name in ("draft", "verify", "accept", "other")
    }
    return {**parts, "total": sum(parts.values())}


def summarise(pairs: Sequence[Pair], peers: dict[str, list[tuple[float, float, float]]]) -> dict[str, Any]:
    """Everything the report shows. ``peers`` maps a name to (peer, plain, eagle) tokens/s."""
    categories = list(dict.fromkeys(pair.prompt.category for pair in pairs))
    eagle = [pair.eagle.stats for pair in pairs]
    plain = [pair.plain.stats for pair in pairs]

    def speed(chosen: Sequence[Pair]) -> dict[str, Any] | None:
        found = Speed.of(chosen)
        return asdict(found) if found else None

    return {
        "prompts": len(pairs),
        "identical": sum(pair.identical for pair in pairs),
        "looping_share": sum(pair.looping for pair in pairs) / len(pairs),
        "all": speed(pairs),
        "without_loops": speed([pair for pair in pairs if not pair.looping]),
        "categories": {name: speed([p for p in pairs if p.prompt.category == name]) for name in categories},
        "acceptance_by_depth": acceptance_by_depth(eagle),
        "acceptance_rate": sum(s.accepted_tokens for s in eagle)
        / max(1, sum(s.drafted_tokens for s in eagle)),
        "step_ms": {"eagle": step_milliseconds(eagle), "plain": step_milliseconds(plain)},
        "peers": {
            name: {
                "prompts": len(rows),
                "tokens_per_second": median(row[0] for row in rows),
                "plain_ratio": median(row[1] / row[0] for row in rows),
                "eagle_ratio": median(row[2] / row[0] for row in rows),
            }
            for name, rows in peers.items()
            if rows
        },
        "replies": [
            {
                "prompt": pair.prompt.name,
                "category": pair.prompt.category,
                "identical": pair.identical,
                "looping": pair.looping,
                "tokens": pair.eagle.stats.new_tokens,
                "plain": pair.plain.stats.tokens_per_second,
                "eagle": pair.eagle.stats.tokens_per_second,
                "tau": pair.eagle.stats.acceptance_length,
            }
            for pair in pairs
        ],
    }
