"""Loads a target: from its files to a decoder on the right device in the right format."""

from __future__ import annotations

import gc
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from engine.errors import ModelError
from engine.models.checkpoint import Checkpoint, Tensors
from engine.models.config import DecoderConfig, UnsupportedModel
from engine.models.decoder import Decoder
from engine.models.files import ModelFiles
from engine.models.foreign import ForeignDecoder
from engine.models.formats import DenseFormat, Nf4Format, WeightFormat
from engine.models.int8_store import fingerprint, int8_target
from engine.models.weights import build_weights
from engine.paths import cache_folder
from engine.placement import Placement, require_memory

Report = Callable[[str, float | None], None]


@dataclass(frozen=True)
class Target:
    """A loaded target. ``config`` and ``tensors`` are None where it runs through transformers."""

    decoder: Decoder | ForeignDecoder
    config: DecoderConfig | None
    tensors: Tensors | None
    """Its checkpoint under Llama's names, for heads that share a table with it."""
    weight_format: str
    """For people."""
    problem: str = ""
    """Why EAGLE cannot run on it; empty where it can."""


def load_target(
    model: ModelFiles,
    placement: Placement,
    context: int,
    calibration: Callable[[], Tensor],
    calibration_text: bytes,
    report: Report,
) -> Target:
    """Load ``model``; what our decoder does not follow runs through transformers, with the reason.

    ``calibration`` gives tokens [n] of ``calibration_text`` for int8. ``report`` may raise to
    cancel.

    :raises ModelError: a file or tensor is not as it should be, or transformers cannot load it either.
    :raises ResourceError: it does not fit.
    """
    try:
        config = DecoderConfig.from_hf(model.raw)
        require_memory(config, placement, min(context, config.max_positions), model.name)
        checkpoint = Checkpoint(model.tensors(), model.quantization)
    except UnsupportedModel as error:
        return _foreign(model, placement, error, report)
    return _own(model, config, checkpoint, placement, calibration, calibration_text, report)


def _own(
    model: ModelFiles,
    config: DecoderConfig,
    checkpoint: Checkpoint,
    placement: Placement,
    calibration: Callable[[], Tensor],
    calibration_text: bytes,
    report: Report,
) -> Target:
    stored = checkpoint.quantization
    if placement.format == "int8":
        place = cache_folder() / "int8" / fingerprint(sorted(model.weights), calibration_text)
        weights = int8_target(place, config, checkpoint, calibration, report)
        name = "row-wise int8" + (f" (from {stored})" if stored else "")
    else:
        form: WeightFormat
        if placement.format == "nf4":
            form = Nf4Format(placement.dtype, placement.device, double_quant=placement.double_quant)
            name = stored or ("NF4, double quantised" if placement.double_quant else "NF4")
        else:
            form = DenseFormat(placement.dtype, placement.device)
            name = placement.format
        with torch.inference_mode():
            weights = build_weights(
                config, checkpoint, form, lambda fraction: report("Loading the weights", fraction)
            )
    return Target(Decoder(config, weights), config, checkpoint, name)


def _foreign(model: ModelFiles, placement: Placement, why: UnsupportedModel, report: Report) -> Target:
    report(f"Loading {model.name} through transformers", None)
    if model.path.is_file():
        raise why
    on_gpu = placement.device.type == "cuda"
    dtype = placement.dtype if on_gpu or placement.format != "nf4" else torch.float32
    try:
        decoder = ForeignDecoder.load(
            model.folder, placement.device, dtype, on_gpu and placement.format == "nf4"
        )
    except ModelError as error:
        raise ModelError(f"{why.message} {error.message}", error.next_step) from error
    gc.collect()
    name = "NF4 (transformers)" if on_gpu and placement.format == "nf4" else _dtype_name(dtype)
    return Target(
        decoder, None, None, name, f"{why.message} It runs plainly, through transformers. {why.next_step}"
    )


def _dtype_name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
