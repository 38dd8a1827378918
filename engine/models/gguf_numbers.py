"""The usual GGUF quantisations turned into numbers by torch, bit for bit as gguf-py does it by numpy.

Layouts are those of ggml (``ggml-quants.c``): blocks of 32 (Q8_0) or 256 weights (K-quants),
each with its scales. Whatever is not listed here goes through gguf-py.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

BLOCK = 256
"""Weights of a block of the K-quants."""
_AT_ONCE = 4096
"""Blocks of one piece, which stays in the processor's cache."""


def _halves(blocks: Tensor, begin: int) -> Tensor:
    """The float16 at byte ``begin`` of every block. [blocks, 1] float32"""
    return blocks[:, begin : begin + 2].contiguous().view(torch.float16).float()


def q8_0(blocks: Tensor) -> Tensor:
    """[blocks, 34] uint8 → [blocks, 32]"""
    return blocks[:, 2:].contiguous().view(torch.int8).float().mul_(_halves(blocks, 0))


def _scales_and_minima(packed: Tensor) -> tuple[Tensor, Tensor]:
    """Eight scales and eight minima of 6 bits each, out of 12 bytes: [blocks, 8] twice."""
    low, middle, high = packed[:, :4], packed[:, 4:8], packed[:, 8:]
    scales = torch.cat((low & 63, (high & 15) | ((low >> 2) & 48)), 1)
    minima = torch.cat((middle & 63, (high >> 4) | ((middle >> 2) & 48)), 1)
    return scales.float(), minima.float()


def _steps(blocks: Tensor, weights: Tensor) -> Tensor:
    """d · scale · weight - dmin · minimum, for ``weights`` [blocks, 8, 32] float32, in place."""
    scales, minima = _scales_and_minima(blocks[:, 4:16])
    step = (_halves(blocks, 0) * scales).unsqueeze(-1)
    floor = (_halves(blocks, 2) * minima).unsqueeze(-1)
    return weights.mul_(step).sub_(floor).view(-1, BLOCK)


def q4_k(blocks: Tensor) -> Tensor:
    """[blocks, 144] uint8 → [blocks, 256]"""
    packed = blocks[:, 16:].reshape(-1, 4, 1, 32)
    weights = torch.cat((packed & 15, packed >> 4), 2).view(-1, 8, 32)
    return _steps(blocks, weights.float())


def q5_k(blocks: Tensor) -> Tensor:
    """[blocks, 176] uint8 → [blocks, 256]"""
    packed = blocks[:, 48:].reshape(-1, 4, 1, 32)
    weights = torch.cat((packed & 15, packed >> 4), 2).view(-1, 8, 32)
    shifts = torch.arange(8, dtype=torch.uint8).view(1, 8, 1)
    fifth = (blocks[:, 16:48].unsqueeze(1) >> shifts) & 1
    return _steps(blocks, (weights | (fifth << 4)).float())


def q6_k(blocks: Tensor) -> Tensor:
    """[blocks, 210] uint8 → [blocks, 256]"""
    low = blocks[:, :128].reshape(-1, 2, 1, 64)
    low = torch.cat((low & 15, low >> 4), 2).view(-1, 8, 32)
    high = blocks[:, 128:192].reshape(-1, 2, 1, 32)
    shifts = torch.tensor([0, 2, 4, 6], dtype=torch.uint8).view(1, 1, 4, 1)
    high = ((high >> shifts) & 3).view(-1, 8, 32)
    weights = (low | (high << 4)).to(torch.int8).sub_(32).view(-1, 16, 16).float()
    scales = blocks[:, 192:208].contiguous().view(torch.int8).float()
    return weights.mul_((_halves(blocks, 208) * scales).unsqueeze(-1)).view(-1, BLOCK)


NUMBERS: dict[str, tuple[int, Callable[[Tensor], Tensor]]] = {
    "Q8_0": (34, q8_0),
    "Q4_K": (144, q4_k),
    "Q5_K": (176, q5_k),
    "Q6_K": (210, q6_k),
}
"""Name of the type → (bytes of a block, what turns blocks into numbers)."""


def numbers(kind: str, raw: np.ndarray[tuple[int, ...], np.dtype[np.uint8]]) -> Tensor | None:
    """The numbers in ``raw``, whole blocks of bytes, in float32 one after the other; None for a ``kind``
    that is not in :data:`NUMBERS`."""
    if kind not in NUMBERS:
        return None
    size, turn = NUMBERS[kind]
    blocks = raw.reshape(-1, size)
    pieces = range(0, len(blocks), _AT_ONCE)
    # Copied piece by piece: the file's map cannot be written to, which torch insists on.
    found = [turn(torch.from_numpy(np.array(blocks[at : at + _AT_ONCE]))).view(-1) for at in pieces]
    return torch.cat(found) if found else torch.empty(0)
