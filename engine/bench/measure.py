"""One prompt, decoded with EAGLE on and off, and what came of it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from engine.errors import PromptError
from engine.generation import Session, Switches
from engine.loaded import RESOURCES, LoadedModel
from engine.protocol import Event, Generate, GenerationSettings, Message, ReplyStats, Role
from engine.reply import run_reply

BUILT_IN_PROMPTS = RESOURCES / "bench_prompts.json"
SHORT_REPLY = 16
"""Replies of fewer tokens say little about speed and are left out of the speed figures."""


@dataclass(frozen=True, slots=True)
class BenchPrompt:
    name: str
    category: str
    text: str
    """The first user message."""


@dataclass(frozen=True, slots=True)
class Run:
    """One reply in one mode."""

    token_ids: tuple[int, ...]
    stats: ReplyStats


@dataclass(frozen=True, slots=True)
class Pair:
    """The same prompt both ways."""

    prompt: BenchPrompt
    plain: Run
    eagle: Run

    @property
    def identical(self) -> bool:
        return self.plain.token_ids == self.eagle.token_ids

    @property
    def looping(self) -> bool:
        return is_looping(self.plain.token_ids)

    @property
    def long_enough(self) -> bool:
        return min(self.plain.stats.new_tokens, self.eagle.stats.new_tokens) >= SHORT_REPLY

    @property
    def speed_up(self) -> float:
        return self.eagle.stats.tokens_per_second / self.plain.stats.tokens_per_second


def is_looping(tokens: Sequence[int]) -> bool:
    """Fewer than half of the reply's 4-grams are distinct: loops flatter every drafter."""
    grams = [tuple(tokens[i : i + 4]) for i in range(len(tokens) - 3)]
    return bool(grams) and len(set(grams)) < 0.5 * len(grams)


def read_prompts(path: str | None, limit: int | None) -> list[BenchPrompt]:
    """Prompts of a JSON-lines file, or the built-in ones; ``limit`` spreads over the file."""
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
    except (ValueError, KeyError, IndexError, TypeError) as error:
        raise PromptError(
            f"{source} is not JSON lines with “turns”: {error}.", "Give --prompts another file."
        ) from error
    if not prompts:
        raise PromptError(f"{source} holds no prompts.", "Give --prompts another file.")
    return spread(prompts, limit)


def spread(prompts: list[BenchPrompt], limit: int | None) -> list[BenchPrompt]:
    """``limit`` prompts at even distances."""
    if limit is None or limit >= len(prompts):
        return prompts
    return [prompts[index * len(prompts) // limit] for index in range(max(1, limit))]


class Bench:
    """Runs prompts through a loaded model; each mode keeps a session of its own."""

    def __init__(self, model: LoadedModel, settings: GenerationSettings) -> None:
        self.model = model
        self.settings = settings
        self._sessions: dict[bool, Session] = {eagle: model.session() for eagle in (False, True)}

    def prompt_ids(self, prompt: BenchPrompt) -> list[int]:
        return self.model.prompt([Message(Role.USER, prompt.text)])

    def pair(self, prompt: BenchPrompt, eagle_first: bool) -> Pair:
        """Both modes, one after the other; alternate ``eagle_first`` to cancel drift."""
        runs = {eagle: self.reply(prompt, eagle) for eagle in (eagle_first, not eagle_first)}
        return Pair(prompt, runs[False], runs[True])

    def reply(self, prompt: BenchPrompt, eagle: bool) -> Run:
        model = self.model
        settings = replace(self.settings, eagle=eagle)
        finished = run_reply(
            self._sessions[eagle],
            model.tokenizer,
            Generate("bench", (), settings),
            self.prompt_ids(prompt),
            stop_strings=model.chat.stop_strings,
            end_tokens=model.chat.eos_token_ids,
            switches=Switches(eagle),
            send=_ignore,
            trees=False,
        )
        return Run(finished.token_ids, finished.stats)


def _ignore(_event: Event) -> None:
    pass
