"""Whether a reply goes round in circles: such text flatters every drafter, and teaches a head little."""

from __future__ import annotations

from collections.abc import Sequence

FEWEST = 16
"""4-grams up to which a reply is too short to tell."""


def is_looping(tokens: Sequence[int]) -> bool:
    """Fewer than half of the reply's 4-grams are distinct."""
    grams = [tuple(tokens[i : i + 4]) for i in range(len(tokens) - 3)]
    return len(grams) > FEWEST and len(set(grams)) < len(grams) / 2
