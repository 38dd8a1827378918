"""Quantised blocks become the same bits as gguf-py makes of them."""

from __future__ import annotations

import numpy as np
import pytest
from gguf.constants import GGMLQuantizationType
from gguf.quants import dequantize

from engine.models.gguf_numbers import NUMBERS, numbers

HALVES = {"Q8_0": (0,), "Q4_K": (0, 2), "Q5_K": (0, 2), "Q6_K": (208,)}
"""Where a block's float16 factors stand; all other bytes may be anything."""


@pytest.mark.parametrize("kind", NUMBERS)
def test_bit_for_bit_as_the_library(kind: str) -> None:
    size = NUMBERS[kind][0]
    generator = np.random.default_rng(len(kind) + size)
    raw = generator.integers(0, 256, (5000, size), dtype=np.uint8)  # more than one piece
    for at in HALVES[kind]:
        raw[:, at : at + 2] = generator.normal(0, 0.02, (5000, 1)).astype(np.float16).view(np.uint8)
    raw.flags.writeable = False
    found = numbers(kind, raw)
    assert found is not None
    expected = dequantize(raw, GGMLQuantizationType[kind]).reshape(-1)
    assert np.array_equal(found.numpy().view(np.int32), expected.view(np.int32))
    assert numbers(kind, raw[:0]).numel() == 0  # type: ignore[union-attr]


def test_other_kinds_are_left_to_the_library() -> None:
    assert numbers("IQ2_XS", np.zeros((1, 74), np.uint8)) is None
