"""Writes 4-bit checkpoints plainly, number by number, as their makers describe the layouts.

Independent of the reader on purpose: loops over single nibbles, no shared code.
"""

from __future__ import annotations

import json
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

GROUP = 32
AWQ_PLACES = {0: 0, 2: 1, 4: 2, 6: 3, 1: 4, 3: 5, 5: 6, 7: 7}
"""Output channel within a word → its nibble: AutoAWQ packs channels in the order 0 2 4 6 1 3 5 7."""


def rounded(weight: Tensor, index: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Integers [out, in], scales and zeros [groups, out] of ``weight``; ``index`` [in] names groups."""
    out, width = weight.shape
    groups = int(index.max()) + 1
    q = torch.zeros(out, width, dtype=torch.int64)
    scales, zeros = torch.zeros(groups, out), torch.zeros(groups, out, dtype=torch.int64)
    for group in range(groups):
        columns = (index == group).nonzero()[:, 0]
        part = weight[:, columns]
        low, high = part.amin(1), part.amax(1)
        scale = ((high - low) / 15).half().float().clamp_min(1e-4)
        zero = (-low / scale).round().clamp(1, 15)
        scales[group], zeros[group] = scale, zero.long()
        q[:, columns] = ((part / scale[:, None]) + zero[:, None]).round().clamp(0, 15).long()
    return q, scales, zeros


def numbers(q: Tensor, scales: Tensor, zeros: Tensor, index: Tensor) -> Tensor:
    """[out, in] what the checkpoint stands for."""
    groups = index.long()
    return (q - zeros[groups].T) * scales[groups].T


def _word(nibbles: list[int]) -> int:
    value = sum(nibble << (4 * place) for place, nibble in enumerate(nibbles))
    return value - (1 << 32) if value >= 1 << 31 else value


def _gptq(q: Tensor, scales: Tensor, zeros: Tensor, index: Tensor, v2: bool) -> dict[str, Tensor]:
    out, width = q.shape
    qweight = torch.zeros(width // 8, out, dtype=torch.int32)
    for row in range(width // 8):
        for column in range(out):
            qweight[row, column] = _word([int(q[column, 8 * row + i]) for i in range(8)])
    stored = zeros if v2 else zeros - 1
    qzeros = torch.zeros(scales.shape[0], out // 8, dtype=torch.int32)
    for group in range(scales.shape[0]):
        for column in range(out // 8):
            qzeros[group, column] = _word([int(stored[group, 8 * column + i]) for i in range(8)])
    return {
        "qweight": qweight,
        "qzeros": qzeros,
        "scales": scales.half(),
        "g_idx": index.int(),
        "bias": torch.zeros(out, dtype=torch.float16),
    }


def _awq(q: Tensor, scales: Tensor, zeros: Tensor) -> dict[str, Tensor]:
    out = q.shape[0]

    def packed(of: Tensor) -> Tensor:
        """``of`` [rows, out] → [rows, out / 8]."""
        words = torch.zeros(of.shape[0], out // 8, dtype=torch.int32)
        for row in range(of.shape[0]):
            for column in range(out // 8):
                nibbles = [0] * 8
                for channel in range(8):
                    nibbles[AWQ_PLACES[channel]] = int(of[row, 8 * column + channel])
                words[row, column] = _word(nibbles)
        return words

    return {"qweight": packed(q.T), "qzeros": packed(zeros), "scales": scales.half()}


def rewrite(folder: Path, method: str, *, act_order: bool = False, v2: bool = False) -> dict[str, Tensor]:
    """Turn the float checkpoint in ``folder`` into one of ``method``; returns the numbers by name."""
    path = folder / "model.safetensors"
    tensors = load_file(path)
    stored: dict[str, Tensor] = {}
    meant: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        if ".layers." not in name or tensor.dim() != 2:
            stored[name] = meant[name] = tensor
            continue
        width = tensor.shape[1]
        index = torch.arange(width) // GROUP
        if act_order:  # groups of channels in the order of importance, the same for one input
            index = index[torch.randperm(width, generator=torch.Generator().manual_seed(width))]
        q, scales, zeros = rounded(tensor.float(), index)
        meant[name] = numbers(q, scales, zeros, index)
        module = name.removesuffix(".weight")
        parts = _gptq(q, scales, zeros, index, v2) if method == "gptq" else _awq(q, scales, zeros)
        if f"{module}.bias" in tensors:
            parts.pop("bias", None)
        stored |= {f"{module}.{part}": value.contiguous() for part, value in parts.items()}
    save_file(stored, path)
    settings = {"quant_method": method, "bits": 4, "group_size": GROUP}
    if method == "gptq":
        settings |= {"desc_act": act_order, "sym": False, "checkpoint_format": "gptq_v2" if v2 else "gptq"}
    else:
        settings |= {"version": "gemm", "zero_point": True}
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"quantization_config": settings}))
    return meant
