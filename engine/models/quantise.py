"""Row-wise int8 weights for CPUs, with activation outliers moved into the weights.

A few channels of a language model's activations are far larger than the rest, and a
row's int8 step follows its largest value. Following SmoothQuant (arXiv 2211.10438,
section 4), channel j of a linear's input is divided by
``s_j = peak_activation_j**a / peak_weight_j**(1 - a)`` and the weights' column multiplied
by it. The division costs nothing at run time: it goes into whatever produced the
channel: the preceding norm's factors, the rows of ``v_proj`` before ``o_proj``, the
rows of ``up_proj`` before ``down_proj``.

Figures for the demo model, 700 tokens of news text, mean KL to float32 and top-1 agreement:

==============================================  ======  ======
7-bit weights, a = 0.5                          0.0238  93.0 %
the same with a searched per layer              0.0236  92.7 %
the same rounded by GPTQ on 1,430 tokens        0.0268  91.4 %
… ``down`` with 16-bit activations              0.0152  94.4 %
… all of them so                                0.0131  94.7 %
8-bit weights (where nothing saturates)         0.0154  94.0 %
… ``down`` with 16-bit activations              0.0073  95.6 %
… ``gate_up`` and ``down`` so                   0.0060  96.1 %
… all of them so                                0.0046  96.4 %
the output head alone                           0.0014  97.9 %
==============================================  ======  ======

So ``down_proj``, whose input is a product of two activations, gets 16-bit activations; the
weights get 8 bits where the processor adds them up exactly and 7 elsewhere.

The result is one flat dictionary of tensors, saved beside the model and loaded in a
second or two.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from engine.models.attention import QUERY_KEY_LENGTH, VALUE_LEVELS
from engine.models.config import DecoderConfig
from engine.models.decoder import Decoder, DecoderWeights, LayerWeights
from engine.models.linear import (
    HEAD_WEIGHT_LEVELS,
    DenseLinear,
    RowwiseInt8Linear,
    body_weight_levels,
)
from engine.models.output_head import DenseHead, Int8Head
from engine.models.rounding import quantise_rows

FORMAT = "eyrie-rowwise-int8-3"
VALUE_HEADROOM = 2.0
"""Values beyond this multiple of the calibration's largest are clamped to the grid."""


EXPONENT = 0.5
"""SmoothQuant's a."""
FINE = frozenset({"down"})
"""Linears whose activations get 16 bits."""


@dataclass(slots=True)
class _Recorder:
    """A dense linear that remembers the largest magnitude of each input and output channel."""

    linear: DenseLinear
    input_peak: Tensor = field(init=False)
    output_peak: Tensor = field(init=False)
    out_features: int = field(init=False)
    in_features: int = field(init=False)

    def __post_init__(self) -> None:
        self.out_features, self.in_features = self.linear.out_features, self.linear.in_features
        self.input_peak = torch.zeros(self.in_features)
        self.output_peak = torch.zeros(self.out_features)

    def __call__(self, x: Tensor, row_scale: Tensor | None = None) -> Tensor:
        if row_scale is not None:
            x = x * row_scale
        out = self.linear(x)
        self.input_peak = torch.maximum(self.input_peak, x.abs().amax(0))
        self.output_peak = torch.maximum(self.output_peak, out.abs().amax(0))
        return out

    def memory_bytes(self) -> int:
        return 0


def quantise(
    config: DecoderConfig,
    weights: DecoderWeights,
    calibration: Tensor,
    *,
    progress: Callable[[float], None] = lambda _fraction: None,
) -> dict[str, Tensor]:
    """Int8 tensors of a float decoder's ``weights``.

    ``calibration`` [tokens] is ordinary text: a pass over it tells the activations'
    peaks. ``progress`` gets fractions from 0 to 1 and may raise to cancel.
    """
    recorded = _record(config, weights, calibration, lambda part: progress(0.4 * part))
    out: dict[str, Tensor] = {}
    for index, layer in enumerate(recorded.layers):
        _quantise_layer(out, f"layers.{index}.", config, layer)
        progress(0.4 + 0.3 * (index + 1) / config.num_layers)
    head = weights.head
    assert isinstance(head, DenseHead)
    table = head.weight.float()
    factors = _factors(recorded.final_peak, table)
    out["final_norm"] = weights.final_norm / factors
    out["head.weight"], out["head.scale"] = quantise_rows(table * factors, HEAD_WEIGHT_LEVELS)
    progress(1.0)
    return out


def int8_weights(config: DecoderConfig, tensors: Mapping[str, Tensor], embedding: Tensor) -> DecoderWeights:
    """Assemble what :func:`quantise` made; ``embedding`` [vocab, hidden] of any float type."""

    def linear(name: str) -> RowwiseInt8Linear:
        fine = name.rpartition(".")[2] in FINE
        return RowwiseInt8Linear(tensors[name + ".weight"], tensors[name + ".scale"], fine=fine)

    layers = []
    for index in range(config.num_layers):
        prefix = f"layers.{index}."
        layers.append(
            LayerWeights(
                attention_norm=tensors[prefix + "attention_norm"],
                qkv=linear(prefix + "qkv"),
                qk_norm=tensors[prefix + "qk_norm"],
                score_scale=tensors[prefix + "score_scale"],
                out=linear(prefix + "out"),
                post_attention_norm=tensors[prefix + "post_attention_norm"],
                mlp_norm=tensors[prefix + "mlp_norm"],
                gate_up=linear(prefix + "gate_up"),
                down=linear(prefix + "down"),
                post_mlp_norm=tensors[prefix + "post_mlp_norm"],
            )
        )
    return DecoderWeights(
        embedding=embedding,
        layers=tuple(layers),
        final_norm=tensors["final_norm"],
        head=Int8Head(tensors["head.weight"], tensors["head.scale"]),
        exact=True,
    )


@dataclass(frozen=True, slots=True)
class _Recorded:
    layers: tuple[LayerWeights, ...]
    final_peak: Tensor


def _record(
    config: DecoderConfig, weights: DecoderWeights, calibration: Tensor, progress: Callable[[float], None]
) -> _Recorded:
    layers = []
    for layer in weights.layers:
        values = {name: getattr(layer, name) for name in LayerWeights.__dataclass_fields__}
        for name in ("qkv", "out", "gate_up", "down"):
            values[name] = _Recorder(values[name])
        layers.append(LayerWeights(**values))
    recording = DecoderWeights(weights.embedding, tuple(layers), weights.final_norm, weights.head, False)
    decoder = Decoder(config, recording)
    cache = decoder.new_cache(calibration.numel())
    final_peak = torch.zeros(config.hidden_size)
    for begin in range(0, calibration.numel(), 256):
        tokens = calibration[begin : begin + 256]
        hidden, _ = decoder.forward(tokens, torch.arange(begin, begin + tokens.numel()), cache)
        cache.keep(tokens.numel())
        x, scale = decoder.normed(hidden)
        final_peak = torch.maximum(final_peak, (x * scale).abs().amax(0))
        progress((begin + tokens.numel()) / calibration.numel())
    return _Recorded(tuple(layers), final_peak)


def _factors(peak: Tensor, weight: Tensor) -> Tensor:
    """SmoothQuant's s [in] for activations of ``peak`` [in], scaled to a geometric mean of 1."""
    activation = peak.clamp_min(peak.max() * 1e-5)
    columns = weight.abs().amax(0)
    columns = columns.clamp_min(columns.max() * 1e-5)
    factors = activation**EXPONENT / columns ** (1.0 - EXPONENT)
    return factors / factors.log().mean().exp()


def _quantise_layer(out: dict[str, Tensor], prefix: str, config: DecoderConfig, layer: LayerWeights) -> None:
    heads, kv_heads, width = config.num_heads, config.num_kv_heads, config.head_dim
    recorders: dict[str, _Recorder] = {name: getattr(layer, name) for name in ("qkv", "out", "gate_up", "down")}
    matrices = {name: recorder.linear.weight.float() for name, recorder in recorders.items()}
    peaks = {name: recorder.input_peak for name, recorder in recorders.items()}

    factors = _factors(peaks["qkv"], matrices["qkv"])
    out[prefix + "attention_norm"] = layer.attention_norm / factors
    qkv = matrices["qkv"] * factors

    # Values: one step of the integer grid per channel, undone in the columns of o_proj.
    value_peak = recorders["qkv"].output_peak[(heads + kv_heads) * width :].clamp_min(1e-6)
    step = value_peak * (VALUE_HEADROOM / VALUE_LEVELS)
    qkv[(heads + kv_heads) * width :] /= step[:, None]
    columns = step.view(kv_heads, 1, width).expand(kv_heads, heads // kv_heads, width).reshape(-1)
    matrices["out"] = matrices["out"] * columns

    # Queries and keys: a norm bounds their length, the grid is set so that the bound fits.
    length = math.sqrt(width) * layer.qk_norm.abs().amax(1, keepdim=True)
    grid = QUERY_KEY_LENGTH / length
    query_grid, key_grid = grid[:heads].min(), grid[heads:].min()
    out[prefix + "qk_norm"] = torch.cat(
        (layer.qk_norm[:heads] * query_grid, layer.qk_norm[heads:] * key_grid)
    )
    out[prefix + "score_scale"] = layer.score_scale / (query_grid * key_grid)

    factors = _factors(peaks["gate_up"], matrices["gate_up"])
    out[prefix + "mlp_norm"] = layer.mlp_norm / factors
    gate_up = matrices["gate_up"] * factors
    factors = _factors(peaks["down"], matrices["down"])
    gate_up[config.intermediate_size :] /= factors[:, None]
    matrices["down"] = matrices["down"] * factors

    matrices["qkv"], matrices["gate_up"] = qkv, gate_up
    for name, matrix in matrices.items():
        weight, scale = quantise_rows(matrix, body_weight_levels())
        out[f"{prefix}{name}.weight"], out[f"{prefix}{name}.scale"] = weight, scale
    for name in ("post_attention_norm", "post_mlp_norm"):
        out[prefix + name] = getattr(layer, name).clone()
