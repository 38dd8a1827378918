"""What a repository is before it is downloaded: its files, its memory, its card, its heads."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from engine.errors import EngineError
from engine.hub import cache
from engine.hub.api import HubApi
from engine.hub.entry import problem_of
from engine.hub.finding import as_model, candidates
from engine.hub.fit import estimate, from_parameters
from engine.hub.headers import Header, RemoteHeaders, of_files
from engine.hub.judging import NOT_ASKED, Judge
from engine.hub.manifest import Manifest, make_manifest
from engine.hub.problems import HubError
from engine.protocol.hub import (
    CataloguePair,
    Fit,
    HeadChoice,
    HubModel,
    LocalEntry,
    Machine,
    ModelDetails,
    PairReport,
    PairVerdict,
    Problem,
)

CARD_BYTES = 200_000
MOST_HEADS = 10
_WEIGHTS = (".safetensors", ".bin", ".pt", ".pth", ".gguf")
_FRONT_MATTER = re.compile(r"\A---\s*\n.*?\n---\s*\n", re.DOTALL)


@dataclass(frozen=True)
class Content:
    """What decides about memory and pairing, of a repository or a folder."""

    config: dict[str, Any]
    header: Header | None
    weight_bytes: int


class Looker:
    """Looks at repositories without downloading them, and at what is here already."""

    def __init__(self, api: HubApi, headers: RemoteHeaders, judge: Judge) -> None:
        self._api = api
        self._headers = headers
        self._judge = judge

    # ------------------------------------------------------------------ content

    def content(self, manifest: Manifest) -> Content:
        """:raises HubError: the hub refuses, or the repository is not what it seems."""
        config: dict[str, Any] = {}
        if any(spec.path == "config.json" for spec in manifest.files):
            config = _object(self._api.small_file(manifest.repo_id, manifest.commit, "config.json"))
        size = sum(spec.size for spec in manifest.files if spec.path.endswith(_WEIGHTS))
        return Content(config, self._headers.of(manifest), size)

    def content_of(self, repo_id: str) -> Content:
        """:raises HubError:"""
        return self.content(make_manifest(repo_id, "main", self._api.info(repo_id, files=True)))

    @staticmethod
    def local_content(path: Path) -> Content:
        """Of a folder, or a GGUF file, of which only the size is known."""
        if path.is_file():
            return Content({}, None, path.stat().st_size)
        try:
            files = sorted(path.glob("*.safetensors"))
            header = of_files(files) if files else None
        except (OSError, ValueError):
            header = None
        size = sum(file.stat().st_size for file in path.iterdir() if file.name.endswith(_WEIGHTS))
        return Content(cache.read_config(path), header, size)

    # ------------------------------------------------------------------ memory

    def fit(
        self,
        machine: Machine,
        target: Content,
        head: Content | None,
        loaded_bytes: int,
        parameters: float = 0.0,
    ) -> Fit:
        try:
            return estimate(
                machine,
                target.config,
                target.header,
                target.weight_bytes,
                head_config=head.config if head else None,
                head_header=head.header if head else None,
                head_file_bytes=head.weight_bytes if head else 0,
                loaded_bytes=loaded_bytes,
            )
        except ValueError:
            # GGUF: some 4.8 bits a weight, as the quantisation that is taken by default has.
            guess = parameters or (0 if target.header else target.weight_bytes * 8 / 4.8 / 1e9)
            return from_parameters(machine, guess, loaded_bytes)

    # ------------------------------------------------------------------ details

    def details(
        self,
        repo_id: str,
        head_id: str,
        machine: Machine,
        loaded_bytes: int,
        pairs: Iterable[CataloguePair],
        entries: Iterable[LocalEntry],
    ) -> ModelDetails:
        """:raises HubError: the hub does not know it, or does not answer."""
        info = self._api.info(repo_id, files=True)
        model = as_model(info, {pair.target for pair in pairs}, machine)
        here = next((entry.path for entry in entries if entry.repo_id == repo_id), "")
        sizes = [
            (str(each.rfilename), int((each.lfs.size if each.lfs else each.size) or 0))
            for each in info.siblings or ()
        ]
        quantised = tuple(sorted((path, size) for path, size in sizes if path.endswith(".gguf")))
        card = self._card(repo_id, str(info.sha), [path for path, _ in sizes])
        try:
            manifest = make_manifest(repo_id, "main", info)
        except HubError as error:
            return ModelDetails(model, str(info.sha), (), 0, None, card, here, self._problem(error))
        files = tuple((spec.path, spec.size) for spec in manifest.files)
        choices = quantised if any(path.endswith(".gguf") for path, _ in files) else ()
        problem: Problem | None = None
        fit: Fit | None = model.fit
        try:
            content = self.content(manifest)
            if not model.is_head:
                head = self._head_content(head_id)
                fit = self.fit(machine, content, head, loaded_bytes, model.parameters)
                words = self._judge.problem_of(content.config) if content.config else ""
                if words:
                    problem = Problem("unsupported", words, "Choose another model.")
        except HubError as error:
            problem = self._problem(error)
        return ModelDetails(model, manifest.commit, files, manifest.size, fit, card, here, problem, choices)

    def local_details(
        self, entry: LocalEntry, head: str, machine: Machine, loaded_bytes: int
    ) -> ModelDetails:
        """Of what lies on this computer, without asking the hub; ``head`` is a folder or a repository."""
        content = self.local_content(Path(entry.path))
        model = HubModel(entry.repo_id or entry.path, family=entry.family, is_head=entry.is_head)
        fit: Fit | None = None
        problem: Problem | None = None
        if not entry.is_head:
            beside: Content | None = None
            with contextlib.suppress(HubError):
                beside = self._head_content(head)
            fit = self.fit(machine, content, beside, loaded_bytes)
            words = self._judge.problem_of(content.config) if content.config else ""
            problem = Problem("unsupported", words, "Choose another model.") if words else None
        return ModelDetails(model, "", (), entry.size, fit, "", entry.path, problem)

    def _head_content(self, head: str) -> Content | None:
        """Of a head's folder or repository; None for no head. :raises HubError:"""
        if not head:
            return None
        return self.local_content(Path(head)) if Path(head).is_dir() else self.content_of(head)

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

    # ------------------------------------------------------------------ heads

    def heads(
        self,
        target: str,
        pairs: Iterable[CataloguePair],
        entries: Iterable[LocalEntry],
        target_path: str = "",
    ) -> Iterator[tuple[HeadChoice, ...]]:
        """Heads that may belong to ``target``, growing: first what is here and known, then what the hub finds.

        :raises HubError: nothing at all can be said about the target.
        """
        pairs, entries = list(pairs), list(entries)
        known = {pair.head: pair for pair in pairs if pair.target == target}
        found = {name: _known_choice(pair) for name, pair in known.items()}
        if found:
            yield _sorted(found.values())
        content = self.local_content(Path(target_path)) if target_path else self.content_of(target)
        for entry in entries:
            if entry.is_head:
                choice = self._local_choice(content, target, entry, known)
                # Heads of other models lie here, too: those that cannot fit are not offered.
                if choice.report.verdict is not PairVerdict.NOT or entry.repo_id in known:
                    found[entry.repo_id or entry.path] = choice
        yield _sorted(found.values())
        listed = candidates(self._api, target, pairs) if not self._api.place.offline else []
        for name, source, hit in listed[:MOST_HEADS]:
            if name in found and found[name].folder:
                continue
            found[name] = self._remote_choice(content, target, name, source, hit, known.get(name))
            yield _sorted(found.values())

    def _local_choice(
        self, target: Content, name: str, entry: LocalEntry, known: dict[str, CataloguePair]
    ) -> HeadChoice:
        head = self.local_content(Path(entry.path))
        report, form = self._judge.pair(target.config, name, head.config, head.header, entry.name)
        pair = known.get(entry.repo_id)
        return HeadChoice(
            entry.name, report, "this computer", form, entry.size, folder=entry.path, note=_note(pair)
        )

    def _remote_choice(
        self,
        target: Content,
        name: str,
        head: str,
        source: str,
        hit: HubModel | None,
        pair: CataloguePair | None,
    ) -> HeadChoice:
        choice = HeadChoice(head, NOT_ASKED, source, pair.format if pair else "", note=_note(pair))
        try:
            info = self._api.info(head, files=True)
            hit = hit or as_model(info)
            choice = replace(choice, downloads=hit.downloads, licence=hit.licence, is_gated=hit.is_gated)
            manifest = make_manifest(head, "main", info)
            choice = replace(choice, size=manifest.size)
            content = self.content(manifest)
            report, form = self._judge.pair(target.config, name, content.config, content.header, head)
            return replace(choice, report=report, format=form or choice.format)
        except HubError as error:
            return replace(choice, report=PairReport(PairVerdict.UNKNOWN, (error.message,)))


def _known_choice(pair: CataloguePair) -> HeadChoice:
    words = "The catalogue lists it for this model; its files have not been looked at yet."
    return HeadChoice(
        pair.head, PairReport(PairVerdict.UNKNOWN, (words,)), "catalogue", pair.format, note=_note(pair)
    )


def _note(pair: CataloguePair | None) -> str:
    if pair is None:
        return ""
    speed = f"{pair.speedup:.2f}× published: {pair.speedup_source}." if pair.speedup else ""
    return " ".join(part for part in (speed, pair.notes) if part)


_ORDER = {PairVerdict.FITS: 0, PairVerdict.CAVEAT: 1, PairVerdict.UNKNOWN: 2, PairVerdict.NOT: 3}


def _sorted(choices: Iterable[HeadChoice]) -> tuple[HeadChoice, ...]:
    """Fitting ones first, then those that are here, then the most downloaded."""
    return tuple(
        sorted(
            choices,
            key=lambda each: (_ORDER[each.report.verdict], not each.folder, -each.downloads, each.repo_id),
        )
    )


def _object(text: bytes) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
