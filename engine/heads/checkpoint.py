"""Strict reading and writing of EAGLE-3 heads in their public safetensors format.

A head with a missing or misnamed tensor still runs; it only drafts nonsense,
and the user sees a model that became slower for no reason. So every tensor must
be there with its exact shape, and nothing else may be.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from engine.errors import HeadError
from engine.heads.config import Eagle3Config, config_json, read_config

WEIGHTS = "model.safetensors"
CONFIG = "config.json"


@dataclass(frozen=True)
class Eagle3Checkpoint:
    """A verified head: its config and its tensors under their public names, as stored."""

    config: Eagle3Config
    tensors: Mapping[str, Tensor]

    @property
    def draft_ids(self) -> Tensor:
        """Target token of each draft token, ``[draft vocabulary]`` int64, increasing."""
        return draft_ids(self.tensors["d2t"])


def draft_ids(d2t: Tensor) -> Tensor:
    """``d2t`` stores offsets, not ids: target id = draft id + offset."""
    return torch.arange(len(d2t)) + d2t


def expected_shapes(config: Eagle3Config) -> dict[str, tuple[int, ...]]:
    """Every tensor of an EAGLE-3 head with its shape; linear weights are ``[out, in]``."""
    hidden, wide = config.hidden_size, config.intermediate_size
    queries = config.num_attention_heads * config.head_dim
    keys = config.num_key_value_heads * config.head_dim
    shapes: dict[str, tuple[int, ...]] = {
        "fc.weight": (hidden, 3 * config.target_hidden_size),
        "midlayer.self_attn.q_proj.weight": (queries, 2 * hidden),
        "midlayer.self_attn.k_proj.weight": (keys, 2 * hidden),
        "midlayer.self_attn.v_proj.weight": (keys, 2 * hidden),
        "midlayer.self_attn.o_proj.weight": (hidden, queries),
        "midlayer.mlp.gate_proj.weight": (wide, hidden),
        "midlayer.mlp.up_proj.weight": (wide, hidden),
        "midlayer.mlp.down_proj.weight": (hidden, wide),
        "midlayer.hidden_norm.weight": (hidden,),
        "midlayer.input_layernorm.weight": (hidden,),
        "midlayer.post_attention_layernorm.weight": (hidden,),
        "norm.weight": (hidden,),
        "lm_head.weight": (config.draft_vocab_size, hidden),
    }
    if config.draft_vocab_size != config.vocab_size:
        shapes["d2t"] = (config.draft_vocab_size,)
        shapes["t2d"] = (config.vocab_size,)
    return shapes


def read_eagle3(folder: Path) -> Eagle3Checkpoint:
    """Read and verify the head in ``folder``.

    Raises HeadError naming the file or tensor at fault: a missing folder or
    file, truncated or foreign content, missing, extra, misshapen or non-finite
    tensors, contradicting vocabulary maps.
    """
    if not folder.is_dir():
        raise HeadError(f"The head's folder {folder} does not exist.", "Choose the folder again.")
    config = read_config(folder / CONFIG)
    path = folder / WEIGHTS
    if not path.is_file():
        raise HeadError(f"{path} is missing.", "Choose a folder that holds config.json and model.safetensors.")
    try:
        tensors = load_file(path)
    except (OSError, SafetensorError) as error:
        raise HeadError(
            f"{path} is not a complete safetensors file: {error}.", "Download the head again."
        ) from error
    verify(config, tensors, str(path))
    if "d2t" not in tensors:  # the head drafts the whole vocabulary
        tensors["d2t"] = torch.zeros(config.vocab_size, dtype=torch.int64)
        tensors["t2d"] = torch.ones(config.vocab_size, dtype=torch.bool)
    return Eagle3Checkpoint(config, tensors)


def verify(config: Eagle3Config, tensors: Mapping[str, Tensor], source: str) -> None:
    """Check names, shapes, kinds and values of all tensors (raises HeadError)."""
    again = "Download the head again, or choose one whose config.json belongs to its weights."
    shapes = expected_shapes(config)
    missing = sorted(set(shapes) - set(tensors))
    if missing:
        raise HeadError(f"{source} lacks the tensor {_few(missing)}.", again)
    extra = sorted(set(tensors) - set(shapes))
    if extra:
        raise HeadError(
            f"{source} holds the tensor {_few(extra)}, which an EAGLE-3 head of this kind does not have.",
            "Choose another head: this variant is not supported.",
        )
    for name, shape in shapes.items():
        tensor = tensors[name]
        if tuple(tensor.shape) != shape:
            raise HeadError(f"{source}: {name} has shape {list(tensor.shape)}, expected {list(shape)}.", again)
        wanted = {"d2t": "int64", "t2d": "bool"}.get(name, "floating point")
        fits = tensor.dtype.is_floating_point if wanted == "floating point" else tensor.dtype == getattr(torch, wanted)
        if not fits:
            raise HeadError(f"{source}: {name} holds {tensor.dtype}, expected {wanted}.", again)
        if tensor.dtype.is_floating_point and not bool(torch.isfinite(tensor).all()):
            raise HeadError(f"{source}: {name} holds values that are not finite numbers.", again)
    if "d2t" in shapes:
        _verify_maps(config, tensors["d2t"], tensors["t2d"], source, again)


def _verify_maps(config: Eagle3Config, d2t: Tensor, t2d: Tensor, source: str, again: str) -> None:
    ids = draft_ids(d2t)
    if not bool((ids[1:] > ids[:-1]).all()):
        raise HeadError(f"{source}: the draft tokens in d2t are not strictly increasing.", again)
    if int(ids[0]) < 0 or int(ids[-1]) >= config.vocab_size:
        raise HeadError(
            f"{source}: d2t points to token {int(ids[0]) if int(ids[0]) < 0 else int(ids[-1])}, "
            f"outside the vocabulary of {config.vocab_size}.",
            again,
        )
    marked = t2d.nonzero()[:, 0]
    if len(marked) != len(ids) or not torch.equal(marked, ids):
        raise HeadError(f"{source}: t2d does not mark the same tokens as d2t.", again)


def check_fits(config: Eagle3Config, target_hidden_size: int, target_vocab: int, target_layers: int) -> None:
    """Raise HeadError when a head was made for another target, saying what differs."""
    differences = []
    if config.target_hidden_size != target_hidden_size:
        differences.append(f"it reads hidden states of width {config.target_hidden_size}, not {target_hidden_size}")
    if config.hidden_size != target_hidden_size:
        differences.append(f"it needs embeddings of width {config.hidden_size}, not {target_hidden_size}")
    if config.vocab_size != target_vocab:
        differences.append(f"its vocabulary has {config.vocab_size} tokens, not {target_vocab}")
    if config.taps[-1] > target_layers:
        differences.append(f"it taps layer {config.output_layer_ids[-1]}, the model has {target_layers} layers")
    if differences:
        made_for = f" It was made for {config.target_name}." if config.target_name else ""
        raise HeadError(
            f"This head belongs to another model: {'; '.join(differences)}.{made_for}",
            "Choose a head made for this model, or chat without one.",
        )


def write_eagle3(folder: Path, checkpoint: Eagle3Checkpoint) -> None:
    """Write a head in the public format; each file appears whole or not at all. Verifies before writing."""
    verify(checkpoint.config, checkpoint.tensors, str(folder))
    dtype = str(checkpoint.tensors["lm_head.weight"].dtype).removeprefix("torch.")
    folder.mkdir(parents=True, exist_ok=True)
    weights = {name: tensor.contiguous() for name, tensor in checkpoint.tensors.items()}
    part = folder / (WEIGHTS + ".part")
    save_file(weights, part, metadata={"format": "pt"})
    os.replace(part, folder / WEIGHTS)
    part = folder / (CONFIG + ".part")
    part.write_text(json.dumps(config_json(checkpoint.config, dtype), indent=2) + "\n", encoding="utf-8")
    os.replace(part, folder / CONFIG)


def _few(names: list[str]) -> str:
    shown = ", ".join(repr(name) for name in names[:3])
    return shown + (f" and {len(names) - 3} more" if len(names) > 3 else "")
