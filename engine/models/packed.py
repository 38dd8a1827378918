"""Reads ready-made 4-bit checkpoints: bitsandbytes, GPTQ and AWQ.

How nibbles lie in the files (each 32-bit word holds 8, the lowest bits first):

* **GPTQ** (AutoGPTQ, GPTQModel): ``qweight`` [in / 8, out], word (r, c) holds input
  channels 8r … 8r + 7 of output c; ``qzeros`` [groups, out / 8] in output order, stored one
  too small (format "gptq") or as they are ("gptq_v2"); ``scales`` [groups, out];
  ``g_idx`` [in], the group of each input channel.
* **AWQ** ("gemm"): ``qweight`` [in, out / 8] and ``qzeros`` [groups, out / 8], eight
  outputs a word in the order 0 2 4 6 1 3 5 7; ``scales`` [groups, out].
* **bitsandbytes**: ``weight`` [out · in / 2, 1] of bytes, ``weight.absmax``,
  ``weight.quant_map``, and ``weight.quant_state.bitsandbytes__nf4``, JSON as bytes; with
  double quantisation ``absmax`` are bytes and ``nested_*`` undo them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from engine.errors import ModelError
from engine.models.config import UnsupportedModel
from engine.models.matrices import BlockMatrix, FloatMatrix, GroupMatrix, StoredMatrix

Get = Callable[[str], Tensor]

AWQ_ORDER = (0, 2, 4, 6, 1, 3, 5, 7)
"""Output channel of each nibble of a word."""
QUANT_STATES = ("weight.quant_state.bitsandbytes__nf4", "weight.quant_state.bitsandbytes__fp4")
OTHER_FORMAT = "Choose another version of this model, for example the unquantised one."


def unpack_words(words: Tensor) -> Tensor:
    """[rows, n] int32 → [rows, n, 8] uint8, the lowest nibble first."""
    shifts = torch.arange(0, 32, 4, dtype=torch.int32)
    return ((words.to(torch.int32)[:, :, None] >> shifts) & 15).to(torch.uint8)


def pack_columns(q: Tensor) -> Tensor:
    """[out, in] uint8 below 16 → [out, in / 2], the even column in the low nibble."""
    return q[:, 0::2] | (q[:, 1::2] << 4)


def read_gptq(
    module: str, get: Get, shape: tuple[int, int], settings: Mapping[str, Any], indexed: bool = True
) -> GroupMatrix:
    """One matrix of ``shape`` (out, in) of a GPTQ checkpoint; not ``indexed`` without ``g_idx``.

    :raises ModelError: a tensor is missing, misshapen, or of another number of bits.
    """
    out, width = shape
    qweight = _sized(get(module + ".qweight"), module + ".qweight", (width // 8, out))
    scales = get(module + ".scales")
    groups = int(scales.shape[0])
    _sized(scales, module + ".scales", (groups, out))
    qzeros = _sized(get(module + ".qzeros"), module + ".qzeros", (groups, out // 8))
    q = unpack_words(qweight).permute(1, 0, 2).reshape(out, width)
    zero = unpack_words(qzeros).reshape(groups, out).T.float()
    if settings.get("checkpoint_format", "gptq") != "gptq_v2":
        zero = zero + 1
    columns: Tensor | None = None
    size = width // groups
    plain = torch.arange(width) // size
    index = get(module + ".g_idx").long() if indexed else plain
    _sized(index, module + ".g_idx", (width,))
    if not torch.equal(index, plain):
        # Stable, so that every matrix of one group index gets the same order.
        columns = torch.argsort(index, stable=True)
        if not torch.equal(index[columns], plain):
            raise ModelError(f"The tensor {module}.g_idx has groups of unequal size.", OTHER_FORMAT)
        q = q[:, columns]
    return GroupMatrix(pack_columns(q), scales.T.contiguous(), zero.to(scales.dtype), columns)


def read_awq(module: str, get: Get, shape: tuple[int, int], settings: Mapping[str, Any]) -> GroupMatrix:
    """One matrix of ``shape`` (out, in) of an AWQ checkpoint ("gemm" layout).

    :raises ModelError: a tensor is missing or misshapen, or the layout is another.
    """
    out, width = shape
    if str(settings.get("version", "gemm")).lower() != "gemm":
        raise ModelError(f"AWQ of version “{settings['version']}” is not known.", OTHER_FORMAT)
    qweight = _sized(get(module + ".qweight"), module + ".qweight", (width, out // 8))
    scales = get(module + ".scales")
    groups = int(scales.shape[0])
    _sized(scales, module + ".scales", (groups, out))
    qzeros = _sized(get(module + ".qzeros"), module + ".qzeros", (groups, out // 8))
    order = torch.argsort(torch.tensor(AWQ_ORDER))

    def outputs(words: Tensor) -> Tensor:
        return unpack_words(words)[:, :, order].reshape(words.shape[0], out).T.contiguous()

    return GroupMatrix(
        pack_columns(outputs(qweight)), scales.T.contiguous(), outputs(qzeros).to(scales.dtype)
    )


def read_bitsandbytes(
    module: str, get: Get, state_name: str, shape: tuple[int, int]
) -> StoredMatrix:
    """One matrix of ``shape`` (out, in) of a bitsandbytes 4-bit checkpoint.

    :raises ModelError: a tensor is missing or misshapen, or the state is damaged.
    """
    out, width = shape
    try:
        state = json.loads(bytes(get(f"{module}.{state_name}").tolist()))
        kind, block = str(state["quant_type"]), int(state["blocksize"])
        stated = tuple(state["shape"])
    except (ValueError, KeyError, TypeError) as error:
        raise ModelError(f"The tensor {module}.{state_name} is damaged ({error}).", OTHER_FORMAT) from error
    if stated != shape:
        raise ModelError(
            f"The tensor {module}.weight has shape {list(stated)} where config.json asks for {list(shape)}.",
            "The files do not belong together: delete the model and download it again.",
        )
    name = module + ".weight"
    packed = get(name)
    if packed.dtype != torch.uint8:  # stored as another type of the same bytes
        packed = packed.reshape(-1).view(torch.uint8)
    if packed.numel() != out * width // 2:
        raise ModelError(f"The tensor {name} has {packed.numel():,} bytes for {out} × {width}.", OTHER_FORMAT)
    absmax = get(name + ".absmax")
    table = get(name + ".quant_map").float()
    if "nested_blocksize" in state:
        inner = int(state["nested_blocksize"])
        small = get(name + ".nested_absmax").float()
        values = get(name + ".nested_quant_map").float()[absmax.long()]
        absmax = values * small.repeat_interleave(inner)[: values.numel()] + float(state["nested_offset"])
    absmax = absmax.float().reshape(-1)
    if table.shape != (16,) or absmax.numel() * block != out * width:
        raise ModelError(f"The tensor {name}.absmax or .quant_map has an unexpected size.", OTHER_FORMAT)
    if width % block:  # blocks run over the ends of rows: only the numbers can be kept
        flat = packed.reshape(-1)
        indices = torch.stack((flat >> 4, flat & 15), -1).view(-1, block).int()
        return FloatMatrix((table[indices] * absmax[:, None]).view(out, width))
    return BlockMatrix(packed.reshape(out, width // 2), absmax.view(out, width // block), table, kind)


def check_settings(settings: Mapping[str, Any]) -> str:
    """The method's name, for people, of a ``quantization_config``.

    :raises UnsupportedModel: a method or number of bits that is not read here.
    """
    method = str(settings.get("quant_method", "")).lower()
    if method == "bitsandbytes" and not settings.get("load_in_8bit"):
        return "bitsandbytes 4-bit"
    if method in ("gptq", "awq") and int(settings.get("bits", 4)) == 4:
        return f"{method.upper()} 4-bit"
    bits = 8 if method == "bitsandbytes" else settings.get("bits", "")
    what = f"{method.upper() if method else 'an unknown method'}{f' in {bits} bits' if bits else ''}"
    raise UnsupportedModel(f"Weights quantised by {what} are not read here.", OTHER_FORMAT)


def _sized(tensor: Tensor, name: str, shape: tuple[int, ...]) -> Tensor:
    if tuple(tensor.shape) != shape:
        raise ModelError(
            f"The tensor {name} has shape {list(tensor.shape)} where config.json asks for {list(shape)}.",
            "The files do not belong together: delete the model and download it again.",
        )
    return tensor
