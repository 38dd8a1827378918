"""Weight matrices as checkpoints store them: floats, or 4 bits in one of three layouts.

Every layout can give back its numbers (:meth:`StoredMatrix.dense`), pick rows, and be
stacked with others of its kind without rounding anything again: queries, keys and values
become one matrix whatever they are stored in.

* bitsandbytes NF4/FP4: blocks along each row share a largest magnitude; a nibble is an
  index into a table of 16 values, the high nibble first (``functional.py`` in
  bitsandbytes).
* GPTQ and AWQ: integers of 4 bits, a scale and a zero for each group of input channels;
  they differ in how nibbles lie in 32-bit words (:mod:`engine.models.packed`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeGuard, TypeVar

import torch
from torch import Tensor


class StoredMatrix(Protocol):
    @property
    def shape(self) -> tuple[int, int]:
        """(out, in)"""
        ...

    def dense(self) -> Tensor:
        """[out, in] in a float type."""
        ...

    def rows(self, order: Tensor) -> StoredMatrix:
        """The rows ``order`` names, in that order."""
        ...


M = TypeVar("M", bound=StoredMatrix)


@dataclass(frozen=True, slots=True)
class FloatMatrix:
    values: Tensor
    """[out, in], any float type."""

    @property
    def shape(self) -> tuple[int, int]:
        out, width = self.values.shape
        return int(out), int(width)

    def dense(self) -> Tensor:
        return self.values

    def rows(self, order: Tensor) -> FloatMatrix:
        return FloatMatrix(self.values[order])


@dataclass(frozen=True, slots=True)
class BlockMatrix:
    """bitsandbytes' 4 bits: two table indices a byte, one magnitude a block of a row."""

    packed: Tensor
    """[out, in / 2] uint8."""
    absmax: Tensor
    """[out, in / block] float32."""
    table: Tensor
    """[16] float32."""
    kind: str
    """``nf4`` or ``fp4``."""

    @property
    def shape(self) -> tuple[int, int]:
        return int(self.packed.shape[0]), int(self.packed.shape[1]) * 2

    @property
    def block(self) -> int:
        return self.shape[1] // int(self.absmax.shape[1])

    def dense(self) -> Tensor:
        indices = torch.stack((self.packed >> 4, self.packed & 15), -1).view(self.shape).int()
        return self.table[indices] * self.absmax.repeat_interleave(self.block, 1)

    def rows(self, order: Tensor) -> BlockMatrix:
        return BlockMatrix(self.packed[order], self.absmax[order], self.table, self.kind)


@dataclass(frozen=True, slots=True)
class GroupMatrix:
    """4-bit integers q with a scale and a zero a group: w = (q - zero) * scale."""

    packed: Tensor
    """[out, in / 2] uint8, the even column in the low nibble."""
    scale: Tensor
    """[out, groups] float."""
    zero: Tensor
    """[out, groups] float, in units of q."""
    columns: Tensor | None = None
    """[in]: the input channel of each stored column, where groups were made of scattered ones."""

    @property
    def shape(self) -> tuple[int, int]:
        return int(self.packed.shape[0]), int(self.packed.shape[1]) * 2

    @property
    def group(self) -> int:
        return self.shape[1] // int(self.scale.shape[1])

    def stored(self) -> Tensor:
        """[out, in] float32 with columns as they are stored."""
        out, width = self.shape
        q = torch.stack((self.packed & 15, self.packed >> 4), -1).view(out, -1, self.group).float()
        return ((q - self.zero.float()[:, :, None]) * self.scale.float()[:, :, None]).view(out, width)

    def dense(self) -> Tensor:
        values = self.stored()
        if self.columns is None:
            return values
        whole = torch.empty_like(values)
        whole[:, self.columns] = values
        return whole

    def rows(self, order: Tensor) -> GroupMatrix:
        return GroupMatrix(self.packed[order], self.scale[order], self.zero[order], self.columns)


def stack(parts: Sequence[StoredMatrix]) -> StoredMatrix | None:
    """One matrix of all rows of ``parts``, or None where they cannot be joined as they are stored."""
    if len(parts) == 1:
        return parts[0]
    if _all(parts, FloatMatrix):
        return FloatMatrix(torch.cat([part.values for part in parts]))
    if _all(parts, BlockMatrix):
        first = parts[0]
        if any(part.kind != first.kind or part.block != first.block for part in parts):
            return None
        return BlockMatrix(
            torch.cat([part.packed for part in parts]),
            torch.cat([part.absmax for part in parts]),
            first.table,
            first.kind,
        )
    if _all(parts, GroupMatrix):
        columns = parts[0].columns
        for part in parts:
            same = part.columns is columns or (
                part.columns is not None and columns is not None and torch.equal(part.columns, columns)
            )
            if not same or part.group != parts[0].group:
                return None
        return GroupMatrix(
            torch.cat([part.packed for part in parts]),
            torch.cat([part.scale for part in parts]),
            torch.cat([part.zero for part in parts]),
            columns,
        )
    return None


def dense_stack(parts: Sequence[StoredMatrix]) -> Tensor:
    """The numbers of all rows of ``parts`` [sum of out, in], in the first one's type."""
    if len(parts) == 1:
        return parts[0].dense()
    first = parts[0].dense()
    return torch.cat((first, *(part.dense().to(first.dtype) for part in parts[1:])))


def _all(parts: Sequence[StoredMatrix], kind: type[M]) -> TypeGuard[Sequence[M]]:
    return all(isinstance(part, kind) for part in parts)
