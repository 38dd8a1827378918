"""Writing of heads in the public formats: EAGLE-3 as SpecForge does, EAGLE-1 as SafeAILab, Medusa v0.1.

Each file appears whole or not at all, and nothing is written that this program would not
read again.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor

from engine.heads.checkpoint import Checkpoint, Eagle1Checkpoint, Eagle3Checkpoint, write_eagle3
from engine.heads.config import Eagle1Config
from engine.heads.files import CONFIG, WEIGHTS
from engine.heads.formats import HeadFormat
from engine.heads.medusa import MedusaConfig, medusa_shapes
from engine.heads.shapes import eagle1_shapes, public_names
from engine.heads.strictness import verify_tensors

MEDUSA_WEIGHTS = "medusa_lm_head.safetensors"


def write_head(folder: Path, checkpoint: Checkpoint) -> None:
    """Write a head of any kind into ``folder`` (raises HeadError when its tensors are not those of its config)."""
    if isinstance(checkpoint, Eagle3Checkpoint):
        write_eagle3(folder, checkpoint)
    elif isinstance(checkpoint, Eagle1Checkpoint):
        shapes = eagle1_shapes(checkpoint.config)
        verify_tensors(shapes, checkpoint.tensors, str(folder), "an EAGLE-1 head")
        names = public_names(HeadFormat.EAGLE1, shapes)
        tensors = {names[name]: tensor for name, tensor in checkpoint.tensors.items()}
        _write(folder, WEIGHTS, tensors, eagle1_json(checkpoint.config, tensors["fc.weight"].dtype))
    else:
        verify_tensors(medusa_shapes(checkpoint.config), checkpoint.tensors, str(folder), "a Medusa head")
        _write(folder, MEDUSA_WEIGHTS, dict(checkpoint.tensors), medusa_json(checkpoint.config))


def eagle1_json(config: Eagle1Config, dtype: torch.dtype) -> dict[str, object]:
    """The public ``config.json`` of an EAGLE-1 head: that of a Llama model of one layer, and ``bias`` for ``fc``."""
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "num_hidden_layers": config.num_layers,
        "hidden_size": config.hidden_size,
        "intermediate_size": config.intermediate_size,
        "num_attention_heads": config.num_attention_heads,
        "num_key_value_heads": config.num_key_value_heads,
        "head_dim": config.head_dim,
        "hidden_act": "silu",
        "bias": config.fc_bias,
        "qkv_bias": config.attention_bias,
        "vocab_size": config.vocab_size,
        "rms_norm_eps": config.rms_norm_eps,
        "rope_theta": config.rope_theta,
        "max_position_embeddings": config.max_position_embeddings,
        "tie_word_embeddings": False,
        "torch_dtype": str(dtype).removeprefix("torch."),
        "target_model_type": config.target_model_type,
        "target_name": config.target_name,
        "training": dict(config.training),
    }


def medusa_json(config: MedusaConfig) -> dict[str, object]:
    """The public ``config.json`` of Medusa heads."""
    return {
        "medusa_num_heads": config.heads,
        "medusa_num_layers": config.layers,
        "base_model_name_or_path": config.target_name,
        "training": dict(config.training),
    }


def _write(folder: Path, weights: str, tensors: dict[str, Tensor], config: dict[str, object]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    part = folder / (weights + ".part")
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, part, metadata={"format": "pt"})
    os.replace(part, folder / weights)
    part = folder / (CONFIG + ".part")
    part.write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
    os.replace(part, folder / CONFIG)
