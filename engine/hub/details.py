"""What a repository is before it is downloaded: its files, its memory, its card, its quantisations."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from engine.errors import EngineError
from engine.hub.api import HubApi
from engine.hub.content import Content, Contents
from engine.hub.entry import problem_of
from engine.hub.finding import as_model
from engine.hub.foreign import count
from engine.hub.judging import Judge
from engine.hub.manifest import make_manifest
from engine.hub.problems import HubError
from engine.hub.quantisations import Quantised, best, quantisations
from engine.protocol.hub import (
    CataloguePair,
    Fit,
    HubModel,
    LocalEntry,
    Machine,
    ModelDetails,
    Problem,
    Quantisation,
)

CARD_BYTES = 200_000
_FRONT_MATTER = re.compile(r"\A---[ \t]*\n.*?\n---[ \t]*\n", re.DOTALL)
"""Without a class that takes line ends, too: empty lines would be gone through again and again, for minutes."""


class Looker:
    """Looks at repositories without downloading them, and at what is here already."""

    def __init__(self, api: HubApi, contents: Contents, judge: Judge) -> None:
        self._api = api
        self._contents = contents
        self._judge = judge

    def details(
        self,
        repo_id: str,
        head_id: str,
        machine: Machine,
        loaded_bytes: int,
        pairs: Iterable[CataloguePair],
        entries: Iterable[LocalEntry],
        file: str = "",
        free_disk: int = 0,
    ) -> ModelDetails:
        """Of a repository together with a head, and with ``file`` of its GGUF files, or the one to suggest.

        :raises HubError: the hub does not know it, or does not answer.
        """
        info = self._api.info(repo_id, files=True)
        model = as_model(info, {pair.target for pair in pairs}, machine)
        sizes = sizes_of(info)
        card = self._card(repo_id, str(info.sha), [path for path, _ in sizes])
        there = quantisations(sizes)
        chosen, reason = _choose(there, file, free_disk)
        try:
            manifest = make_manifest(repo_id, "main", info)
            quantised = any(spec.path.endswith(".gguf") for spec in manifest.files)
            if chosen and (quantised or file):
                manifest = make_manifest(repo_id, "main", info, chosen.paths)
            else:
                there, chosen, reason = (), None, ""
        except HubError as error:
            return ModelDetails(model, str(info.sha), (), 0, None, card, "", self._problem(error))
        name = chosen.path if chosen else ""
        here = next((each.path for each in entries if (each.repo_id, each.file) == (repo_id, name)), "")
        problem: Problem | None = None
        fit: Fit | None = model.fit
        try:
            content = self._contents.of(manifest)
            if not model.is_head:
                head = self._contents.of_head(head_id)
                fit = self._contents.fit(machine, content, head, loaded_bytes, model.parameters)
                words = self._judge.problem_of(content.config) if content.config else ""
                if words:
                    problem = Problem("unsupported", words, "Choose another model.")
        except HubError as error:
            problem = self._problem(error)
        return ModelDetails(
            model,
            manifest.commit,
            tuple((spec.path, spec.size) for spec in manifest.files),
            manifest.size,
            fit,
            card,
            here,
            problem,
            tuple(
                Quantisation(each.label, each.paths, each.size, fit, each.size <= free_disk) for each in there
            ),
            name,
            reason,
        )

    def local_details(
        self, entry: LocalEntry, head: str, machine: Machine, loaded_bytes: int
    ) -> ModelDetails:
        """Of what lies on this computer, without asking the hub; ``head`` is a folder or a repository."""
        content = self._contents.of_path(Path(entry.path))
        model = HubModel(entry.repo_id or entry.path, family=entry.family, is_head=entry.is_head)
        fit: Fit | None = None
        problem: Problem | None = None
        if not entry.is_head:
            beside: Content | None = None
            with contextlib.suppress(HubError):
                beside = self._contents.of_head(head)
            fit = self._contents.fit(machine, content, beside, loaded_bytes)
            words = self._judge.problem_of(content.config) if content.config else ""
            problem = Problem("unsupported", words, "Choose another model.") if words else None
        return ModelDetails(model, "", (), entry.size, fit, "", entry.path, problem, file=entry.file)

    def _problem(self, error: EngineError) -> Problem:
        return problem_of(error, self._api.tokens.redact)

    def _card(self, repo_id: str, commit: str, paths: list[str]) -> str:
        """The model card without its header of fields; "" where there is none or it cannot be read now."""
        if "README.md" not in paths:
            return ""
        try:
            text = self._api.small_file(repo_id, commit, "README.md", CARD_BYTES).decode("utf-8", "replace")
        except HubError:
            return ""
        return _FRONT_MATTER.sub("", text.replace("\r\n", "\n"), count=1)


def sizes_of(info: Any) -> list[tuple[str, int]]:
    """(path, bytes) of every file of the library's ``ModelInfo``."""
    return [
        (str(each.rfilename), count(each.lfs.size if each.lfs else each.size)) for each in info.siblings or ()
    ]


def _choose(there: tuple[Quantised, ...], file: str, free_disk: int) -> tuple[Quantised | None, str]:
    """The quantisation that ``file`` is of, or the one to suggest and why."""
    if not there:
        return None, ""
    asked = next((each for each in there if file in each.paths), None)
    return (asked, "") if asked else best(there, free_disk)
