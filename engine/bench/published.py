"""What others measured, beside ours: published speed-ups and acceptance lengths with their sources.

Greedy figures of the EAGLE-3 paper are means over MT-bench, HumanEval, GSM8K, Alpaca and
CNN/DailyMail against plain decoding in transformers; Spec-Bench measures other people's code on
six tasks, of which ours takes its prompts. Both run targets thirty times the demo model's size on a GPU.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Figure:
    speed_up: float
    tau: float | None = None
    """Acceptance length; None where the source gives none."""

    def __str__(self) -> str:
        return f"{self.speed_up:.2f}×" + (f" ({self.tau:.2f})" if self.tau is not None else "")


@dataclass(frozen=True, slots=True)
class Source:
    title: str
    """Head of a column."""
    about: str
    """Model, machine and place, in a sentence."""
    figures: Mapping[tuple[str, int], Figure]
    """(method id, temperature) → what is published."""


PAPER = Source(
    "EAGLE-3 paper",
    "Vicuna 13B, means over five tasks: arXiv 2503.01840, table 1.",
    {
        ("eagle1", 0): Figure(3.05, 3.96),
        ("eagle2", 0): Figure(4.22, 4.83),
        ("eagle3", 0): Figure(5.51, 6.62),
        ("medusa", 0): Figure(2.12, 2.51),
        ("draft-model", 0): Figure(1.92, 2.24),
        ("lookahead", 0): Figure(1.62, 1.67),
        ("prompt-lookup", 0): Figure(1.74, 1.80),
        ("eagle1", 1): Figure(2.44, 3.45),
        ("eagle2", 1): Figure(3.76, 4.41),
        ("eagle3", 1): Figure(4.65, 5.67),
        ("draft-model", 1): Figure(1.60, 1.84),
    },
)

SPEC_BENCH = Source(
    "Spec-Bench",
    "Vicuna 7B on an RTX 3090, EAGLE-3 Vicuna 13B on an A100: Leaderboard.md of hemingkx/Spec-Bench.",
    {
        ("eagle1", 0): Figure(2.03, 3.57),
        ("eagle2", 0): Figure(2.19, 4.35),
        ("eagle3", 0): Figure(3.02, 5.71),
        ("medusa", 0): Figure(1.44, 2.32),
        ("draft-model", 0): Figure(1.79, 2.28),
        ("lookahead", 0): Figure(1.13, 1.64),
        ("prompt-lookup", 0): Figure(1.64, 1.73),
    },
)

SOURCES = (PAPER, SPEC_BENCH)

BATCHES = (
    "Published falls of EAGLE-3 with the batch, for comparison: Llama 3.1 8B in SGLang, 1.81× at 2 and 1.38× at 64 "
    "(table 3 of the EAGLE-3 paper); in vLLM, 1.75× at 2 and 1.01× at 56 (its table 5)."
)
