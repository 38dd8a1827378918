"""A bench's results as tables: aligned for a terminal, or in Markdown with the published figures beside ours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from engine.bench.published import SOURCES
from engine.bench.summary import Result, Speed

Table = Sequence[Sequence[str]]
"""Rows of cells, the head first."""
CATEGORIES = {
    "math_reasoning": "mathematics",
    "mt_bench": "conversation",
    "qa": "questions",
    "rag": "retrieval",
    "summarization": "summaries",
}
"""Spec-Bench's names, for people."""


def aligned(table: Table) -> str:
    """For a terminal: columns of equal width, the first to the left, figures to the right."""
    widths = [max(len(row[column]) for row in table) for column in range(len(table[0]))]
    lines = []
    for number, row in enumerate(table):
        cells = [
            cell.ljust(width) if column == 0 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
        if number == 0:
            lines.append("─" * len("  ".join(cells)))
    return "\n".join(lines)


def markdown_table(table: Table) -> str:
    head, *rows = ["| " + " | ".join(row) + " |" for row in table]
    return "\n".join([head, "|" + "---|" * len(table[0]), *rows])


def methods_table(results: Sequence[Result]) -> Table:
    """Every method at one temperature: what it brings and what it costs."""
    table = [["method", "speed-up", "τ", "tokens/s", "draft", "verify", "guesses in", "memory", "same ids"]]
    for each in results:
        speed = each.all
        table.append(
            [
                each.variant.label,
                *(_speed_cells(speed)),
                f"{each.share('draft'):.0%}",
                f"{each.share('verify'):.0%}",
                f"{each.drafting_share:.0%}",
                f"{megabytes(each.memory)}",
                same_ids(each),
            ]
        )
    return table


def category_table(results: Sequence[Result]) -> Table:
    """Speed-up and τ by category, one method a row."""
    names = list(dict.fromkeys(name for each in results for name in each.categories))
    table = [["method", *(CATEGORIES.get(name, name) for name in names)]]
    table += [
        [each.variant.label, *(_ratio(each.categories.get(name)) for name in names)] for each in results
    ]
    return table


def depth_table(results: Sequence[Result]) -> Table:
    """Of the steps that guessed so deep, those in which a guess stood there."""
    deepest = min(10, max((len(each.acceptance_by_depth) for each in results), default=0))
    table = [["accepted at depth", *(str(depth + 1) for depth in range(deepest))]]
    for each in results:
        shares = each.acceptance_by_depth[:deepest]
        cells = [f"{share:.0%}" for share in shares] + ["–"] * (deepest - len(shares))
        table.append([each.variant.label, *cells])
    return table


def published_table(results: Sequence[Result]) -> Table:
    """Ours beside what is published, for a README."""
    table = [
        ["method", "T", "speed-up", "τ", "memory", "draft / verify", "same ids", *(s.title for s in SOURCES)]
    ]
    for each in results:
        speed, key = each.all, (each.variant.method, round(each.temperature))
        table.append(
            [
                f"{each.variant.name}{_settings(each)}",
                f"{each.temperature:g}",
                f"{speed.speed_up:.2f}×" if speed else "–",
                f"{speed.tau:.2f}" if speed else "–",
                megabytes(each.memory),
                f"{each.share('draft'):.0%} / {each.share('verify'):.0%}",
                same_ids(each),
                *(str(source.figures[key]) if key in source.figures else "–" for source in SOURCES),
            ]
        )
    return table


def terminal(results: Sequence[Result], missing: Mapping[str, str], peers: Mapping[str, object]) -> str:
    """The whole report. ``missing`` maps methods that could not run to the reason, ``peers`` see
    :func:`engine.bench.peers.figures`."""
    parts = []
    for temperature in dict.fromkeys(each.temperature for each in results):
        here = [each for each in results if each.temperature == temperature]
        parts += [heading(here), aligned(methods_table(here)), aligned(category_table(here))]
        parts.append(aligned(depth_table(here)))
    return "\n\n".join([*parts, *_ends(missing, peers)])


def markdown(
    results: Sequence[Result], missing: Mapping[str, str], peers: Mapping[str, object], title: str
) -> str:
    """To be pasted into a README. ``title`` says what was measured on which machine."""
    parts = [title, markdown_table(published_table(results)), *(f"*{s.title}*: {s.about}" for s in SOURCES)]
    for temperature in dict.fromkeys(each.temperature for each in results):
        here = [each for each in results if each.temperature == temperature]
        parts += [f"**{heading(here)}**", markdown_table(category_table(here))]
    return "\n\n".join([*parts, *_ends(missing, peers)])


def heading(results: Sequence[Result]) -> str:
    """What the results at one temperature rest on."""
    first = results[0]
    plain = ""
    if first.all:
        plain = f" ({first.all.replies} replies long enough to time), plain decoding {first.all.plain:.1f} tokens/s"
    return (
        f"Temperature {first.temperature:g}: {first.replies} prompts{plain}, "
        f"{first.looping_share:.0%} of the replies go round in loops; speed-up (τ)"
    )


def identity_table(results: Sequence[Result]) -> Table:
    table = [["method", "T", "same ids", "guesses accepted"]]
    for each in results:
        table.append(
            [
                each.variant.label,
                f"{each.temperature:g}",
                same_ids(each),
                f"{each.acceptance_rate:.0%}",
            ]
        )
    return table


def same_ids(each: Result) -> str:
    """How many replies equal plain decoding's, or why they need not."""
    return f"{each.identical} of {each.replies}" if each.same_text else "drawn"


def megabytes(count: int) -> str:
    return f"{count / 1e6:.0f} MB" if count >= 1e6 else f"{count / 1e6:.1f} MB"


def _settings(each: Result) -> str:
    return each.variant.label.removeprefix(each.variant.method)


def _speed_cells(speed: Speed | None) -> tuple[str, str, str]:
    if speed is None:
        return "–", "–", "–"
    return f"{speed.speed_up:.2f}×", f"{speed.tau:.2f}", f"{speed.drafted:.1f}"


def _ratio(speed: Speed | None) -> str:
    return f"{speed.speed_up:.2f}× ({speed.tau:.2f})" if speed else "–"


def _ends(missing: Mapping[str, str], peers: Mapping[str, object]) -> list[str]:
    lines = [f"Not measured: {name}. {reason}" for name, reason in missing.items()]
    lines += [f"{name}: {figures}" for name, figures in peers.items()]
    return ["\n".join(lines)] if lines else []
