"""Reads ``pytorch_model.bin`` checkpoints, single or sharded, without running code from them.

Older models (Vicuna among them) have no other file. ``weights_only=True`` lets torch build
tensors and nothing else; files are memory-mapped, one open at a time.
"""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from engine.errors import ModelError
from engine.models.loading import DOWNLOAD_AGAIN, DOWNLOAD_ALL_AGAIN

SINGLE_BIN = "pytorch_model.bin"
INDEX_BIN = "pytorch_model.bin.index.json"


def has_pickled(folder: Path) -> bool:
    return (folder / SINGLE_BIN).is_file() or (folder / INDEX_BIN).is_file()


class PickledSource:
    """The tensors of one such folder, by name, like :class:`engine.models.loading.TensorSource`."""

    def __init__(self, folder: Path) -> None:
        """:raises ModelError: a file is missing or damaged, or holds more than tensors."""
        self.folder = folder
        self._open: tuple[Path, dict[str, Tensor]] | None = None
        if (folder / SINGLE_BIN).is_file():
            path = folder / SINGLE_BIN
            self._files = dict.fromkeys(self._shard(path), path)
            return
        index = folder / INDEX_BIN
        try:
            listed = json.loads(index.read_text(encoding="utf-8"))["weight_map"]
            self._files = {str(name): folder / Path(str(file)).name for name, file in listed.items()}
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise ModelError(f"{index} cannot be read ({error}).", DOWNLOAD_AGAIN) from error
        for path in set(self._files.values()):
            if not path.is_file():
                raise ModelError(f"{path.name} is missing in {folder}.", "Download the model again.")

    def names(self) -> tuple[str, ...]:
        return tuple(self._files)

    def get(self, name: str) -> Tensor:
        """:raises ModelError: there is no such tensor, or its file is damaged."""
        path = self._files.get(name)
        tensor = None if path is None else self._shard(path).get(name)
        if tensor is None:
            where = self.folder if path is None else path
            raise ModelError(f"{where} lacks the tensor {name}.", DOWNLOAD_ALL_AGAIN)
        return tensor

    def _shard(self, path: Path) -> dict[str, Tensor]:
        if self._open is not None and self._open[0] == path:
            return self._open[1]
        self._open = None
        content = _load(path)
        self._open = path, content
        return content


def _load(path: Path) -> dict[str, Tensor]:
    try:
        try:
            content: Any = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
        except (RuntimeError, ValueError):  # written before torch 1.6: not a zip, cannot be mapped
            content = torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        raise ModelError(
            f"{path} holds something other than tensors, which is not opened.",
            "Do not use this file; choose a version of the model in the safetensors format.",
        ) from error
    except (OSError, RuntimeError, ValueError, EOFError, KeyError) as error:
        raise ModelError(f"{path} cannot be read ({error}).", DOWNLOAD_AGAIN) from error
    if not isinstance(content, dict) or not all(
        isinstance(name, str) and isinstance(tensor, Tensor) for name, tensor in content.items()
    ):
        raise ModelError(f"{path} does not hold named tensors.", DOWNLOAD_AGAIN)
    return content
