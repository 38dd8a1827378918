"""What the test hub holds: repositories with commits, and the accounts that may read them."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

LFS_SUFFIXES = (".safetensors", ".gguf", ".bin", ".pt")
_BLOCK = 1 << 20


class HubFile:
    """One file of a commit; its bytes lie in memory or on disk."""

    def __init__(self, path: str, content: bytes | Path) -> None:
        self.path = path
        self.content = content
        self.size = len(content) if isinstance(content, bytes) else content.stat().st_size
        self.lfs = path.endswith(LFS_SUFFIXES)

    @cached_property
    def sha256(self) -> str:
        digest = hashlib.sha256()
        if isinstance(self.content, bytes):
            digest.update(self.content)
        else:
            with self.content.open("rb") as file:
                while block := file.read(_BLOCK):
                    digest.update(block)
        return digest.hexdigest()

    @cached_property
    def pointer(self) -> bytes:
        """The small text that git keeps in the place of a large file."""
        head = f"version https://git-lfs.github.com/spec/v1\noid sha256:{self.sha256}\n"
        return f"{head}size {self.size}\n".encode()

    @cached_property
    def oid(self) -> str:
        """Git's name for the blob: SHA-1 over a header and the bytes (of the pointer for a large file)."""
        data = self.pointer if self.lfs else self.content
        assert isinstance(data, bytes), "only large files lie on disk"
        return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()

    @property
    def etag(self) -> str:
        return self.sha256 if self.lfs else self.oid

    def read(self, start: int, end: int) -> bytes:
        if isinstance(self.content, bytes):
            return self.content[start:end]
        with self.content.open("rb") as file:
            file.seek(start)
            return file.read(end - start)

    def sibling(self, blobs: bool) -> dict[str, Any]:
        entry: dict[str, Any] = {"rfilename": self.path}
        if blobs:
            entry |= {"size": self.size, "blobId": self.oid}
            if self.lfs:
                entry["lfs"] = {"sha256": self.sha256, "size": self.size, "pointerSize": len(self.pointer)}
        return entry

    def tree_entry(self) -> dict[str, Any]:
        entry: dict[str, Any] = {"type": "file", "oid": self.oid, "size": self.size, "path": self.path}
        if self.lfs:
            entry["lfs"] = {"oid": self.sha256, "size": self.size, "pointerSize": len(self.pointer)}
        return entry


@dataclass(frozen=True)
class Account:
    """Who a token belongs to. ``accepted`` are the gated repositories whose licence was accepted."""

    name: str
    accepted: frozenset[str] = frozenset()
    gated_right: bool = True
    """False: a fine-grained token without the right to read gated repositories."""


@dataclass
class Repository:
    repo_id: str
    files: dict[str, bytes | Path]
    gated: bool = False
    licence: str = "apache-2.0"
    tags: tuple[str, ...] = ()
    base_models: tuple[str, ...] = ()
    downloads: int = 10
    likes: int = 1
    last_modified: str = "2026-10-01T12:00:00.000Z"
    parameters: int | None = None
    """Told in ``safetensors``; None leaves it out."""
    commits: dict[str, dict[str, HubFile]] = field(default_factory=dict)
    refs: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.commit(self.files)

    def commit(self, files: dict[str, bytes | Path], ref: str = "main") -> str:
        """A new commit under ``ref``; its name."""
        made = {path: HubFile(path, content) for path, content in files.items()}
        names = json.dumps([self.repo_id, sorted((path, file.etag) for path, file in made.items())])
        sha = hashlib.sha1(names.encode()).hexdigest()
        self.commits[sha] = made
        self.refs[ref] = sha
        return sha

    @property
    def head(self) -> str:
        return self.refs["main"]

    def resolve(self, revision: str) -> str | None:
        """The commit that a branch, a tag or a commit names."""
        if revision in self.commits:
            return revision
        return self.refs.get(revision.removeprefix("refs/heads/"))

    def all_tags(self) -> list[str]:
        named = [f"license:{self.licence}", *(f"base_model:{base}" for base in self.base_models)]
        if any(path.endswith(".safetensors") for path in self.files):
            named.append("safetensors")
        return [*self.tags, *named]

    def config(self) -> dict[str, Any]:
        raw = self.commits[self.head].get("config.json")
        try:
            found = json.loads(raw.content) if raw and isinstance(raw.content, bytes) else {}
        except ValueError:
            found = {}
        return found if isinstance(found, dict) else {}

    def info(self, sha: str, blobs: bool, files: bool = True) -> dict[str, Any]:
        """The answer of ``/api/models/…``, with the fields that clients read."""
        card: dict[str, Any] = {"license": self.licence}
        if self.base_models:
            card["base_model"] = list(self.base_models)
        answer: dict[str, Any] = {
            "_id": hashlib.sha1(self.repo_id.encode()).hexdigest()[:24],
            "id": self.repo_id,
            "modelId": self.repo_id,
            "author": self.repo_id.partition("/")[0],
            "sha": sha,
            "lastModified": self.last_modified,
            "createdAt": "2026-01-01T00:00:00.000Z",
            "private": False,
            "disabled": False,
            "gated": "auto" if self.gated else False,
            "downloads": self.downloads,
            "likes": self.likes,
            "tags": self.all_tags(),
            "pipeline_tag": "text-generation",
            "library_name": "transformers",
            "cardData": card,
            "config": {key: self.config().get(key) for key in ("architectures", "model_type")},
        }
        if self.parameters is not None and any(path.endswith(".gguf") for path in self.commits[sha]):
            answer["gguf"] = {"total": self.parameters, "architecture": "llama", "context_length": 4096}
        elif self.parameters is not None:
            answer["safetensors"] = {"parameters": {"BF16": self.parameters}, "total": self.parameters}
        if files:
            answer["siblings"] = [file.sibling(blobs) for file in self.commits[sha].values()]
        return answer
