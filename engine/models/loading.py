"""Reads the tensors of a model folder in the Hugging Face layout, strictly.

A folder holds either ``model.safetensors`` or several shards listed in
``model.safetensors.index.json``. Every header is checked against its file before
the first tensor is read, so that a download which stopped half-way is named at
once instead of crashing the decoder. Tensors are memory-mapped and read one by
one: peak memory is that of the tensors in use.

The file format: https://github.com/huggingface/safetensors#format
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from safetensors import SafetensorError, safe_open

from engine.errors import ModelError

if TYPE_CHECKING:
    from torch import Tensor

SINGLE = "model.safetensors"
INDEX = "model.safetensors.index.json"
DOWNLOAD_AGAIN = "Delete this file and download it again."
DOWNLOAD_ALL_AGAIN = "Delete the model and download it again."

_MAX_HEADER = 100_000_000  # bytes; the limit of the safetensors library itself
_DTYPE_BITS = {
    "BOOL": 8, "U8": 8, "I8": 8, "F8_E4M3": 8, "F8_E5M2": 8, "F8_E8M0": 8,
    "U16": 16, "I16": 16, "F16": 16, "BF16": 16,
    "U32": 32, "I32": 32, "F32": 32,
    "U64": 64, "I64": 64, "F64": 64, "C64": 64,
}  # fmt: skip
_TORCH_NAMES = {
    "BOOL": "bool", "U8": "uint8", "I8": "int8", "I16": "int16", "U16": "uint16", "F16": "float16",
    "BF16": "bfloat16", "I32": "int32", "U32": "uint32", "F32": "float32", "I64": "int64", "U64": "uint64",
    "F64": "float64", "C64": "complex64", "F8_E4M3": "float8_e4m3fn", "F8_E5M2": "float8_e5m2",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class TensorEntry:
    """What a header says about one tensor."""

    file: Path
    dtype: str
    """The format's name, e.g. ``BF16``."""
    shape: tuple[int, ...]
    start: int = 0
    """Of its first byte in the file."""


class TensorSource:
    """The tensors of one model folder, by name. Close it, or use ``with``, to let go of the files.

    Tensors stay valid after closing. Not for several threads at once.
    """

    def __init__(self, folder: str | Path) -> None:
        """Find the files and check their headers and sizes; no tensor is read yet.

        :raises ModelError: a file is missing, truncated, damaged or in another format.
        """
        self.folder = Path(folder)
        self._entries: dict[str, TensorEntry] = {}
        self._open: dict[Path, Any] = {}
        listed = _files_of(self.folder)
        for path in dict.fromkeys(listed.values()) if listed else [self.folder / SINGLE]:
            for name, entry in read_header(path).items():
                if name in self._entries:
                    raise ModelError(
                        f"The tensor {name} is both in {self._entries[name].file.name} and in {path.name}.",
                        DOWNLOAD_ALL_AGAIN,
                    )
                self._entries[name] = entry
        for name, path in listed.items():
            if name not in self._entries or self._entries[name].file != path:
                raise ModelError(
                    f"{path} lacks the tensor {name}, which {INDEX} says is in it.", DOWNLOAD_ALL_AGAIN
                )

    def names(self) -> tuple[str, ...]:
        """All tensor names, in the order of the files."""
        return tuple(self._entries)

    def shape(self, name: str) -> tuple[int, ...]:
        """:raises ModelError: there is no such tensor."""
        return self.entry(name).shape

    def entry(self, name: str) -> TensorEntry:
        """:raises ModelError: there is no such tensor."""
        try:
            return self._entries[name]
        except KeyError:
            raise ModelError(
                f"The model in {self.folder} lacks the tensor {name}.",
                "The files are incomplete or of another kind of model. " + DOWNLOAD_ALL_AGAIN,
            ) from None

    def get(self, name: str) -> Tensor:
        """The tensor as it is stored, memory-mapped where the system can. Do not write into it.

        :raises ModelError: there is no such tensor, or its file changed or became unreadable.
        """
        entry = self.entry(name)
        try:
            handle = self._open.get(entry.file)
            if handle is None:
                handle = self._open[entry.file] = safe_open(str(entry.file), framework="pt", device="cpu")
            tensor: Tensor = handle.get_tensor(name)
        except (OSError, SafetensorError, RuntimeError) as error:
            raise ModelError(f"{entry.file} cannot be read ({error}).", DOWNLOAD_AGAIN) from error
        return tensor

    def read(self, name: str) -> Tensor:
        """The tensor in memory of its own: what is read here and dropped takes no room after.

        :raises ModelError: as :meth:`get`.
        """
        entry = self.entry(name)
        data = bytearray(math.prod(entry.shape) * _DTYPE_BITS[entry.dtype] // 8)
        try:
            with entry.file.open("rb", buffering=0) as file:
                file.seek(entry.start)
                view, done = memoryview(data), 0
                while done < len(data):
                    count = file.readinto(view[done:])
                    if not count:
                        raise OSError("the file ends too early")
                    done += count
        except OSError as error:
            raise ModelError(f"{entry.file} cannot be read ({error}).", DOWNLOAD_AGAIN) from error
        return _tensor(data, entry)

    def close(self) -> None:
        """Let go of the files; reading goes on to work and opens them again."""
        self._open.clear()

    def __enter__(self) -> TensorSource:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def read_header(path: Path) -> dict[str, TensorEntry]:
    """The tensors a safetensors file declares, checked against the size of the file.

    :raises ModelError: the file is missing, truncated, too long, or its header is not valid.
    """
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            start = file.read(8)
            length = struct.unpack("<Q", start)[0] if len(start) == 8 else 0
            header = file.read(length) if 2 <= length <= min(_MAX_HEADER, size - 8) else b""
    except FileNotFoundError:
        raise ModelError(f"{path.name} is missing in {path.parent}.", "Download the model again.") from None
    except OSError as error:
        raise ModelError(f"{path} cannot be read ({error.strerror or error}).", DOWNLOAD_AGAIN) from error
    if not header:
        raise _not_safetensors(path, size, start, length)
    try:
        declared = json.loads(header)
        entries = {n: _entry(path, v, 8 + length) for n, v in declared.items() if n != "__metadata__"}
        spans = sorted(tuple(v["data_offsets"]) for n, v in declared.items() if n != "__metadata__")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ModelError(f"The header of {path} is damaged ({error}).", DOWNLOAD_AGAIN) from error
    end = 0
    for first, last in spans:
        if first != end:
            raise ModelError(
                f"The header of {path} is damaged (a gap or overlap at byte {end}).", DOWNLOAD_AGAIN
            )
        end = last
    expected = 8 + length + end
    if size != expected:
        what = "truncated" if size < expected else "too long"
        raise ModelError(f"{path} is {what}: {size:,} bytes where {expected:,} are expected.", DOWNLOAD_AGAIN)
    return entries


def _entry(path: Path, declared: Mapping[str, Any], data: int) -> TensorEntry:
    dtype, shape, (first, last) = declared["dtype"], tuple(declared["shape"]), declared["data_offsets"]
    if dtype not in _DTYPE_BITS:
        raise ValueError(f"unknown number format {dtype}")
    if not all(type(length) is int and length >= 0 for length in (*shape, first, last)):
        raise ValueError("a shape or an offset is not a whole number")
    if last - first != math.prod(shape) * _DTYPE_BITS[dtype] // 8:
        raise ValueError(f"{last - first} bytes for {dtype} of shape {list(shape)}")
    return TensorEntry(path, dtype, shape, data + first)


def _tensor(data: bytearray, entry: TensorEntry) -> Tensor:
    import torch

    if entry.dtype not in _TORCH_NAMES:
        raise ModelError(f"{entry.file} holds numbers of the kind {entry.dtype}, which torch lacks.", "")
    dtype: torch.dtype = getattr(torch, _TORCH_NAMES[entry.dtype])
    if not data:
        return torch.empty(entry.shape, dtype=dtype)
    return torch.frombuffer(data, dtype=dtype).view(entry.shape)


def _not_safetensors(path: Path, size: int, start: bytes, length: int) -> ModelError:
    if start.startswith(b"version "):
        return ModelError(
            f"{path} is a Git LFS pointer, not the weights themselves.",
            "Run `git lfs pull` in that folder, or download the model in Eyrie.",
        )
    if 2 <= length <= _MAX_HEADER:
        return ModelError(
            f"{path} is truncated: {size:,} bytes, and its header alone needs {length + 8:,}.", DOWNLOAD_AGAIN
        )
    return ModelError(f"{path} is not a safetensors file ({size:,} bytes).", DOWNLOAD_AGAIN)


def _files_of(folder: Path) -> dict[str, Path]:
    """The file of each tensor as the index has it; empty for a folder with one file."""
    if not folder.is_dir():
        raise ModelError(f"There is no model folder {folder}.", "Choose another model or download it again.")
    index = folder / INDEX
    if (folder / SINGLE).is_file():
        return {}
    if not index.is_file():
        others = sorted(
            path.name for path in folder.iterdir() if path.suffix in {".bin", ".pt", ".pth", ".gguf"}
        )
        if others:
            raise ModelError(
                f"{folder} has no {SINGLE}, only {', '.join(others)}.",
                "Choose a version of the model in the safetensors format.",
            )
        raise ModelError(f"{folder} has neither {SINGLE} nor {INDEX}.", "Download the model again.")
    try:
        listed = json.loads(index.read_text(encoding="utf-8"))["weight_map"]
        names = {str(name): str(file) for name, file in listed.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ModelError(f"{index} cannot be read ({error}).", DOWNLOAD_AGAIN) from error
    for file in names.values():
        if file != Path(file).name or "\\" in file or file in {"", ".", ".."}:
            raise ModelError(f"{index} points outside of its folder: {file!r}.", "Do not use this model.")
    if not names:
        raise ModelError(f"{index} lists no tensors.", DOWNLOAD_AGAIN)
    return {name: folder / file for name, file in names.items()}
