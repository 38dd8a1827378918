"""A small head in each public format, written from a description of the format, not by our writer.

Tensor names and shapes as the published files have them; numbers are random. ``Plain``
holds what the published code would read from the config, for :mod:`published_eagle`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

HIDDEN, VOCABULARY, LAYERS = 32, 24, 8
"""Of the target that they are all for."""
DRAFT = 14
WIDE = 40


@dataclass(frozen=True)
class Plain:
    """How to compute the head, in the words of the published code."""

    version: int
    first: str
    """Name of its first layer."""
    heads: int
    kv_heads: int
    head_dim: int
    eps: float
    theta: float
    layers: int = 1
    taps: tuple[int, ...] = (2, 4, 5)
    """hidden_states of transformers."""
    norm_before_residual: bool = False
    norm_before_fc: bool = False
    fc_norm: bool = False
    norm_output: bool = False
    yarn: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Described:
    config: dict[str, Any]
    tensors: dict[str, Tensor]
    plain: Plain
    pickled: bool = False

    def write(self, folder: Path) -> Path:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "config.json").write_text(json.dumps(self.config), encoding="utf-8")
        if self.pickled:
            torch.save(self.tensors, folder / "pytorch_model.bin")
        else:
            save_file(
                {name: tensor.contiguous() for name, tensor in self.tensors.items()},
                folder / "model.safetensors",
            )
        return folder


class _Maker:
    def __init__(self, seed: int, gain: float = 1.6) -> None:
        self.gain = gain
        self.generator = torch.Generator().manual_seed(seed)
        self.tensors: dict[str, Tensor] = {}

    def matrix(self, name: str, out: int, into: int) -> None:
        weight = torch.randn(out, into, generator=self.generator) * self.gain / math.sqrt(into)
        self.tensors[f"{name}.weight"] = weight

    def bias(self, name: str, size: int) -> None:
        self.tensors[f"{name}.bias"] = torch.randn(size, generator=self.generator) * 0.3

    def norm(self, name: str, size: int) -> None:
        self.tensors[f"{name}.weight"] = 1 + 0.3 * torch.randn(size, generator=self.generator)

    def layer(self, name: str, hidden: int, into: int, queries: int, keys: int) -> None:
        for letter, size in (("q", queries), ("k", keys), ("v", keys)):
            self.matrix(f"{name}.self_attn.{letter}_proj", size, into)
        self.matrix(f"{name}.self_attn.o_proj", hidden, queries)
        self.matrix(f"{name}.mlp.gate_proj", WIDE, hidden)
        self.matrix(f"{name}.mlp.up_proj", WIDE, hidden)
        self.matrix(f"{name}.mlp.down_proj", hidden, WIDE)
        self.norm(f"{name}.post_attention_layernorm", hidden)

    def eagle3(self, first: str, hidden: int, queries: int, keys: int, draft: int = DRAFT) -> None:
        self.matrix("fc", hidden, 3 * HIDDEN)
        self.layer(first, hidden, 2 * hidden, queries, keys)
        self.norm(f"{first}.hidden_norm", hidden)
        self.norm(f"{first}.input_layernorm", hidden)
        self.norm("norm", hidden)
        self.matrix("lm_head", draft, hidden)

    def maps(self, with_mask: bool = True) -> None:
        ids = torch.randperm(VOCABULARY, generator=self.generator)[:DRAFT].sort().values
        self.tensors["d2t"] = ids - torch.arange(DRAFT)
        if with_mask:
            self.tensors["t2d"] = torch.isin(torch.arange(VOCABULARY), ids)


def _llama(**more: Any) -> dict[str, Any]:
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "num_hidden_layers": 1,
        "hidden_size": HIDDEN,
        "intermediate_size": WIDE,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "vocab_size": VOCABULARY,
        "max_position_embeddings": 2048,
        "rms_norm_eps": 1e-5,
        "hidden_act": "silu",
    } | more


def eagle1_vicuna() -> Described:
    """The first releases: a bias that no key announces, full heads, a copy of the embedding, a .bin file."""
    make = _Maker(1, 0.9)  # no norm holds its states in bounds
    make.matrix("fc", HIDDEN, 2 * HIDDEN)
    make.bias("fc", HIDDEN)
    make.layer("layers.0", HIDDEN, HIDDEN, HIDDEN, HIDDEN)
    config = _llama(pad_token_id=0)
    del config["num_key_value_heads"]
    return Described(config, make.tensors, Plain(1, "layers.0", 4, 4, 8, 1e-5, 10000.0), pickled=True)


def eagle1_llama3() -> Described:
    """No bias, grouped keys, a RoPE base of its own; attention 48 wide beside a hidden size of 32."""
    make = _Maker(2, 0.9)  # no norm holds its states in bounds
    make.matrix("fc", HIDDEN, 2 * HIDDEN)
    make.layer("layers.0", HIDDEN, HIDDEN, 48, 24)
    config = _llama(bias=False, rope_theta=500000.0, head_dim=12)
    return Described(config, make.tensors, Plain(1, "layers.0", 4, 2, 12, 1e-5, 500000.0))


def eagle1_qwen2() -> Described:
    """Biases on queries, keys and values, and an output table of its own."""
    make = _Maker(3, 0.9)  # no norm holds its states in bounds
    make.matrix("fc", HIDDEN, 2 * HIDDEN)
    make.layer("layers.0", HIDDEN, HIDDEN, HIDDEN, 16)
    for letter, size in (("q", HIDDEN), ("k", 16), ("v", 16)):
        make.bias(f"layers.0.self_attn.{letter}_proj", size)
    make.matrix("lm_head", VOCABULARY, HIDDEN)
    config = _llama(bias=False, qkv_bias=True, rope_theta=1000000.0)
    return Described(config, make.tensors, Plain(1, "layers.0", 4, 2, 8, 1e-5, 1000000.0))


def safeailab() -> Described:
    """No RoPE base (10,000 then), no taps (the usual ones), no embedding."""
    make = _Maker(4)
    make.eagle3("midlayer", HIDDEN, HIDDEN, 16)
    make.maps()
    return Described(
        _llama(draft_vocab_size=DRAFT), make.tensors, Plain(3, "midlayer", 4, 2, 8, 1e-5, 10000.0), True
    )


def safeailab_whole_vocabulary() -> Described:
    """Draft vocabulary = vocabulary: no maps. As for the 70B target: its own width and embedding."""
    make = _Maker(5)
    make.eagle3("midlayer", 24, 24, 12, VOCABULARY)
    make.matrix("embed_tokens", VOCABULARY, 24)
    config = _llama(hidden_size=24, target_hidden_size=HIDDEN, draft_vocab_size=VOCABULARY)
    return Described(config, make.tensors, Plain(3, "midlayer", 4, 2, 6, 1e-5, 10000.0))


def specforge() -> Described:
    """Taps named by the layers whose output is tapped, nested."""
    make = _Maker(6)
    make.eagle3("midlayer", HIDDEN, 48, 24)
    make.maps()
    config = _llama(
        architectures=["LlamaForCausalLMEagle3"],
        draft_vocab_size=DRAFT,
        head_dim=12,
        rope_theta=1000000.0,
        eagle_config={"eagle_aux_hidden_state_layer_ids": [1, 3, 4], "use_aux_hidden_state": True},
    )
    return Described(config, make.tensors, Plain(3, "midlayer", 4, 2, 12, 1e-5, 1000000.0))


def _speculators(layer: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "architectures": ["Eagle3DraftModel"],
        "speculators_model_type": "eagle3",
        "speculators_version": "0.3.0",
        "draft_vocab_size": DRAFT,
        "target_hidden_size": None,
        "eagle_aux_hidden_state_layer_ids": None,
        "speculators_config": {
            "algorithm": "eagle3",
            "default_proposal_method": "greedy",
            "verifier": {"name_or_path": "Qwen/Qwen3-8B", "architectures": ["Qwen3ForCausalLM"]},
        },
        "transformer_layer_config": layer,
    } | more


def speculators() -> Described:
    """Qwen3-shaped: norms on queries and keys, two layers, one norm before the fusion, residual behind the norm."""
    make = _Maker(7)
    make.eagle3("layers.0", HIDDEN, 48, 24)
    make.layer("layers.1", HIDDEN, HIDDEN, 48, 24)
    make.norm("layers.1.input_layernorm", HIDDEN)
    for layer in range(2):
        make.norm(f"layers.{layer}.self_attn.q_norm", 12)
        make.norm(f"layers.{layer}.self_attn.k_norm", 12)
    make.norm("input_norm", 3 * HIDDEN)
    make.maps()
    layer = _llama(model_type="qwen3", num_hidden_layers=2, head_dim=12)
    del layer["architectures"]
    layer["rope_parameters"] = {"rope_type": "default", "rope_theta": 10000.0}
    config = _speculators(layer, norm_before_residual=True, norm_before_fc=True)
    plain = Plain(3, "layers.0", 4, 2, 12, 1e-5, 10000.0, 2, norm_before_residual=True, norm_before_fc=True)
    return Described(config, make.tensors, plain)


def speculators_31() -> Described:
    """EAGLE-3.1: a norm for each tapped state, the normed state recurs; taps named by the layers' input."""
    make = _Maker(8)
    make.eagle3("layers.0", HIDDEN, HIDDEN, 16)
    for tap in range(3):
        make.norm(f"fc_norm.{tap}", HIDDEN)
    make.maps()
    config = _speculators(
        _llama(rope_theta=10000.0),
        norm_before_residual=False,
        fc_norm=True,
        norm_output=True,
        eagle_aux_hidden_state_layer_ids=[1, 4, 7],
    )
    plain = Plain(3, "layers.0", 4, 2, 8, 1e-5, 10000.0, taps=(1, 4, 7), fc_norm=True, norm_output=True)
    return Described(config, make.tensors, plain)


def angelslim() -> Described:
    """Claims tied embeddings although it has an output table of its own."""
    make = _Maker(9)
    make.eagle3("midlayer", HIDDEN, 48, 24)
    make.maps()
    config = _llama(
        architectures=["Eagle3LlamaForCausalLM"],
        draft_vocab_size=DRAFT,
        head_dim=12,
        rope_theta=1000000.0,
        tie_word_embeddings=True,
        target_model_type="qwen3",
    )
    return Described(config, make.tensors, Plain(3, "midlayer", 4, 2, 12, 1e-5, 1000000.0), True)


def modelopt() -> Described:
    """No t2d; taps named by the layers whose output is tapped, and not the usual ones."""
    make = _Maker(10)
    make.eagle3("layers.0", HIDDEN, 48, 24)
    make.maps(with_mask=False)
    config = _llama(
        architectures=["LlamaForCausalLMEagle3"],
        draft_vocab_size=DRAFT,
        head_dim=12,
        rope_theta=500000.0,
        eagle_config={
            "eagle_aux_hidden_state_layer_ids": [0, 3, 6],
            "use_aux_hidden_state": True,
            "use_input_layernorm_in_first_layer": True,
            "use_last_layernorm": True,
            "use_mtp_layernorm": False,
            "next_layer_regular": True,
            "parallel_draft_step": 1,
        },
    )
    return Described(config, make.tensors, Plain(3, "layers.0", 4, 2, 12, 1e-5, 500000.0, taps=(1, 4, 7)))


def stretched() -> Described:
    """YaRN positions, and another key for the size of the draft vocabulary."""
    make = _Maker(11)
    make.eagle3("midlayer", HIDDEN, 48, 24)
    make.maps()
    scaling = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16, "beta_fast": 8.0}
    config = _llama(truncated_vocab_size=DRAFT, head_dim=12, rope_theta=10000.0, rope_scaling=scaling)
    plain = Plain(3, "midlayer", 4, 2, 12, 1e-5, 10000.0, yarn={"factor": 4.0, "original": 16.0, "fast": 8.0})
    return Described(config, make.tensors, plain)


ALL: dict[str, Callable[[], Described]] = {
    made.__name__: made
    for made in (
        eagle1_vicuna,
        eagle1_llama3,
        eagle1_qwen2,
        safeailab,
        safeailab_whole_vocabulary,
        specforge,
        speculators,
        speculators_31,
        angelslim,
        modelopt,
        stretched,
    )
}
