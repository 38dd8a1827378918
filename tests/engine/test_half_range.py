"""Products in float16 whose rows or sums lie beyond its range, which ends at 65,504."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from engine.models.linear import DenseLinear, Linear
from engine.models.linear_4bit import GroupLinear, quantise_nf4
from engine.models.matrices import GroupMatrix

OUT, WIDTH = 24, 256


def _dense(weight: Tensor, bias: Tensor | None) -> tuple[Linear, Tensor]:
    return DenseLinear(weight, bias), weight


def _nf4(weight: Tensor, bias: Tensor | None) -> tuple[Linear, Tensor]:
    from bitsandbytes.functional import dequantize_4bit

    linear = quantise_nf4(weight, bias)
    return linear, dequantize_4bit(linear._packed, linear._state)


def _groups(weight: Tensor, bias: Tensor | None) -> tuple[Linear, Tensor]:
    packed = torch.randint(0, 256, (OUT, WIDTH // 2), generator=torch.Generator().manual_seed(2)).byte()
    matrix = GroupMatrix(packed, torch.full((OUT, 4), 0.02).half(), torch.full((OUT, 4), 7.0).half())
    return GroupLinear(matrix, weight.dtype, weight.device, bias), matrix.stored()


Make = Callable[[Tensor, Tensor | None], tuple[Linear, Tensor]]


@pytest.mark.parametrize("biased", [False, True], ids=["plain", "bias"])
@pytest.mark.parametrize("make", [_dense, _nf4, _groups])
def test_rows_beyond_the_range_of_float16(make: Make, biased: bool) -> None:
    generator = torch.Generator().manual_seed(1)
    weight = (0.1 * torch.randn(OUT, WIDTH, generator=generator)).half()
    bias = (100 * torch.randn(OUT, generator=generator)).half() if biased else None
    linear, kept = make(weight, bias)
    sizes = torch.tensor([1e-3, 1.0, 3e4, 1e6, 0.0])[:, None]  # the third row's sums are too large, the fourth itself
    x = sizes * torch.randn(5, WIDTH, generator=generator)
    x[2:4] = x[2:4].abs() * kept[0].float().sign()
    factor = torch.tensor([1.0, 3.0, 1.0, 1.0, 1.0])[:, None]
    found = linear(x, factor)
    wanted = (x * factor) @ kept.float().T + (0.0 if bias is None else bias.float())
    assert wanted[2:4].abs().amax() > 65504 and found.dtype == torch.float32
    error = (found - wanted).abs().amax(-1) / wanted.abs().amax(-1).clamp_min(1e-9)
    assert error.amax() < 2e-3, error


def test_rows_of_ordinary_size_keep_their_bits() -> None:
    generator = torch.Generator().manual_seed(1)
    weight = (0.1 * torch.randn(OUT, WIDTH, generator=generator)).half()
    x = torch.randn(6, WIDTH, generator=generator)
    plain = torch.nn.functional.linear(x.half(), weight).float()
    assert torch.equal(DenseLinear(weight)(x), plain)
    huge = torch.cat((x, 1e6 * x[:1]))  # and one beside them changes nothing
    assert torch.equal(DenseLinear(weight)(huge)[:6], torch.nn.functional.linear(huge[:7].half(), weight)[:6].float())
