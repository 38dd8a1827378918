"""What was freed goes back to the system."""

from __future__ import annotations

import platform

import psutil  # type: ignore[import-untyped]
import pytest

from engine.spare_memory import give_back

PIECE = 60_000
"""Bytes: few enough that glibc takes them from its heap, whose middle it keeps."""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc is told")
def test_freed_memory_is_given_back() -> None:
    pieces = [bytearray(PIECE) for _ in range(3000)]
    last = pieces.pop()  # keeps the heap from becoming shorter by itself
    pieces.clear()
    before = psutil.Process().memory_info().rss
    give_back()
    assert before - psutil.Process().memory_info().rss > 2000 * PIECE
    assert len(last) == PIECE
