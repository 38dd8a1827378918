"""The target's own replies: the text on which a head learns to predict it.

A head drafts what *this* target would say, so it is trained on what the target
did say: greedy replies, and sampled ones because users sample too. Replies are
generated in a running batch: a slot that finishes is refilled at once. The
hidden states that the head will read are recorded on the way, so no second
pass over the text is needed.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch import Tensor

from engine.errors import EngineError
from engine.looping import is_looping
from engine.training.features import SETTINGS_FILE, Prompt, Reply, write_prefix, write_shard
from engine.training.target import BatchTarget, Cache


@dataclass(frozen=True)
class ReplySettings:
    """How replies are made."""

    temperatures: tuple[float, ...] = (0.0, 1.0, 0.7, 1.0, 0.9, 0.8)
    """One reply per prompt and entry; 0 is greedy."""
    top_p: float = 0.95
    max_new_tokens: int = 144
    max_prompt_tokens: int = 256
    """Longer prompts are skipped: they cost more than they teach."""
    slots: int = 192
    prompts_per_shard: int = 128
    kept: int = 32
    """Entries of the target's distribution that are stored for each row."""
    searched: int = 64
    """Entries among which sampling chooses."""
    looping_limit: int = 64
    """A reply that repeats itself is cut to this many tokens, so that loops stay a small share."""
    seed: int = 20240


@dataclass
class _Slot:
    prompt: int
    temperature: float
    length: int
    """Tokens behind the prefix which are in the cache."""
    tokens: list[int]


def sample(logits: Tensor, temperatures: Tensor, top_p: float, generator: torch.Generator) -> Tensor:
    """Draw a column of ``logits [rows, candidates]`` (sorted, best first) per row; temperature 0 takes the first."""
    scaled = logits / temperatures.clamp_min(1e-4)[:, None]
    probabilities = scaled.softmax(-1)
    before = probabilities.cumsum(-1) - probabilities
    probabilities = probabilities.masked_fill(before >= top_p, 0.0)
    drawn = torch.multinomial(probabilities, 1, generator=generator)[:, 0]
    return torch.where(temperatures > 0, drawn, torch.zeros_like(drawn))


class ReplyWriter:
    """Generates the replies to a list of prompts into shards of ``folder``; resumes by shard."""

    def __init__(
        self,
        target: BatchTarget,
        prefix: Sequence[int],
        taps: Sequence[int],
        ends_reply: Callable[[list[int]], bool],
        settings: ReplySettings,
    ) -> None:
        """``ends_reply`` says of the reply's tokens so far whether it is complete (end token or stop string)."""
        self.target, self.taps, self.settings, self.ends_reply = target, tuple(taps), settings, ends_reply
        target.set_prefix(prefix, taps)
        config, width = target.config, settings.max_prompt_tokens + settings.max_new_tokens
        size = (config.num_layers, settings.slots, width, config.kv_size)
        self._cache = Cache(torch.zeros(size, dtype=target.dtype), torch.zeros(size, dtype=target.dtype))
        rows = (settings.slots, settings.max_new_tokens)
        self._states = torch.zeros(*rows, len(taps) * config.hidden_size, dtype=target.dtype)
        self._ids = torch.zeros(*rows, settings.kept, dtype=torch.int32)
        self._logprobs = torch.zeros(*rows, settings.kept)
        self._generator = torch.Generator()

    def run(
        self,
        folder: Path,
        prompts: Sequence[tuple[int, Sequence[int]]],
        report: Callable[[str], None],
        part: int = 0,
        parts: int = 1,
    ) -> None:
        """``prompts`` are (line of the prompt file, token ids behind the prefix).

        Several processes share the work by taking each ``part`` of ``parts``.
        """
        folder.mkdir(parents=True, exist_ok=True)
        self._claim(folder, len(prompts))
        fitting = [p for p in prompts if len(p[1]) <= self.settings.max_prompt_tokens]
        size = self.settings.prompts_per_shard
        shards = [fitting[start : start + size] for start in range(0, len(fitting), size)]
        for number, shard in enumerate(shards):
            path = folder / f"shard-{number:04d}.safetensors"
            if path.exists() or number % parts != part:
                continue
            began = time.monotonic()
            self._generator.manual_seed(self.settings.seed + number)
            done, replies = self._shard(shard)
            write_shard(path, done, replies)
            rows, seconds = sum(len(r.tokens) for r in replies), time.monotonic() - began
            loops = sum(is_looping(r.tokens.tolist()) for r in replies)
            report(
                f"replies {number + 1}/{len(shards)}: {len(replies)} replies, {rows} rows, "
                f"{rows / seconds:.0f} rows/s, {loops} looping"
            )

    def _claim(self, folder: Path, prompts: int) -> None:
        """Write what all shards share, or check that shards already there were made the same way."""
        words = self.target.output_ids
        made = {
            **asdict(self.settings),
            "reply_vocabulary": None if words is None else len(words),
            "prompts": prompts,
            "taps": self.taps,
            "prefix": self.target.prefix_ids,
        }
        text = json.dumps(made)
        path = folder / SETTINGS_FILE
        if path.exists():
            if json.loads(path.read_text(encoding="utf-8")) != json.loads(text):
                raise EngineError(
                    f"{folder} holds replies that were made with other settings or prompts.",
                    "Use another folder, or delete this one.",
                )
            return
        states = torch.cat([self.target.prefix_states[tap] for tap in self.taps], -1)
        write_prefix(folder, self.target.prefix_ids, states, self.taps)
        part = path.with_suffix(f".{os.getpid()}.part")
        part.write_text(text, encoding="utf-8")
        os.replace(part, path)

    # ------------------------------------------------------------------ one shard

    def _shard(self, prompts: Sequence[tuple[int, Sequence[int]]]) -> tuple[list[Prompt], list[Reply]]:
        queue = sorted(prompts, key=lambda item: len(item[1]))
        slots: list[_Slot | None] = [None] * self.settings.slots
        done: list[Prompt] = []
        replies: list[Reply] = []
        each = len(self.settings.temperatures)
        while queue or any(slots):
            free = [i for i, slot in enumerate(slots) if slot is None]
            room = len(free) // each
            if queue and (room >= min(8, len(queue)) or len(free) == len(slots)):
                taken, queue = queue[:room], queue[room:]
                self._admit(taken, free, slots, done, replies)
                continue
            self._advance(slots, replies)
        return done, replies

    def _admit(
        self,
        prompts: Sequence[tuple[int, Sequence[int]]],
        free: list[int],
        slots: list[_Slot | None],
        done: list[Prompt],
        replies: list[Reply],
    ) -> None:
        """Read new prompts and give each of their replies a slot with its first token."""
        lengths = torch.tensor([len(asked) for _, asked in prompts])
        tokens = torch.zeros(len(prompts), int(lengths.max()), dtype=torch.long)
        for index, (_, asked) in enumerate(prompts):
            tokens[index, : len(asked)] = torch.tensor(list(asked))
        final, states, cache = self.target.read(tokens, lengths, self.taps)
        last = final[torch.arange(len(prompts)), lengths - 1]
        ids, logits, _ = self.target.top_logits(last, self.settings.searched)
        each = len(self.settings.temperatures)
        for index, (row, asked) in enumerate(prompts):
            state = torch.cat([states[tap][index, : len(asked)] for tap in self.taps], -1)
            done.append(Prompt(row, tokens[index, : len(asked)].clone(), state.clone()))
            mine = torch.tensor(free[index * each : (index + 1) * each])
            self._cache.store(mine, cache, torch.full((each,), index))
            temperatures = torch.tensor(self.settings.temperatures)
            drawn = sample(logits[index].expand(each, -1), temperatures, self.settings.top_p, self._generator)
            for slot, temperature, column in zip(
                mine.tolist(), self.settings.temperatures, drawn.tolist(), strict=True
            ):
                first = int(ids[index, column])
                slots[slot] = _Slot(len(done) - 1, temperature, len(asked), [first])
                self._close_if_complete(slot, slots, replies)

    def _advance(self, slots: list[_Slot | None], replies: list[Reply]) -> None:
        """One token for every occupied slot."""
        live = [(i, slot) for i, slot in enumerate(slots) if slot is not None]
        if len(live) < 0.75 * max(i + 1 for i, _ in live):
            self._compact(slots)
            live = [(i, slot) for i, slot in enumerate(slots) if slot is not None]
        rows = max(i for i, _ in live) + 1
        tokens = torch.zeros(rows, dtype=torch.long)
        places = torch.zeros(rows, dtype=torch.long)
        temperatures = torch.zeros(rows)
        for i, slot in live:
            tokens[i], places[i], temperatures[i] = slot.tokens[-1], slot.length, slot.temperature
        view = Cache(self._cache.keys[:, :rows], self._cache.values[:, :rows])
        final, states = self.target.step(tokens, places, view, self.taps)
        ids, logits, total = self.target.top_logits(final, self.settings.searched)
        drawn = ids.gather(1, sample(logits, temperatures, self.settings.top_p, self._generator)[:, None])[:, 0]
        index = torch.tensor([i for i, _ in live])
        column = torch.tensor([len(slot.tokens) - 1 for _, slot in live])
        kept = self.settings.kept
        self._states[index, column] = torch.cat([states[tap] for tap in self.taps], -1)[index]
        self._ids[index, column] = ids[index, :kept].int()
        self._logprobs[index, column] = (logits - total[:, None])[index, :kept]
        chosen = drawn.tolist()
        for i, slot in live:
            slot.length += 1
            slot.tokens.append(chosen[i])
            self._close_if_complete(i, slots, replies)

    def _close_if_complete(self, index: int, slots: list[_Slot | None], replies: list[Reply]) -> None:
        slot = slots[index]
        assert slot is not None
        if len(slot.tokens) <= self.settings.max_new_tokens and not self.ends_reply(slot.tokens):
            return
        slots[index] = None
        rows = len(slot.tokens) - 1
        if is_looping(slot.tokens):
            rows = min(rows, self.settings.looping_limit)
        if rows < 1:
            return
        tokens = torch.tensor(slot.tokens)
        replies.append(
            Reply(
                prompt=slot.prompt,
                tokens=tokens[:rows],
                next=tokens[1 : rows + 1],
                states=self._states[index, :rows].clone(),
                top_ids=self._ids[index, :rows].clone(),
                top_logprobs=self._logprobs[index, :rows].clone(),
                temperature=slot.temperature,
            )
        )

    def _compact(self, slots: list[_Slot | None]) -> None:
        """Move the occupied slots to the front, so that a step computes no empty rows."""
        live = [i for i, slot in enumerate(slots) if slot is not None]
        for to, origin in enumerate(live):
            if to == origin:
                continue
            slot = slots[origin]
            assert slot is not None
            used = slot.length
            self._cache.keys[:, to, :used] = self._cache.keys[:, origin, :used]
            self._cache.values[:, to, :used] = self._cache.values[:, origin, :used]
            for buffer in (self._states, self._ids, self._logprobs):
                buffer[to] = buffer[origin]
            slots[to], slots[origin] = slot, None
