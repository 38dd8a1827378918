"""A GGUF file as a model: its tensors under Hugging Face names, and a small folder for the rest.

Weights stay in the file and are turned into numbers one tensor at a time. Configuration,
tokenizer and chat template go into a folder in the cache, made once.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from engine.errors import ModelError
from engine.models.building import Cancelled, Progress, building, disk_errors, folder_lock
from engine.models.gguf import settings_of, write_json
from engine.models.gguf_families import EXPERTS, GGUFFamily, family_of
from engine.models.gguf_file import DOWNLOAD_AGAIN, GGUFFile
from engine.models.gguf_tokenizer import gemma_tokenizer
from engine.paths import cache_folder

VERSION = 1
"""Raise it when the folder's files change."""


class GGUFTensors:
    """Satisfies :class:`engine.models.checkpoint.NamedTensors`. Numbers come in float32."""

    mapped = False

    def __init__(self, path: Path) -> None:
        """:raises ModelError: the file is damaged, or of a kind that is not known."""
        self._file = GGUFFile(path)
        self._family = family_of(self._file)
        config = self._family.config(self._file)
        self._heads = {
            "self_attn.q_proj": int(config["num_attention_heads"]),
            "self_attn.k_proj": int(config["num_key_value_heads"]),
        }
        self._names = self._family.names(self._file)
        self._experts = _expert_names(self._file, int(config.get("num_local_experts", 0)))

    def names(self) -> tuple[str, ...]:
        return (*self._names, *self._experts)

    def get(self, name: str) -> Tensor:
        """:raises ModelError: there is no such tensor, or its quantisation cannot be undone."""
        if name in self._experts:
            stored, expert = self._experts[name]
            return self._expert(stored, expert)
        if name not in self._names:
            raise ModelError(f"{self._file.path} lacks the tensor {name}.", DOWNLOAD_AGAIN)
        stored = self._names[name]
        tensor = self._numbers(stored)
        if name.endswith("norm.weight") and self._family.norm_offset:
            tensor -= self._family.norm_offset
        if self._family.paired_rows:
            for module, heads in self._heads.items():
                if f".{module}." in name:
                    return _halves(tensor, heads)
        return tensor

    def _numbers(self, stored: str) -> Tensor:
        shape = self._file.tensors[stored].shape
        out = torch.empty(shape, dtype=torch.float32)
        flat, done = out.view(-1), 0
        for rows in self._file.rows(stored):
            part = torch.from_numpy(np.ascontiguousarray(rows)).view(-1)
            flat[done : done + part.numel()] = part
            done += part.numel()
        return out

    def _expert(self, stored: str, expert: int) -> Tensor:
        """One expert's matrix; the others are passed over, not kept."""
        _, out, width = self._file.tensors[stored].shape
        matrix = torch.empty(out, width)
        first, last, row = expert * out, (expert + 1) * out, 0
        for rows in self._file.rows(stored):
            begin, end = max(first, row), min(last, row + len(rows))
            if begin < end:
                piece = np.ascontiguousarray(rows[begin - row : end - row])
                matrix[begin - first : end - first] = torch.from_numpy(piece)
            row += len(rows)
            if row >= last:
                break
        return matrix


def _halves(tensor: Tensor, heads: int) -> Tensor:
    """Undo llama.cpp's order of rows: pairs (i, i + d/2) apart again, as Hugging Face has them."""
    pairs = tensor.view(heads, tensor.shape[0] // heads // 2, 2, *tensor.shape[1:])
    return pairs.transpose(1, 2).reshape(tensor.shape)


def _expert_names(file: GGUFFile, experts: int) -> dict[str, tuple[str, int]]:
    found: dict[str, tuple[str, int]] = {}
    for stored in file.tensors:
        part = stored.split(".")
        if part[0] == "blk" and len(part) == 4 and part[2] in EXPERTS:
            base = f"model.layers.{part[1]}.block_sparse_moe.experts."
            for expert in range(experts):
                found[f"{base}{expert}.{EXPERTS[part[2]]}.weight"] = stored, expert
    return found


# --------------------------------------------------------------------------- the folder beside


def prepared_folder(path: Path, progress: Progress, cancelled: Cancelled) -> Path:
    """The folder with configuration and tokenizer of the GGUF file ``path``, made unless it is there.

    :raises ModelError: the file is damaged, or of a kind that is not known.
    :raises ResourceError: the disk is full or cannot be written.
    :raises ConversionCancelled: ``cancelled`` returned true.
    """
    status = path.stat()
    digest = hashlib.sha256(f"{VERSION}|{path.resolve()}|{status.st_size}|{status.st_mtime_ns}".encode())
    folder = cache_folder() / "gguf" / f"{path.stem[:60]}-{digest.hexdigest()[:12]}"
    if (folder / "config.json").is_file():
        return folder
    with folder_lock(folder, progress, cancelled):
        if not (folder / "config.json").is_file():
            with GGUFFile(path) as file, building(folder) as place, disk_errors(place):
                family = family_of(file)
                progress("Converting the tokenizer", None)
                write_json(place / "tokenizer.json", _tokenizer(file, family))
                write_json(place / "config.json", family.config(file))
                for name, content in settings_of(file, family.tokenizer_class).items():
                    write_json(place / name, content)
    return folder


def _tokenizer(file: GGUFFile, family: GGUFFamily) -> dict[str, Any]:
    """Content of ``tokenizer.json``: by our own table for Gemma 3, by transformers' for the rest."""
    arch = file.text("general.architecture")
    if arch == "gemma3":
        return gemma_tokenizer(file)
    from transformers.integrations.gguf.gguf_tokenizer_mapping import (
        GGUF_TOKENIZER_MAPPING,
        convert_gguf_tokenizer,
    )

    known: dict[str, Any] = {}
    for key, name in GGUF_TOKENIZER_MAPPING["tokenizer"].items():
        value = file.metadata.get(f"tokenizer.{key}")
        if value is not None:
            known[name] = value.tolist() if isinstance(value, np.ndarray) else value
    try:
        backend, _ = convert_gguf_tokenizer(arch, known)
    except (KeyError, ValueError, TypeError) as error:
        raise ModelError(
            f"The tokenizer in {file.path} cannot be converted ({error}).",
            "Choose the safetensors version of this model.",
        ) from error
    content: dict[str, Any] = json.loads(backend.to_str())
    return content
