"""Strict reading of heads in every public format, and writing of EAGLE-3 heads in SpecForge's.

A head with a missing or misnamed tensor still runs; it only drafts nonsense,
and the user sees a model that became slower for no reason. So every tensor must
be there with its exact shape, and nothing else may be.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor

from engine.errors import HeadError
from engine.heads.config import Eagle1Config, Eagle3Config, EagleConfig, config_json
from engine.heads.files import CONFIG, WEIGHTS, Stored, load_tensors, read_json
from engine.heads.formats import HeadFormat, recognise
from engine.heads.medusa import MedusaCheckpoint, read_medusa
from engine.heads.parsing import Unsure, parse_eagle1, parse_eagle3
from engine.heads.shapes import Shapes, eagle1_shapes, eagle3_shapes, public_names
from engine.heads.sizes import verify_sizes
from engine.heads.strictness import AGAIN, verify_tensors

_FREQUENCIES = "rotary_emb.inv_freq"
"""A buffer that old versions of transformers saved along; it follows from the config."""


@dataclass(frozen=True)
class Eagle1Checkpoint:
    """A verified EAGLE-1 or EAGLE-2 head: its config and its tensors as stored, under the names
    of :func:`engine.heads.shapes.eagle1_shapes`."""

    config: Eagle1Config
    tensors: Mapping[str, Tensor]
    format: HeadFormat = HeadFormat.EAGLE1


@dataclass(frozen=True)
class Eagle3Checkpoint:
    """A verified EAGLE-3 head: its config and its tensors as stored, under the names of
    :func:`engine.heads.shapes.eagle3_shapes`; ``d2t`` and ``t2d`` are always there."""

    config: Eagle3Config
    tensors: Mapping[str, Tensor]
    format: HeadFormat = HeadFormat.SPECFORGE
    unsure: Unsure = field(default_factory=Unsure)

    @property
    def draft_ids(self) -> Tensor:
        """Target token of each draft token, ``[draft vocabulary]`` int64, increasing."""
        return draft_ids(self.tensors["d2t"])


Checkpoint = Eagle1Checkpoint | Eagle3Checkpoint | MedusaCheckpoint


def draft_ids(d2t: Tensor) -> Tensor:
    """``d2t`` stores offsets, not ids: target id = draft id + offset."""
    return torch.arange(len(d2t)) + d2t


def read_head(folder: Path) -> Checkpoint:
    """Read and verify the head in ``folder``, whatever its format.

    Raises HeadError naming the file or tensor at fault: a missing folder or
    file, truncated or foreign content, missing, extra, misshapen or non-finite
    tensors, contradicting vocabulary maps.
    """
    if not folder.is_dir():
        raise HeadError(f"The head's folder {folder} does not exist.", "Choose the folder again.")
    raw = read_json(folder / CONFIG)
    tensors = load_tensors(folder)
    stored = {name: Stored(tuple(tensor.shape), "") for name, tensor in tensors.items()}
    format = recognise(raw, stored)
    source = str(folder)
    if format is HeadFormat.MEDUSA:
        return read_medusa(folder)
    if format is HeadFormat.EAGLE1:
        first = parse_eagle1(raw, stored)
        tensors = _verified(first, eagle1_shapes(first), format, tensors, source)
        return Eagle1Checkpoint(first, tensors)
    config, unsure = parse_eagle3(raw, stored, format)
    tensors = _verified(config, _with_maps(config, tensors), format, tensors, source)
    _complete_maps(config, tensors, source)
    return Eagle3Checkpoint(config, tensors, format, unsure)


def read_eagle3(folder: Path) -> Eagle3Checkpoint:
    """Read an EAGLE-3 head; as :func:`read_head`, and HeadError for heads of other kinds."""
    checkpoint = read_head(folder)
    if not isinstance(checkpoint, Eagle3Checkpoint):
        kind = "of EAGLE-1 or EAGLE-2" if isinstance(checkpoint, Eagle1Checkpoint) else "Medusa heads"
        raise HeadError(f"This is no EAGLE-3 head: {folder} holds a head {kind}.", "Choose an EAGLE-3 head.")
    return checkpoint


def _verified(
    config: EagleConfig, shapes: Shapes, format: HeadFormat, tensors: dict[str, Tensor], source: str
) -> dict[str, Tensor]:
    """The tensors under this program's names, after all checks. Errors say the file's own names."""
    names = public_names(format, shapes, tensors)
    verify_sizes(
        config, {name: tuple(tensors[public].shape) for name, public in names.items() if public in tensors}, source
    )
    tensors = dict(tensors)
    for name in [name for name in tensors if name.endswith(_FREQUENCIES)]:
        _verify_frequencies(config, name, tensors.pop(name), source)
    expected = {public: shapes[name] for name, public in names.items()}
    verify_tensors(
        expected, tensors, source, f"a {format} head" if format.value[0] not in "AE" else f"an {format} head"
    )
    return {name: tensors[public] for name, public in names.items()}


def _with_maps(config: Eagle3Config, found: Mapping[str, object]) -> Shapes:
    """The shapes of a head; one that drafts the whole vocabulary may bring both maps or neither."""
    shapes = eagle3_shapes(config)
    if "d2t" in found or "t2d" in found:
        shapes |= {"d2t": (config.draft_vocab_size,), "t2d": (config.vocab_size,)}
    return shapes


def _verify_frequencies(config: EagleConfig, name: str, stored: Tensor, source: str) -> None:
    expected = config.rope.frequencies()
    fits = stored.shape == expected.shape and stored.dtype.is_floating_point
    if not fits or not torch.allclose(stored.float(), expected, rtol=1e-2, atol=1e-6):
        raise HeadError(f"{source}: {name} belongs to other RoPE settings than config.json's.", AGAIN)


def _complete_maps(config: Eagle3Config, tensors: dict[str, Tensor], source: str) -> None:
    """Check the vocabulary maps against each other; add those that follow from what is there."""
    if "d2t" not in tensors:  # the head drafts the whole vocabulary
        tensors["d2t"] = torch.zeros(config.vocab_size, dtype=torch.int64)
        tensors["t2d"] = torch.ones(config.vocab_size, dtype=torch.bool)
        return
    ids = _verified_ids(config, tensors["d2t"], source)
    if "t2d" not in tensors:
        tensors["t2d"] = torch.zeros(config.vocab_size, dtype=torch.bool)
        tensors["t2d"][ids] = True
    marked = tensors["t2d"].nonzero()[:, 0]
    if len(marked) != len(ids) or not torch.equal(marked, ids):
        raise HeadError(f"{source}: t2d does not mark the same tokens as d2t.", AGAIN)


def _verified_ids(config: Eagle3Config, d2t: Tensor, source: str) -> Tensor:
    ids = draft_ids(d2t)
    if not bool((ids[1:] > ids[:-1]).all()):
        raise HeadError(f"{source}: the draft tokens in d2t are not strictly increasing.", AGAIN)
    if int(ids[0]) < 0 or int(ids[-1]) >= config.vocab_size:
        raise HeadError(
            f"{source}: d2t points to token {int(ids[0]) if int(ids[0]) < 0 else int(ids[-1])}, "
            f"outside the vocabulary of {config.vocab_size}.",
            AGAIN,
        )
    return ids


def write_eagle3(folder: Path, checkpoint: Eagle3Checkpoint) -> None:
    """Write a head in SpecForge's format; each file appears whole or not at all. Verifies before writing."""
    config = checkpoint.config
    weights = {name: tensor.contiguous() for name, tensor in checkpoint.tensors.items()}
    if config.draft_vocab_size == config.vocab_size:
        weights.pop("d2t", None), weights.pop("t2d", None)
    verify_tensors(eagle3_shapes(config), weights, str(folder), "an EAGLE-3 head")
    _complete_maps(config, dict(weights), str(folder))
    dtype = str(checkpoint.tensors["lm_head.weight"].dtype).removeprefix("torch.")
    folder.mkdir(parents=True, exist_ok=True)
    part = folder / (WEIGHTS + ".part")
    save_file(weights, part, metadata={"format": "pt"})
    os.replace(part, folder / WEIGHTS)
    part = folder / (CONFIG + ".part")
    part.write_text(json.dumps(config_json(config, dtype), indent=2) + "\n", encoding="utf-8")
    os.replace(part, folder / CONFIG)
