"""Converts a GGUF file once into a model folder in the Hugging Face layout, in float32.

The folder holds ``config.json``, ``model.safetensors``, the tokenizer and
``conversion.json``, a manifest with the checksum of the source. It is built
beside its final place and moved there at the end, so a folder with a manifest is
complete, whatever was killed when (:mod:`engine.models.building`).

Numbers are exactly those of ``transformers``' own GGUF import.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from engine.errors import ModelError
from engine.models.building import (
    Cancelled,
    ConversionCancelled,
    Progress,
    building,
    disk_errors,
    folder_lock,
    never,
    quiet,
    require_space,
)
from engine.models.gguf_architectures import ARCHITECTURES, Architecture
from engine.models.gguf_file import GGUFFile
from engine.models.gguf_tokenizer import special_ids

CONVERTER_VERSION = 1
"""Raise it when the written files change: older conversions are made anew."""
MANIFEST = "conversion.json"

_BLOCK = 1 << 20  # bytes read or written between two looks at ``cancelled``
_SMALL_FILES = 64 << 20  # bytes to keep free for the tokenizer and the configuration


def convert_once(
    source: Path, folder: Path, progress: Progress = quiet, cancelled: Cancelled = never
) -> None:
    """Make ``folder`` from the GGUF file ``source`` unless it is there already; safe from several processes.

    :raises ModelError: the file is missing or damaged, or its architecture cannot be converted.
    :raises ResourceError: the disk is too small or cannot be written.
    :raises ConversionCancelled: ``cancelled`` returned true.
    """
    progress("Checking the file", None)
    try:
        sha256 = sha256_of(source, cancelled)
    except OSError as error:
        raise ModelError(
            f"{source} cannot be read ({error.strerror or error}).", "Download the model again."
        ) from error
    if not is_complete(folder, sha256):
        with folder_lock(folder, progress, cancelled):
            if not is_complete(folder, sha256):  # another process may have been faster
                convert(source, folder, sha256, progress, cancelled)


def convert(
    source: Path, folder: Path, sha256: str, progress: Progress = quiet, cancelled: Cancelled = never
) -> None:
    """Make ``folder`` from the GGUF file ``source``, whose checksum is ``sha256``; replaces what is there.

    Peak memory is some 50 MB above that of the tokenizer. Hold :func:`folder_lock` meanwhile.

    :raises ModelError: the file is damaged, or its architecture cannot be converted.
    :raises ResourceError: the disk is too small or cannot be written.
    :raises ConversionCancelled: ``cancelled`` returned true.
    """
    with GGUFFile(source) as file, building(folder) as place:
        architecture = architecture_of(file)
        shapes = architecture.checked_shapes(file)
        size = 4 * sum(math.prod(shape) for _, shape in shapes.values())
        require_space(place, size + _SMALL_FILES)
        with disk_errors(place, size):
            progress("Converting the tokenizer", 0.0)
            tokenizer = architecture.tokenizer(file)
            write_json(place / "tokenizer.json", tokenizer)
            write_json(place / "config.json", architecture.config(file))
            for name, content in settings_of(file, architecture.tokenizer_class).items():
                write_json(place / name, content)
            _write_tensors(file, architecture, shapes, place / "model.safetensors", progress, cancelled)
            write_manifest(place, {"name": source.name, "bytes": file.size, "sha256": sha256})
    progress("The model is ready", 1.0)


def architecture_of(file: GGUFFile) -> Architecture:
    """:raises ModelError: no table says how to convert this kind of model."""
    name = file.text("general.architecture")
    if name not in ARCHITECTURES:
        raise ModelError(
            f"{file.path.name} is a {name} model; only {', '.join(sorted(ARCHITECTURES))} can be read from GGUF.",
            "Choose the safetensors version of this model.",
        )
    return ARCHITECTURES[name]


# --------------------------------------------------------------------------- complete or not


def is_complete(folder: Path, sha256: str) -> bool:
    """Whether ``folder`` was converted from this source by this converter and still has all its files."""
    try:
        manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        return bool(
            manifest["converter"] == CONVERTER_VERSION
            and manifest["source"]["sha256"] == sha256
            and manifest["files"]
            and all((folder / name).stat().st_size == size for name, size in manifest["files"].items())
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False


def write_manifest(folder: Path, source: Mapping[str, object]) -> None:
    """Note the sizes of the large files; the small ones may be edited without harm."""
    files = {
        name: (folder / name).stat().st_size
        for name in ("model.safetensors", "tokenizer.json", "config.json")
    }
    write_json(folder / MANIFEST, {"converter": CONVERTER_VERSION, "source": dict(source), "files": files})


def sha256_of(path: Path, cancelled: Cancelled = never) -> str:
    """:raises ConversionCancelled: ``cancelled`` returned true."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            if cancelled():
                raise ConversionCancelled
            digest.update(block)
    return digest.hexdigest()


# --------------------------------------------------------------------------- writing


def _write_tensors(
    file: GGUFFile,
    architecture: Architecture,
    shapes: Mapping[str, tuple[str, tuple[int, ...]]],
    path: Path,
    progress: Progress,
    cancelled: Cancelled,
) -> None:
    """One safetensors file, tensor after tensor and a few rows at a time."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name, (_, shape) in shapes.items():
        start, end = end, end + 4 * math.prod(shape)
        header[name] = {"dtype": "F32", "shape": list(shape), "data_offsets": [start, end]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    done = 0
    with path.open("wb") as out:
        out.write(struct.pack("<Q", len(text)) + text)
        for name, (stored, _) in shapes.items():
            for rows in file.rows(stored):
                if cancelled():
                    raise ConversionCancelled
                numbers = rows - architecture.norm_offset if name.endswith("norm.weight") else rows
                done += out.write(numbers.astype("<f4", copy=False).tobytes())
                progress("Converting the weights", 0.05 + 0.94 * done / end)
        out.flush()
        os.fsync(out.fileno())


def settings_of(file: GGUFFile, tokenizer_class: str) -> dict[str, dict[str, Any]]:
    """``tokenizer_config.json`` and ``generation_config.json``."""
    tokens = file.texts("tokenizer.ggml.tokens")
    ids = special_ids(file)
    settings: dict[str, Any] = {name: tokens[number] for name, number in ids.items()}
    settings["tokenizer_class"] = tokenizer_class
    settings["model_max_length"] = file.whole(f"{file.text('general.architecture')}.context_length")
    if "tokenizer.chat_template" in file.metadata:
        settings["chat_template"] = file.text("tokenizer.chat_template")
    ends = [ids[name] for name in ("eos_token",) if name in ids]
    for key in ("tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id"):
        if key in file.metadata:
            ends.append(file.whole(key))
    generation = {
        "bos_token_id": ids.get("bos_token"),
        "eos_token_id": list(dict.fromkeys(ends)),
        "pad_token_id": ids.get("pad_token"),
    }
    return {"tokenizer_config.json": settings, "generation_config.json": generation}


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    # The tokenizer has a quarter of a million entries: one line is a third of the size of an indented one.
    large = path.name == "tokenizer.json"
    separators = (",", ":") if large else None
    text = json.dumps(content, ensure_ascii=False, indent=None if large else 2, separators=separators)
    with path.open("w", encoding="utf-8", newline="\n") as out:
        out.write(text)
        out.flush()
        os.fsync(out.fileno())
