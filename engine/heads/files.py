"""The files of a head: ``config.json`` and its tensors, from safetensors or from ``.bin`` and ``.pt``.

Only data is read. Files of the older PyTorch format are pickles, which can carry a
program: they are opened with ``weights_only``, and whatever asks for more is refused.
"""

from __future__ import annotations

import json
import pickle
import warnings
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from engine.errors import HeadError, ModelError
from engine.models.loading import read_header

CONFIG = "config.json"
WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"
NAMES = (WEIGHTS, INDEX, "pytorch_model.bin", "medusa_lm_head.safetensors", "medusa_lm_head.pt")
"""Weight files in the order in which they are looked for; safetensors first, since it cannot hold code."""
AGAIN = "Download the head again."
CHOOSE_FOLDER = "Choose a folder that holds config.json and model.safetensors."

_FORMAT_NAMES = {
    torch.float64: "F64", torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16",
    torch.int64: "I64", torch.int32: "I32", torch.int16: "I16", torch.int8: "I8", torch.uint8: "U8",
    torch.bool: "BOOL",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Stored:
    """What a file's header says about one tensor."""

    shape: tuple[int, ...]
    dtype: str
    """The safetensors name, e.g. ``BF16``."""


def read_json(path: Path) -> dict[str, object]:
    """The object in ``config.json`` (raises HeadError naming the file)."""
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise HeadError(f"{path} is missing.", CHOOSE_FOLDER) from error
    except (OSError, ValueError) as error:
        raise HeadError(f"{path} cannot be read as JSON: {error}.", AGAIN) from error
    if not isinstance(raw, dict):
        raise HeadError(f"{path} holds no JSON object.", AGAIN)
    return raw


def weight_files(folder: Path) -> list[Path]:
    """The files that hold the head's tensors: one, or the shards of an index (raises HeadError)."""
    if not folder.is_dir():
        raise HeadError(f"The head's folder {folder} does not exist.", "Choose the folder again.")
    found = next((folder / name for name in NAMES if (folder / name).is_file()), None)
    if found is None:
        raise HeadError(f"{folder / WEIGHTS} is missing, and so is pytorch_model.bin.", CHOOSE_FOLDER)
    if found.name != INDEX:
        return [found]
    listed = read_json(found).get("weight_map")
    names = sorted({str(name) for name in listed.values()}) if isinstance(listed, dict) else []
    if not names or any(name != Path(name).name or "\\" in name for name in names):
        raise HeadError(f"{found} does not list the head's files.", AGAIN)
    return [folder / name for name in names]


def stored_tensors(folder: Path) -> dict[str, Stored]:
    """Shapes and types of all tensors without reading their values (raises HeadError)."""
    stored: dict[str, Stored] = {}
    for path in weight_files(folder):
        if path.suffix == ".safetensors":
            try:
                header = read_header(path)
            except ModelError as error:
                raise HeadError(
                    f"{path} is not a complete safetensors file: {error.message}", AGAIN
                ) from error
            stored |= {name: Stored(entry.shape, entry.dtype) for name, entry in header.items()}
        else:
            for name, tensor in _unpickled(path).items():
                stored[name] = Stored(tuple(tensor.shape), _FORMAT_NAMES.get(tensor.dtype, str(tensor.dtype)))
    return stored


def load_tensors(folder: Path) -> dict[str, Tensor]:
    """All tensors as stored, on the CPU (raises HeadError naming the file at fault)."""
    tensors: dict[str, Tensor] = {}
    for path in weight_files(folder):
        try:
            part = load_file(path) if path.suffix == ".safetensors" else _unpickled(path)
        except (OSError, SafetensorError) as error:
            raise HeadError(f"{path} is not a complete safetensors file: {error}.", AGAIN) from error
        twice = set(part) & set(tensors)
        if twice:
            raise HeadError(f"The tensor {min(twice)!r} is in two of the head's files.", AGAIN)
        tensors |= part
    return tensors


def _unpickled(path: Path) -> dict[str, Tensor]:
    """The tensors of a ``.bin`` or ``.pt`` file; memory-mapped, so that looking at shapes reads no values."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # about pickles that PyTorch did not write
            try:
                content = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
            except (RuntimeError, ValueError):  # the layout before PyTorch 1.6 cannot be mapped
                content = torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise HeadError(
            f"{path} holds more than tensors and was not opened: {_first_line(error)}",
            "Do not use this file: it may carry a program. Look for a head in safetensors format.",
        ) from error
    except (OSError, RuntimeError, ValueError, EOFError, KeyError, AttributeError) as error:
        raise HeadError(f"{path} is not a complete PyTorch file: {_first_line(error)}", AGAIN) from error
    if not isinstance(content, dict) or not all(
        isinstance(name, str) and isinstance(value, Tensor) for name, value in content.items()
    ):
        raise HeadError(f"{path} is no plain list of named tensors.", "Choose another head.")
    return {name: value.detach() for name, value in content.items()}


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
