"""What is on this computer already: the hub cache, and folders and GGUF files that the user imported."""

from __future__ import annotations

import contextlib
import json
import re
import threading
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from engine.errors import EngineError, ModelError
from engine.hub import cache
from engine.hub.part import replace_text
from engine.hub.quantisations import is_whole, label_of, parts_of
from engine.protocol.hub import LocalEntry

_HEAD_KEYS = (
    "draft_vocab_size",
    "speculators_model_type",
    "medusa_num_heads",
    "eagle_config",
    "truncated_vocab_size",
)
_HEAD_NAMES = re.compile(r"eagle|medusa|speculator", re.IGNORECASE)
_TOKENIZERS = ("tokenizer.json", "tokenizer.model", "vocab.json")


def is_head(config: Mapping[str, Any], name: str, has_tokenizer: bool) -> bool:
    """Whether this is a head rather than a whole model, from what lies beside the weights."""
    if any(key in config for key in _HEAD_KEYS):
        return True
    if "Eagle" in str(config.get("architectures", "")):
        return True
    return not has_tokenizer and (
        _HEAD_NAMES.search(name) is not None or config.get("num_hidden_layers") == 1
    )


def made_for(config: Mapping[str, Any]) -> str:
    """The target that a head's configuration names, or ""."""
    inner = config.get("speculators_config")
    if isinstance(inner, Mapping) and isinstance(inner.get("verifier"), Mapping):
        return str(inner["verifier"].get("name_or_path") or "")[:200]
    for key in ("target_model_name_or_path", "base_model_name_or_path", "target_name"):
        if config.get(key):
            return str(config[key])[:200]
    return ""


def cached(folder: Path, unfinished: Iterable[cache.Unfinished] = ()) -> tuple[LocalEntry, ...]:
    """The whole models and heads of a hub cache, the newest commit of each; every GGUF file by itself."""
    newest: dict[tuple[str, str], LocalEntry] = {}
    for each in cache.local_models(folder, unfinished):
        path = each.folder / each.gguf if each.gguf else each.folder
        name = f"{each.repo_id}  {label_of(each.gguf)}" if each.gguf else each.repo_id
        newest[each.repo_id, each.gguf] = _entry(
            name, path, each.size, each.config, each.repo_id, each.commit, each.gguf
        )
    return tuple(newest.values())


def _entry(
    name: str,
    path: Path,
    size: int,
    config: Mapping[str, Any],
    repo_id: str = "",
    commit: str = "",
    file: str = "",
) -> LocalEntry:
    folder = path if path.is_dir() else path.parent
    tokenizer = any((folder / file).exists() for file in _TOKENIZERS) or path.suffix == ".gguf"
    head = path.suffix != ".gguf" and is_head(config, repo_id or name, tokenizer)
    return LocalEntry(
        name,
        str(path),
        size,
        head,
        str(config.get("model_type", ""))[:40],
        repo_id,
        commit,
        made_for(config) if head else "",
        file,
    )


class Imports:
    """Paths that the user brought in. They stay where they are; only the list is kept."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._adding = threading.Lock()

    def entries(self) -> tuple[LocalEntry, ...]:
        """Those that are still there and whole."""
        found: list[LocalEntry] = []
        for path in self._paths():
            # One that was deleted, is on a disk that is away, or that the list was damaged at: the rest counts.
            with contextlib.suppress(EngineError, ValueError):
                found.append(look_at(Path(path)))
        return tuple(found)

    def add(self, path: Path) -> LocalEntry:
        """:raises ModelError: it is no whole model, head or GGUF file."""
        entry = look_at(path)
        with self._adding:  # two at once would write the list without one of them
            paths = [each for each in self._paths() if each != entry.path]
            self._path.parent.mkdir(parents=True, exist_ok=True)
            replace_text(self._path, json.dumps([*paths, entry.path]))
        return entry

    def forget(self, path: str) -> None:
        """Take one off the list. Its files are left alone."""
        with self._adding:
            replace_text(self._path, json.dumps([each for each in self._paths() if each != path]))

    def _paths(self) -> list[str]:
        try:
            raw = json.loads(self._path.read_text("utf-8"))
        except (OSError, ValueError, RecursionError):
            return []
        return [path for path in raw if isinstance(path, str)] if isinstance(raw, list) else []


def look_at(path: Path) -> LocalEntry:
    """A folder or a GGUF file as an entry. :raises ModelError: it is neither, not whole, or cannot be read."""
    try:
        return _look_at(path.expanduser().absolute())
    except (OSError, RuntimeError) as error:  # no right to it, a drive that is away, an unknown user's home
        words = getattr(error, "strerror", None) or error
        raise ModelError(
            f"{path} cannot be read: {words}.", "Check its permissions and its drive, or choose another."
        ) from error


def _look_at(path: Path) -> LocalEntry:
    if path.is_file():
        with path.open("rb") as file:
            magic = file.read(4)
        if magic != b"GGUF":
            raise ModelError(
                f"{path.name} is no GGUF file.", "Choose a .gguf file, or a folder with a model."
            )
        parts = parts_of(path.name, [each.name for each in path.parent.glob("*.gguf")])
        if not is_whole(parts):
            raise ModelError(
                f"{path.name} is one of several parts, and not all of them are here.",
                "Put all its parts into the same folder, then choose it again.",
            )
        files = [path.with_name(part) for part in parts]
        return _entry(files[0].stem, files[0], sum(file.stat().st_size for file in files), {})
    if not path.is_dir():
        raise ModelError(f"{path} does not exist.", "Choose it again.")
    problem = cache.whole(path)
    if problem and (quantised := cache.gguf_files(path)):
        return _look_at(path / quantised[0].path)
    if problem:
        raise ModelError(f"{path} is no whole model: {problem}.", "Choose the folder that holds config.json.")
    size = sum(file.stat().st_size for file in path.iterdir() if file.is_file())
    return _entry(path.name, path, size, cache.read_config(path))
