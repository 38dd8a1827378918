"""Medusa heads, "v0.1": several small predictors beside the target's own output head.

Head ``k`` sees the target's final state of token ``t`` and guesses token ``t + 2 + k``; the
target's own head guesses ``t + 1``. Each is a chain of residual blocks,
``x + SiLU(W x + b)``, and a matrix to the vocabulary (``medusa_model.py`` of
FasterDecoding/Medusa). The target is untouched (Medusa-1); checkpoints of
Medusa-2 hold a changed target and are refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional

from engine.errors import HeadError
from engine.heads.files import CONFIG, Stored, load_tensors, read_json
from engine.heads.projections import MakeLinear, int8_linear
from engine.heads.strictness import AGAIN, verify_tensors
from engine.models.linear import Linear

MOST = 64
"""A bound against files of strangers; published ones have five heads of one block."""
_NAME = re.compile(r"(\d+)\.(\d+)\.(linear\.weight|linear\.bias|weight)")


@dataclass(frozen=True)
class MedusaConfig:
    """Shape of a set of Medusa heads."""

    hidden_size: int
    """Width of the target's final state."""
    vocab_size: int
    heads: int
    layers: int
    """Residual blocks of each head."""
    target_name: str = ""
    """What the file says it was made for; may be empty."""
    training: Mapping[str, object] = field(default_factory=dict)
    """Facts about the training run, for people."""


@dataclass(frozen=True)
class MedusaCheckpoint:
    """Verified Medusa heads: the config and the tensors under their public names, as stored."""

    config: MedusaConfig
    tensors: Mapping[str, Tensor]


def is_medusa(names: Mapping[str, object]) -> bool:
    """Whether most tensors are called as those of Medusa heads (of either version) are."""
    return 2 * sum(bool(_NAME.fullmatch(_unprefixed(name))) for name in names) > len(names)


def parse_medusa(raw: Mapping[str, object], stored: Mapping[str, Stored]) -> MedusaConfig:
    """The config of Medusa heads from ``config.json`` and the tensors' shapes (raises HeadError).

    Published configs understate the number of heads (2 where the file holds 5), so the
    file's own count is believed where it is the larger one.
    """
    if any(name.startswith("medusa_head.") for name in stored):
        raise HeadError(
            "These Medusa heads come inside a model that was trained with them (Medusa-2).",
            "Choose heads of version 0.1, which belong to an unchanged model.",
        )
    layers = _count(raw, "medusa_num_layers", 1)
    counted = 1 + max((int(found[1]) for name in stored if (found := _NAME.fullmatch(name))), default=-1)
    heads = max(counted, _count(raw, "medusa_num_heads", 1))
    if max(heads, layers) > MOST:
        raise HeadError(
            f"The file counts {heads} Medusa heads of {layers} blocks, more than make sense.", AGAIN
        )
    # One misshapen tensor must not decide the size: the biases and tables vote.
    biases = [
        entry.shape[0] for name, entry in stored.items() if name.endswith("linear.bias") and entry.shape
    ]
    tables = [
        max(entry.shape)
        for name, entry in stored.items()
        if (found := _NAME.fullmatch(name)) and found[3] == "weight" and entry.shape
    ]
    if not biases or not tables:
        raise HeadError("The file holds no whole Medusa head.", AGAIN)
    training = raw.get("training")
    return MedusaConfig(
        hidden_size=max(set(biases), key=biases.count),
        vocab_size=max(set(tables), key=tables.count),
        heads=heads,
        layers=layers,
        target_name=str(raw.get("base_model_name_or_path") or ""),
        training=dict(training) if isinstance(training, dict) else {},
    )


def medusa_shapes(config: MedusaConfig) -> dict[str, tuple[int, ...]]:
    """Every tensor of Medusa heads with its shape; linear weights are ``[out, in]``."""
    shapes: dict[str, tuple[int, ...]] = {}
    for head in range(config.heads):
        for layer in range(config.layers):
            shapes[f"{head}.{layer}.linear.weight"] = (config.hidden_size, config.hidden_size)
            shapes[f"{head}.{layer}.linear.bias"] = (config.hidden_size,)
        shapes[f"{head}.{config.layers}.weight"] = (config.vocab_size, config.hidden_size)
    return shapes


def read_medusa(folder: Path) -> MedusaCheckpoint:
    """Read and verify the Medusa heads in ``folder``: ``config.json`` and ``medusa_lm_head.pt`` or
    a safetensors file. Raises HeadError naming the file or tensor at fault."""
    tensors = load_tensors(folder)
    stored = {name: Stored(tuple(tensor.shape), "") for name, tensor in tensors.items()}
    config = parse_medusa(read_json(folder / CONFIG), stored)
    verify_tensors(medusa_shapes(config), tensors, str(folder), "a Medusa head")
    return MedusaCheckpoint(config, tensors)


class MedusaHeads:
    """Loaded Medusa heads: ``propose_logits(hidden) -> [heads, vocab]``.

    ``hidden`` is the target's final state *after* its last norm, that is the input of
    its output head (``last_hidden_state`` of transformers).
    """

    name = "Medusa"

    def __init__(self, checkpoint: MedusaCheckpoint, make_linear: MakeLinear = int8_linear) -> None:
        config = self.config = checkpoint.config
        tensors = {name: tensor.float() for name, tensor in checkpoint.tensors.items()}
        self._blocks = [
            [
                make_linear(tensors[f"{head}.{layer}.linear.weight"], tensors[f"{head}.{layer}.linear.bias"])
                for layer in range(config.layers)
            ]
            for head in range(config.heads)
        ]
        self._tables = [
            make_linear(tensors[f"{head}.{config.layers}.weight"]) for head in range(config.heads)
        ]

    def propose_logits(self, hidden: Tensor) -> Tensor:
        """Logits ``[heads, vocab]`` for ``hidden`` ``[hidden]`` or ``[1, hidden]`` of the last verified
        token ``t``; row ``k`` is about token ``t + 2 + k``."""
        state = hidden.reshape(1, -1).float()
        return torch.cat(
            [
                table(self._run(state, blocks))
                for blocks, table in zip(self._blocks, self._tables, strict=True)
            ]
        )

    @staticmethod
    def _run(state: Tensor, blocks: list[Linear]) -> Tensor:
        for linear in blocks:
            state = state + functional.silu(linear(state))
        return state

    def memory_bytes(self) -> int:
        blocks = sum(linear.memory_bytes() for head in self._blocks for linear in head)
        return blocks + sum(table.memory_bytes() for table in self._tables)


def _unprefixed(name: str) -> str:
    return name.removeprefix("medusa_head.")


def _count(raw: Mapping[str, object], key: str, default: int) -> int:
    value = raw.get(key, default)
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise HeadError(f"The head's config.json makes no sense: {key} is {value!r}.", AGAIN)
    return value
