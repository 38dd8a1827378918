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

Layers are quantised one after the other: the calibration text goes through one layer, whose
float weights are then dropped, so that a model needs room for one layer in float besides
the result. The result is named tensors, kept in the cache folder (:mod:`engine.models.int8_store`).

Mixtures of experts are not smoothed before the router, which reads the same input; their
linears get 16-bit activations instead.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from engine.models.attention import QUERY_KEY_LENGTH, VALUE_LEVELS
from engine.models.config import DecoderConfig
from engine.models.decoder import Decoder, DecoderWeights, LayerWeights, rms_factor
from engine.models.experts import Experts, Router
from engine.models.linear import (
    HEAD_WEIGHT_LEVELS,
    DenseLinear,
    Linear,
    RowwiseInt8Linear,
    body_weight_levels,
)
from engine.models.output_head import DenseHead, int8_head
from engine.models.rounding import quantise_rows

FORMAT = "eyrie-rowwise-int8-3"
VALUE_HEADROOM = 2.0
"""Values beyond this multiple of the calibration's largest are clamped to the grid."""


EXPONENT = 0.5
"""SmoothQuant's a."""
FINE = frozenset({"down", "expert_gate_up", "expert_down"})
"""Linears whose activations get 16 bits."""
_TABLE_PIECE = 1 << 24
"""Numbers of the output table that are rounded at once."""
CHUNK = 256
"""Rows of the calibration text in one pass."""


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

    @property
    def weight(self) -> Tensor:
        """[out, in] float32"""
        return self.linear.weight.float()

    @property
    def bias(self) -> Tensor | None:
        return None if self.linear.bias is None else self.linear.bias.float()


def quantise(
    config: DecoderConfig,
    weights: DecoderWeights,
    calibration: Tensor,
    *,
    progress: Callable[[float], None] = lambda _fraction: None,
) -> dict[str, Tensor]:
    """Int8 tensors of a float decoder's ``weights``, all at once; see :func:`quantised_parts`."""
    head = weights.head
    assert isinstance(head, DenseHead)
    table = head.weight
    out: dict[str, Tensor] = {}
    for _, tensors in quantised_parts(
        config, weights.layers, weights.embedding, weights.final_norm, lambda: table, calibration, progress
    ):
        out.update(tensors)
    return out


def quantised_parts(
    config: DecoderConfig,
    layers: Iterable[LayerWeights],
    embedding: Tensor,
    final_norm: Tensor,
    head: Callable[[], Tensor],
    calibration: Tensor,
    progress: Callable[[float], None] = lambda _fraction: None,
) -> Iterator[tuple[str, dict[str, Tensor]]]:
    """(part, its int8 tensors): ``layers.0`` and so on, at the end ``head``.

    ``layers`` are float and taken one by one, ``head`` gives the output table [vocab, hidden]
    when it is wanted. ``calibration`` [tokens] is ordinary text: a pass over it tells the
    activations' peaks. ``progress`` gets fractions from 0 to 1 and may raise to cancel.
    """
    scale = torch.tensor(config.embedding_scale)
    rows = [embedding.index_select(0, part).float().mul_(scale) for part in torch.split(calibration, CHUNK)]
    for index, layer in enumerate(layers):
        rows, recorded = _record(config, layer, index, embedding, final_norm, rows)
        out: dict[str, Tensor] = {}
        _quantise_layer(out, f"layers.{index}.", config, recorded)
        yield f"layers.{index}", out
        progress((index + 1) / (config.num_layers + 1))
    peak = torch.zeros(config.hidden_size)
    for hidden in rows:
        states = (hidden * final_norm) * rms_factor(hidden, config.norm_eps)
        peak = torch.maximum(peak, states.abs().amax(0))
    weight, row_scale, factors = _quantise_table(head(), peak)
    yield "head", {"final_norm": final_norm / factors, "head.weight": weight, "head.scale": row_scale}
    progress(1.0)


def int8_weights(config: DecoderConfig, tensors: Mapping[str, Tensor], embedding: Tensor) -> DecoderWeights:
    """Assemble what :func:`quantised_parts` made; ``embedding`` [vocab, hidden] of any float type.

    Every tensor is asked for once and packed at once: ``tensors`` may read from files.
    """

    def linear(name: str) -> RowwiseInt8Linear:
        fine = name.rpartition(".")[2] in FINE
        bias = tensors.get(name + ".bias")
        return RowwiseInt8Linear(tensors[name + ".weight"], tensors[name + ".scale"], bias, fine=fine)

    layers = []
    for index in range(config.num_layers):
        prefix = f"layers.{index}."
        plain = not config.experts
        layers.append(
            LayerWeights(
                attention_norm=tensors[prefix + "attention_norm"],
                qkv=linear(prefix + "qkv"),
                qk_norm=tensors[prefix + "qk_norm"] if config.qk_norm else None,
                score_scale=tensors[prefix + "score_scale"],
                out=linear(prefix + "out"),
                post_attention_norm=tensors[prefix + "post_attention_norm"] if config.post_norms else None,
                mlp_norm=tensors[prefix + "mlp_norm"],
                gate_up=linear(prefix + "gate_up") if plain else None,
                down=linear(prefix + "down") if plain else None,
                post_mlp_norm=tensors[prefix + "post_mlp_norm"] if config.post_norms else None,
                experts=None if plain else _int8_experts(config, tensors, prefix, linear),
            )
        )
    return DecoderWeights(
        embedding=embedding,
        layers=tuple(layers),
        final_norm=tensors["final_norm"],
        head=int8_head(tensors["head.weight"], tensors["head.scale"]),
        exact=True,
    )


def _int8_experts(
    config: DecoderConfig,
    tensors: Mapping[str, Tensor],
    prefix: str,
    linear: Callable[[str], RowwiseInt8Linear],
) -> Experts:
    count = range(config.experts)
    return Experts(
        Router(tensors[prefix + "router"], config.experts_per_token),
        [linear(f"{prefix}experts.{expert}.expert_gate_up") for expert in count],
        [linear(f"{prefix}experts.{expert}.expert_down") for expert in count],
    )


def _record(
    config: DecoderConfig,
    layer: LayerWeights,
    index: int,
    embedding: Tensor,
    final_norm: Tensor,
    rows: list[Tensor],
) -> tuple[list[Tensor], LayerWeights]:
    """Run ``rows`` through one layer; its output and the layer with recorders for linears."""

    def recorder(linear: Linear) -> _Recorder:
        assert isinstance(linear, DenseLinear)
        return _Recorder(linear)

    values = {name: getattr(layer, name) for name in LayerWeights.__dataclass_fields__}
    for name in ("qkv", "out", "gate_up", "down"):
        if values[name] is not None:
            values[name] = recorder(values[name])
    if layer.experts is not None:
        values["experts"] = Experts(
            layer.experts.router,
            [recorder(linear) for linear in layer.experts.gate_up],
            [recorder(linear) for linear in layer.experts.down],
        )
    recorded = LayerWeights(**values)
    sliding = config.layer_is_sliding[index]
    alone = replace(config, num_layers=1, layer_is_sliding=(sliding,))
    if not sliding:
        alone = replace(alone, sliding_window=0)
    weights = DecoderWeights(embedding, (recorded,), final_norm, DenseHead(embedding), False)
    decoder = Decoder(alone, weights)
    cache = decoder.new_cache(sum(part.shape[0] for part in rows))
    out = []
    for part in rows:
        positions = torch.arange(cache.length, cache.length + part.shape[0])
        out.append(decoder.advance(part, positions, cache)[0])
        cache.keep(part.shape[0])
    return out, recorded


def _quantise_table(table: Tensor, peak: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """(int8 [vocab, hidden], scale [vocab], factors [hidden]), some rows at a time: in float32 and
    with what rounding needs, the table of an 8-billion model takes ten gigabytes."""
    pieces = torch.split(table, max(1, _TABLE_PIECE // table.shape[1]))
    columns = torch.stack([piece.float().abs().amax(0) for piece in pieces]).amax(0)
    factors = _smoothing(peak, columns)
    rounded = [quantise_rows(piece.float() * factors, HEAD_WEIGHT_LEVELS) for piece in pieces]
    return torch.cat([weight for weight, _ in rounded]), torch.cat([scale for _, scale in rounded]), factors


def _factors(peak: Tensor, weight: Tensor) -> Tensor:
    """SmoothQuant's s [in] for activations of ``peak`` [in] before ``weight`` [out, in]."""
    return _smoothing(peak, weight.abs().amax(0))


def _smoothing(peak: Tensor, columns: Tensor) -> Tensor:
    """s [in] from the peaks of activations and weights, scaled to a geometric mean of 1."""
    if not bool(peak.any()):  # nothing of the text came through here
        return torch.ones_like(peak)
    activation = peak.clamp_min(peak.max() * 1e-5)
    columns = columns.clamp_min(columns.max() * 1e-5)
    factors = activation**EXPONENT / columns ** (1.0 - EXPONENT)
    return factors / factors.log().mean().exp()


def _quantise_layer(out: dict[str, Tensor], prefix: str, config: DecoderConfig, layer: LayerWeights) -> None:
    heads, kv_heads, width = config.num_heads, config.num_kv_heads, config.head_dim
    qkv, attention_out = _recorder(layer.qkv), _recorder(layer.out)
    turned = (heads + kv_heads) * width

    factors = _factors(qkv.input_peak, qkv.weight)
    out[prefix + "attention_norm"] = layer.attention_norm / factors
    weight, bias = qkv.weight * factors, qkv.bias

    # Values: one step of the integer grid per channel, undone in the columns of o_proj.
    value_peak = qkv.output_peak[turned:].clamp_min(1e-6)
    step = value_peak * (VALUE_HEADROOM / VALUE_LEVELS)
    weight[turned:] /= step[:, None]
    if bias is not None:
        bias = torch.cat((bias[:turned], bias[turned:] / step))
    _store(out, prefix + "qkv", weight, bias)
    columns = step.view(kv_heads, 1, width).expand(kv_heads, heads // kv_heads, width).reshape(-1)
    _store(out, prefix + "out", attention_out.weight * columns, attention_out.bias)

    if layer.qk_norm is None:  # the grid is set vector by vector, see Decoder
        out[prefix + "score_scale"] = layer.score_scale.clone()
    else:
        # A norm bounds the length of queries and keys, the grid is set so that the bound fits.
        length = math.sqrt(width) * layer.qk_norm.abs().amax(1, keepdim=True)
        grid = QUERY_KEY_LENGTH / length
        if config.rope.magnitude != 1:
            grid = grid / config.rope.magnitude
        query_grid, key_grid = grid[:heads].min(), grid[heads:].min()
        out[prefix + "qk_norm"] = torch.cat(
            (layer.qk_norm[:heads] * query_grid, layer.qk_norm[heads:] * key_grid)
        )
        out[prefix + "score_scale"] = layer.score_scale / (query_grid * key_grid)

    if layer.experts is not None:
        _quantise_experts(out, prefix, config, layer)
    else:
        gate_up, down = _recorder(layer.gate_up), _recorder(layer.down)
        factors = _factors(gate_up.input_peak, gate_up.weight)
        out[prefix + "mlp_norm"] = layer.mlp_norm / factors
        weight, bias = _smooth_down(out, prefix + "down", gate_up.weight * factors, gate_up.bias, down)
        _store(out, prefix + "gate_up", weight, bias)
    for name in ("post_attention_norm", "post_mlp_norm"):
        norm: Tensor | None = getattr(layer, name)
        if norm is not None:
            out[prefix + name] = norm.clone()


def _quantise_experts(out: dict[str, Tensor], prefix: str, config: DecoderConfig, layer: LayerWeights) -> None:
    experts = layer.experts
    assert experts is not None
    out[prefix + "mlp_norm"] = layer.mlp_norm.clone()
    out[prefix + "router"] = experts.router.weight()
    for expert, (gate_up, down) in enumerate(zip(experts.gate_up, experts.down, strict=True)):
        name = f"{prefix}experts.{expert}."
        first = _recorder(gate_up)
        weight, bias = _smooth_down(out, name + "expert_down", first.weight.clone(), first.bias, _recorder(down))
        _store(out, name + "expert_gate_up", weight, bias)


def _smooth_down(
    out: dict[str, Tensor], name: str, gate_up: Tensor, bias: Tensor | None, down: _Recorder
) -> tuple[Tensor, Tensor | None]:
    """Store ``down`` smoothed; ``gate_up`` and its bias with the up part divided accordingly."""
    factors = _factors(down.input_peak, down.weight)
    inner = factors.numel()
    gate_up[inner:] /= factors[:, None]
    if bias is not None:
        bias = torch.cat((bias[:inner], bias[inner:] / factors))
    _store(out, name, down.weight * factors, down.bias)
    return gate_up, bias


def _store(out: dict[str, Tensor], name: str, matrix: Tensor, bias: Tensor | None) -> None:
    out[name + ".weight"], out[name + ".scale"] = quantise_rows(matrix, body_weight_levels())
    if bias is not None:
        out[name + ".bias"] = bias.clone()


def _recorder(linear: Linear | None) -> _Recorder:
    assert isinstance(linear, _Recorder)
    return linear
