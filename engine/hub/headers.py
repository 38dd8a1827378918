"""What a checkpoint's tensors are, from the headers of its files alone, read by range.

A safetensors file begins with the length of its header and the header itself: types,
shapes and places of all tensors. Some kilobytes tell what gigabytes hold.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from engine.hub.api import HubApi
from engine.hub.foreign import LARGEST, json_object
from engine.hub.manifest import Manifest
from engine.hub.part import replace_text
from engine.hub.problems import HubError

FIRST_READ = 128 << 10
LONGEST = 64 << 20
"""Bytes of a header; the largest public ones have a few million."""
BITS = {
    "F64": 64, "I64": 64, "U64": 64, "F32": 32, "I32": 32, "U32": 32, "F16": 16, "BF16": 16, "I16": 16, "U16": 16,
    "F8_E4M3": 8, "F8_E5M2": 8, "F8_E8M0": 8, "I8": 8, "U8": 8, "BOOL": 8, "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Entry:
    """One tensor, as a header describes it."""

    dtype: str
    shape: tuple[int, ...]

    @property
    def count(self) -> int:
        number = 1
        for size in self.shape:
            number *= size
        return number

    @property
    def rows(self) -> int:
        return self.shape[0] if self.shape else 1

    @property
    def bytes(self) -> int:
        """As stored."""
        return self.count * BITS.get(self.dtype, 16) // 8


Header = dict[str, Entry]
ReadRange = Callable[[int, int], bytes]


def parse(text: bytes) -> Header:
    """:raises ValueError: it is no header of a safetensors file."""
    raw = json_object(text)
    found: Header = {}
    for name, entry in raw.items():
        if name == "__metadata__":
            continue
        try:
            shape = tuple(int(size) for size in entry["shape"])
            found[str(name)] = Entry(str(entry["dtype"]), shape)
        except (KeyError, TypeError, OverflowError) as error:
            raise ValueError(f"{name}: {error}") from error
        if any(not 0 <= size <= LARGEST for size in shape):
            raise ValueError(f"{name}: a size that cannot be")
    return found


def read(read_range: ReadRange) -> Header:
    """The header at the beginning of what ``read_range(start, end)`` reads.

    :raises ValueError: it is no safetensors file.
    """
    first = read_range(0, FIRST_READ)
    length = int.from_bytes(first[:8], "little")
    if len(first) < 8 or not 2 <= length <= LONGEST:
        raise ValueError("this is no safetensors file")
    rest = read_range(len(first), 8 + length) if len(first) < 8 + length else b""
    return parse((first + rest)[8 : 8 + length])


def of_files(paths: list[Path]) -> Header:
    """Of local files. :raises ValueError: one is no safetensors file. :raises OSError:"""
    merged: Header = {}
    for path in paths:
        with path.open("rb") as file:

            def read_range(start: int, end: int, file=file) -> bytes:  # type: ignore[no-untyped-def]
                file.seek(start)
                data: bytes = file.read(end - start)
                return data

            merged |= read(read_range)
    return merged


class RemoteHeaders:
    """Headers of repositories, each read once and kept: a commit never changes."""

    def __init__(self, api: HubApi, folder: Path | None = None) -> None:
        self._api = api
        self._folder = folder

    def of(self, manifest: Manifest) -> Header | None:
        """Of a repository's safetensors files, merged; None where its weights are of another kind.

        :raises HubError: the hub refuses, or the files are not what they are called.
        """
        files = [spec for spec in manifest.files if spec.path.endswith(".safetensors")]
        if not files:
            return None
        name = f"{manifest.repo_id.replace('/', '--')}@{manifest.commit}.json"
        if (kept := self._kept(name)) is not None:
            return kept
        merged: Header = {}
        for spec in files:

            def read_range(start: int, end: int, path: str = spec.path, size: int = spec.size) -> bytes:
                return self._api.bytes_of(manifest.repo_id, manifest.commit, path, start, min(end, size))

            try:
                merged |= read(read_range)
            except ValueError as error:
                raise HubError(
                    f"{spec.path} of {manifest.repo_id} is no safetensors file: {error}.",
                    "Choose another model.",
                ) from error
        self._keep(name, merged)
        return merged

    def _kept(self, name: str) -> Header | None:
        if self._folder is None:
            return None
        try:
            raw = json.loads((self._folder / name).read_text("utf-8"))
            return parse(
                json.dumps({key: {"dtype": each[0], "shape": each[1]} for key, each in raw.items()}).encode()
            )
        except (OSError, ValueError, TypeError, LookupError, AttributeError, RecursionError):
            return None

    def _keep(self, name: str, header: Header) -> None:
        if self._folder is None:
            return
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            text = json.dumps({key: [entry.dtype, list(entry.shape)] for key, entry in header.items()})
            replace_text(self._folder / name, text)
        except OSError:
            pass  # it is read again next time
