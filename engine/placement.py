"""Where a target goes and in which format: chosen for the machine, checked before anything is read."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any

import torch

from engine.errors import ModelError, ResourceError
from engine.models.config import DecoderConfig
from engine.protocol import Load

FORMATS = ("int8", "nf4", "bfloat16", "float16", "float32")
_DTYPES = {"bfloat16": torch.bfloat16, "float16": torch.float16, "float32": torch.float32}
_BYTES = {"int8": 1.01, "bfloat16": 2.0, "float16": 2.0, "float32": 4.0}
_NF4_BYTES = {False: 0.5625, True: 0.516}
"""Bytes a weight, with and without double quantisation."""
_WORKSPACE = 700 << 20
"""Of a GPU: torch's own context and room for one pass."""
GB = 1e9


@dataclass(frozen=True, slots=True)
class Placement:
    device: torch.device
    format: str
    """One of :data:`FORMATS`; 4-bit checkpoints keep their own 4 bits under ``nf4``."""
    double_quant: bool = False

    @property
    def dtype(self) -> torch.dtype:
        """What products are computed in."""
        if self.format in _DTYPES:
            return _DTYPES[self.format]
        return compute_dtype(self.device)


def compute_dtype(device: torch.device) -> torch.dtype:
    """bfloat16 where a GPU has it, float16 on older ones (bitsandbytes' kernels want it there), float32 on CPUs."""
    if device.type != "cuda":
        return torch.float32
    return torch.bfloat16 if torch.cuda.get_device_capability(device) >= (8, 0) else torch.float16


def choose(command: Load) -> Placement:
    """Device and format as ``command`` asks, or the best for this machine: NF4 on a GPU, int8 on a CPU.

    :raises ResourceError: the device is not there.
    :raises ModelError: the format is unknown or not for that device.
    """
    device = _device(command.device)
    form = command.weight_format or ("int8" if device.type == "cpu" else "nf4")
    if form not in FORMATS:
        raise ModelError(f"“{form}” is not a weight format.", f"Choose one of {', '.join(FORMATS)}.")
    if form == "int8" and device.type != "cpu":
        raise ModelError("Row-wise int8 is a format for CPUs.", "Choose nf4 for this GPU.")
    return Placement(device, form, command.double_quant)


def _device(name: str) -> torch.device:
    available = torch.cuda.is_available()
    if not name:
        return torch.device("cuda", torch.cuda.current_device()) if available else torch.device("cpu")
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise ModelError(f"“{name}” is not a device.", "Choose cpu or cuda.") from error
    if device.type == "cpu":
        return device
    if device.type != "cuda":
        raise ModelError(f"The device “{name}” is not supported.", "Choose cpu or cuda.")
    if not available:
        built = torch.version.cuda is not None
        raise ResourceError(
            "torch finds no NVIDIA GPU." if built else "The installed torch is the version for CPUs.",
            "Install or update the NVIDIA driver, or choose the device cpu."
            if built
            else "Run Eyrie's set-up again on a machine with an NVIDIA GPU, or choose the device cpu.",
        )
    index = torch.cuda.current_device() if device.index is None else device.index
    if index >= torch.cuda.device_count():
        raise ResourceError(
            f"There is no GPU {index}; {torch.cuda.device_count()} were found.", "Choose cuda:0 or cpu."
        )
    return torch.device("cuda", index)


# --------------------------------------------------------------------------- does it fit


def weight_bytes(config: DecoderConfig, placement: Placement) -> int:
    """Bytes of a target's weights on its device, from its configuration alone."""
    hidden, inner = config.hidden_size, config.intermediate_size
    mlp = 3 * hidden * inner * max(1, config.experts)
    layer = hidden * (2 * config.query_size + 2 * config.kv_size) + mlp
    if placement.format == "nf4":
        body, table = _NF4_BYTES[placement.double_quant], float(placement.dtype.itemsize)
    else:
        body = table = _BYTES[placement.format]
    # One table: where the embedding is another one, it stays in main memory or in its file.
    return int(layer * config.num_layers * body + config.vocab_size * hidden * table)


def cache_bytes(config: DecoderConfig, placement: Placement, context: int) -> int:
    """Bytes of keys and values of ``context`` tokens."""
    size = 4 if placement.device.type == "cpu" else placement.dtype.itemsize
    return 2 * config.num_layers * config.kv_size * context * size


def require_memory(config: DecoderConfig, placement: Placement, context: int, name: str) -> None:
    """:raises ResourceError: the model does not fit, with what is needed and what is free."""
    weights = weight_bytes(config, placement)
    needed = weights + cache_bytes(config, placement, context)
    if placement.device.type == "cuda":
        needed += _WORKSPACE
        free, total = torch.cuda.mem_get_info(placement.device)
        where, device = "GPU", torch.cuda.get_device_name(placement.device)
        advice = "Close other programs that use the GPU, choose a smaller model"
        if placement.format != "nf4":
            advice += ", the format nf4"
        elif not placement.double_quant:
            advice += ", switch double quantisation on"
        advice += ", or choose the device cpu."
    else:
        memory = _psutil().virtual_memory()
        free, total = memory.available, memory.total
        where = device = "main memory"
        advice = "Close other programs or choose a smaller model."
    if needed > free:
        raise ResourceError(
            f"{name} needs {needed / GB:.1f} GB of the {where} in {placement.format}, and "
            f"{free / GB:.1f} of {total / GB:.1f} GB are free"
            + (f" ({device})." if where == "GPU" else "."),
            advice,
        )


def _psutil() -> Any:
    return importlib.import_module("psutil")
