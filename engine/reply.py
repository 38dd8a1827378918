"""From a session's token ids to what the application hears: text, trees and figures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from time import perf_counter

from engine.calibration.forecast import forecast
from engine.generation import Session, StepRecord, Switches
from engine.protocol import (
    Bonus,
    Calibrated,
    Event,
    Finished,
    FinishReason,
    Generate,
    Match,
    Mode,
    Origin,
    Piece,
    PromptProgress,
    ReplyStats,
    Role,
    Shape,
    Started,
    Step,
    StepTimes,
    TreeNode,
    Verdict,
)
from engine.stopping import StopMatcher
from engine.thinking import ThinkingMarker, open_in
from engine.tokenizing import StreamDecoder, Tokenizer
from engine.tree import DraftTree


class ReplyText:
    """Turns emitted tokens into text, byte-safe, and ends the reply at a stop string."""

    def __init__(
        self,
        tokenizer: Tokenizer,
        stop_strings: Sequence[str],
        end_tokens: Sequence[int],
        begun: bool = False,
    ) -> None:
        """``begun``: the text goes on with a reply that is there, so its first space is its own."""
        self._decoder = StreamDecoder(tokenizer)
        self._matcher = StopMatcher(stop_strings)
        self._ends = frozenset(end_tokens)
        self._fresh: list[tuple[int, str]] = []
        self._begun = begun

    def emit(self, token: int) -> bool:
        """Take one token; true when it completes a stop string."""
        text = "" if token in self._ends else self._matcher.push(self._decoder.push(token))
        self._fresh.append((token, text))
        return self._matcher.stopped

    def take(self, last: bool) -> list[tuple[int, str]]:
        """(token, text) since the last call; with ``last``, what was held back comes too."""
        fresh, self._fresh = self._fresh, []
        if not self._begun:
            fresh = [(token, self._first(text)) for token, text in fresh]
        if last and fresh:
            rest = self._matcher.push(self._decoder.flush()) + self._matcher.flush()
            fresh[-1] = (fresh[-1][0], fresh[-1][1] + rest)
        return fresh

    def _first(self, text: str) -> str:
        """The reply's first text without the space that joins it to a plain-text prompt."""
        if self._begun or not text:
            return text
        self._begun = True
        return text.removeprefix(" ")


class Tally:
    """Sums a reply's figures step by step."""

    def __init__(self) -> None:
        self.steps = self.drafted = self.accepted = 0
        self.eagle_steps = self.plain_steps = 0
        self.accepted_by_depth: list[int] = []
        self.proposed_by_depth: list[int] = []
        self.draft = self.verify = self.accept = 0.0
        self.method = ""

    def add(self, record: StepRecord, index: int) -> None:
        """Count a record; number 0 is the prompt's pass and only tells the mode."""
        if record.drafting:
            self.eagle_steps += 1
        else:
            self.plain_steps += 1
        self.method = record.method
        if index == 0:
            return
        self.steps += 1
        self.draft += record.times.draft
        self.verify += record.times.verify
        self.accept += record.times.accept
        if record.tree is None:
            return
        self.drafted += record.tree.guesses - 1
        self.accepted += min(len(record.path), len(record.emitted))
        for counts, depth in (
            (self.accepted_by_depth, len(record.path)),
            (self.proposed_by_depth, record.tree.depth),
        ):
            counts.extend([0] * (depth - len(counts)))
            for level in range(depth):
                counts[level] += 1

    def mode(self) -> Mode:
        if self.eagle_steps and self.plain_steps:
            return Mode.MIXED
        return Mode.EAGLE if self.eagle_steps else Mode.PLAIN

    def stats(self, prompt: int, reused: int, new: int, first: float, decode: float) -> ReplyStats:
        """``first`` and ``decode`` in seconds; what the parts do not explain is ``other``."""
        other = max(0.0, decode - self.draft - self.verify - self.accept)
        levels = len(self.proposed_by_depth)
        accepted = self.accepted_by_depth + [0] * (levels - len(self.accepted_by_depth))
        return ReplyStats(
            mode=self.mode(),
            prompt_tokens=prompt,
            reused_tokens=reused,
            new_tokens=new,
            steps=self.steps,
            drafted_tokens=self.drafted,
            accepted_tokens=self.accepted,
            accepted_by_depth=tuple(accepted),
            proposed_by_depth=tuple(self.proposed_by_depth),
            time_to_first_token=first,
            decode_seconds=decode,
            times=StepTimes(self.draft, self.verify, self.accept, other),
            method=self.method,
        )


def run_reply(
    session: Session,
    tokenizer: Tokenizer,
    request: Generate,
    prompt: Sequence[int],
    *,
    stop_strings: Sequence[str],
    end_tokens: Sequence[int],
    switches: Switches,
    send: Callable[[Event], None],
    trees: bool = True,
    thinking_tags: tuple[str, str] | None = None,
) -> Finished:
    """Run one reply, sending Started, PromptProgress, Steps, and Calibrated where the pilot's choice
    changes; returns its end, not sent.

    The time spent in ``send`` between steps is not counted. ``trees=False`` leaves the trees out of
    the steps, and the calibration (for a bench that only wants figures). What the model thinks
    between ``thinking_tags`` is marked.
    """
    settings, name = request.settings, request.request_id
    goes_on = bool(request.messages) and request.messages[-1].role is Role.ASSISTANT
    text = ReplyText(tokenizer, (*stop_strings, *settings.stop), end_tokens, begun=goes_on)
    marker = _marker(tokenizer, request, prompt, thinking_tags)
    tally = Tally()
    tokens: list[int] = []
    shown: list[str] = []
    reused = 0

    def on_prompt(done: int, total: int) -> None:
        nonlocal reused
        if done < total or reused == 0:
            send(PromptProgress(name, done, total))

    def on_reuse(count: int) -> None:
        nonlocal reused
        reused = count
        send(Started(name, len(prompt), count))

    records = session.generate(
        prompt,
        settings,
        emit=text.emit,
        end_tokens=end_tokens,
        switches=switches,
        on_reuse=on_reuse,
        on_prompt=on_prompt,
    )
    reason = FinishReason.STOPPED
    notice = ""
    first = decode = 0.0
    began = perf_counter()
    for index, record in enumerate(records):
        seconds = perf_counter() - began
        if index == 0:
            first = seconds
        else:
            decode += seconds
        tally.add(record, index)
        tokens.extend(record.emitted)
        pieces = text.take(record.finish is not None)
        shown.extend(piece for _, piece in pieces)
        reason = record.finish or reason
        notice = record.notice or notice
        marks = [marker is not None and marker.push(piece) for _, piece in pieces]
        match = _match(record, session.tokens, tokenizer) if trees else None
        send(replace(_step(name, index, record, pieces, marks, seconds, tokenizer, trees), match=match))
        if trees and session.pilot is not None and session.told != session.pilot.choice:
            session.told = session.pilot.choice
            send(Calibrated(forecast(session.pilot), name))
        began = perf_counter()
    return Finished(
        request_id=name,
        reason=reason,
        stats=tally.stats(len(prompt), reused, len(tokens), first, decode),
        token_ids=tuple(tokens),
        text="".join(shown),
        thinking=marker.end if marker is not None else 0,
        notice=notice,
    )


def _marker(
    tokenizer: Tokenizer, request: Generate, prompt: Sequence[int], tags: tuple[str, str] | None
) -> ThinkingMarker | None:
    """What marks the reply's thoughts; the prompt, or the part that is written on, may have opened one."""
    if tags is None:
        return None
    text = tokenizer.decode(prompt)
    asked = next((m.content.strip() for m in reversed(request.messages) if m.role is Role.USER), "")
    return ThinkingMarker(tags, open_in(text[text.rfind(asked) + len(asked) :], tags))


def _match(record: StepRecord, tokens: Sequence[int], tokenizer: Tokenizer) -> Match | None:
    """Where the guesses of a step were copied from; ``tokens`` are all known ones, the step's included."""
    if record.tree is None or record.tree.match is None:
        return None
    end, count = record.tree.match
    root_end = len(tokens) - len(record.emitted)
    return Match(tokenizer.decode(tokens[end - count : end]), count, root_end - end)


def _step(
    request_id: str,
    index: int,
    record: StepRecord,
    pieces: Sequence[tuple[int, str]],
    marks: Sequence[bool],
    seconds: float,
    tokenizer: Tokenizer,
    trees: bool,
) -> Step:
    drafted = len(record.path)
    times = record.times
    other = max(0.0, seconds - times.draft - times.verify - times.accept)
    tree = record.tree if trees else None
    return Step(
        request_id=request_id,
        index=index,
        pieces=tuple(
            Piece(token, text, Origin.DRAFT if place < drafted else Origin.TARGET, marks[place])
            for place, (token, text) in enumerate(pieces)
        ),
        times=StepTimes(times.draft, times.verify, times.accept, other),
        nodes=_nodes(tree, record, tokenizer, 0, tree.guesses) if tree is not None else (),
        accepted=record.path if tree is not None else (),
        bonus=_bonus(record, tokenizer) if tree is not None else None,
        mode=Mode.EAGLE if record.drafting else Mode.PLAIN,
        method=record.method,
        shape=tree.shape if tree is not None else Shape.TREE,
        window=_nodes(tree, record, tokenizer, tree.guesses, len(tree)) if tree is not None else (),
        notice=record.notice,
    )


def _bonus(record: StepRecord, tokenizer: Tokenizer) -> Bonus:
    known = record.bonus_opinion
    return Bonus(
        record.bonus,
        tokenizer.token_text(record.bonus),
        record.path[-1] if record.path else 0,
        known.probability if known is not None else None,
        known.rank if known is not None else None,
    )


def _nodes(
    tree: DraftTree, record: StepRecord, tokenizer: Tokenizer, begin: int, end: int
) -> tuple[TreeNode, ...]:
    """Rows ``begin`` to ``end`` of the tree for the panel."""
    accepted = frozenset(record.path)
    opinions = record.opinions

    def verdict(node: int) -> Verdict:
        if node == 0:
            return Verdict.ROOT
        if node >= tree.guesses:
            return Verdict.WINDOW
        return Verdict.ACCEPTED if node in accepted else Verdict.REJECTED

    return tuple(
        TreeNode(
            token_id=tree.tokens[node],
            text=tokenizer.token_text(tree.tokens[node]),
            parent=tree.parents[node],
            depth=tree.depths[node],
            draft_probability=tree.probabilities[node],
            path_probability=tree.path_probabilities[node],
            verdict=verdict(node),
            target_probability=opinions[node].probability if node in opinions else None,
            target_rank=opinions[node].rank if node in opinions else None,
        )
        for node in range(begin, end)
    )
