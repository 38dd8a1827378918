"""A scripted engine: plays written replies, with draft trees, over the real protocol.

It needs no model. The pictures made by ``--screenshots`` and the tests of the
window run on it, through the same client, panel and transcript as a real engine.
How a reply is drafted is made up by :mod:`app.rehearsal_steps`.
"""

from __future__ import annotations

import queue
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from app.rehearsal_steps import StepMaker, token_id, tokenise
from app.transport import CommandSource
from engine.protocol import (
    Command,
    Event,
    Failed,
    Finished,
    FinishReason,
    Generate,
    Load,
    Loaded,
    Loading,
    MarginMeasured,
    MeasureMargin,
    Mode,
    ModelInfo,
    Origin,
    Piece,
    PromptProgress,
    Ready,
    ReplyStats,
    SetEagle,
    Shutdown,
    Started,
    Step,
    StepTimes,
    Stop,
    Unload,
    Unloaded,
)

REHEARSAL_MODEL = ModelInfo(
    name="Gemma 3 270M (demo)",
    path="rehearsal",
    architecture="Gemma3ForCausalLM",
    weight_format="row-wise int8",
    device="CPU (2 threads)",
    context_length=32768,
    vocabulary=262144,
    memory_bytes=290_000_000,
    head_name="EAGLE-3 demo head",
    is_demo=True,
    licence_name="Gemma Terms of Use",
    licence_text="Gemma is provided under and subject to the Gemma Terms of Use.",
)

def narrow(asked: MeasureMargin) -> MarginMeasured:
    """A margin of a tenth of a logit between the first two candidates, and half as much noise."""
    count = len(asked.candidates)
    logits = tuple(12.0 - 0.1 * place for place in range(count))
    return MarginMeasured(
        asked.request_id, logits, (0.3,) * count, ("?",) * count, 0.05, asked.candidates[0], "?", 12.0
    )


@dataclass(frozen=True)
class Script:
    """What the scripted engine says and how it behaves."""

    reply: Callable[[Generate], str]
    model: ModelInfo = REHEARSAL_MODEL
    tokens_per_second: float = 40.0
    prompt_chunks: int = 0
    """``PromptProgress`` events before the first token."""
    chunk_seconds: float = 0.02
    load_problem: Failed | None = None
    reply_problem: Failed | None = None
    """Sent in the place of ``Finished`` after ``problem_after`` steps."""
    problem_after: int = 5
    crash_after: int | None = None
    """Steps after which the engine dies without a word."""
    deaf: bool = False
    """Reads no command while a reply runs, ``Shutdown`` included."""
    margin: Callable[[MeasureMargin], MarginMeasured | Failed] = field(default=narrow)
    die: Callable[[], None] = field(default=lambda: None)
    """How to die in ``crash_after``; returning ends ``run``."""


@dataclass
class Tally:
    """Counts of one reply, for its statistics."""

    modes: set[Mode] = field(default_factory=set)
    steps: int = 0
    drafted: int = 0
    accepted: int = 0
    by_depth: list[int] = field(default_factory=list)
    proposed: list[int] = field(default_factory=list)

    def add(self, step: Step) -> None:
        self.modes.add(step.mode)
        self.steps += 1
        self.drafted += max(0, len(step.nodes) - 1)
        self.accepted += len(step.accepted)
        depth = max((node.depth for node in step.nodes), default=0)
        for counts, reached in ((self.by_depth, len(step.accepted)), (self.proposed, depth)):
            counts.extend([0] * (reached - len(counts)))
            for level in range(reached):
                counts[level] += 1

    def stats(self, request: Generate, tokens: int, first: float, decode: float) -> ReplyStats:
        mode = Mode.MIXED if len(self.modes) > 1 else next(iter(self.modes), Mode.PLAIN)
        return ReplyStats(
            mode=mode,
            prompt_tokens=sum(len(tokenise(message.content)) for message in request.messages),
            reused_tokens=0,
            new_tokens=tokens,
            steps=self.steps,
            drafted_tokens=self.drafted,
            accepted_tokens=self.accepted,
            accepted_by_depth=tuple(self.by_depth),
            proposed_by_depth=tuple(self.proposed),
            time_to_first_token=first,
            decode_seconds=decode,
            times=StepTimes(decode * 0.2, decode * 0.7, decode * 0.02, decode * 0.08),
            method=request.settings.method,
        )


class RehearsalEngine:
    """Reads commands, plays the script. ``run`` suits :class:`app.transport.ThreadTransport`."""

    def __init__(self, script: Script, seed: int = 7) -> None:
        self._script = script
        self._random = random.Random(seed)
        self._eagle = True
        self._method = ""
        self._stopped = False
        self._shut = False

    def run(self, commands: CommandSource, emit: Callable[[Event], None]) -> None:
        emit(Ready(self._script.model.device))
        while not self._shut:
            command = commands.get()
            if isinstance(command, Load):
                self._load(command, emit)
            elif isinstance(command, Generate):
                if not self._generate(command, commands, emit):
                    self._script.die()
                    return
            elif isinstance(command, MeasureMargin):
                emit(self._script.margin(command))
            elif isinstance(command, Unload):
                emit(Unloaded())
            elif isinstance(command, Shutdown):
                return

    def _load(self, command: Load, emit: Callable[[Event], None]) -> None:
        for share in (0.2, 0.6, 1.0):
            emit(Loading("Reading the weights", share))
            time.sleep(self._script.chunk_seconds)
        if self._script.load_problem is not None:
            emit(self._script.load_problem)
        elif command.head == "":
            emit(Loaded(replace(self._script.model, head_name=None, head_problem="No head was asked for.")))
        else:
            emit(Loaded(self._script.model))

    def _generate(self, request: Generate, commands: CommandSource, emit: Callable[[Event], None]) -> bool:
        """Play one reply; ``False`` when the script says to die."""
        script = self._script
        begun = time.perf_counter()
        self._eagle = request.settings.eagle and script.model.head_name is not None
        self._method = request.settings.method
        self._stopped = False
        prompt = sum(len(tokenise(message.content)) for message in request.messages)
        emit(Started(request.request_id, prompt, 0))
        for chunk in range(script.prompt_chunks):
            time.sleep(script.chunk_seconds)
            self._listen(commands, request.request_id, 0.0)
            emit(PromptProgress(request.request_id, prompt * (chunk + 1) // script.prompt_chunks, prompt))
        tokens = tokenise(script.reply(request))[: request.settings.max_new_tokens]
        whole = script.reply(request)
        tally = Tally()
        sent: list[str] = []
        ids: list[int] = []
        first = time.perf_counter() - begun
        due = time.perf_counter()
        for step in self._steps(request.request_id, tokens, tally):
            emit(step)
            sent.extend(piece.text for piece in step.pieces)
            ids.extend(piece.token_id for piece in step.pieces)
            if script.crash_after is not None and step.index >= script.crash_after:
                return False
            if script.reply_problem is not None and step.index >= script.problem_after:
                emit(replace(script.reply_problem, request_id=request.request_id))
                return True
            due += len(step.pieces) / script.tokens_per_second
            self._listen(commands, request.request_id, due - time.perf_counter())
            if self._stopped or self._shut:
                break
        text = "".join(sent)
        if self._stopped or self._shut:
            reason = FinishReason.STOPPED
        else:
            reason = FinishReason.EOS if text == whole else FinishReason.LENGTH
        decode = max(1e-6, time.perf_counter() - begun - first)
        emit(
            Finished(
                request.request_id,
                reason,
                tally.stats(request, len(sent), first, decode),
                tuple(ids),
                text,
            )
        )
        return True

    def _listen(self, commands: CommandSource, request_id: str, seconds: float) -> None:
        """Read commands for ``seconds``, or only those that are there."""
        end = time.perf_counter() + seconds
        if self._script.deaf:
            time.sleep(max(0.0, seconds))
            return
        while True:
            try:
                command: Command = commands.get(timeout=end - time.perf_counter())
            except queue.Empty:
                return
            if isinstance(command, Stop) and command.request_id == request_id:
                self._stopped = True
                return
            if isinstance(command, SetEagle) and command.request_id == request_id:
                self._eagle = command.enabled and self._script.model.head_name is not None
            if isinstance(command, Shutdown):
                self._shut = True
                return

    # ------------------------------------------------------------------ steps and trees

    def _steps(self, request_id: str, tokens: list[str], tally: Tally) -> Iterator[Step]:
        if not tokens:
            return
        times = StepTimes(0.0, 0.05, 0.0, 0.002)
        yield Step(request_id, 0, (Piece(token_id(tokens[0]), tokens[0], Origin.TARGET),), times)
        maker = StepMaker(self._random, request_id)
        at = 1
        while at < len(tokens):
            index = tally.steps + 1
            if self._eagle:
                step = maker.make(self._method, index, tokens, at)
            else:
                piece = Piece(token_id(tokens[at]), tokens[at], Origin.TARGET)
                step = Step(request_id, index, (piece,), times)
            step = replace(step, times=self._times(len(step.pieces), self._eagle))
            tally.add(step)
            at += len(step.pieces)
            yield step

    def _times(self, tokens: int, eagle: bool) -> StepTimes:
        seconds = tokens / self._script.tokens_per_second
        shares = (0.18, 0.74, 0.02, 0.06) if eagle else (0.0, 0.92, 0.0, 0.08)
        return StepTimes(*(seconds * share for share in shares))
