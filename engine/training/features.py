"""What training reads: the target's replies with its hidden states, in shards on disk.

A shard is one safetensors file, read by memory mapping. Everything is
concatenated; ``*_ends`` say where each prompt or reply stops. For row ``j`` of a
reply with tokens ``x``:

==================  =====================================================================
``reply_tokens``    ``x[j]``
``reply_next``      ``x[j + 1]``, the token that really followed
``reply_states``    tapped hidden states of ``x[j]``, ``[rows, taps * hidden]``, bfloat16
``top_ids``         the target's most likely tokens after ``x[j]``, best first
``top_logprobs``    their log-probabilities at temperature 1 over the whole vocabulary
==================  =====================================================================

The hidden states of the last prompt token belong to the first row of every
reply, since a head pairs the state of a token with the *next* token.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from engine.errors import EngineError

PREFIX_FILE = "prefix.safetensors"
SETTINGS_FILE = "replies.json"


@dataclass(frozen=True)
class Reply:
    """One reply of the target behind the prompt ``prompt`` of its shard; shapes as in the module text."""

    prompt: int
    tokens: Tensor
    next: Tensor
    states: Tensor
    top_ids: Tensor
    top_logprobs: Tensor
    temperature: float


@dataclass(frozen=True)
class Prompt:
    """A prompt behind the shared prefix: ``tokens [length]``, ``states [length, taps * hidden]``."""

    row: int
    """Line of the prompt file, which decides whether the prompt is held out."""
    tokens: Tensor
    states: Tensor


def write_shard(path: Path, prompts: Sequence[Prompt], replies: Sequence[Reply]) -> None:
    """Write a shard, whole or not at all."""

    def ends(parts: Iterable[Tensor]) -> Tensor:
        return torch.tensor([len(part) for part in parts]).cumsum(0)

    tensors = {
        "prompt_rows": torch.tensor([p.row for p in prompts]),
        "prompt_tokens": torch.cat([p.tokens for p in prompts]).int(),
        "prompt_states": torch.cat([p.states for p in prompts]),
        "prompt_ends": ends(p.tokens for p in prompts),
        "reply_prompts": torch.tensor([r.prompt for r in replies]),
        "reply_temperatures": torch.tensor([r.temperature for r in replies]),
        "reply_ends": ends(r.tokens for r in replies),
        "reply_tokens": torch.cat([r.tokens for r in replies]).int(),
        "reply_next": torch.cat([r.next for r in replies]).int(),
        "reply_states": torch.cat([r.states for r in replies]),
        "top_ids": torch.cat([r.top_ids for r in replies]).int(),
        "top_logprobs": torch.cat([r.top_logprobs for r in replies]).half(),
    }
    _replace(path, tensors)


def write_prefix(folder: Path, tokens: Sequence[int], states: Tensor, taps: Sequence[int]) -> None:
    """Keep the shared prefix: its tokens, its states ``[prefix, taps * hidden]`` and which taps these are."""
    tensors = {"tokens": torch.tensor(list(tokens)).int(), "states": states, "taps": torch.tensor(list(taps))}
    _replace(folder / PREFIX_FILE, tensors)


def _replace(path: Path, tensors: dict[str, Tensor]) -> None:
    """Write under a name of this process, then move into place: a reader never sees half a file."""
    part = path.with_suffix(f".{os.getpid()}.part")
    save_file(tensors, part)
    os.replace(part, path)


class Shard:
    """One shard, memory-mapped."""

    def __init__(self, path: Path) -> None:
        try:
            with safe_open(path, framework="pt") as file:
                self._tensors: dict[str, Tensor] = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
        except (OSError, SafetensorError) as error:
            raise EngineError(
                f"The training shard {path} cannot be read: {error}.", "Delete it and run the replies stage again."
            ) from error
        self.replies = len(self._tensors["reply_ends"])

    def _span(self, kind: str, index: int) -> slice:
        ends = self._tensors[f"{kind}_ends"]
        return slice(int(ends[index - 1]) if index else 0, int(ends[index]))

    def reply(self, index: int) -> Reply:
        span = self._span("reply", index)
        t = self._tensors
        return Reply(
            prompt=int(t["reply_prompts"][index]),
            tokens=t["reply_tokens"][span],
            next=t["reply_next"][span],
            states=t["reply_states"][span],
            top_ids=t["top_ids"][span],
            top_logprobs=t["top_logprobs"][span],
            temperature=float(t["reply_temperatures"][index]),
        )

    def prompt(self, index: int) -> Prompt:
        span = self._span("prompt", index)
        t = self._tensors
        return Prompt(int(t["prompt_rows"][index]), t["prompt_tokens"][span], t["prompt_states"][span])

    def lengths(self) -> Tensor:
        """Rows of each reply, ``[replies]``."""
        return torch.diff(self._tensors["reply_ends"], prepend=torch.zeros(1, dtype=torch.long))

    def tokens(self) -> Tensor:
        """Every token that followed a reply row, ``[rows]``."""
        return self._tensors["reply_next"]

    def prompt_tokens(self) -> Tensor:
        """The tokens of all prompts, one after the other."""
        return self._tensors["prompt_tokens"]

    def likely(self) -> tuple[Tensor, Tensor]:
        """The target's most likely tokens at every reply row and their log-probabilities, ``[rows, kept]``."""
        return self._tensors["top_ids"], self._tensors["top_logprobs"]


class FeatureStore:
    """All shards of a folder with their prefix.

    ``taps`` picks the hidden states to use, out of those that were stored.
    """

    def __init__(self, folder: Path, taps: Sequence[int], held_out_every: int = 33) -> None:
        paths = sorted(folder.glob("shard-*.safetensors"))
        if not paths or not (folder / PREFIX_FILE).is_file():
            raise EngineError(f"No training data in {folder}.", "Run the replies stage first.")
        with safe_open(folder / PREFIX_FILE, framework="pt") as file:
            self.prefix_tokens: Tensor = file.get_tensor("tokens").long()
            stored: list[int] = file.get_tensor("taps").tolist()
            prefix_states: Tensor = file.get_tensor("states")
        missing = [tap for tap in taps if tap not in stored]
        if missing:
            raise EngineError(
                f"The stored hidden states are {stored}, not {missing}.", "Choose taps among the stored ones."
            )
        self._hidden = prefix_states.shape[-1] // len(stored)
        self._columns = [stored.index(tap) for tap in taps]
        self.prefix_states = self.pick(prefix_states)
        settings = folder / SETTINGS_FILE
        self.made_with: dict[str, object] = json.loads(settings.read_text("utf-8")) if settings.exists() else {}
        """How the replies were made, for the card."""
        self.shards = [Shard(path) for path in paths]
        self.training: list[tuple[int, int]] = []
        self.held_out: list[tuple[int, int]] = []
        for number, shard in enumerate(self.shards):
            for index in range(shard.replies):
                row = shard.prompt(shard.reply(index).prompt).row
                (self.held_out if row % held_out_every == 0 else self.training).append((number, index))

    def pick(self, states: Tensor) -> Tensor:
        """The chosen taps of stored states: ``[rows, chosen * hidden]``."""
        parts = states.view(len(states), -1, self._hidden)
        return parts[:, self._columns].flatten(1)

    def get(self, key: tuple[int, int]) -> tuple[Prompt, Reply]:
        """A reply by (shard, index), with the prompt it answers; states are as stored."""
        shard = self.shards[key[0]]
        reply = shard.reply(key[1])
        return shard.prompt(reply.prompt), reply

    def rows(self, keys: Sequence[tuple[int, int]]) -> int:
        """Reply rows in ``keys``."""
        lengths = [shard.lengths() for shard in self.shards]
        return sum(int(lengths[number][index]) for number, index in keys)
