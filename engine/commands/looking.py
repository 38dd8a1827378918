"""What ``inspect`` looks at: a folder, a repository in this machine's cache, or one on the hub.

Of a repository that is not here only its configuration and the headers of its files are
read, some kilobytes; nothing is downloaded.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.errors import EngineError, HeadError, ModelError
from engine.heads.facts import HeadFacts, TargetFacts
from engine.heads.files import CONFIG, Stored, read_json, stored_tensors
from engine.heads.formats import recognise
from engine.heads.thoughts import template_in, template_of

TEMPLATE = "chat_template.jinja"
TOKENIZER_CONFIG = "tokenizer_config.json"
_MARKS = ("draft_vocab_size", "truncated_vocab_size", "eagle_config", "speculators_model_type", "medusa_num_heads")


@dataclass(frozen=True)
class Looked:
    """A model or a head, as far as it shows without its weights."""

    name: str
    """For people, and for telling a model by its name: a folder or a repository."""
    raw: dict[str, Any]
    """``config.json``."""
    stored: dict[str, Stored] | None
    """Shapes and types of its tensors; None where they are in files that cannot be looked into from afar."""
    template: str
    is_head: bool
    folder: Path | None
    """None where it is not on this machine."""
    files: tuple[tuple[str, int], ...] = ()
    """(name, bytes) of the weights of a repository that is not here."""

    @property
    def repo_id(self) -> str:
        """The repository, "" for a folder that is none."""
        return self.name if _is_repository(self.name) else ""

    def target(self) -> TargetFacts:
        """Raises ModelError when its configuration has no shape."""
        return TargetFacts.from_config(self.raw, self.name, self.template)

    def head(self) -> HeadFacts:
        """Raises HeadError for what is no head."""
        return HeadFacts.from_files(self.raw, self.stored, self.name)


def look(name: str) -> Looked:
    """Raises EngineError with what to do: there is no such folder and no such repository, here or on the
    hub, or the hub is not asked or not reached."""
    path = Path(name).expanduser()
    if path.is_dir():
        return _folder(path, str(path))
    from engine.hub.finding import repository_in

    name = repository_in(name) or name
    if not _is_repository(name):
        raise ModelError(
            f"There is no folder {name}.", "Give a folder, a .gguf file, or a repository such as Qwen/Qwen3-1.7B."
        )
    from engine.hub.local import cached
    from engine.hub.place import HubPlace

    for entry in cached(HubPlace.from_environment().cache):
        if entry.repo_id.lower() == name.lower() and Path(entry.path).is_dir():
            return _folder(Path(entry.path), entry.repo_id)
    return _on_the_hub(name)


def _is_repository(name: str) -> bool:
    return re.fullmatch(r"[\w.-]+/[\w.-]+", name) is not None


def _folder(path: Path, name: str) -> Looked:
    try:
        raw: dict[str, Any] = read_json(path / CONFIG)
    except HeadError as error:
        raise ModelError(error.message, "Choose a folder that holds a whole model or head.") from error
    try:
        stored: dict[str, Stored] | None = stored_tensors(path)
    except HeadError:
        stored = None  # said in full where the folder is read as what it is
    return Looked(name, raw, stored, template_in(path), _is_head(raw, stored), path)


def _is_head(raw: dict[str, Any], stored: dict[str, Stored] | None) -> bool:
    """Whether it is a head, whole or damaged, rather than a target."""
    if any(mark in raw for mark in _MARKS):
        return True
    try:
        recognise(raw, stored or {})
    except HeadError:
        return False
    return True


# --------------------------------------------------------------------------- on the hub


def _on_the_hub(name: str) -> Looked:
    from engine.hub.api import HubApi
    from engine.hub.connection import Connection
    from engine.hub.place import HubPlace
    from engine.hub.problems import HubError, OfflineError, UnreachableError
    from engine.hub.tokens import Tokens

    place, tokens = HubPlace.from_environment(), Tokens()
    connection = Connection(place, tokens)
    try:
        return _remote(HubApi(place, tokens, connection), name)
    except OfflineError as error:
        raise EngineError(
            f"{name} is no folder and no repository on this machine. {error.message}",
            f"Unset HF_HUB_OFFLINE to look at it on the hub, or download it where there is a network: {_download(name)}",
        ) from error
    except UnreachableError as error:
        raise EngineError(
            f"{name} is no folder and no repository on this machine. {error.message}",
            f"{error.next_step} What is downloaded can be looked at without the hub: {_download(name)}",
        ) from error
    except HubError as error:
        raise EngineError(error.message, f"{error.next_step}\n{error.link}".strip()) from error
    finally:
        connection.close()


def _download(name: str) -> str:
    return f"python -m engine download {name}"


def _remote(api: Any, name: str) -> Looked:
    from engine.hub.headers import RemoteHeaders
    from engine.hub.local import is_head
    from engine.hub.manifest import make_manifest
    from engine.hub.problems import HubError

    manifest = make_manifest(name, "main", api.info(name, files=True))
    there = {spec.path for spec in manifest.files}

    def text(path: str) -> str:
        if path not in there:
            return ""
        content: bytes = api.small_file(name, manifest.commit, path)
        return content.decode("utf-8", "replace")

    weights = tuple((spec.path, spec.size) for spec in manifest.files if _holds_weights(spec.path))
    try:
        raw = json.loads(text(CONFIG) or "{}")
    except ValueError as error:
        raise HubError(f"config.json of {name} is not JSON: {error}.", "Choose another repository.") from error
    raw = raw if isinstance(raw, dict) else {}
    header = RemoteHeaders(api).of(manifest)
    stored = None if header is None else {key: Stored(each.shape, each.dtype) for key, each in header.items()}
    tokenizer = bool(there & {"tokenizer.json", "tokenizer.model", TOKENIZER_CONFIG})
    head = _is_head(raw, stored) if stored is not None else is_head(raw, name, tokenizer)
    template = "" if head else text(TEMPLATE) or template_of(text(TOKENIZER_CONFIG))
    return Looked(name, raw, stored, template, head, None, weights)


def _holds_weights(path: str) -> bool:
    return path.endswith((".safetensors", ".bin", ".pt", ".pth", ".gguf"))


def count(stored: Stored) -> int:
    """Numbers in a tensor."""
    return math.prod(stored.shape)
