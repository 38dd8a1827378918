"""The bench's questions: from a file or built in, all of them or a fair few."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from engine.errors import PromptError

BUILT_IN_PROMPTS = Path(__file__).resolve().parents[2] / "resources" / "bench_prompts.json"


@dataclass(frozen=True, slots=True)
class BenchPrompt:
    name: str
    category: str
    text: str
    """The first user message."""


def read_prompts(path: str | None) -> list[BenchPrompt]:
    """All prompts of a JSON-lines file, or the built-in ones. :class:`PromptError` for another kind of file."""
    source = Path(path) if path else BUILT_IN_PROMPTS
    try:
        text = source.read_text(encoding="utf-8")
        rows = [json.loads(line) for line in text.splitlines() if line.strip()]
        prompts = [
            BenchPrompt(str(row.get("id", index)), str(row.get("category", "all")), str(row["turns"][0]))
            for index, row in enumerate(rows)
        ]
    except OSError as error:
        raise PromptError(
            f"{source} cannot be read: {error.strerror or error}.", "Give --prompts another file."
        ) from error
    except (ValueError, KeyError, IndexError, TypeError, AttributeError) as error:
        raise PromptError(
            f"{source} is not JSON lines with “turns”: {error}.", "Give --prompts another file."
        ) from error
    if not prompts:
        raise PromptError(f"{source} holds no prompts.", "Give --prompts another file.")
    return prompts


def spread(prompts: Sequence[BenchPrompt], count: int | None) -> list[BenchPrompt]:
    """``count`` prompts at even distances; None takes all."""
    if count is None or count >= len(prompts):
        return list(prompts)
    return [prompts[index * len(prompts) // count] for index in range(max(1, count))]


def per_category(prompts: Sequence[BenchPrompt], count: int | None) -> list[BenchPrompt]:
    """``count`` prompts of each category at even distances, the categories taking turns, so that a
    bench that is stopped early has seen all of them."""
    categories = list(dict.fromkeys(prompt.category for prompt in prompts))
    chosen = [spread([p for p in prompts if p.category == name], count) for name in categories]
    longest = max(len(few) for few in chosen)
    return [few[turn] for turn in range(longest) for few in chosen if turn < len(few)]
