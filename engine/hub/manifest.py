"""Which files of a repository are needed, and what the hub says about each."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from engine.hub.foreign import LARGEST, json_object
from engine.hub.problems import HubError
from engine.hub.quantisations import SHARD, parts_of, quantisations, usual
from engine.hub.transfer import FileSpec

_TEXTS = re.compile(
    r"(config|generation_config|chat_template|tokenizer_config|special_tokens_map|added_tokens|vocab"
    r"|preprocessor_config|quantize_config|quantization_config|hf_quant_config)\.json$|tokenizer.*\.(json|model)$|.*\.(jinja|tiktoken)$"
    r"|(merges|vocab)\.txt$|.*\.safetensors\.index\.json$|.*\.bin\.index\.json$|(spiece|sentencepiece).*\.model$"
    r"|(LICENSE|LICENCE|NOTICE|USE_POLICY|README|README_.*)(\.\w+)?$",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Manifest:
    """A commit of a repository and the files of it that are needed."""

    repo_id: str
    revision: str
    commit: str
    files: tuple[FileSpec, ...]

    @property
    def size(self) -> int:
        return sum(spec.size for spec in self.files)

    def to_json(self) -> dict[str, Any]:
        files = [[spec.path, spec.size, spec.etag, spec.sha256] for spec in self.files]
        return {"repo": self.repo_id, "revision": self.revision, "commit": self.commit, "files": files}

    @classmethod
    def from_json(cls, raw: dict[str, Any]) -> Manifest:
        """:raises ValueError, KeyError, TypeError: it is not what :meth:`to_json` made."""
        files = tuple(
            FileSpec(_safe_path(path), int(size), _blob_name(etag), sha256)
            for path, size, etag, sha256 in raw["files"]
        )
        return cls(str(raw["repo"]), str(raw["revision"]), _blob_name(raw["commit"]), files)


def _safe_path(path: str) -> str:
    """A path that stays inside its folder on every system. :raises ValueError:"""
    parts = PurePosixPath(path).parts
    bad = not parts or path.startswith("/") or ".." in parts or "\\" in path or ":" in path or "\0" in path
    if bad:
        raise ValueError(f"unsafe path {path!r}")
    return path


def _blob_name(name: str) -> str:
    """A checksum or a commit in hexadecimal, which becomes a file's name. :raises ValueError:"""
    if not re.fullmatch(r"[0-9a-f]{40}|[0-9a-f]{64}", str(name)):
        raise ValueError(f"unsafe name {name!r}")
    return str(name)


def needed(paths: Iterable[str], only: Iterable[str] = ()) -> tuple[str, ...]:
    """The files that loading takes: configuration, tokenizer, licence, and one form of the weights.

    Safetensors go before ``.bin``, ``.bin`` before GGUF; copies in other folders
    (``original/``, ``onnx/``) are left out. ``only`` names files that are wanted
    whatever else there is, with the parts they were split into, and then no other
    weights are taken.
    """
    paths = list(paths)
    here = [path for path in paths if "/" not in path]
    texts = [path for path in here if _TEXTS.match(path)]
    weights = [part for name in only for part in parts_of(name, paths)] or _weights(here, paths)
    return tuple(sorted({*texts, *weights}))


def _weights(paths: list[str], everywhere: list[str]) -> list[str]:
    safe = [path for path in paths if path.endswith(".safetensors")]
    if safe:
        others = [path for path in safe if not path.startswith(("consolidated", "adapter_"))]
        return _one_form(others or safe, "model.safetensors")
    pickled = [
        path for path in paths if path.endswith((".bin", ".pt", ".pth")) and "training_args" not in path
    ]
    if pickled:
        main = [path for path in pickled if path.startswith(("pytorch_model", "model"))]
        chosen = _one_form(main or pickled, "pytorch_model.bin")
        # Medusa keeps its heads apart from the model's configuration.
        return chosen
    quantised = quantisations((path, 0) for path in everywhere)
    return list(usual(quantised).paths) if quantised else []


def _one_form(paths: list[str], single: str) -> list[str]:
    """The single file where there is one beside its own shards."""
    shards = [path for path in paths if SHARD.match(path)]
    return [path for path in paths if path not in shards] if single in paths and shards else paths


def make_manifest(repo_id: str, revision: str, info: Any, only: Iterable[str] = ()) -> Manifest:
    """From the hub's ``model_info(files_metadata=True)``.

    :raises HubError: the hub's description is incomplete, or there is nothing to download.
    """
    siblings = {each.rfilename: each for each in info.siblings or () if isinstance(each.rfilename, str)}
    absent = set(only) - set(siblings)
    if absent:
        raise HubError(f"{repo_id} has no file {sorted(absent)[0]}.", "Look at the list of its files.")
    files = []
    try:
        for path in needed(siblings, only):
            sibling = siblings[path]
            sha256 = sibling.lfs.sha256 if sibling.lfs else None
            size = int(sibling.lfs.size if sibling.lfs else sibling.size)
            if not 0 <= size <= LARGEST:
                raise ValueError(f"size {size}")
            etag = _blob_name(sha256 or sibling.blob_id)
            files.append(FileSpec(_safe_path(path), size, etag, sha256))
        commit = _blob_name(info.sha)
        _safe_path(revision)
    except (ValueError, TypeError, AttributeError) as error:
        raise HubError(f"The hub describes {repo_id} in a way that cannot be used.", "Try later.") from error
    if not any(spec.path.endswith((".safetensors", ".bin", ".pt", ".pth", ".gguf")) for spec in files):
        raise HubError(f"{repo_id} holds no weights that Eyrie can read.", "Choose another repository.")
    return Manifest(repo_id, revision, commit, tuple(files))


def shards_of(index: str) -> set[str]:
    """File names in an index of sharded weights. :raises ValueError: it is not one."""
    found = json_object(index)
    if not isinstance(found.get("weight_map"), dict):
        raise ValueError("no weight_map")
    return {_safe_path(str(name)) for name in found["weight_map"].values()}
