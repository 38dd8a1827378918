"""Rotary position embedding: which angle each pair of channels turns by at each position.

Scalings as in transformers (``modeling_rope_utils.py``): linear (positions divided), llama3
(long wavelengths divided, short ones kept, a ramp between), YaRN (arXiv 2309.00071, section 3)
and longrope (arXiv 2402.13753: one divisor a channel, other divisors for long texts). Scalings
that change with the length of the text so far ("dynamic") are not here: a tree's rows would
need the keys of all earlier positions turned anew.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

KINDS = ("default", "linear", "llama3", "yarn", "longrope")


@dataclass(frozen=True, slots=True)
class Rope:
    """One kind of rotary embedding; a model may use two (full and sliding layers)."""

    theta: float
    dim: int
    """Channels of a head that are turned, the first ones; the rest pass through."""
    kind: str = "default"
    factor: float = 1.0
    original_positions: int = 0
    """Length the model was trained for before it was stretched."""
    low_frequency_factor: float = 1.0
    high_frequency_factor: float = 4.0
    beta_fast: float = 32.0
    beta_slow: float = 1.0
    truncate: bool = True
    """YaRN: whether the ramp's ends are whole channels."""
    magnitude: float = 1.0
    """Factor on cosine and sine: longer texts get sharper attention (YaRN, longrope)."""
    short_factors: tuple[float, ...] = ()
    long_factors: tuple[float, ...] = ()

    def frequencies(self, long: bool = False) -> Tensor:
        """Radians per position of each pair of channels [dim / 2] float32.

        ``long`` picks longrope's divisors for texts beyond ``original_positions``.
        """
        exponents = torch.arange(0, self.dim, 2, dtype=torch.float32) / self.dim
        plain = self.theta**-exponents
        if self.kind == "linear":
            return plain / self.factor
        if self.kind == "llama3":
            return self._llama3(plain)
        if self.kind == "yarn":
            return self._yarn(plain)
        if self.kind == "longrope":
            factors = self.long_factors if long else self.short_factors
            return plain / torch.tensor(factors, dtype=torch.float32)
        return plain

    def rotations(self, length: int, head_dim: int, long: bool = False) -> Tensor:
        """Complex factors [length, head_dim / 2] of the positions from 0 on; 1 where nothing turns."""
        angles = torch.outer(torch.arange(length, dtype=torch.float32), self.frequencies(long))
        turned = torch.polar(torch.full_like(angles, self.magnitude), angles)
        if self.dim == head_dim:
            return turned
        rest = torch.ones(length, (head_dim - self.dim) // 2, dtype=turned.dtype)
        return torch.cat((turned, rest), 1)

    def _llama3(self, plain: Tensor) -> Tensor:
        wavelengths = 2 * math.pi / plain
        longest = self.original_positions / self.low_frequency_factor
        shortest = self.original_positions / self.high_frequency_factor
        smooth = (self.original_positions / wavelengths - self.low_frequency_factor) / (
            self.high_frequency_factor - self.low_frequency_factor
        )
        ramp = (1 - smooth) * plain / self.factor + smooth * plain
        scaled = torch.where(wavelengths > longest, plain / self.factor, ramp)
        return torch.where(wavelengths < shortest, plain, scaled)

    def _yarn(self, plain: Tensor) -> Tensor:
        def channel(turns: float) -> float:
            """The channel that makes this many turns over the original length."""
            return (
                self.dim
                * math.log(self.original_positions / (turns * 2 * math.pi))
                / (2 * math.log(self.theta))
            )

        low, high = channel(self.beta_fast), channel(self.beta_slow)
        if self.truncate:
            low, high = math.floor(low), math.ceil(high)
        low, high = max(low, 0), min(high, self.dim - 1)
        ramp = (torch.arange(self.dim // 2, dtype=torch.float32) - low) / max(high - low, 0.001)
        stretched = ramp.clamp_(0, 1)
        return plain / self.factor * stretched + plain * (1 - stretched)


def read_rope(
    settings: Mapping[str, Any], theta: float, head_dim: int, max_positions: int, original_positions: int = 0
) -> Rope:
    """From a configuration's ``rope_scaling`` or one entry of ``rope_parameters``.

    :raises ValueError: a kind that is not here, or a field is missing or makes no sense.
    :raises KeyError: a field is missing.
    """
    kind = str(settings.get("rope_type", settings.get("type", "default")))
    kind = {"su": "longrope", "mrope": "default"}.get(kind, kind)
    if kind not in KINDS:
        raise UnknownRope(kind)
    theta = float(settings.get("rope_theta", theta))
    share = float(settings.get("partial_rotary_factor", 1.0))
    dim = int(head_dim * share)
    if dim < 2 or dim % 2 or dim > head_dim:
        raise ValueError(f"partial_rotary_factor {share} turns {dim} of {head_dim} channels")
    if kind == "default":
        return Rope(theta, dim)
    original = int(settings.get("original_max_position_embeddings") or original_positions or max_positions)
    factor = settings.get("factor")
    if factor is None:
        factor = max_positions / original
    common: dict[str, Any] = {"theta": theta, "dim": dim, "kind": kind, "factor": float(factor)}
    if kind == "linear":
        return Rope(**common)
    common["original_positions"] = original
    if kind == "llama3":
        return Rope(
            **common,
            low_frequency_factor=float(settings["low_freq_factor"]),
            high_frequency_factor=float(settings["high_freq_factor"]),
        )
    magnitude = settings.get("attention_factor")
    if kind == "yarn":
        if magnitude is None:
            magnitude = _yarn_magnitude(
                float(factor), settings.get("mscale"), settings.get("mscale_all_dim")
            )
        return Rope(
            **common,
            beta_fast=float(settings.get("beta_fast") or 32.0),
            beta_slow=float(settings.get("beta_slow") or 1.0),
            truncate=bool(settings.get("truncate", True)),
            magnitude=float(magnitude),
        )
    if magnitude is None:
        stretch = float(factor)
        magnitude = 1.0 if stretch <= 1 else math.sqrt(1 + math.log(stretch) / math.log(original))
    lists = [tuple(float(f) for f in settings[name]) for name in ("short_factor", "long_factor")]
    for name, values in zip(("short_factor", "long_factor"), lists, strict=True):
        if len(values) != dim // 2:
            raise ValueError(f"{name} has {len(values)} entries where {dim // 2} are expected")
    return Rope(**common, magnitude=float(magnitude), short_factors=lists[0], long_factors=lists[1])


class UnknownRope(ValueError):
    """A scaling that the decoder does not follow."""

    def __init__(self, kind: str) -> None:
        super().__init__(f"RoPE scaling of kind “{kind}”")
        self.kind = kind


def _yarn_magnitude(factor: float, mscale: float | None, mscale_all_dim: float | None) -> float:
    def of(weight: float) -> float:
        return 1.0 if factor <= 1 else 0.1 * weight * math.log(factor) + 1.0

    if mscale and mscale_all_dim:
        return of(mscale) / of(mscale_all_dim)
    return of(1.0)
