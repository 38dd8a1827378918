"""Reads GGUF files: metadata, tensor table, and tensors as float32.

The ``gguf`` package turns the quantised blocks into numbers. Its reader is not
used: it makes an array object of every vocabulary entry, which takes many
seconds, and it fails on a truncated file without saying so.

The file format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
"""

from __future__ import annotations

import contextlib
import math
import mmap
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt

from engine.errors import ModelError
from engine.models.gguf_numbers import numbers as numbers_of

DOWNLOAD_AGAIN = "Delete this file and download it again."

Value = str | int | float | bool | list[str] | npt.NDArray[Any]
Floats = npt.NDArray[np.float32]

_MAGIC = b"GGUF"
_VERSIONS = (2, 3)
_STRING, _ARRAY = 8, 9
_SCALARS = {
    0: "<u1", 1: "<i1", 2: "<u2", 3: "<i2", 4: "<u4", 5: "<i4", 6: "<f4", 7: "|b1", 10: "<u8", 11: "<i8", 12: "<f8",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class GGUFTensor:
    """One entry of the tensor table."""

    name: str
    shape: tuple[int, ...]
    """Slowest dimension first, as in torch; the file itself has it the other way round."""
    kind: str
    """The quantisation, e.g. ``Q4_K``."""
    offset: int
    """Of its first byte in the file."""
    size: int
    """In bytes."""


class GGUFFile:
    """An open GGUF file; use it with ``with``."""

    def __init__(self, path: str | Path) -> None:
        """Read the header and check that every tensor lies within the file.

        :raises ModelError: the file is missing, truncated, damaged, or uses an unknown version or quantisation.
        """
        self.path = Path(path)
        try:
            with self.path.open("rb") as file:
                self.size = file.seek(0, 2)
                if self.size < 24:
                    raise self._broken(f"only {self.size} bytes long")
                self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except FileNotFoundError:
            raise ModelError(f"There is no file {self.path}.", "Download the model again.") from None
        except OSError as error:
            raise ModelError(
                f"{self.path} cannot be read ({error.strerror or error}).", DOWNLOAD_AGAIN
            ) from error
        self._at = 0
        self.metadata: dict[str, Value] = {}
        self.tensors: dict[str, GGUFTensor] = {}
        self._elsewhere: dict[str, GGUFFile] = {}
        """Tensors of a split model that lie in its other files."""
        try:
            self._read_header()
            if self.metadata.get("split.no", 0) == 0 and isinstance(self.metadata.get("split.count"), int):
                self._open_parts(self.whole("split.count"))
        except BaseException:
            self.close()
            raise

    def _broken(self, what: str) -> ModelError:
        return ModelError(f"{self.path} is not a usable GGUF file: {what}.", DOWNLOAD_AGAIN)

    # ----------------------------------------------------------------- the header

    def _read_header(self) -> None:
        if self._map[:4] != _MAGIC:
            raise self._broken(f"it begins with {self._map[:4]!r} instead of {_MAGIC!r}")
        self._at = 4
        version = self._scalar("<u4")
        if version not in _VERSIONS:
            raise ModelError(
                f"{self.path} is a GGUF file of version {version}; versions 2 and 3 are known.",
                "Choose a newer file of this model.",
            )
        tensors, entries = self._scalar("<u8"), self._scalar("<u8")
        for _ in range(entries):
            key = self._string()
            self.metadata[key] = self._value(self._scalar("<u4"))
        table = [self._table_row() for _ in range(tensors)]
        alignment = self.metadata.get("general.alignment", 32)
        if not isinstance(alignment, int) or alignment < 1:
            raise self._broken(f"an alignment of {alignment}")
        data = math.ceil(self._at / alignment) * alignment
        for name, shape, kind, offset in table:
            tensor = self._placed(name, shape, kind, data + offset)
            if name in self.tensors:
                raise self._broken(f"it has the tensor {name} twice")
            self.tensors[name] = tensor
        end = max((tensor.offset + tensor.size for tensor in self.tensors.values()), default=data)
        if end > self.size:
            raise ModelError(
                f"{self.path} is truncated: {self.size:,} bytes where {end:,} are expected.", DOWNLOAD_AGAIN
            )

    def _open_parts(self, count: int) -> None:
        """Take in the other files of a model that was split: ``name-00002-of-00003.gguf`` and so on."""
        ending = f"-00001-of-{count:05d}.gguf"
        if count > 1 and not self.path.name.endswith(ending):
            raise self._broken(f"it is one of {count} parts, and its name does not end in {ending}")
        for number in range(2, count + 1):
            part = GGUFFile(
                self.path.with_name(f"{self.path.name.removesuffix(ending)}-{number:05d}-of-{count:05d}.gguf")
            )
            if (part.metadata.get("split.no"), part.metadata.get("split.count")) != (number - 1, count):
                raise part._broken(f"it is not part {number} of {self.path.name}")
            for name, tensor in part.tensors.items():
                if name in self.tensors:
                    raise part._broken(f"the tensor {name} is in another part, too")
                self.tensors[name] = tensor
                self._elsewhere[name] = part
        whole = self.metadata.get("split.tensors.count", len(self.tensors))
        if whole != len(self.tensors):
            raise self._broken(f"its parts hold {len(self.tensors)} of {whole} tensors")

    def _table_row(self) -> tuple[str, tuple[int, ...], int, int]:
        name = self._string()
        dimensions = self._scalar("<u4")
        if dimensions > 8:
            raise self._broken(f"the tensor {name} has {dimensions} dimensions")
        shape = tuple(self._scalar("<u8") for _ in range(dimensions))
        return name, shape[::-1], self._scalar("<u4"), self._scalar("<u8")

    def _placed(self, name: str, shape: tuple[int, ...], kind: int, offset: int) -> GGUFTensor:
        from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType

        try:
            quantisation = GGMLQuantizationType(kind)
            block, block_bytes = GGML_QUANT_SIZES[quantisation]
        except (ValueError, KeyError):
            raise ModelError(
                f"The tensor {name} of {self.path} is quantised in an unknown way ({kind}).",
                "Choose another file of this model, for example Q4_K_M or Q8_0.",
            ) from None
        if not shape or shape[-1] % block:
            raise self._broken(f"the tensor {name} has shape {list(shape)}, not a multiple of {block}")
        return GGUFTensor(name, shape, quantisation.name, offset, math.prod(shape) // block * block_bytes)

    def _take(self, length: int) -> int:
        """Move on by ``length`` bytes and return where they begin."""
        start = self._at
        if length > self.size - start:
            raise ModelError(
                f"{self.path} is truncated or damaged: its header runs past the end at {self.size:,} bytes.",
                DOWNLOAD_AGAIN,
            )
        self._at = start + length
        return start

    def _scalar(self, dtype: str) -> Any:
        kind = np.dtype(dtype)
        return np.frombuffer(self._map, kind, 1, self._take(kind.itemsize))[0].item()

    def _string(self) -> str:
        length = struct.unpack_from("<Q", self._map, self._take(8))[0]
        start = self._take(length)
        return self._map[start : start + length].decode("utf-8", "replace")

    def _value(self, kind: int) -> Value:
        if kind == _STRING:
            return self._string()
        if kind == _ARRAY:
            inner, count = self._scalar("<u4"), self._scalar("<u8")
            if inner == _STRING:
                return [self._string() for _ in range(count)]
            if inner in _SCALARS:
                dtype = np.dtype(_SCALARS[inner])
                return np.frombuffer(self._map, dtype, count, self._take(dtype.itemsize * count)).copy()
        elif kind in _SCALARS:
            value: Value = self._scalar(_SCALARS[kind])
            return value
        raise self._broken(f"its metadata uses an unknown type ({kind})")

    # ----------------------------------------------------------------- tensors

    def rows(self, name: str, per_chunk: int = 1 << 22) -> Iterator[Floats]:
        """The tensor in float32, a few rows at a time: about ``per_chunk`` numbers, ``[rows, columns]``.

        :raises ModelError: the quantisation cannot be undone.
        """
        from gguf.constants import GGMLQuantizationType
        from gguf.quants import dequantize

        if (part := self._elsewhere.get(name)) is not None:
            yield from part.rows(name, per_chunk)
            return
        tensor = self.tensors[name]
        columns = tensor.shape[-1]
        count = math.prod(tensor.shape[:-1])
        row_bytes = tensor.size // max(count, 1)
        step = max(1, per_chunk // columns)
        for first in range(0, count, step):
            many = min(step, count - first)
            start = tensor.offset + first * row_bytes
            raw = np.frombuffer(self._map, np.uint8, many * row_bytes, start).reshape(many, row_bytes)
            if (quick := numbers_of(tensor.kind, raw)) is not None:
                yield quick.view(many, columns).numpy()
                continue
            try:
                numbers = dequantize(raw, GGMLQuantizationType[tensor.kind])
            except NotImplementedError as error:
                raise ModelError(
                    f"{self.path} is quantised as {tensor.kind}, which cannot be converted.",
                    "Choose another file of this model, for example Q4_K_M or Q8_0.",
                ) from error
            yield np.array(numbers, dtype=np.float32).reshape(many, columns)

    # ----------------------------------------------------------------- metadata with types

    def text(self, key: str, default: str | None = None) -> str:
        """:raises ModelError: the entry is missing or not a string."""
        value = self.metadata.get(key, default)
        if not isinstance(value, str):
            raise self._broken(f"its entry {key} is missing or not a text")
        return value

    def whole(self, key: str, default: int | None = None) -> int:
        """:raises ModelError: the entry is missing or not a whole number."""
        value = self.metadata.get(key, default)
        if not isinstance(value, int) or isinstance(value, bool):
            raise self._broken(f"its entry {key} is missing or not a whole number")
        return value

    def number(self, key: str, default: float | None = None) -> float:
        """:raises ModelError: the entry is missing or not a number."""
        value = self.metadata.get(key, default)
        if not isinstance(value, (int, float)) or isinstance(value, bool):
            raise self._broken(f"its entry {key} is missing or not a number")
        return float(value)

    def texts(self, key: str) -> list[str]:
        """:raises ModelError: the entry is missing or not a list of strings."""
        value = self.metadata.get(key)
        if not isinstance(value, list):
            raise self._broken(f"its entry {key} is missing or not a list of texts")
        return value

    def close(self) -> None:
        for part in {id(each): each for each in self._elsewhere.values()}.values():
            part.close()
        with contextlib.suppress(BufferError):  # an array of a failed read still looks at it
            self._map.close()

    def __enter__(self) -> GGUFFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
