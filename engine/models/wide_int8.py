"""Row-wise int8 for one very wide layer (an output head), through oneDNN.

For a step's few rows oneDNN reads the weights once and, where the processor has matrix
tiles, multiplies 16 rows in the time of one; fbgemm, which serves the narrow layers,
pays for each row. A call costs oneDNN 30 µs more, which only a wide layer is worth.

Sums are exact integers here too, but which kernel runs for how many rows is oneDNN's
affair, so :func:`wide_linear` uses it only after seeing that rows come out the same bit
for bit whatever stands beside them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from engine.models.linear import FULL_WEIGHT_LEVELS, body_weight_levels

_STEP = 1.0 / 127
_ZERO_POINT = 128
MOST_ROWS = 32
"""More rows than this go through in parts: a wide layer's output is large."""
_PROOF_ROWS = (1, 2, 3, 4, 6, 8, 12, 16, 17, 32)


class WideInt8Linear:
    """As :class:`engine.models.linear.RowwiseInt8Linear`, for rows whose largest magnitude is 1."""

    def __init__(self, weight: Tensor, scale: Tensor) -> None:
        """``weight`` [out, in] int8, ``scale`` [out] float32. Raises RuntimeError where torch has no oneDNN."""
        self.out_features, self.in_features = weight.shape
        self._scale = scale.float().contiguous()
        self._zeros = torch.zeros(self.out_features, dtype=torch.long)
        self._packed: Tensor = torch.ops.onednn.qlinear_prepack(weight.contiguous(), None)
        self._call = torch.ops.onednn.qlinear_pointwise.default

    def unit_call(self, unit: Tensor) -> Tensor:
        """[rows, in] → [rows, out] float32; at most :data:`MOST_ROWS` rows."""
        steps = (unit * 127.0).round_().add_(_ZERO_POINT).to(torch.uint8)
        out: Tensor = self._call(
            steps, _STEP, _ZERO_POINT, self._packed, self._scale, self._zeros,
            None, 1.0, 0, torch.float32, "none", [], "",
        )  # fmt: skip
        return out

    def memory_bytes(self) -> int:
        return self.out_features * (self.in_features + 4)


def _onednn() -> bool:
    backend: Any = torch.backends.mkldnn
    return bool(backend.is_available())


def wide_linear(weight: Tensor, scale: Tensor) -> WideInt8Linear | None:
    """The layer, or None where this processor or this build of torch would not serve it exactly."""
    if body_weight_levels() != FULL_WEIGHT_LEVELS or not _onednn():
        return None  # without VNNI, 8-bit products saturate
    try:
        layer = WideInt8Linear(weight, scale)
        return layer if rows_stand_alone(layer, _PROOF_ROWS) else None
    except (RuntimeError, AttributeError, NotImplementedError):
        return None


def rows_stand_alone(layer: WideInt8Linear, counts: Sequence[int]) -> bool:
    """Whether rows run together equal the same rows run one by one, bit for bit."""
    rows = torch.randn(max(counts), layer.in_features, generator=torch.Generator().manual_seed(0))
    rows /= rows.abs().amax(-1, True)
    whole = layer.unit_call(rows)
    alone = (0, 1, len(rows) // 2, len(rows) - 1)
    return all(torch.equal(layer.unit_call(rows[:count]), whole[:count]) for count in counts) and all(
        torch.equal(layer.unit_call(rows[row : row + 1])[0], whole[row]) for row in alone
    )
