"""Linears that keep 4 bits in memory.

:class:`BlockLinear` is bitsandbytes' NF4 (or FP4): on a GPU its fused kernel reads the 4
bits once for up to some dozens of rows (from version 0.50 on), which is what makes
verifying a tree cheap; on a CPU it is slow, and row-wise int8 is used instead.

:class:`GroupLinear` keeps GPTQ's and AWQ's integers. Where torch has a kernel for their
layout (``_weight_int4pack_mm``: compute capability 8.0 and bfloat16) and the kernel agrees
with the plain product on this very matrix, it is used; otherwise the weights are written
out for each call.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from engine.models.linear import Linear, narrowed, widened
from engine.models.matrices import BlockMatrix, GroupMatrix

BLOCK = 64
_CPU_PIECE = 1 << 16
"""Weights quantised at once on a CPU; a multiple of :data:`BLOCK`."""


class BlockLinear:
    def __init__(self, packed: Tensor, state: Any, bias: Tensor | None) -> None:
        """``packed`` and ``state`` as ``bitsandbytes.functional.quantize_4bit`` returns them."""
        self._packed = packed
        self._state = state
        self._bias = bias
        self.out_features, self.in_features = (int(size) for size in state.shape)

    @classmethod
    def of(
        cls, matrix: BlockMatrix, dtype: torch.dtype, device: torch.device, bias: Tensor | None
    ) -> BlockLinear:
        from bitsandbytes.functional import QuantState

        make: Any = QuantState
        state = make(
            absmax=matrix.absmax.reshape(-1).to(device),
            shape=torch.Size(matrix.shape),
            code=matrix.table.to(device),
            blocksize=matrix.block,
            quant_type=matrix.kind,
            dtype=dtype,
        )
        return cls(matrix.packed.reshape(-1, 1).to(device), state, bias)

    def __call__(self, x: Tensor, row_scale: Tensor | None = None) -> Tensor:
        from bitsandbytes.autograd._functions import matmul_4bit

        x, up = narrowed(x, row_scale, self._state.dtype)
        bias = self._bias if up is None else None
        return widened(matmul_4bit(x, self._packed, quant_state=self._state, bias=bias), up, self._bias)

    def memory_bytes(self) -> int:
        state = self._state
        parts = [self._packed, state.absmax]
        if state.state2 is not None:
            parts.append(state.state2.absmax)
        return sum(part.numel() * part.element_size() for part in parts)


def quantise_nf4(weight: Tensor, bias: Tensor | None = None, *, double_quant: bool = False) -> BlockLinear:
    """NF4 of ``weight`` [out, in] in its type and on its device."""
    from bitsandbytes.functional import quantize_4bit

    def quantised(part: Tensor, nested: bool) -> tuple[Tensor, Any]:
        return quantize_4bit(part, blocksize=BLOCK, compress_statistics=nested, quant_type="nf4")

    flat = weight.reshape(-1)
    if weight.device.type != "cpu" or flat.numel() <= _CPU_PIECE:
        packed, state = quantised(weight.contiguous(), double_quant)
        return BlockLinear(packed, state, bias)
    # On a CPU bitsandbytes compares every weight with all 16 values at once: some hundred bytes a weight.
    pieces = [quantised(part, False) for part in torch.split(flat, _CPU_PIECE)]
    packed, state = torch.cat([part for part, _ in pieces]), pieces[0][1]
    state.shape = weight.shape
    state.absmax = torch.cat([each.absmax for _, each in pieces])
    if double_quant:
        _compress(state)
    return BlockLinear(packed, state, bias)


def _compress(state: Any) -> None:
    """Quantise the blocks' magnitudes of ``state``, as bitsandbytes does with ``compress_statistics``."""
    from bitsandbytes.functional import quantize_blockwise

    state.offset = state.absmax.mean()
    state.absmax, state.state2 = quantize_blockwise(state.absmax - state.offset, blocksize=256)
    state.nested = True


class GroupLinear:
    def __init__(
        self, matrix: GroupMatrix, dtype: torch.dtype, device: torch.device, bias: Tensor | None
    ) -> None:
        self.out_features, self.in_features = matrix.shape
        self._dtype = dtype
        self._group = matrix.group
        self._columns = None if matrix.columns is None else matrix.columns.to(device)
        here = GroupMatrix(
            matrix.packed.to(device), matrix.scale.to(device, dtype), matrix.zero.to(device, dtype)
        )
        self._bias = bias
        self._kernel = _kernel(here, dtype, device)
        # One of both is kept: twice 4 bits would be a byte.
        self._matrix = here if self._kernel is None else None

    def __call__(self, x: Tensor, row_scale: Tensor | None = None) -> Tensor:
        if self._columns is not None:
            x = x[:, self._columns]
        x, up = narrowed(x, row_scale, self._dtype)
        if self._matrix is not None:
            bias = self._bias if up is None else None
            out = functional.linear(x, self._matrix.stored().to(self._dtype), bias)
            return widened(out, up, self._bias)
        assert self._kernel is not None
        out = _kernel_product(x, self._kernel, self._group).float()
        return out if self._bias is None else out.add_(self._bias)

    def memory_bytes(self) -> int:
        matrix = self._matrix
        kept = self._kernel if matrix is None else (matrix.packed, matrix.scale, matrix.zero)
        assert kept is not None
        return sum(part.numel() * part.element_size() for part in kept)


class StackedLinear:
    """Several linears of one input side by side, where their weights cannot be joined."""

    def __init__(self, parts: Sequence[Linear]) -> None:
        self._parts = tuple(parts)
        self.out_features = sum(part.out_features for part in parts)
        self.in_features = parts[0].in_features

    def __call__(self, x: Tensor, row_scale: Tensor | None = None) -> Tensor:
        return torch.cat([part(x, row_scale) for part in self._parts], -1)

    def memory_bytes(self) -> int:
        return sum(part.memory_bytes() for part in self._parts)


# --------------------------------------------------------------------------- torch's 4-bit kernel


def _kernel(matrix: GroupMatrix, dtype: torch.dtype, device: torch.device) -> tuple[Tensor, Tensor] | None:
    """Weights in the layout of torch's kernel, or None where it is missing or does not agree."""
    if device.type != "cuda" or dtype != torch.bfloat16 or torch.cuda.get_device_capability(device) < (8, 0):
        return None
    out, width = matrix.shape
    if matrix.group not in (32, 64, 128, 256) or out % 8 or width % 128:
        return None
    try:
        kernel = _kernel_layout(matrix)
        probe = torch.randn(4, width, device=device, dtype=dtype)
        expected = functional.linear(probe.float(), matrix.stored())
        found = _kernel_product(probe, kernel, matrix.group).float()
    except (RuntimeError, AttributeError):
        return None
    # bfloat16 rounds to 3 digits; a wrong layout is off by the size of the numbers themselves.
    agrees = (found - expected).square().mean() < 1e-3 * expected.square().mean()
    return kernel if bool(agrees) else None


def _kernel_layout(matrix: GroupMatrix) -> tuple[Tensor, Tensor]:
    """(packed, scales and zeros [groups, out, 2]); the kernel computes (q - 8) * scale + zero."""
    swapped = (matrix.packed >> 4) | (matrix.packed << 4)  # it wants the even column in the high nibble
    packed = _to_kernel(swapped, 8)
    shift = (8 - matrix.zero.float()) * matrix.scale.float()
    both = torch.stack((matrix.scale.float().T, shift.T), -1)
    return packed, both.to(torch.bfloat16).contiguous()


def _to_kernel(packed: Tensor, inner_tiles: int) -> Tensor:
    made: Tensor = torch.ops.aten._convert_weight_to_int4pack(packed, inner_tiles)
    return made


def _kernel_product(x: Tensor, kernel: tuple[Tensor, Tensor], group: int) -> Tensor:
    out: Tensor = torch.ops.aten._weight_int4pack_mm(x, kernel[0], group, kernel[1])
    return out
