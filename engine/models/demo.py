"""The demo model: Gemma 3 270M from a pip package, converted once.

It needs no network after installation. The package carries a GGUF file in
chunks; every chunk and the whole are checked against the checksums in
``resources/models/demo.json`` before anything is made of them.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import os
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from engine.errors import ModelError
from engine.models.building import (
    Cancelled,
    ConversionCancelled,
    Progress,
    disk_errors,
    folder_lock,
    never,
    quiet,
    require_space,
    scratch_folder,
)
from engine.paths import cache_folder
from engine.prompting import STOPS_FILE

INSTALL = "Run `python packaging/bootstrap.py` in the folder of Eyrie to install it."
INSTALL_AGAIN = "Run `python packaging/bootstrap.py --repair` in the folder of Eyrie to install it again."

_BLOCK = 1 << 20  # bytes


@dataclass(frozen=True, slots=True)
class Chunk:
    """A part of the GGUF file and the module that carries it, in the module's folder ``data``."""

    module: str
    file: str
    size: int
    """In bytes."""
    sha256: str


@dataclass(frozen=True, slots=True)
class Demo:
    """What ``resources/models/demo.json`` says."""

    name: str
    package: str
    """As pip calls it."""
    file: str
    size: int
    """Of the whole GGUF file, in bytes."""
    sha256: str
    chunks: tuple[Chunk, ...]
    licence_name: str
    licence_file: str
    chat_template: str
    """Source of the few-shot template."""
    generation: dict[str, Any]
    """Content of ``generation_config.json``."""
    stop_strings: tuple[str, ...]

    @classmethod
    def load(cls) -> Demo:
        resources = files("resources")
        about = json.loads(resources.joinpath("models", "demo.json").read_text(encoding="utf-8"))
        return cls(
            name=about["name"],
            package=about["package"],
            file=about["file"],
            size=about["bytes"],
            sha256=about["sha256"],
            chunks=tuple(Chunk(c["module"], c["file"], c["bytes"], c["sha256"]) for c in about["chunks"]),
            licence_name=about["licence"]["name"],
            licence_file=about["licence"]["file"],
            chat_template=resources.joinpath("chat_templates", about["chat_template"]).read_text(
                encoding="utf-8"
            ),
            generation={
                "bos_token_id": about["bos_token_id"],
                "eos_token_id": about["eos_token_ids"],
                "pad_token_id": about["pad_token_id"],
            },
            stop_strings=tuple(about["stop_strings"]),
        )


def demo_folder(progress: Progress = quiet, cancelled: Cancelled = never) -> Path:
    """The demo model as a folder in the Hugging Face layout, below :func:`engine.paths.cache_folder`.

    The first call takes a minute and needs 1.4 GB; later ones look at a manifest
    and return at once. Safe from several processes.

    :raises ModelError: the package is missing or damaged.
    :raises ResourceError: the disk is too small or cannot be written.
    :raises ConversionCancelled: ``cancelled`` returned true; nothing is left behind.
    """
    from engine.models.gguf import convert, is_complete

    demo = Demo.load()
    folder = cache_folder() / "models" / f"demo-{demo.sha256[:12]}"
    if not is_complete(folder, demo.sha256):
        chunks = _chunk_paths(demo)  # a missing package is told before anything is waited for
        with folder_lock(folder, progress, cancelled):
            if not is_complete(folder, demo.sha256):  # another process may have been faster
                with scratch_folder(folder, "source") as place:
                    source = place / demo.file
                    _assemble(demo, chunks, source, progress, cancelled)

                    def later(message: str, fraction: float | None) -> None:
                        progress(message, None if fraction is None else 0.1 + 0.9 * fraction)

                    convert(source, folder, demo.sha256, later, cancelled)
    _keep_current(folder / "chat_template.jinja", demo.chat_template)
    _keep_current(folder / "generation_config.json", json.dumps(demo.generation, indent=2))
    _keep_current(folder / STOPS_FILE, json.dumps({"stop_strings": demo.stop_strings}, indent=2))
    return folder


def demo_licence() -> tuple[str, str]:
    """Name and plain text of the terms the demo model comes under."""
    demo = Demo.load()
    text = files("resources").joinpath("licences", demo.licence_file).read_text(encoding="utf-8")
    return demo.licence_name, text


# --------------------------------------------------------------------------- the package


def _chunk_paths(demo: Demo) -> tuple[Path, ...]:
    """Where the chunks lie; their sizes are checked.

    :raises ModelError: the package or one of its parts is not installed, or a chunk has another size.
    """
    paths = []
    for chunk in demo.chunks:
        try:
            path = Path(str(files(importlib.import_module(chunk.module)))) / "data" / chunk.file
        except ImportError:
            raise ModelError(
                f"The package {demo.package} with the demo model is not installed ({chunk.module} is missing).",
                INSTALL,
            ) from None
        try:
            size = path.stat().st_size
        except OSError:
            raise ModelError(f"A part of the demo model is missing: {path}.", INSTALL_AGAIN) from None
        if size != chunk.size:
            raise ModelError(
                f"A part of the demo model is damaged: {path} has {size:,} bytes where {chunk.size:,} are expected.",
                INSTALL_AGAIN,
            )
        paths.append(path)
    return tuple(paths)


def _assemble(
    demo: Demo, paths: Sequence[Path], target: Path, progress: Progress, cancelled: Cancelled
) -> None:
    """Join the chunks into the GGUF file and check every checksum on the way."""
    whole = hashlib.sha256()
    done = 0
    require_space(target.parent, demo.size)
    with disk_errors(target.parent, demo.size), target.open("wb") as out:
        for chunk, path in zip(demo.chunks, paths, strict=True):
            part = hashlib.sha256()
            for block in _blocks(path):
                if cancelled():
                    raise ConversionCancelled
                part.update(block)
                whole.update(block)
                done += out.write(block)
                progress("Checking the demo model", 0.1 * done / demo.size)
            if part.hexdigest() != chunk.sha256:
                raise _damaged(path, part.hexdigest(), chunk.sha256)
    if done != demo.size or whole.hexdigest() != demo.sha256:
        raise _damaged(Path(demo.file), whole.hexdigest(), demo.sha256)


def _blocks(path: Path) -> Iterator[bytes]:
    try:
        with path.open("rb") as file:
            while block := file.read(_BLOCK):
                yield block
    except OSError as error:
        raise ModelError(f"{path} cannot be read ({error.strerror or error}).", INSTALL_AGAIN) from error


def _damaged(path: Path, found: str, expected: str) -> ModelError:
    return ModelError(
        f"A part of the demo model is damaged: {path} has the SHA-256 {found[:12]}… where {expected[:12]}… is expected.",
        INSTALL_AGAIN,
    )


def _keep_current(path: Path, text: str) -> None:
    """These files follow this version of Eyrie, the rest follows the model."""
    try:
        if path.read_bytes() == text.encode("utf-8"):
            return
    except FileNotFoundError:
        pass
    with disk_errors(path.parent):
        descriptor, name = tempfile.mkstemp(dir=path.parent)
        with open(descriptor, "w", encoding="utf-8", newline="\n") as out:
            out.write(text)
        os.replace(name, path)
