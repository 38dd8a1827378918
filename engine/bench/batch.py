"""How the gain of drafting falls as more sequences share the target's pass.

For each size B, B sequences are decoded side by side, plainly and with drafts, at
temperature 0: every pass of the target holds the rows of all B (:mod:`engine.bench.batched`),
a sequence that ends makes room for the next prompt, and only passes in which all B places are
taken are counted. Reading the prompts is left out, as everywhere in the bench. Drafts are
made sequence by sequence, each by a drafter of its own: the time per step therefore grows with B,
and a second figure says what would be left of the gain if drafting cost nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from time import perf_counter

import torch
from torch import Tensor

from engine.bench.batched import BatchCache, BatchDecoder
from engine.drafting.drafter import Drafter, Options, TreeLimits
from engine.drafting.method import Method
from engine.generation import PREFILL_ROWS
from engine.loaded import LoadedModel
from engine.reply import ReplyText
from engine.sampling import Purpose, Sampler
from engine.settings import GenerationSettings
from engine.tree import DraftTree


@dataclass(frozen=True)
class ReadPrompt:
    """A prompt that the target has read, ready to be decoded in any place of a batch."""

    name: str
    ids: list[int]
    keys: Tensor  # [layers, kv_heads, length, head_dim]
    values: Tensor
    features: Tensor  # [length, taps * hidden]
    first: int
    """The target's token after it."""


@dataclass
class Ran:
    """Passes with all places taken, and the replies."""

    passes: int = 0
    tokens: int = 0
    rows: int = 0
    draft: float = 0.0
    verify: float = 0.0
    rest: float = 0.0
    replies: dict[int, list[int]] = field(default_factory=dict)
    """By the reply's number in the queue; the last ones are cut where the measurement ended."""

    @property
    def seconds(self) -> float:
        return self.draft + self.verify + self.rest


class BatchBench:
    """Decodes queues of prompts in batches, plainly or with drafts of one method."""

    def __init__(
        self, model: LoadedModel, method: Method, options: Options, limits: TreeLimits, max_tokens: int
    ) -> None:
        self.model = model
        self._decoder = BatchDecoder(model.decoder)
        self._method = method
        self._options = options
        self._limits = limits
        self._max_tokens = max_tokens
        self._sampler = Sampler(GenerationSettings())
        self._taps = self._drafter().taps

    def _drafter(self) -> Drafter:
        assert self._method.make is not None
        return self._method.make(self.model.methods.equipment)

    @torch.inference_mode()
    def read(self, prompts: Sequence[tuple[str, list[int]]]) -> Iterator[ReadPrompt]:
        """Let the target read (name, ids); what a prompt begins with as the one before is not read again."""
        decoder = self.model.decoder
        cache = decoder.new_cache()
        before: list[int] = []
        features = torch.empty(0)
        for name, ids in prompts:
            common = 0
            while common < min(len(before), len(ids) - 1) and before[common] == ids[common]:
                common += 1
            cache.truncate(common)
            parts = [features[:common]] if common else []
            for begin in range(common, len(ids), PREFILL_ROWS):
                part = torch.tensor(ids[begin : begin + PREFILL_ROWS])
                positions = torch.arange(begin, begin + part.numel())
                hidden, tapped = decoder.forward(part, positions, cache, None, self._taps)
                cache.keep(part.numel())
                parts.append(torch.cat(tapped, -1) if tapped else hidden)
            features, before = torch.cat(parts), ids
            keys = torch.stack([table[:, : len(ids)] for table in cache.keys])
            values = torch.stack([table[:, : len(ids)] for table in cache.values])
            first = int(decoder.argmax(hidden[-1:]))
            yield ReadPrompt(name, ids, keys, values, features.clone(), first)

    @torch.inference_mode()
    def run(self, queue: Sequence[ReadPrompt], sequences: int, drafting: bool) -> Ran:
        """Decode ``queue``, up to ``sequences`` of it at once, until not all places can be filled."""
        longest = max(len(prompt.ids) for prompt in queue) + self._max_tokens + 256
        cache = BatchCache(self._decoder, sequences, longest)
        ran = Ran()
        waiting = iter(enumerate(queue))
        places: list[_Place] = []
        for number in range(sequences):
            place = self._fill(number, waiting, cache, drafting)
            if place is None:
                return ran
            places.append(place)
        while True:
            self._pass(places, cache, ran)
            for number, place in enumerate(places):
                if place.done:
                    ran.replies[place.number] = place.reply
                    fresh = self._fill(number, waiting, cache, drafting)
                    if fresh is None:
                        ran.replies |= {other.number: other.reply for other in places}
                        return ran
                    places[number] = fresh

    def _fill(
        self, sequence: int, waiting: Iterator[tuple[int, ReadPrompt]], cache: BatchCache, drafting: bool
    ) -> _Place | None:
        found = next(waiting, None)
        if found is None:
            return None
        number, prompt = found
        cache.load(sequence, prompt.keys, prompt.values)
        drafter = self._drafter() if drafting else None
        if drafter is not None:
            # The drafter reads the prompt, too: with its last token as a root, outside of the measured time.
            drafter.observe(prompt.features[:-1])
            drafter.start(prompt.ids, self._options, self._sampler)
            drafter.propose(prompt.ids, replace(self._limits, depth=1, nodes=2))
            drafter.observe(prompt.features[-1:])
        chat = self.model.chat
        text = ReplyText(self.model.tokenizer, chat.stop_strings, chat.eos_token_ids)
        place = _Place(
            number, [*prompt.ids, prompt.first], drafter, len(prompt.ids), text.emit, self._max_tokens
        )
        ends = frozenset(chat.eos_token_ids)
        place.done = text.emit(prompt.first) or prompt.first in ends
        place.ends = ends
        return place

    def _pass(self, places: Sequence[_Place], cache: BatchCache, ran: Ran) -> None:
        """One pass for all sequences."""
        began = perf_counter()
        trees = [place.propose(self._limits) for place in places]
        drafted = perf_counter()
        hidden, tapped = self._decoder.run(trees, cache, self._taps)
        features = torch.cat(tapped, -1) if tapped else hidden
        best = self._decoder.argmax(hidden).tolist()
        verified = perf_counter()
        begin = 0
        for number, (place, tree) in enumerate(zip(places, trees, strict=True)):
            rows = range(begin, begin + len(tree))
            begin = rows.stop
            kept = place.take(tree, best[rows.start : rows.stop])
            cache.keep(number, kept)
            if place.drafter is not None:
                place.drafter.observe(features[[rows.start + row for row in kept]])
            ran.tokens += place.fresh
        ended = perf_counter()
        ran.passes += 1
        ran.rows += begin
        ran.draft += drafted - began
        ran.verify += verified - drafted
        ran.rest += ended - verified


@dataclass
class _Place:
    """A sequence in its place of the batch."""

    number: int
    tokens: list[int]
    """All known tokens, the root last."""
    drafter: Drafter | None
    begins: int
    """Where the reply begins."""
    emit: Callable[[int], bool]
    most: int
    done: bool = False
    ends: frozenset[int] = frozenset()
    fresh: int = 0
    """Tokens that the last pass brought."""

    @property
    def reply(self) -> list[int]:
        return self.tokens[self.begins :]

    def propose(self, limits: TreeLimits) -> DraftTree:
        left = self.most - len(self.reply) - 1
        if self.drafter is None or left < 1:
            return DraftTree.root_only(self.tokens[-1])
        return self.drafter.propose(self.tokens, replace(limits, depth=min(limits.depth, left)))

    def take(self, tree: DraftTree, best: list[int]) -> list[int]:
        """Accept what the target's ``best`` tokens after each row say; returns the rows that are kept."""
        path: tuple[int, ...] = ()
        bonus = best[0]
        if self.drafter is not None and len(tree) > 1:
            outcome = self.drafter.accept(tree, _Best(best))
            path, bonus = outcome.path, outcome.bonus
            self.drafter.learn(tree, path, best.__getitem__)
        self.fresh = 0
        for token in (*(tree.tokens[node] for node in path), bonus):
            self.tokens.append(token)
            self.fresh += 1
            self.done = self.emit(token) or token in self.ends or len(self.reply) >= self.most
            if self.done:
                break
        return [0, *path[: self.fresh]]


@dataclass(frozen=True)
class _Best:
    """Greedy word of the target, for :func:`engine.verification.verify`."""

    best: list[int]

    def choose(self, node: int) -> int:
        return self.best[node]

    def probabilities(self, node: int) -> Tensor:
        raise ValueError("greedy decoding draws nothing")

    def uniform(self, node: int, purpose: Purpose, index: int = 0) -> float:
        raise ValueError("greedy decoding draws nothing")
