"""The figures of batches: speed over all sequences, and what a pass and its drafts take."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from engine.bench.batch import BatchBench, Ran, ReadPrompt

EXPLANATION = (
    "Measured: passes of the target over the rows of B sequences with their own keys and lengths, drafts made "
    "one sequence after another, temperature 0, prompts left out. “Drafts free” leaves the time of drafting out: "
    "what drafting all sequences in one pass of the head could reach at most."
)


@dataclass(frozen=True, slots=True)
class BatchFigures:
    """One size of batch. Times in ms, rates in tokens/s over all sequences."""

    sequences: int
    plain_rate: float
    drafted_rate: float
    speed_up: float
    speed_up_free: float
    """With the time of drafting left out."""
    tau: float
    """Tokens per sequence and pass."""
    plain_rows: float
    drafted_rows: float
    """Of an average pass."""
    plain_pass: float
    drafted_pass: float
    draft: float
    """Drafting of all sequences, per pass."""
    identical: int
    replies: int


def measure_batches(
    bench: BatchBench,
    prompts: Sequence[ReadPrompt],
    sizes: Sequence[int],
    say: Callable[[str], None] = lambda _text: None,
) -> Iterator[BatchFigures]:
    """Figures for each of ``sizes``: twice plain and twice drafted in the order A B B A, against drift."""
    bench.run(list(prompts[:2]), 1, True)  # warms caches; not counted
    for size in sizes:
        queue = [prompts[index % len(prompts)] for index in range(max(len(prompts), 2 * size + 2))]
        found: dict[bool, list[Ran]] = {False: [], True: []}
        for turn, drafting in enumerate((False, True, True, False)):
            say(f"{size} sequences, round {turn + 1} of 4")
            found[drafting].append(bench.run(queue, size, drafting))
        yield figures(size, found[False], found[True])


def figures(size: int, plain: Sequence[Ran], drafted: Sequence[Ran]) -> BatchFigures:
    def total(ran: Sequence[Ran], name: str) -> float:
        return float(sum(getattr(each, name) for each in ran))

    rates = [total(ran, "tokens") / total(ran, "seconds") for ran in (plain, drafted)]
    passes = [total(ran, "passes") for ran in (plain, drafted)]
    free = total(drafted, "tokens") / (total(drafted, "seconds") - total(drafted, "draft"))
    truth, ours = plain[0].replies, drafted[0].replies
    both = [number for number in truth if number in ours]
    lengths = {number: min(len(truth[number]), len(ours[number])) for number in both}
    return BatchFigures(
        sequences=size,
        plain_rate=rates[0],
        drafted_rate=rates[1],
        speed_up=rates[1] / rates[0],
        speed_up_free=free / rates[0],
        tau=total(drafted, "tokens") / passes[1] / size,
        plain_rows=total(plain, "rows") / passes[0],
        drafted_rows=total(drafted, "rows") / passes[1],
        plain_pass=1000 * total(plain, "verify") / passes[0],
        drafted_pass=1000 * total(drafted, "verify") / passes[1],
        draft=1000 * total(drafted, "draft") / passes[1],
        identical=sum(truth[n][: lengths[n]] == ours[n][: lengths[n]] for n in both),
        replies=len(both),
    )


def batch_table(found: Sequence[BatchFigures]) -> list[list[str]]:
    head = [
        "sequences",
        "plain, tokens/s",
        "drafted, tokens/s",
        "speed-up",
        "drafts free",
        "τ",
        "rows a pass",
        "ms a pass",
        "ms drafting",
        "same ids",
    ]
    return [
        head,
        *(
            [
                str(each.sequences),
                f"{each.plain_rate:.1f}",
                f"{each.drafted_rate:.1f}",
                f"{each.speed_up:.2f}×",
                f"{each.speed_up_free:.2f}×",
                f"{each.tau:.2f}",
                f"{each.plain_rows:.0f} / {each.drafted_rows:.0f}",
                f"{each.plain_pass:.0f} / {each.drafted_pass:.0f}",
                f"{each.draft:.0f}",
                f"{each.identical} of {each.replies}",
            ]
            for each in found
        ),
    ]
