"""The hub cache as ``huggingface_hub`` lays it out: blobs, snapshots that point at them, refs.

A repository's files are placed all at once, when every one of them is here and its
checksum right: nothing that is half there is ever in a snapshot, for us or for any
other program. ``config.json`` comes last, so that even a kill in between leaves no
folder that looks like a model.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from engine.errors import EngineError
from engine.hub.foreign import json_object
from engine.hub.manifest import Manifest, shards_of
from engine.hub.part import PART, deleted_meanwhile, disk_errors, remove_journal, replace_text
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
    uses = Counter(spec.etag for spec in manifest.files)
    with disk_errors(cache):
        for spec in sorted(manifest.files, key=lambda spec: spec.path == "config.json"):
            pointer = folder / spec.path
            blob = top / "blobs" / spec.etag
            uses[spec.etag] -= 1
            if _size(pointer) == spec.size and (not blob.exists() or pointer.samefile(blob)):
                continue  # it is here already, or was moved here, where links cannot be made
            if _size(blob) != spec.size:
                raise deleted_meanwhile(spec.path)
            pointer.parent.mkdir(parents=True, exist_ok=True)
            remove_journal(blob)  # a kill between a file's last two steps leaves its journal
            pointer.unlink(missing_ok=True)
            try:
                os.symlink(os.path.relpath(blob, pointer.parent), pointer)
            except OSError:  # Windows without the right to make links
                if uses[spec.etag]:  # two files of the same bytes
                    shutil.copyfile(blob, pointer)
                else:
                    os.replace(blob, pointer)
        (top / "refs").mkdir(exist_ok=True)
        ref = top / "refs" / manifest.revision
        if manifest.revision != manifest.commit and _text(ref) != manifest.commit:
            ref.parent.mkdir(parents=True, exist_ok=True)
            replace_text(ref, manifest.commit)
    return folder


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except (OSError, ValueError):
        return ""


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
    """Every whole model of the cache, newest commit last, without the files of ``unfinished`` downloads.

    Looked for here and not by the library's scan, which leaves out every commit of a repository
    where one link leads nowhere, and ends where one folder cannot be read.
    """
    coming: dict[tuple[str, str], set[str]] = {}
    for repo_id, commit, paths in unfinished:
        coming.setdefault((repo_id, commit), set()).update(paths)
    found: list[LocalModel] = []
    for top in _inside(cache):
        kind, _, name = top.name.partition("--")
        if kind != "models" or not name:
            continue
        repo_id = name.replace("--", "/")
        for _, folder, sizes in sorted(_snapshots(top)):
            left_out = coming.get((repo_id, folder.name), set())
            with contextlib.suppress(OSError):  # of the others something can be said
                found += _models_in(repo_id, folder, sizes, left_out)
    return tuple(found)


def _inside(folder: Path) -> list[Path]:
    """What a folder holds, in order; nothing where it cannot be read."""
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []


def _snapshots(top: Path) -> list[tuple[float, Path, int]]:
    """Of a repository: (when its newest file was written, folder, bytes of its files, each blob once)."""
    found = []
    for folder in _inside(top / "snapshots"):
        blobs: dict[tuple[int, int], os.stat_result] = {}
        for place, _, names in os.walk(folder):
            for name in names:
                with contextlib.suppress(OSError):  # a link that leads nowhere
                    stat = os.stat(os.path.join(place, name))
                    blobs[stat.st_dev, stat.st_ino] = stat
        if blobs:
            newest = max(stat.st_mtime for stat in blobs.values())
            found.append((newest, folder, sum(stat.st_size for stat in blobs.values())))
    return found


def _models_in(repo_id: str, folder: Path, size: int, left_out: set[str]) -> Iterator[LocalModel]:
    """:raises OSError: the folder cannot be read."""
    quantised = gguf_files(folder)
    if not whole(folder) and not any((folder / path).exists() for path in left_out if _is_weights(path)):
        rest = size - sum(each.size for each in quantised)
        yield LocalModel(repo_id, folder.name, folder, rest, read_config(folder))
    for each in quantised:
        if left_out.isdisjoint(each.paths):
            yield LocalModel(repo_id, folder.name, folder, each.size, {}, each.path)


def _is_weights(path: str) -> bool:
    return path.endswith((".safetensors", ".bin", ".pt", ".pth"))


def read_config(folder: Path) -> dict[str, Any]:
    try:
        return json_object((folder / "config.json").read_bytes())
    except (OSError, ValueError):
        return {}


def delete_model(cache: Path, repo_id: str, commit: str) -> int:
    """Delete a snapshot and the blobs that only it uses; the bytes that were freed.

    :raises EngineError: the cache does not hold it, or it cannot be deleted.
    """
    from huggingface_hub import scan_cache_dir

    top = repository_folder(cache, repo_id)
    if any((top / "blobs").glob(f"*{PART}")):  # the library deletes them with the last snapshot
        raise EngineError(
            f"{repo_id} has an unfinished download, which would be deleted with it.",
            "Let the download finish or cancel it, then delete the model.",
        )
    freed = None
    try:
        scan = scan_cache_dir(cache)
        mine = [each for each in scan.repos if each.repo_path.name == top.name]
        if commit in {revision.commit_hash for each in mine for revision in each.revisions}:
            # Of this repository alone: a copy of it under another name has the same commits.
            strategy = replace(scan, repos=frozenset(mine)).delete_revisions(commit)
            freed = int(strategy.expected_freed_size)
            strategy.execute()
    except (OSError, ValueError) as error:  # also of another repository, which cannot be read
        words = f"{error.strerror}: {error.filename}" if isinstance(error, OSError) else str(error)
        raise _undeleted(f"{repo_id} cannot be deleted: {words}.", top) from error
    if freed is None and not (top / "snapshots" / commit).exists():
        raise EngineError(f"The cache does not hold {repo_id} at {commit[:8]}.", "Refresh the list.")
    if freed is None:
        raise _undeleted(f"{repo_id} cannot be deleted: some of its files are missing.", top)
    if (top / "snapshots" / commit).exists():  # of which the library only tells its log
        raise _undeleted(f"{repo_id} cannot be deleted: its files are in use, or protected.", top)
    return freed


def _undeleted(message: str, top: Path) -> EngineError:
    return EngineError(
        message,
        f"Close what uses it and check the permissions of the cache, or delete the folder {top} yourself.",
    )
