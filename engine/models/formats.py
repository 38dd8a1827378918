"""In which format a target's matrices are kept, and what makes a linear of a stored matrix.

4-bit checkpoints stay in their own 4 bits: rounding them again would lose what their
makers calibrated.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor

from engine.errors import ResourceError
from engine.models.linear import DenseLinear, Linear
from engine.models.linear_4bit import BlockLinear, GroupLinear, StackedLinear, quantise_nf4
from engine.models.matrices import BlockMatrix, FloatMatrix, GroupMatrix, StoredMatrix, dense_stack, stack

CPU = torch.device("cpu")


class WeightFormat(Protocol):
    device: torch.device

    @property
    def dtype(self) -> torch.dtype:
        """What products are computed in, and how tables and the cache are kept."""
        ...

    def linear(self, parts: Sequence[StoredMatrix], bias: Tensor | None = None) -> Linear:
        """One linear of the rows of all ``parts``; ``bias`` [out] float32."""
        ...


class DenseFormat:
    """Floats of one type; 4-bit checkpoints are written out."""

    def __init__(self, dtype: torch.dtype = torch.float32, device: torch.device = CPU) -> None:
        self.dtype = dtype
        self.device = device

    def linear(self, parts: Sequence[StoredMatrix], bias: Tensor | None = None) -> Linear:
        weight = dense_stack(parts).to(self.device, self.dtype)
        return DenseLinear(weight, None if bias is None else bias.to(self.device))


class Nf4Format:
    """bitsandbytes NF4 in blocks of 64, products in ``dtype``.

    ``double_quant`` also quantises the blocks' magnitudes: 0.52 instead of 0.56 bytes a weight.
    """

    def __init__(
        self, dtype: torch.dtype, device: torch.device = CPU, *, double_quant: bool = False
    ) -> None:
        """:raises ResourceError: bitsandbytes does not load on this machine."""
        try:
            importlib.import_module("bitsandbytes.functional")
        except Exception as error:  # it looks for CUDA's libraries in many ways, each with its own failure
            raise ResourceError(
                f"bitsandbytes, which 4-bit weights need, does not load ({type(error).__name__}: {error}).",
                "Update the NVIDIA driver, or choose the device cpu.",
            ) from error
        self.dtype = dtype
        self.device = device
        self.double_quant = double_quant

    def linear(self, parts: Sequence[StoredMatrix], bias: Tensor | None = None) -> Linear:
        if bias is not None:
            bias = bias.to(self.device, self.dtype)
        whole = stack(parts)
        if whole is None:
            if bias is None:
                return StackedLinear([self.linear([part]) for part in parts])
            pieces = torch.split(bias, [part.shape[0] for part in parts])
            return StackedLinear(
                [self.linear([part], piece) for part, piece in zip(parts, pieces, strict=True)]
            )
        if isinstance(whole, BlockMatrix):
            return BlockLinear.of(whole, self.dtype, self.device, bias)
        if isinstance(whole, GroupMatrix):
            return GroupLinear(whole, self.dtype, self.device, bias)
        assert isinstance(whole, FloatMatrix)
        return quantise_nf4(
            whole.values.to(self.device, self.dtype), bias, double_quant=self.double_quant
        )
