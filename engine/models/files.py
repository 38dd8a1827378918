"""What a user may point at as a model: a folder in the Hugging Face layout, or one GGUF file."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.errors import ModelError
from engine.models.building import Cancelled, Progress
from engine.models.checkpoint import NamedTensors
from engine.models.config import read_config
from engine.models.loading import DOWNLOAD_AGAIN, INDEX, SINGLE, TensorSource
from engine.models.pickled import PickledSource, has_pickled
from engine.paths import name_of


@dataclass(frozen=True)
class ModelFiles:
    """A model whose files are there; no weight is read yet."""

    name: str
    path: Path
    """What the user pointed at."""
    folder: Path
    """Holds config.json, the tokenizer and the chat template."""
    raw: dict[str, Any]
    """config.json"""
    weights: tuple[Path, ...]
    """The files the weights lie in."""

    def tensors(self) -> NamedTensors:
        """:raises ModelError: a file is missing, truncated or damaged."""
        if self.path.is_file():
            from engine.models.gguf_tensors import GGUFTensors

            return GGUFTensors(self.path)
        safe = (self.folder / SINGLE).is_file() or (self.folder / INDEX).is_file()
        if not safe and has_pickled(self.folder):
            return PickledSource(self.folder)
        return TensorSource(self.folder)

    @property
    def quantization(self) -> dict[str, Any] | None:
        """``quantization_config`` of a checkpoint that is quantised already."""
        found = self.raw.get("quantization_config")
        if found is None:
            found = (self.raw.get("text_config") or {}).get("quantization_config")
        old = self.folder / "quantize_config.json"
        if found is None and old.is_file():  # AutoGPTQ's own file, before it was part of the other
            try:
                found = {"quant_method": "gptq", **json.loads(old.read_text(encoding="utf-8"))}
            except (OSError, ValueError, TypeError) as error:
                raise ModelError(f"{old} cannot be read ({error}).", DOWNLOAD_AGAIN) from error
        return found if isinstance(found, dict) else None


def open_model(path: Path, progress: Progress, cancelled: Cancelled) -> ModelFiles:
    """Find out what ``path`` is.

    :raises ModelError: nothing is there, or it lacks what a model needs.
    """
    if path.suffix.lower() == ".gguf" and path.is_file():
        from engine.models.gguf_tensors import prepared_folder

        folder = prepared_folder(path, progress, cancelled)
        return ModelFiles(path.stem, path, folder, read_config(folder), (path,))
    if not path.is_dir():
        what = "is neither a folder nor a .gguf file" if path.exists() else "does not exist"
        raise ModelError(
            f"There is no model folder {path}: it {what}.",
            "Choose a folder that holds a model, or a .gguf file.",
        )
    if not (path / "config.json").is_file():
        inside = sorted(path.glob("*.gguf"))
        if len(inside) == 1:
            return open_model(inside[0], progress, cancelled)
        if inside:
            raise ModelError(
                f"{path} holds {len(inside)} GGUF files.",
                f"Choose one of them, for example {inside[0].name}.",
            )
    weights = sorted(path.glob("*.safetensors")) or sorted(path.glob("*.bin"))
    return ModelFiles(name_of(path), path, path, read_config(path), tuple(weights))
