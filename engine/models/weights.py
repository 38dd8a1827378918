"""From a checkpoint's tensors to :class:`DecoderWeights`, tensor by tensor.

What is read is turned into its final format before the next matrix is read, so that
loading needs little more room than the result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from engine.models.checkpoint import EMBEDDING, HEAD, Checkpoint, NamedTensors, Tensors
from engine.models.config import DecoderConfig
from engine.models.decoder import DecoderWeights, LayerWeights, interleave
from engine.models.experts import Experts, Router
from engine.models.formats import DenseFormat, WeightFormat
from engine.models.linear import Linear
from engine.models.matrices import StoredMatrix
from engine.models.output_head import DenseHead

__all__ = ["EMBEDDING", "Tensors", "build_weights", "float_weights", "layer_weights"]


def float_weights(
    config: DecoderConfig, source: NamedTensors, dtype: torch.dtype = torch.float32
) -> DecoderWeights:
    """Dense weights of ``dtype``; norms and arithmetic between them stay float32.

    :raises ModelError: names a tensor that is missing, misshapen, not finite, or too many.
    """
    checkpoint = source if isinstance(source, Checkpoint) else Checkpoint(source)
    return build_weights(config, checkpoint, DenseFormat(dtype))


def build_weights(
    config: DecoderConfig,
    checkpoint: Checkpoint,
    form: WeightFormat,
    progress: Callable[[float], None] = lambda _fraction: None,
) -> DecoderWeights:
    """All weights in ``form``; ``progress`` gets fractions and may raise to cancel.

    :raises ModelError: see :func:`float_weights`.
    """
    layers = []
    for index in range(config.num_layers):
        layers.append(layer_weights(config, checkpoint, form, index))
        progress((index + 1) / (config.num_layers + 1))
    final_norm = checkpoint.vector("model.norm.weight", config.hidden_size) + config.norm_offset
    on_gpu = form.device.type != "cpu"
    embedding, head = tables(config, checkpoint, mapped=on_gpu and not config.tied_head)
    if head is None:
        embedding = embedding.to(form.device, form.dtype)
        output = DenseHead(embedding)
    else:
        # A row at a time is read of the embedding: on a GPU's machine it stays in main memory.
        embedding = embedding if on_gpu else embedding.to(form.dtype)
        output = DenseHead(head.to(form.device, form.dtype), tied=False)
    checkpoint.finish()
    progress(1.0)
    return DecoderWeights(
        embedding=embedding,
        layers=tuple(layers),
        final_norm=final_norm.to(form.device),
        head=output,
        exact=False,
        cache_dtype=form.dtype,
    )


def tables(
    config: DecoderConfig, checkpoint: Checkpoint, *, mapped: bool
) -> tuple[Tensor, Tensor | None]:
    """The embedding and the output head, None where they are one: [vocab, hidden] each.

    A head that is stored counts even where the configuration calls it tied, unless it is
    the same. ``mapped`` leaves the embedding in its file, where it can be.
    """
    shape = config.vocab_size, config.hidden_size
    embedding = checkpoint.tensor(EMBEDDING, *shape, mapped=mapped)
    if not checkpoint.has(HEAD) and config.tied_head:
        return embedding, None
    head = checkpoint.tensor(HEAD, *shape)
    if config.tied_head and torch.equal(head, embedding):
        return embedding, None
    return embedding, head


def layer_weights(
    config: DecoderConfig, checkpoint: Checkpoint, form: WeightFormat, index: int
) -> LayerWeights:
    """Layer ``index``, fused and reordered as :class:`LayerWeights` wants it.

    :raises ModelError: see :func:`float_weights`.
    """
    hidden, device = config.hidden_size, form.device
    prefix = f"model.layers.{index}."

    def norm(name: str) -> Tensor:
        return (checkpoint.vector(f"{prefix}{name}.weight", hidden) + config.norm_offset).to(device)

    def linear(name: str, out: int, width: int, biased: bool) -> Linear:
        bias = checkpoint.vector(f"{prefix}{name}.bias", out) if biased else None
        return form.linear([checkpoint.matrix(prefix + name, out, width)], bias)

    gate_up: Linear | None = None
    down: Linear | None = None
    experts: Experts | None = None
    if config.experts:
        experts = _experts(config, checkpoint, form, prefix)
    else:
        gate_up = _gate_up(config, checkpoint, form, prefix)
        down = linear("mlp.down_proj", hidden, config.intermediate_size, config.mlp_bias)
    return LayerWeights(
        attention_norm=norm("input_layernorm"),
        qkv=_qkv(config, checkpoint, form, prefix),
        qk_norm=_qk_norm(config, checkpoint, prefix, device) if config.qk_norm else None,
        score_scale=torch.tensor(config.attention_scale, device=device),
        out=linear("self_attn.o_proj", hidden, config.query_size, config.out_bias),
        post_attention_norm=norm("post_attention_layernorm") if config.post_norms else None,
        mlp_norm=norm("pre_feedforward_layernorm" if config.post_norms else "post_attention_layernorm"),
        gate_up=gate_up,
        down=down,
        post_mlp_norm=norm("post_feedforward_layernorm") if config.post_norms else None,
        experts=experts,
    )


def _order(config: DecoderConfig) -> Tensor:
    return interleave(config.head_dim, config.rope.dim)


def _qkv(config: DecoderConfig, checkpoint: Checkpoint, form: WeightFormat, prefix: str) -> Linear:
    hidden, width = config.hidden_size, config.head_dim
    turned = config.num_heads + config.num_kv_heads
    order = (torch.arange(turned)[:, None] * width + _order(config)).view(-1)
    query, keys = order[: config.query_size], order[config.query_size :]
    if config.fused_projections:
        rows = turned * width + config.kv_size
        whole = checkpoint.matrix(prefix + "self_attn.qkv_proj", rows, hidden)
        return form.linear([whole.rows(torch.cat((order, torch.arange(turned * width, rows))))])
    sizes = {"q": config.query_size, "k": config.kv_size, "v": config.kv_size}
    orders = {"q": query, "k": keys - config.query_size, "v": None}
    parts: list[StoredMatrix] = []
    biases: list[Tensor] = []
    for letter, size in sizes.items():
        name = f"{prefix}self_attn.{letter}_proj"
        matrix, by = checkpoint.matrix(name, size, hidden), orders[letter]
        parts.append(matrix if by is None else matrix.rows(by))
        if config.qkv_bias:
            bias = checkpoint.vector(name + ".bias", size)
            biases.append(bias if by is None else bias[by])
    return form.linear(parts, torch.cat(biases) if biases else None)


def _qk_norm(config: DecoderConfig, checkpoint: Checkpoint, prefix: str, device: torch.device) -> Tensor:
    """[heads + kv_heads, head_dim]"""
    rows = []
    for letter, count in (("q", config.num_heads), ("k", config.num_kv_heads)):
        weight = checkpoint.vector(f"{prefix}self_attn.{letter}_norm.weight", config.head_dim)
        rows.append((weight + config.norm_offset)[_order(config)].expand(count, config.head_dim))
    return torch.cat(rows).to(device)


def _gate_up(config: DecoderConfig, checkpoint: Checkpoint, form: WeightFormat, prefix: str) -> Linear:
    hidden, inner = config.hidden_size, config.intermediate_size
    if config.fused_projections:
        return form.linear([checkpoint.matrix(prefix + "mlp.gate_up_proj", 2 * inner, hidden)])
    names = ("mlp.gate_proj", "mlp.up_proj")
    parts = [checkpoint.matrix(prefix + name, inner, hidden) for name in names]
    bias: Tensor | None = None
    if config.mlp_bias:
        bias = torch.cat([checkpoint.vector(f"{prefix}{name}.bias", inner) for name in names])
    return form.linear(parts, bias)


def _experts(config: DecoderConfig, checkpoint: Checkpoint, form: WeightFormat, prefix: str) -> Experts:
    """Mixtral's own names: w1 is the gate, w3 goes up, w2 down."""
    hidden, inner = config.hidden_size, config.intermediate_size
    block = prefix + "block_sparse_moe."
    router = checkpoint.tensor(block + "gate.weight", config.experts, hidden)
    gate_up, down = [], []
    for expert in range(config.experts):
        base = f"{block}experts.{expert}."
        both: Sequence[StoredMatrix] = [checkpoint.matrix(base + name, inner, hidden) for name in ("w1", "w3")]
        gate_up.append(form.linear(both))
        down.append(form.linear([checkpoint.matrix(base + "w2", hidden, inner)]))
    return Experts(Router(router.to(form.device), config.experts_per_token), gate_up, down)
