"""The loop: read the prompt, then propose, verify, compact and emit until the reply ends.

:class:`Session` owns one sequence: the tokens known so far, the target's cache over
them and the drafter's state. It speaks token ids; text belongs to
:mod:`engine.reply`. One :class:`StepRecord` is yielded per target pass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from time import perf_counter

import torch
from torch import Tensor

from engine.drafting.drafter import Drafter, TreeLimits
from engine.errors import PromptError
from engine.models.decoder import Decoder
from engine.protocol import FinishReason, GenerationSettings, StepTimes
from engine.sampling import Sampler
from engine.tree import DraftTree
from engine.verification import verify

PREFILL_ROWS = 128
"""Prompt tokens of one pass: long enough for matrix products, short enough to stop soon."""

Emit = Callable[[int], bool]
"""Told of every emitted token in order; true ends the reply with that token."""


@dataclass(frozen=True, slots=True)
class StepRecord:
    """One target pass. ``emitted`` is the accepted tokens and the bonus, cut at the reply's end."""

    emitted: tuple[int, ...]
    tree: DraftTree | None
    """None in plain decoding and for the prompt's pass."""
    path: tuple[int, ...]
    """Accepted nodes, also those cut off after the reply's end."""
    bonus: int
    times: StepTimes
    drafting: bool
    """Whether drafting was on, even if this step had no room for a tree."""
    finish: FinishReason | None
    """Set on the last step."""


class Switches:
    """What may change while a reply runs; read once a step."""

    def __init__(self, eagle: bool = True) -> None:
        self.eagle = eagle
        self.stopped = False


class Session:
    """One conversation's sequence over a target and, where there is one, a drafter."""

    def __init__(self, decoder: Decoder, drafter: Drafter | None, limits: TreeLimits, context: int) -> None:
        self.decoder = decoder
        self.drafter = drafter
        self.limits = limits
        self.context = min(context, decoder.config.max_positions)
        self.tokens: list[int] = []
        """Known tokens: what the cache covers, and after it at most the last emitted one."""
        self.cache = decoder.new_cache(self.context)

    def reuse(self, prompt: Sequence[int]) -> int:
        """Keep the caches' common prefix with ``prompt``; returns its length in tokens.

        At least the last prompt token is left to run, since its logits are wanted.
        """
        limit = min(len(prompt) - 1, self.cache.length, len(self.tokens))
        common = 0
        while common < limit and self.tokens[common] == prompt[common]:
            common += 1
        if self.drafter is not None:
            common = self.drafter.truncate(common)
        self.cache.truncate(common)
        self.tokens = list(prompt[:common])
        return common

    def generate(
        self,
        prompt: Sequence[int],
        settings: GenerationSettings,
        *,
        emit: Emit,
        end_tokens: Sequence[int] = (),
        switches: Switches | None = None,
        on_reuse: Callable[[int], None] = lambda _tokens: None,
        on_prompt: Callable[[int, int], None] = lambda _done, _total: None,
    ) -> Iterator[StepRecord]:
        """Answer ``prompt``. The first record is the prompt's own pass with one token.

        ``on_reuse(tokens)`` tells how much of it was cached, ``on_prompt(done, total)`` is
        called between its chunks. Raises
        :class:`PromptError` for an empty prompt or one that leaves no room for a token.
        """
        if not prompt:
            raise PromptError("The prompt is empty.", "Type a message first.")
        if len(prompt) >= self.context:
            raise PromptError(
                f"The prompt has {len(prompt):,} tokens, the context holds {self.context:,}.",
                "Shorten the message, or start a new chat.",
            )
        switches = switches or Switches(settings.eagle)
        sampler = Sampler(settings)
        limits = self._limits(settings)
        ends = frozenset(end_tokens)

        began = perf_counter()
        reused = self.reuse(prompt)
        on_reuse(reused)
        logits = self._read_prompt(prompt, reused, switches, on_prompt)
        if logits is None:
            return
        token = sampler.choose(logits)
        self.tokens.append(token)
        finish = self._finish(token, emit(token), ends, switches, 1, settings)
        seconds = perf_counter() - began
        drafting = self.drafter is not None and switches.eagle
        yield StepRecord((token,), None, (), token, StepTimes(0.0, seconds, 0.0, 0.0), drafting, finish)
        count = 1
        while finish is None:
            record = self._step(
                sampler,
                switches,
                limits,
                settings.max_new_tokens - count,
                lambda token, emitted: self._finish(token, emit(token), ends, switches, emitted, settings),
                count,
            )
            count += len(record.emitted)
            finish = record.finish
            yield record

    @torch.inference_mode()
    def _step(
        self,
        sampler: Sampler,
        switches: Switches,
        limits: TreeLimits,
        remaining: int,
        deliver: Callable[[int, int], FinishReason | None],
        count: int,
    ) -> StepRecord:
        """Propose, verify, emit and compact: one pass of the target."""
        began = perf_counter()
        drafting = self.drafter is not None and switches.eagle
        tree = self._propose(drafting, limits, remaining)
        drafted = perf_counter()
        hidden, features = self._run_tree(tree)
        choose = self._chooser(sampler, hidden)
        verified = perf_counter()
        outcome = verify(tree, choose)
        kept: list[int] = []
        finish: FinishReason | None = None
        # The last token takes no slot: it is the root of a step that may not come.
        full = self.cache.length + 1 + len(outcome.path) >= self.context
        for token in (*(tree.tokens[node] for node in outcome.path), outcome.bonus):
            kept.append(token)
            finish = deliver(token, count + len(kept))
            # A stop by the user waits for the end of the block, which is computed anyway.
            if finish is not None and finish is not FinishReason.STOPPED:
                break
        self._compact(outcome.path[: len(kept)], features)
        self.tokens.extend(kept)
        if full and finish is None:
            finish = FinishReason.CONTEXT
        accepted = perf_counter()
        return StepRecord(
            emitted=tuple(kept),
            tree=tree if len(tree) > 1 else None,
            path=outcome.path,
            bonus=outcome.bonus,
            times=StepTimes(drafted - began, verified - drafted, accepted - verified, 0.0),
            drafting=drafting,
            finish=finish,
        )

    # ------------------------------------------------------------------ parts of a step

    @torch.inference_mode()
    def _read_prompt(
        self, prompt: Sequence[int], begin: int, switches: Switches, on_prompt: Callable[[int, int], None]
    ) -> Tensor | None:
        """Run the prompt from ``begin`` on; the last token's logits [vocab], None when stopped."""
        hidden: Tensor | None = None
        while begin < len(prompt):
            if switches.stopped:
                return None
            part = torch.tensor(prompt[begin : begin + PREFILL_ROWS])
            positions = torch.arange(begin, begin + part.numel())
            hidden, features = self._forward(part, positions, None)
            self.cache.keep(part.numel())
            if self.drafter is not None:
                self.drafter.observe(features)
            begin += part.numel()
            self.tokens = list(prompt[:begin])
            on_prompt(begin, len(prompt))
        assert hidden is not None
        return self.decoder.logits(hidden[-1:])[0]

    def _propose(self, drafting: bool, limits: TreeLimits, remaining: int) -> DraftTree:
        """The next tree; only its root where drafting is off or cannot pay any more."""
        root = self.tokens[-1]
        room = self.context - self.cache.length
        depth = min(limits.depth, remaining - 1, room - 1)
        nodes = min(limits.nodes, room)
        if self.drafter is None or not drafting or depth < 1 or nodes < 2:
            return DraftTree.root_only(root)
        return self.drafter.propose(self.tokens, replace(limits, depth=depth, nodes=nodes))

    def _run_tree(self, tree: DraftTree) -> tuple[Tensor, Tensor]:
        """The target's pass over a tree: final states and features of its nodes."""
        mask = tree.mask() if len(tree) > 1 else None
        positions = tree.positions(self.cache.length)
        return self._forward(torch.tensor(tree.tokens), positions, mask)

    def _forward(self, tokens: Tensor, positions: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        taps = self.drafter.taps if self.drafter is not None else ()
        hidden, tapped = self.decoder.forward(tokens, positions, self.cache, mask, taps)
        return hidden, torch.cat(tapped, -1) if tapped else hidden

    def _chooser(self, sampler: Sampler, hidden: Tensor) -> Callable[[int], int]:
        if sampler.greedy:
            best: list[int] = self.decoder.argmax(hidden).tolist()
            return best.__getitem__
        logits = self.decoder.logits(hidden)
        return lambda node: sampler.choose(logits[node])

    def _compact(self, path: Sequence[int], features: Tensor) -> None:
        """Keep the rows of the root and the accepted nodes, in the cache and for the head."""
        if not path:
            self.cache.keep(1)
            features = features[:1]
        else:
            rows = torch.tensor([0, *path])
            self.cache.keep(rows)
            features = features[rows]
        if self.drafter is not None:
            self.drafter.observe(features)

    def _limits(self, settings: GenerationSettings) -> TreeLimits:
        tree = settings.tree
        nodes = self.limits.nodes if tree.nodes is None else tree.nodes
        depth = self.limits.depth if tree.depth is None else tree.depth
        top_k = self.limits.top_k if tree.top_k is None else tree.top_k
        for name, value, low, high in (
            ("nodes", nodes, 2, 256),
            ("depth", depth, 1, 32),
            ("top-k", top_k, 1, 64),
        ):
            if not low <= value <= high:
                raise PromptError(
                    f"The draft tree's {name} is {value}.", f"It must be between {low} and {high}."
                )
        return TreeLimits(nodes, depth, top_k)

    def _finish(
        self,
        token: int,
        stop: bool,
        ends: frozenset[int],
        switches: Switches,
        count: int,
        settings: GenerationSettings,
    ) -> FinishReason | None:
        if token in ends or stop:
            return FinishReason.EOS
        if count >= settings.max_new_tokens:
            return FinishReason.LENGTH
        if switches.stopped:
            return FinishReason.STOPPED
        return None
