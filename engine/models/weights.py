"""From a model folder's tensors to :class:`DecoderWeights`, in float."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import torch
from torch import Tensor

from engine.errors import ModelError
from engine.models.config import DecoderConfig
from engine.models.decoder import DecoderWeights, LayerWeights, interleave
from engine.models.linear import DenseLinear
from engine.models.output_head import DenseHead

EMBEDDING = "model.embed_tokens.weight"


class Tensors(Protocol):
    """Named tensors of a checkpoint, read one by one (:mod:`engine.models.loading`)."""

    def get(self, name: str) -> Tensor: ...


def float_weights(
    config: DecoderConfig, source: Tensors, dtype: torch.dtype = torch.float32
) -> DecoderWeights:
    """Dense weights of ``dtype``; norms and arithmetic between them stay float32."""

    def read(name: str, *shape: int) -> Tensor:
        return read_checked(source, name, *shape)

    embedding = read(EMBEDDING, config.vocab_size, config.hidden_size)
    layers = []
    for index in range(config.num_layers):
        parts = LayerParts.read(config, read, index)
        layers.append(
            LayerWeights(
                attention_norm=parts.attention_norm,
                qkv=DenseLinear(parts.qkv.to(dtype)),
                qk_norm=parts.qk_norm,
                score_scale=torch.tensor(config.attention_scale),
                out=DenseLinear(parts.out.to(dtype)),
                post_attention_norm=parts.post_attention_norm,
                mlp_norm=parts.mlp_norm,
                gate_up=DenseLinear(parts.gate_up.to(dtype)),
                down=DenseLinear(parts.down.to(dtype)),
                post_mlp_norm=parts.post_mlp_norm,
            )
        )
    head = embedding if config.tied_head else read("lm_head.weight", config.vocab_size, config.hidden_size)
    return DecoderWeights(
        embedding=embedding.to(dtype),
        layers=tuple(layers),
        final_norm=read("model.norm.weight", config.hidden_size).float() + 1.0,
        head=DenseHead(head.to(dtype)),
        exact=False,
    )


class LayerParts:
    """One layer's float32 tensors, fused and reordered as :class:`LayerWeights` wants them."""

    attention_norm: Tensor
    qkv: Tensor
    qk_norm: Tensor
    out: Tensor
    post_attention_norm: Tensor
    mlp_norm: Tensor
    gate_up: Tensor
    down: Tensor
    post_mlp_norm: Tensor

    @classmethod
    def read(cls, config: DecoderConfig, read: Callable[..., Tensor], index: int) -> LayerParts:
        hidden, width, inner = config.hidden_size, config.head_dim, config.intermediate_size
        heads, kv_heads = config.num_heads, config.num_kv_heads
        prefix = f"model.layers.{index}."
        order = interleave(width)

        def weight(name: str, *shape: int) -> Tensor:
            return read(prefix + name, *shape).float()

        def norm(name: str, size: int = hidden) -> Tensor:
            return weight(name + ".weight", size) + 1.0

        def rotated(name: str, count: int) -> Tensor:
            rows = weight(f"self_attn.{name}.weight", count * width, hidden)
            return rows.view(count, width, hidden)[:, order].reshape(count * width, hidden)

        self = cls()
        self.attention_norm = norm("input_layernorm")
        self.qkv = torch.cat(
            (
                rotated("q_proj", heads),
                rotated("k_proj", kv_heads),
                weight("self_attn.v_proj.weight", kv_heads * width, hidden),
            )
        )
        self.qk_norm = torch.cat(
            (
                norm("self_attn.q_norm", width)[order].expand(heads, width),
                norm("self_attn.k_norm", width)[order].expand(kv_heads, width),
            )
        )
        self.out = weight("self_attn.o_proj.weight", hidden, heads * width)
        self.post_attention_norm = norm("post_attention_layernorm")
        self.mlp_norm = norm("pre_feedforward_layernorm")
        self.gate_up = torch.cat(
            (weight("mlp.gate_proj.weight", inner, hidden), weight("mlp.up_proj.weight", inner, hidden))
        )
        self.down = weight("mlp.down_proj.weight", hidden, inner)
        self.post_mlp_norm = norm("post_feedforward_layernorm")
        return self


def read_checked(source: Tensors, name: str, *shape: int) -> Tensor:
    """A tensor of the expected shape, or a :class:`ModelError` naming it."""
    try:
        tensor = source.get(name)
    except KeyError as error:
        raise ModelError(
            f"The model lacks the tensor {name}.", "Delete the model and download it again."
        ) from error
    if tuple(tensor.shape) != shape:
        raise ModelError(
            f"The tensor {name} has shape {list(tensor.shape)} where config.json asks for {list(shape)}.",
            "The files do not belong together: delete the model and download it again.",
        )
    return tensor
