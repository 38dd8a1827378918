"""A made-up comparison for the pictures of ``--screenshots`` and for the walk through all windows."""

from __future__ import annotations

from app.compare.comparison import Difference, Outcome, Place, Which
from app.compare.record import Answers, Margin, Record, Reply, SideFacts
from engine.protocol import FinishReason, Mode

TEXT = (
    "The sky is blue because the molecules of the air scatter short waves of light far more than long ones. "
    "Blue light therefore reaches the eye from every direction, while red light mostly passes straight through."
)
OTHER = TEXT.replace("straight through", "right through")
QUESTIONS = (
    "Why is the sky blue?",
    "Write a Python function that returns the factorial of a number.",
    "A farmer has 5 hens and each lays 6 eggs a week. She sells 22 eggs. How many are left?",
)
SPEEDS = ((49.1, 32.4), (64.3, 31.4), (44.9, 33.0))
"""Tokens per second of A and B, by prompt."""


def record(prompts: int = 3) -> Record:
    """With a difference in the first prompt, which is a tie."""
    start = TEXT.index(" straight")
    difference = Difference(
        57, TEXT[start - 40 : start], Place(7956, " straight", start, start + 9), Place(1578, " right", start, start + 6)
    )
    first = Answers(
        QUESTIONS[0], (TEXT, OTHER), Outcome.DIFFERENT, difference, Margin(0.0312, 0.125, 0.41, 0.39), ""
    )
    others = tuple(
        Answers(question, ("42 is the answer.",) * 2, Outcome.IDENTICAL) for question in QUESTIONS[1:prompts]
    )
    replies = tuple(
        Reply(
            prompt, repeat, which, 128, 53 if which is Which.A else 127,
            127 / (speed * (1 + (0.02 if which is Which.A else -0.015) * repeat)), 0.21, FinishReason.LENGTH,
            Mode.EAGLE if which is Which.A else Mode.PLAIN,
        )
        for prompt in range(prompts)
        for repeat in range(3)
        for which, speed in zip(Which, SPEEDS[prompt], strict=True)
    )  # fmt: skip
    return Record(
        id="sample",
        created=1_790_000_000.0,
        model="Gemma 3 270M (demo)",
        device="CPU (2 threads)",
        weight_format="row-wise int8",
        a=SideFacts("EAGLE-3, dynamic tree (Nodes 12, Depth 6)", method="eagle3", head="gemma-3-270m-eagle3"),
        b=SideFacts("Plain decoding", drafting=False),
        temperature=0.0,
        seed=1234,
        max_new_tokens=128,
        adapt=True,
        repeats=3,
        answers=(first, *others),
        replies=replies,
    )
