"""Puts the record of a comparison together, reply by reply. No Qt."""

from __future__ import annotations

import math
import time
import uuid
from dataclasses import replace

from app.compare.comparison import Difference, Outcome, Run, Which, compare
from app.compare.plan import Job, Plan
from app.compare.record import Answers, Margin, Record, Reply, SideFacts
from app.compare.sides import is_lossy, name_of
from app.language import tr
from engine.protocol import MarginMeasured, ModelInfo


class Gathering:
    """What one comparison has brought so far, always fit to be kept."""

    def __init__(self, plan: Plan, model: ModelInfo) -> None:
        """``plan`` has its seed."""
        self._plan = plan
        self._first: dict[tuple[int, Which], Run] = {}
        shared = plan.shared
        assert shared.seed is not None
        self.record = Record(
            id=uuid.uuid4().hex,
            created=time.time(),
            model=model.name,
            device=model.device,
            weight_format=model.weight_format,
            a=_facts(plan, Which.A, model),
            b=_facts(plan, Which.B, model),
            temperature=shared.temperature,
            seed=shared.seed,
            max_new_tokens=shared.max_new_tokens,
            adapt=shared.adapt,
            repeats=plan.repeats,
            answers=tuple(Answers(prompt.text) for prompt in plan.prompts),
        )

    def describe(self, which: Which, model: ModelInfo | None) -> None:
        """Note the side's name, which may depend on the head that is loaded now."""
        facts = _facts(self._plan, which, model)
        self.record = replace(self.record, a=facts) if which is Which.A else replace(self.record, b=facts)

    def add(self, job: Job, run: Run) -> bool:
        """Take a complete reply; ``True`` when a pair is complete with it."""
        first = self._first.setdefault((job.prompt, job.which), run)
        same = first.token_ids == run.token_ids
        end = run.finished
        reply = Reply.of(job.prompt, job.repeat, job.which, end.stats, end.reason, end.notice, same)
        self.record = replace(self.record, replies=(*self.record.replies, reply))
        answers = self.record.answers[job.prompt]
        if first is run:
            answers = answers.with_text(job.which, end.text)
        other = self._first.get((job.prompt, job.which.other))
        if other is not None and answers.outcome is None:
            a, b = (first, other) if job.which is Which.A else (other, first)
            outcome, difference = compare(a, b)
            answers = replace(answers, outcome=outcome, difference=difference)
        self._put(job.prompt, answers)
        return len(self.record.pairs(job.prompt)) > job.repeat

    def add_part(self, job: Job, text: str) -> None:
        """A reply that was broken off: it is kept where there is no whole one."""
        answers = self.record.answers[job.prompt]
        if not answers.text(job.which):
            self._put(job.prompt, answers.with_text(job.which, text))

    def end(self, stopped: bool, problem: str) -> None:
        self.record = replace(self.record, stopped=stopped, problem=problem)

    # ------------------------------------------------------------------ the margin

    def to_measure(self, prompt: int) -> tuple[tuple[int, ...], tuple[int, int]] | None:
        """(A's tokens up to the difference, A's and B's token there), where that is still to be asked."""
        answers = self.record.answers[prompt]
        difference = answers.difference
        if answers.outcome is not Outcome.DIFFERENT or difference is None:
            return None
        if answers.margin is not None or answers.margin_problem:
            return None
        a, b = difference.a.token_id, difference.b.token_id
        if a is None or b is None:
            self.put_margin_problem(prompt, tr("Compare", "one of the replies had ended there."))
            return None
        return self._first[prompt, Which.A].token_ids[: difference.index], (a, b)

    def put_margin(self, prompt: int, event: MarginMeasured) -> None:
        answers = self.record.answers[prompt]
        apart = event.logits[0] - event.logits[1]
        margin = Margin(
            apart if math.isfinite(apart) else None,
            event.noise,
            event.probabilities[0],
            event.probabilities[1],
            "" if event.best in _tokens(answers.difference) else event.best_text,
        )
        self._put(prompt, replace(answers, margin=margin))

    def put_margin_problem(self, prompt: int, words: str) -> None:
        self._put(prompt, replace(self.record.answers[prompt], margin_problem=words))

    def _put(self, prompt: int, answers: Answers) -> None:
        others = self.record.answers
        self.record = replace(self.record, answers=(*others[:prompt], answers, *others[prompt + 1 :]))


def _tokens(difference: Difference | None) -> tuple[int | None, ...]:
    return () if difference is None else (difference.a.token_id, difference.b.token_id)


def _facts(plan: Plan, which: Which, model: ModelInfo | None) -> SideFacts:
    side = plan.side(which)
    return SideFacts(
        name_of(side, model),
        side.drafting,
        is_lossy(side, model),
        side.method,
        side.options,
        (model.head_name or "") if model is not None and side.drafting else "",
    )

