"""The hub cache as ``huggingface_hub`` lays it out: blobs, snapshots that point at them, refs.

A repository's files are placed all at once, when every one of them is here and its
checksum right: nothing that is half there is ever in a snapshot, for us or for any
other program. ``config.json`` comes last, so that even a kill in between leaves no
folder that looks like a model.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.errors import EngineError
from engine.hub.foreign import json_object
from engine.hub.manifest import Manifest, shards_of
from engine.hub.part import PART, disk_errors, remove_journal, replace_text
from engine.hub.quantisations import Quantised, quantisations

_LONGEST_HEADER = 100 << 20

Unfinished = tuple[str, str, tuple[str, ...]]
"""Repository, commit and files of a download that is not yet whole."""


def repository_folder(cache: Path, repo_id: str) -> Path:
    """Where the cache keeps a model: ``models--owner--name``."""
    return cache / ("models--" + repo_id.replace("/", "--"))


def blobs_folder(cache: Path, repo_id: str) -> Path:
    return repository_folder(cache, repo_id) / "blobs"


def snapshot_folder(cache: Path, manifest: Manifest) -> Path:
    return repository_folder(cache, manifest.repo_id) / "snapshots" / manifest.commit


def prepare(cache: Path, repo_id: str) -> None:
    """The folders that the hub's own tools look for. :raises DiskFull: they cannot be made."""
    top = repository_folder(cache, repo_id)
    with disk_errors(cache):
        for name in ("blobs", "refs", "snapshots"):
            (top / name).mkdir(parents=True, exist_ok=True)


def place(cache: Path, manifest: Manifest) -> Path:
    """Make the snapshot of a manifest whose blobs are all here; its folder.

    :raises DiskFull: the cache cannot be written.
    """
    top = repository_folder(cache, manifest.repo_id)
    folder = snapshot_folder(cache, manifest)
    with disk_errors(cache):
        for spec in sorted(manifest.files, key=lambda spec: spec.path == "config.json"):
            pointer = folder / spec.path
            blob = top / "blobs" / spec.etag
            pointer.parent.mkdir(parents=True, exist_ok=True)
            remove_journal(blob)  # a kill between a file's last two steps leaves its journal
            if not blob.exists() and _size(pointer) == spec.size:
                continue  # moved here before, where links cannot be made
            pointer.unlink(missing_ok=True)
            try:
                os.symlink(os.path.relpath(blob, pointer.parent), pointer)
            except OSError:  # Windows without the right to make links
                os.replace(blob, pointer)
        (top / "refs").mkdir(exist_ok=True)
        if manifest.revision != manifest.commit:
            ref = top / "refs" / manifest.revision
            ref.parent.mkdir(parents=True, exist_ok=True)
            replace_text(ref, manifest.commit)
    return folder


def is_placed(cache: Path, manifest: Manifest) -> bool:
    """Whether every file of the manifest lies in its snapshot, in its size."""
    folder = snapshot_folder(cache, manifest)
    return all(_size(folder / spec.path) == spec.size for spec in manifest.files)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return -1


def delete_unfinished(cache: Path, manifest: Manifest) -> None:
    """Remove what a cancelled download left: parts, and blobs that no snapshot uses."""
    top = repository_folder(cache, manifest.repo_id)
    used = {path.resolve() for path in (top / "snapshots").rglob("*") if path.is_symlink()}
    for spec in manifest.files:
        blob = top / "blobs" / spec.etag
        blob.with_name(blob.name + PART).unlink(missing_ok=True)
        remove_journal(blob)
        if blob.exists() and blob.resolve() not in used:
            blob.unlink()
    with contextlib.suppress(OSError):
        (top / "blobs").rmdir()  # fails where something is left, as it should
        for name in ("snapshots", "refs", "trees"):
            if (top / name).exists():
                (top / name).rmdir()
        top.rmdir()


# --------------------------------------------------------------------------- what is there


@dataclass(frozen=True, slots=True)
class LocalModel:
    """A folder that holds a whole model or head."""

    repo_id: str
    commit: str
    folder: Path
    size: int
    """Bytes on disk."""
    config: dict[str, Any]
    gguf: str = ""
    """The GGUF file below the folder, where the weights are one: the first of its parts."""


def whole(folder: Path, config_needed: bool = True) -> str:
    """Why the folder is no whole model, or "". Sizes are checked against the files' own headers."""
    config = folder / "config.json"
    weights = sorted(folder.glob("*.safetensors"))
    others = [*folder.glob("*.bin"), *folder.glob("*.pt"), *folder.glob("*.pth")]
    if config_needed and not config.exists():
        return "config.json is missing"
    if not (weights or others):
        return "there are no weights"
    for index in (*folder.glob("*.safetensors.index.json"), *folder.glob("*.bin.index.json")):
        if index.name.endswith(".bin.index.json") and weights:
            continue
        try:
            absent = [name for name in shards_of(index.read_text("utf-8")) if not (folder / name).exists()]
        except (OSError, ValueError):
            return f"{index.name} cannot be read"
        if absent:
            return f"{sorted(absent)[0]} is missing"
    for path in weights:
        if not _safetensors_whole(path):
            return f"{path.name} is not whole"
    return next((f"{path.name} is empty" for path in others if _size(path) <= 0), "")


def spoilt(folder: Path) -> str:
    """The name of a weight file that is not what its own header says, or "": it lies so on the hub, too."""
    paths = sorted(folder.glob("*.safetensors"))
    return next((path.name for path in paths if not _safetensors_whole(path)), "")


def gguf_files(folder: Path) -> tuple[Quantised, ...]:
    """The whole GGUF models below a folder, split ones once."""
    sizes = [(path.relative_to(folder).as_posix(), _size(path)) for path in sorted(folder.rglob("*.gguf"))]
    return quantisations((path, size) for path, size in sizes if size > 0)


def _safetensors_whole(path: Path) -> bool:
    """Whether the file is as long as its own header says."""
    try:
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            if not 2 <= length <= _LONGEST_HEADER:
                return False
            header = json_object(file.read(length))
        ends = [entry["data_offsets"][1] for name, entry in header.items() if name != "__metadata__"]
        return path.stat().st_size == 8 + length + max(ends, default=0)
    except (OSError, ValueError, KeyError, TypeError, IndexError, OverflowError):
        return False


def local_models(cache: Path, unfinished: Iterable[Unfinished] = ()) -> tuple[LocalModel, ...]:
    """Every whole model of the cache, newest commit last, without the files of ``unfinished`` downloads."""
    from huggingface_hub import scan_cache_dir
    from huggingface_hub.errors import CacheNotFound

    coming: dict[tuple[str, str], set[str]] = {}
    for repo_id, commit, paths in unfinished:
        coming.setdefault((repo_id, commit), set()).update(paths)
    try:
        scan = scan_cache_dir(cache)
    except (CacheNotFound, ValueError):
        return ()
    found: list[LocalModel] = []
    for repository in sorted(scan.repos, key=lambda each: each.repo_id):
        if repository.repo_type != "model":
            continue
        for revision in sorted(repository.revisions, key=lambda each: each.last_modified):
            folder = Path(revision.snapshot_path)
            left_out = coming.get((repository.repo_id, revision.commit_hash), set())
            named = repository.repo_id, revision.commit_hash, folder
            quantised = gguf_files(folder)
            if not whole(folder) and not any(
                (folder / path).exists() for path in left_out if _is_weights(path)
            ):
                size = revision.size_on_disk - sum(each.size for each in quantised)
                found.append(LocalModel(*named, size, read_config(folder)))
            found += [
                LocalModel(*named, each.size, {}, each.path)
                for each in quantised
                if left_out.isdisjoint(each.paths)
            ]
    return tuple(found)


def _is_weights(path: str) -> bool:
    return path.endswith((".safetensors", ".bin", ".pt", ".pth"))


def read_config(folder: Path) -> dict[str, Any]:
    try:
        return json_object((folder / "config.json").read_bytes())
    except (OSError, ValueError):
        return {}


def delete_model(cache: Path, repo_id: str, commit: str) -> int:
    """Delete a snapshot and the blobs that only it uses; the bytes that were freed.

    :raises EngineError: the cache does not hold it.
    """
    from huggingface_hub import scan_cache_dir

    scan = scan_cache_dir(cache)
    known = {
        revision.commit_hash for each in scan.repos if each.repo_id == repo_id for revision in each.revisions
    }
    if commit not in known:
        raise EngineError(f"The cache does not hold {repo_id} at {commit[:8]}.", "Refresh the list.")
    strategy = scan.delete_revisions(commit)
    freed: int = strategy.expected_freed_size
    strategy.execute()
    return freed
