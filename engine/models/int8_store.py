"""Row-wise int8 weights of a target, made once and kept in the cache folder.

A shard a layer, in the layout of a Hugging Face folder, so that neither making nor loading
needs room for more than one layer besides the result. The folder is built beside its place
and moved there at the end (:mod:`engine.models.building`).
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor

from engine.errors import ModelError
from engine.models.building import building, disk_errors, folder_lock, require_space
from engine.models.checkpoint import EMBEDDING, Checkpoint
from engine.models.config import DecoderConfig
from engine.models.decoder import DecoderWeights
from engine.models.formats import DenseFormat
from engine.models.linear import body_weight_levels
from engine.models.loading import INDEX, TensorSource
from engine.models.quantise import FORMAT, int8_weights, quantised_parts
from engine.models.weights import layer_weights, tables

Report = Callable[[str, float | None], None]
ONCE = "Quantising the weights (once)"
CALIBRATION_TOKENS = 2048
_EMBEDDING = "embedding"
"""Kept here only where the source's cannot be mapped: in a GGUF file it is packed."""


class StoredTensors(Mapping[str, Tensor]):
    """The tensors of a folder as a mapping; each look-up reads from the file."""

    def __init__(self, source: TensorSource) -> None:
        self._source = source
        self._names = frozenset(source.names())

    def __getitem__(self, name: str) -> Tensor:
        if name not in self._names:
            raise KeyError(name)
        return self._source.read(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __contains__(self, name: object) -> bool:
        return name in self._names


def int8_target(
    place: Path,
    config: DecoderConfig,
    checkpoint: Checkpoint,
    calibration: Callable[[], Tensor],
    report: Report,
) -> DecoderWeights:
    """Weights from ``place``, made there first from ``checkpoint`` unless they are.

    ``calibration`` gives a text's tokens [tokens]; ``report`` may raise to cancel.

    :raises ModelError: the checkpoint is not as it should be.
    :raises ResourceError: the disk is full or cannot be written.
    """
    report("Reading the weights", None)
    # Mapped from a file: a step reads a row a token of it. It was looked through when the rest was made.
    embedding = checkpoint.get(EMBEDDING) if checkpoint.mapped else None
    weights = _read(place, config, embedding, report)
    if weights is None:
        with folder_lock(place):
            if _read_source(place) is None:
                _make(place, config, checkpoint, calibration(), report)
        weights = _read(place, config, embedding, report)
    if weights is None:
        raise ModelError(f"The quantised weights in {place} cannot be read.", "Delete that folder and load again.")
    return weights


def fingerprint(files: list[Path], calibration_text: bytes) -> str:
    """Names the weights by their files' places, sizes and times, the format and the calibration text."""
    digest = hashlib.sha256(f"{FORMAT}|{body_weight_levels()}".encode())
    digest.update(calibration_text)
    for path in files:
        status = path.stat()
        digest.update(f"{path.resolve()}|{status.st_size}|{status.st_mtime_ns}".encode())
    return digest.hexdigest()[:24]


def _read_source(place: Path) -> TensorSource | None:
    if not place.is_dir():
        return None
    try:
        return TensorSource(place)
    except ModelError:  # damaged: made again
        return None


def _read(
    place: Path, config: DecoderConfig, embedding: Tensor | None, report: Report
) -> DecoderWeights | None:
    source = _read_source(place)
    if source is None:
        return None
    report("Packing the weights", None)
    try:
        if embedding is None:
            embedding = source.get(_EMBEDDING)
        return int8_weights(config, StoredTensors(source), embedding)
    except (KeyError, ModelError):
        return None


def _make(
    place: Path,
    config: DecoderConfig,
    checkpoint: Checkpoint,
    calibration: Tensor,
    report: Report,
) -> None:
    embedding, head = tables(config, checkpoint, mapped=True)
    final_norm = checkpoint.vector("model.norm.weight", config.hidden_size) + config.norm_offset
    form = DenseFormat(torch.float32)
    layers = (layer_weights(config, checkpoint, form, index) for index in range(config.num_layers))
    table = embedding if head is None else head
    report(ONCE, 0.0)
    with building(place) as folder:
        require_space(folder, math.prod(table.shape))
        shards: dict[str, str] = {}
        with torch.inference_mode(), disk_errors(folder):
            for part, tensors in quantised_parts(
                config,
                layers,
                embedding,
                final_norm,
                lambda: table,
                calibration[: min(CALIBRATION_TOKENS, config.max_positions)],
                lambda fraction: report(ONCE, fraction),
            ):
                file = f"{part}.safetensors"
                save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, folder / file)
                shards |= dict.fromkeys(tensors, file)
            checkpoint.finish()
            if not checkpoint.mapped:
                # 16 bits are more than a file of 4 to 8 bits a weight tells.
                save_file({_EMBEDDING: embedding.half().contiguous()}, folder / f"{_EMBEDDING}.safetensors")
                shards[_EMBEDDING] = f"{_EMBEDDING}.safetensors"
            (folder / INDEX).write_text(json.dumps({"weight_map": shards}), encoding="utf-8")
