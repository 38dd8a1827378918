"""The output head: from final states to logits over the whole vocabulary.

Two thirds of the demo model's weights sit here. In row-wise int8 the whole head is one
product where oneDNN serves it exactly. Elsewhere it is split into blocks of vocabulary rows:
a block's logits stay in the processor's cache, and a greedy step looks at each
block's largest logit without ever holding all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import torch
from torch import Tensor

from engine.models.linear import DenseLinear, RowwiseInt8Linear, unit_rows
from engine.models.wide_int8 import MOST_ROWS, WideInt8Linear, wide_linear

BLOCK_ROWS = 16384

RowLogits = Callable[[int], Tensor]


class OutputHead(Protocol):
    def logits(self, x: Tensor, row_scale: Tensor) -> Tensor:
        """``x`` [rows, hidden] times ``row_scale`` [rows, 1] → logits [rows, vocab]."""
        ...

    def argmax(self, x: Tensor, row_scale: Tensor) -> Tensor:
        """The most likely token id of each row [rows]; the lowest id among equals."""
        ...

    def argmax_and_rows(self, x: Tensor, row_scale: Tensor) -> tuple[Tensor, RowLogits | None]:
        """The same ids, and what gives the logits [vocab] of any row as long as they are at hand;
        None where they are never held."""
        ...

    def memory_bytes(self) -> int: ...


class DenseHead:
    def __init__(self, weight: Tensor, *, tied: bool = True) -> None:
        """``weight`` [vocab, hidden]; ``tied`` when it is the embedding itself."""
        self.weight = weight
        self._tied = tied
        self._linear = DenseLinear(weight)

    def logits(self, x: Tensor, row_scale: Tensor) -> Tensor:
        return self._linear(x, row_scale)

    def argmax(self, x: Tensor, row_scale: Tensor) -> Tensor:
        return self.logits(x, row_scale).argmax(-1)

    def argmax_and_rows(self, x: Tensor, row_scale: Tensor) -> tuple[Tensor, RowLogits | None]:
        logits = self.logits(x, row_scale)
        return logits.argmax(-1), lambda row: logits[row]

    def memory_bytes(self) -> int:
        # A tied one is the embedding, which is counted there.
        return 0 if self._tied else self.weight.numel() * self.weight.element_size()


def int8_head(weight: Tensor, scale: Tensor) -> OutputHead:
    """The row-wise int8 head for this processor. ``weight`` [vocab, hidden], ``scale`` [vocab]"""
    whole = wide_linear(weight, scale)
    return WideInt8Head(whole) if whole is not None else Int8Head(weight, scale)


class WideInt8Head:
    """Row-wise int8 in one product; a step's few rows cost little more than one."""

    def __init__(self, linear: WideInt8Linear) -> None:
        self._linear = linear

    def logits(self, x: Tensor, row_scale: Tensor) -> Tensor:
        unit, peak = unit_rows(x)
        parts = [self._linear.unit_call(part) for part in torch.split(unit, MOST_ROWS)]
        out = parts[0] if len(parts) == 1 else torch.cat(parts)
        return out.mul_(peak * row_scale)

    def argmax(self, x: Tensor, row_scale: Tensor) -> Tensor:
        # A positive factor a row does not move its maximum: row_scale and peak stay out.
        unit, _ = unit_rows(x)
        parts = [self._linear.unit_call(part).max(-1).indices for part in torch.split(unit, MOST_ROWS)]
        return parts[0] if len(parts) == 1 else torch.cat(parts)

    def argmax_and_rows(self, x: Tensor, row_scale: Tensor) -> tuple[Tensor, RowLogits | None]:
        unit, peak = unit_rows(x)
        parts = [self._linear.unit_call(part) for part in torch.split(unit, MOST_ROWS)]
        ids = torch.cat([part.max(-1).indices for part in parts])
        factor = peak * row_scale
        return ids, lambda row: parts[row // MOST_ROWS][row % MOST_ROWS] * factor[row]

    def memory_bytes(self) -> int:
        return self._linear.memory_bytes()


class Int8Head:
    """Row-wise int8, in blocks of :data:`BLOCK_ROWS` vocabulary rows."""

    def __init__(self, weight: Tensor, scale: Tensor) -> None:
        """``weight`` [vocab, hidden] int8, ``scale`` [vocab] float32."""
        self._vocabulary = weight.shape[0]
        self._blocks = [
            RowwiseInt8Linear(weight[i : i + BLOCK_ROWS], scale[i : i + BLOCK_ROWS])
            for i in range(0, self._vocabulary, BLOCK_ROWS)
        ]

    def logits(self, x: Tensor, row_scale: Tensor) -> Tensor:
        unit, peak = unit_rows(x)
        out = torch.empty(x.shape[0], self._vocabulary)
        factor = peak * row_scale
        for index, block in enumerate(self._blocks):
            begin = index * BLOCK_ROWS
            torch.mul(block.unit_call(unit), factor, out=out[:, begin : begin + block.out_features])
        return out

    def argmax(self, x: Tensor, row_scale: Tensor) -> Tensor:
        # A positive factor a row does not move its maximum: row_scale and peak stay out.
        unit, _ = unit_rows(x)
        best_value: Tensor | None = None
        best_index: Tensor | None = None
        for index, block in enumerate(self._blocks):
            value, where = block.unit_call(unit).max(-1)
            where += index * BLOCK_ROWS
            if best_value is None or best_index is None:
                best_value, best_index = value, where
            else:
                best_index = torch.where(value > best_value, where, best_index)
                best_value = torch.maximum(best_value, value)
        assert best_index is not None
        return best_index

    def argmax_and_rows(self, x: Tensor, row_scale: Tensor) -> tuple[Tensor, RowLogits | None]:
        return self.argmax(x, row_scale), None

    def memory_bytes(self) -> int:
        return sum(block.memory_bytes() for block in self._blocks)
