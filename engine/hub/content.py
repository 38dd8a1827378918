"""What decides about memory and pairing of a repository or a folder: configuration, tensors, sizes."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.heads.thoughts import template_in, template_of
from engine.hub import cache
from engine.hub.api import HubApi
from engine.hub.fit import estimate, from_parameters
from engine.hub.foreign import json_object
from engine.hub.headers import Header, RemoteHeaders, of_files
from engine.hub.judging import Judge
from engine.hub.manifest import Manifest, make_manifest
from engine.hub.problems import HubError
from engine.hub.quantisations import bits_of, label_of, parts_of
from engine.protocol.hub import Fit, Machine

FULL_BITS = 16.0
"""A weight of a checkpoint that is not quantised."""
TEMPLATES = ("chat_template.jinja", "tokenizer_config.json")
_WEIGHTS = (".safetensors", ".bin", ".pt", ".pth", ".gguf")


@dataclass(frozen=True)
class Content:
    config: dict[str, Any]
    header: Header | None
    """Of all safetensors files; None where the weights are of another kind."""
    weight_bytes: int
    bits: float = FULL_BITS
    """About how many a weight takes in the files, where there is no header."""
    is_gguf: bool = False
    template: str = ""
    """Source of its chat template, where it was asked for: a target's tells whether it thinks."""


def folder_content(path: Path) -> Content:
    """Of a folder in the Hugging Face layout."""
    try:
        files = sorted(path.glob("*.safetensors"))
        header = of_files(files) if files else None
    except (OSError, ValueError):
        header = None
    size = 0
    with contextlib.suppress(OSError):
        size = sum_of(file for file in path.iterdir() if file.name.endswith(_WEIGHTS))
    return Content(cache.read_config(path), header, size, template=template_in(path))


def sum_of(files: Iterable[Path]) -> int:
    """Bytes of those that are there: a list may be older than what was deleted."""
    total = 0
    for file in files:
        with contextlib.suppress(OSError):
            total += file.stat().st_size
    return total


class Contents:
    """Looks into repositories without downloading them, and into what is here already."""

    def __init__(self, api: HubApi, headers: RemoteHeaders, judge: Judge) -> None:
        self._api = api
        self._headers = headers
        self._judge = judge

    def of(self, manifest: Manifest, with_template: bool = False) -> Content:
        """:raises HubError: the hub refuses, or the repository is not what it seems."""
        config: dict[str, Any] = {}
        if any(spec.path == "config.json" for spec in manifest.files):
            config = _object(self._api.small_file(manifest.repo_id, manifest.commit, "config.json"))
        weights = [spec for spec in manifest.files if spec.path.endswith(_WEIGHTS)]
        quantised = [spec.path for spec in weights if spec.path.endswith(".gguf")]
        bits = bits_of(label_of(quantised[0])) if quantised else FULL_BITS
        return Content(
            config,
            self._headers.of(manifest),
            sum(spec.size for spec in weights),
            bits,
            bool(quantised),
            self._template(manifest) if with_template else "",
        )

    def of_repository(self, repo_id: str, revision: str = "main", with_template: bool = False) -> Content:
        """:raises HubError:"""
        manifest = make_manifest(repo_id, revision, self._api.info(repo_id, revision, files=True))
        return self.of(manifest, with_template)

    def _template(self, manifest: Manifest) -> str:
        """As it is stored in a file of its own, or else in the tokenizer's settings; "" where neither is."""
        there = {spec.path for spec in manifest.files}
        with contextlib.suppress(HubError):  # then the model's name must tell
            for path in TEMPLATES:
                if path in there:
                    text = self._api.small_file(manifest.repo_id, manifest.commit, path).decode(
                        "utf-8", "replace"
                    )
                    if template := template_of(text) if path.endswith(".json") else text:
                        return template
        return ""

    def of_path(self, path: Path) -> Content:
        """Of a folder, or of a GGUF file, whose tensors are not looked at."""
        if not path.is_file():
            return folder_content(path)
        parts = parts_of(path.name, [each.name for each in path.parent.glob("*.gguf")])
        size = sum_of(path.with_name(part) for part in parts)
        config, template = self._judge.of_gguf(path)
        return Content(config, None, size, bits_of(label_of(path.name)), True, template)

    def of_head(self, head: str) -> Content | None:
        """Of a head's folder or repository; None for no head. :raises HubError:"""
        if not head:
            return None
        return folder_content(Path(head)) if Path(head).is_dir() else self.of_repository(head)

    def fit(
        self,
        machine: Machine,
        target: Content,
        head: Content | None,
        loaded_bytes: int,
        parameters: float = 0.0,
    ) -> Fit:
        """Memory of a pair. ``parameters`` (billions) counts where no tensor can be looked at."""
        size = float(target.weight_bytes)
        if target.is_gguf:  # which is held in NF4 or int8 like any other: as if it were 16 bits
            size = parameters * 2e9 or size * FULL_BITS / target.bits
        try:
            return estimate(
                machine,
                target.config,
                target.header,
                round(size),
                head_config=head.config if head else None,
                head_header=head.header if head else None,
                head_file_bytes=head.weight_bytes if head else 0,
                loaded_bytes=loaded_bytes,
            )
        except ValueError:
            guess = parameters or (0.0 if target.header else size / 2e9)
            return from_parameters(machine, guess, loaded_bytes)


def _object(text: bytes) -> dict[str, Any]:
    try:
        return json_object(text)
    except ValueError:
        return {}
