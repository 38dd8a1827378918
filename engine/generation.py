"""The loop: read the prompt, then propose, verify, compact and emit until the reply ends.

:class:`Session` owns one sequence: the tokens known so far, the target's cache over
them and the drafter's state. It speaks token ids; text belongs to
:mod:`engine.reply`. One :class:`StepRecord` is yielded per target pass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from time import perf_counter

import torch
from torch import Tensor

from engine.calibration.experience import Experience
from engine.calibration.pilot import Pilot
from engine.calibration.piloting import Pilots
from engine.calibration.timing import Timing
from engine.calibration.tuning import Tuning
from engine.drafting.drafter import Drafter, Options, TreeLimits
from engine.drafting.method import Method, Methods
from engine.errors import PromptError
from engine.models.decoder import Decoder
from engine.protocol import FinishReason, GenerationSettings, StepTimes
from engine.sampling import Sampler
from engine.target_rows import Opinion, TargetRows
from engine.tree import DraftTree

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
    method: str = ""
    """Id of the reply's method."""
    notice: str = ""
    """For the user, e.g. that drafting pauses."""
    opinions: Mapping[int, Opinion] = field(default_factory=dict)
    """By node: what the target gives the guesses that it was asked about."""
    bonus_opinion: Opinion | None = None


class Switches:
    """What may change while a reply runs; read once a step."""

    def __init__(self, eagle: bool = True) -> None:
        self.eagle = eagle
        self.stopped = False


@dataclass(slots=True)
class _Reply:
    """What stays the same through a reply, and how far it is."""

    settings: GenerationSettings
    sampler: Sampler
    switches: Switches
    emit: Emit
    ends: frozenset[int]
    method: str
    options: Options
    limits: TreeLimits
    pilot: Pilot | None
    """Chooses the sizes that are left open, and when not to draft."""
    count: int = 0
    """Tokens emitted."""
    started: Tuning | None = None
    """What the drafter was told of this reply; None before its first proposal."""

    def deliver(self, token: int) -> FinishReason | None:
        """Emit one token; the reason why it is the last one, if it is."""
        self.count += 1
        if self.emit(token) or token in self.ends:
            return FinishReason.EOS
        if self.count >= self.settings.max_new_tokens:
            return FinishReason.LENGTH
        return FinishReason.STOPPED if self.switches.stopped else None


class Session:
    """One conversation's sequence over a target, and the state of every drafter used in it."""

    def __init__(
        self,
        decoder: Decoder,
        methods: Methods,
        limits: TreeLimits,
        context: int,
        timing: Timing | None = None,
        experience: Experience | None = None,
    ) -> None:
        """``limits`` are the sizes to begin with. Without a ``timing`` they stay as they are, and
        drafting never pauses. ``experience`` is of earlier chats."""
        self.decoder = decoder
        self.methods = methods
        self.limits = limits
        self.context = min(context, decoder.config.max_positions)
        self.tokens: list[int] = []
        """Known tokens: what the cache covers, and after it at most the last emitted one."""
        self.cache = decoder.new_cache(self.context)
        self.drafter: Drafter | None = None
        """Of the reply that runs, or ran last."""
        self._drafters: dict[str, Drafter] = {}
        self._read: dict[str, int] = {}
        """Known tokens at the last proposal of each method."""
        self.timing = timing
        self.pilot: Pilot | None = None
        """Of the reply that runs, or ran last."""
        self.told: object = None
        """The pilot's choice of which the application was told last."""
        self.pilots = Pilots(timing, experience or {})

    def retime(self, timing: Timing | None) -> None:
        """Go by another measurement; what was learned in this chat about times is forgotten."""
        self.timing = timing
        self.pilot = None
        self.pilots.retime(timing)

    def pilot_for(self, settings: GenerationSettings) -> Pilot | None:
        """The pilot that a reply with ``settings`` would follow; None where nothing is adapted.

        Raises :class:`PromptError` for settings that cannot be followed.
        """
        method, options = self.methods.choose(settings)
        if method.make is None or self.timing is None or not settings.adapt:
            return None
        return self.pilots.get(method, options, settings, self._drafter(method).weighs, self._limits(options))

    def limits_for(self, settings: GenerationSettings) -> TreeLimits:
        """The sizes that a reply with ``settings`` would begin with."""
        pilot = self.pilot_for(settings)
        return pilot.limits if pilot is not None else self._limits(self.methods.choose(settings)[1])

    def _drafter(self, method: Method) -> Drafter:
        """The session's drafter of this method, which must not be plain decoding."""
        assert method.make is not None
        if method.info.id not in self._drafters:
            self._drafters[method.info.id] = method.make(self.methods.equipment)
        return self._drafters[method.info.id]

    def reuse(self, prompt: Sequence[int]) -> int:
        """Keep the caches' common prefix with ``prompt``; returns its length in tokens.

        At least the last prompt token is left to run, since its logits are wanted.
        """
        limit = min(len(prompt) - 1, self.cache.length, len(self.tokens))
        common = 0
        while common < limit and self.tokens[common] == prompt[common]:
            common += 1
        kept = common
        for drafter in self._drafters.values():
            # All of them forget, but only the one at work has the target repeat what it lacks.
            known = drafter.truncate(common)
            if drafter is self.drafter:
                kept = known
        self.cache.truncate(kept)
        self.tokens = list(prompt[:kept])
        self._read = {method: min(read, kept) for method, read in self._read.items()}
        return kept

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
        called between its chunks. Raises :class:`PromptError` for an empty prompt, one that
        leaves no room for a token, and settings that cannot be followed.
        """
        if not prompt:
            raise PromptError("The prompt is empty.", "Type a message first.")
        if len(prompt) >= self.context:
            raise PromptError(
                f"The prompt has {len(prompt):,} tokens, the context holds {self.context:,}.",
                "Shorten the message, or start a new chat.",
            )
        vocabulary = self.decoder.config.vocab_size
        if any(not 0 <= token < vocabulary for token, _ in settings.logit_bias):
            raise PromptError(
                "A logit bias names a token that the model does not have.",
                f"Token ids are 0 to {vocabulary - 1:,}.",
            )
        switches = switches or Switches(settings.eagle)
        method, options = self.methods.choose(settings)
        self.drafter = self._drafter(method) if method.make is not None else None
        self.pilot = self.pilot_for(settings)
        if self.pilot is not None:
            self.pilot.begin_reply()
        sampler = Sampler(settings, len(prompt))
        reply = _Reply(
            settings,
            sampler,
            switches,
            emit,
            frozenset(end_tokens),
            method.info.id,
            options,
            self._limits(options),
            self.pilot,
        )

        began = perf_counter()
        reused = self.reuse(prompt)
        on_reuse(reused)
        logits = self._read_prompt(prompt, reused, switches, on_prompt)
        if logits is None:
            return
        token = sampler.choose(logits, self.tokens)
        self.tokens.append(token)
        finish = reply.deliver(token)
        seconds = perf_counter() - began
        drafting = self.drafter is not None and switches.eagle
        times = StepTimes(0.0, seconds, 0.0, 0.0)
        yield StepRecord((token,), None, (), token, times, drafting, finish, reply.method)
        while finish is None:
            record = self._step(reply)
            finish = record.finish
            yield record

    @torch.inference_mode()
    def _step(self, reply: _Reply) -> StepRecord:
        """Propose, verify, emit and compact: one pass of the target."""
        began = perf_counter()
        drafter = self.drafter if reply.switches.eagle else None
        limits: TreeLimits | None = reply.limits
        unread = 0
        if drafter is not None and reply.pilot is not None:
            unread = len(self.tokens) - self._read.get(reply.method, 0)
            limits = reply.pilot.plan(unread)
            if reply.pilot.paused:
                drafter = None
        tree, limits = self._propose(drafter, limits, reply)
        drafted = perf_counter()
        hidden, features = self._run_tree(tree)
        explain = reply.settings.explain and len(tree) > 1
        rows = TargetRows(self.decoder, reply.sampler, self.tokens, tree, hidden, explain)
        verified = perf_counter()
        if drafter is None or len(tree) == 1:
            path: tuple[int, ...] = ()
            bonus = rows.choose(0)
        else:
            outcome = drafter.accept(tree, rows)
            path, bonus = outcome.path, outcome.bonus
            drafter.learn(tree, path, rows.best)
        kept: list[int] = []
        finish: FinishReason | None = None
        # The last token takes no slot: it is the root of a step that may not come.
        full = self.cache.length + 1 + len(path) >= self.context
        for token in (*(tree.tokens[node] for node in path), bonus):
            kept.append(token)
            finish = reply.deliver(token)
            # A stop by the user waits for the end of the block, which is computed anyway.
            if finish is not None and finish is not FinishReason.STOPPED:
                break
        self._compact(path[: len(kept)], features)
        self.tokens.extend(kept)
        if full and finish is None:
            finish = FinishReason.CONTEXT
        accepted = perf_counter()
        # What is only told of guesses is a part of their price, though no part of accepting them.
        opinions, of_bonus = rows.opinions(path, bonus) if explain else ({}, None)
        drawn = tree if len(tree) > 1 else None
        notice = ""
        if reply.pilot is not None and reply.switches.eagle:
            draft, rest = drafted - began, perf_counter() - drafted
            notice = reply.pilot.learn(drawn, path, len(kept), draft, rest, limits, unread)
        return StepRecord(
            emitted=tuple(kept),
            tree=drawn,
            path=path,
            bonus=bonus,
            times=StepTimes(drafted - began, verified - drafted, accepted - verified, 0.0),
            drafting=drafter is not None,
            finish=finish,
            method=reply.method,
            notice=notice,
            opinions=opinions,
            bonus_opinion=of_bonus,
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

    def _propose(
        self, drafter: Drafter | None, limits: TreeLimits | None, reply: _Reply
    ) -> tuple[DraftTree, TreeLimits | None]:
        """The next tree, and the limits of the proposal; only its root where drafting is off or
        cannot pay any more."""
        root = DraftTree.root_only(self.tokens[-1])
        if drafter is None or limits is None:
            return root, None
        room = self.context - self.cache.length
        remaining = reply.settings.max_new_tokens - reply.count
        depth = min(limits.depth, remaining - 1, room - 1)
        nodes = min(limits.nodes, room)
        if depth < 1 or nodes < 2:
            return root, None
        tuning = reply.pilot.tuning if reply.pilot is not None else {}
        if reply.started != tuning:
            drafter.start(self.tokens, {**reply.options, **tuning}, reply.sampler)
            reply.started = tuning
        self._read[reply.method] = len(self.tokens)
        limits = replace(limits, depth=depth, nodes=nodes, room=room)
        return drafter.propose(self.tokens, limits), limits

    def _run_tree(self, tree: DraftTree) -> tuple[Tensor, Tensor]:
        """The target's pass over a tree: final states and features of its nodes."""
        mask = tree.mask() if len(tree) > 1 else None
        positions = tree.positions(self.cache.length)
        return self._forward(torch.tensor(tree.tokens), positions, mask)

    def _forward(self, tokens: Tensor, positions: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
        taps = self.drafter.taps if self.drafter is not None else ()
        hidden, tapped = self.decoder.forward(tokens, positions, self.cache, mask, taps)
        return hidden, torch.cat(tapped, -1) if tapped else hidden

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

    def _limits(self, options: Options) -> TreeLimits:
        """What the options leave open is the machine's; a method without such a setting is not limited."""
        sizes = {
            name: int(options[name] or getattr(self.limits, name)) if name in options else most
            for name, most in (("nodes", 256), ("depth", 32), ("top_k", 64))
        }
        # Whoever names a number of nodes wants to see that many.
        worth = 0.0 if options.get("nodes") else self.limits.worth
        return TreeLimits(**sizes, threshold=float(options.get("threshold") or 0.0), worth=worth)
