"""Heads for a target: by the catalogue, by the hub's metadata and by search, each with its verdict."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from engine.hub.api import HubApi
from engine.hub.content import Content, Contents, folder_content
from engine.hub.finding import as_model, candidates
from engine.hub.judging import NOT_ASKED, Judge
from engine.hub.manifest import make_manifest
from engine.hub.problems import HubError, LicenceNeeded, LoginNeeded, RightNeeded
from engine.hub.quantisations import base_name
from engine.protocol.hub import CataloguePair, HeadChoice, HubModel, LocalEntry, PairReport, PairVerdict

MOST_HEADS = 10
GOOD = (PairVerdict.FITS, PairVerdict.CAVEAT)


class HeadFinder:
    """Finds heads and asks whether they fit, before anything is downloaded."""

    def __init__(self, api: HubApi, contents: Contents, judge: Judge) -> None:
        self._api = api
        self._contents = contents
        self._judge = judge

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
        known = _known(target, pairs)
        found = {name: _known_choice(pair) for name, pair in known.items()}
        if found:
            yield _sorted(found.values())
        content, name = self._target(target, target_path)
        known = known or _known(name, pairs)
        for entry in entries:
            if entry.is_head:
                choice = self._local_choice(content, name, entry, known)
                # Heads of other models lie here, too: those that cannot fit are not offered.
                if choice.report.verdict is not PairVerdict.NOT or entry.repo_id in known:
                    found[entry.repo_id or entry.path] = choice
        yield _sorted(found.values())
        listed = candidates(self._api, name, pairs) if not self._api.place.offline else []
        for head, source, hit in listed[:MOST_HEADS]:
            if head in found and found[head].folder:
                continue
            found[head] = self._remote_choice(content, name, head, source, hit, known.get(head))
            yield _sorted(found.values())

    def has_head(self, target: str, pairs: Iterable[CataloguePair], most: int = 4) -> bool:
        """Whether the hub has a head that fits ``target``; the likeliest ``most`` are looked at.

        :raises HubError: the hub does not answer.
        """
        listed = candidates(self._api, target, list(pairs))
        if not listed:
            return False
        try:
            content, name = self._target(target, "")
        except (LoginNeeded, LicenceNeeded, RightNeeded):
            # Its configuration cannot be read: what heads say of themselves must do.
            return any(source != "search" for _, source, _ in listed)
        for head, source, hit in listed[:most]:
            verdict = self._remote_choice(content, name, head, source, hit, None).report.verdict
            if verdict in GOOD:
                return True
        return False

    def pair(self, target: str, head: str, revision: str = "main") -> PairReport:
        """Whether ``head`` belongs to ``target``, two repositories of which nothing need be here.

        :raises HubError: the hub does not know one of them, or does not answer.
        """
        small = self._contents.of_repository(head)
        content, name = self._target(target, "", revision)
        return self._report(content, name, small, head)[0]

    def _target(self, target: str, path: str, revision: str = "main") -> tuple[Content, str]:
        """What is known of the target, and the name that heads are made for: of a GGUF file its base model's."""
        content = (
            self._contents.of_path(Path(path))
            if path
            else self._contents.of_repository(target, revision, with_template=True)
        )
        if not content.is_gguf:
            return content, target
        base = base_name(target)
        with contextlib.suppress(HubError):
            if "/" in target and not self._api.place.offline:
                base = next(iter(as_model(self._api.info(target)).base_models), base)
                if not content.config:
                    original = self._contents.of_repository(base, with_template=True)
                    content = replace(content, config=original.config, template=original.template)
        return content, base

    def _local_choice(
        self, target: Content, name: str, entry: LocalEntry, known: dict[str, CataloguePair]
    ) -> HeadChoice:
        head = folder_content(Path(entry.path))
        report, form = self._report(target, name, head, entry.name)
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
            report, form = self._report(target, name, self._contents.of(manifest), head)
            return replace(choice, report=report, format=form or choice.format)
        except HubError as error:
            return replace(choice, report=PairReport(PairVerdict.UNKNOWN, (error.message,)))

    def _report(self, target: Content, name: str, head: Content, head_name: str) -> tuple[PairReport, str]:
        if not target.config:  # of a GGUF file that is not here, when its base model is not known
            return NOT_ASKED, ""
        return self._judge.pair(target.config, name, head.config, head.header, head_name, target.template)


def _known(target: str, pairs: Iterable[CataloguePair]) -> dict[str, CataloguePair]:
    return {pair.head: pair for pair in pairs if pair.target == target}


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
