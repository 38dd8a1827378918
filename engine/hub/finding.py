"""Searching the hub, and telling what a hit is. Whatever strangers wrote is cut to a length."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from engine.hub.api import HubApi
from engine.hub.fit import from_parameters
from engine.hub.foreign import LARGEST, count, line, texts
from engine.hub.local import is_head
from engine.hub.problems import MissingError
from engine.protocol.hub import CataloguePair, HubModel, Machine, Sort, Verdict
from engine.protocol.hub_messages import Search

PAGE = 60
"""Hits of the hub that are looked through for a page of a search."""
_SORTS = {Sort.DOWNLOADS: "downloads", Sort.LIKES: "likes", Sort.UPDATED: "last_modified"}
_EXPAND = [
    "author",
    "cardData",
    "config",
    "downloads",
    "gated",
    "gguf",
    "lastModified",
    "likes",
    "pipeline_tag",
    "safetensors",
    "tags",
]
_TASKS = {
    None,
    "",
    "text-generation",
    "image-text-to-text",
    "any-to-any",
    "text2text-generation",
    "feature-extraction",
}
_BELOW = ("tree", "blob", "resolve", "raw", "commit", "commits", "discussions")
"""Pages below a model's own."""
_SIZE = re.compile(r"(?<![\d.])(\d+(?:\.\d+)?)\s*([bm])(?![a-z])", re.IGNORECASE)
_FAMILIES = {
    "llama": "Llama", "qwen2": "Qwen2", "qwen3": "Qwen3", "qwen3_moe": "Qwen3 MoE", "gemma2": "Gemma 2",
    "gemma3": "Gemma 3", "gemma3_text": "Gemma 3", "mistral": "Mistral", "mixtral": "Mixtral", "phi3": "Phi",
    "gpt_oss": "gpt-oss",
}  # fmt: skip


def repository_in(text: str) -> str:
    """The repository that a name or an address names, or "".

    An address is taken as it is copied from a browser: of a page below the model's own, with
    ``https://`` or without.
    """
    scheme, mark, rest = text.strip().rpartition("://")
    parts = [part for part in re.split(r"[?#]", rest, maxsplit=1)[0].split("/") if part]
    is_host = bool(mark) and scheme != "hf"
    if is_host or (len(parts) > 2 and re.search(r"[.:]", parts[0]) and parts[2] not in _BELOW):
        parts = parts[1:]
    elif len(parts) > 2 and parts[2] not in _BELOW:
        return ""
    name = "/".join(parts[:2])
    return name if re.fullmatch(r"[\w.-]{1,96}/[\w.-]{1,96}", name, re.ASCII) else ""


def as_model(info: Any, known_targets: Iterable[str] = (), machine: Machine | None = None) -> HubModel:
    """A hit from the library's ``ModelInfo``."""
    tags = texts(info.tags)
    card = info.card_data
    licence = line(getattr(card, "license", None), 40) or next(
        (line(tag.removeprefix("license:"), 40) for tag in tags if tag.startswith("license:")), ""
    )
    if licence == "other":
        licence = line(getattr(card, "license_name", None), 40) or "other"
    config = info.config if isinstance(info.config, dict) else {}
    repo_id = str(info.id)
    kind = line(config.get("model_type"), 30)
    head = is_head(config, repo_id, False) if re.search(r"eagle|medusa|speculator", repo_id, re.I) else False
    parameters = _parameters(info, repo_id)
    return HubModel(
        repo_id=repo_id[:200],
        downloads=count(info.downloads),
        likes=count(info.likes),
        updated=info.last_modified.date().isoformat() if info.last_modified else "",
        licence=licence,
        is_gated=bool(info.gated),
        family=_FAMILIES.get(kind, kind),
        parameters=parameters,
        base_models=_base_models(tags),
        is_head=head or "speculators" in tags,
        has_known_head=repo_id in set(known_targets),
        fit=from_parameters(machine, parameters) if machine and parameters and not head else None,
    )


def _parameters(info: Any, repo_id: str) -> float:
    """Billions, from the hub's own count or else from the name."""
    gguf = getattr(info, "gguf", None)
    total = count(getattr(info.safetensors, "total", None)) or count(
        gguf.get("total") if isinstance(gguf, dict) else None
    )
    if 0 < total < LARGEST:
        return total / 1e9
    found = _SIZE.search(repo_id.rpartition("/")[2])
    if found is None:
        return 0.0
    return float(found[1]) * (1.0 if found[2].lower() == "b" else 1e-3)


def _base_models(tags: Iterable[str]) -> tuple[str, ...]:
    found = []
    for tag in tags:
        if tag.startswith("base_model:"):
            name = tag.rpartition(":")[2]
            if repository_in(name) and name not in found:
                found.append(name)
    return tuple(found)


@dataclass(frozen=True, slots=True)
class Hits:
    """What a search found; ``looked_at`` of the hub's hits were looked through, and it may have more."""

    models: tuple[HubModel, ...]
    looked_at: int
    has_more: bool


def search(api: HubApi, query: Search, pairs: Iterable[CataloguePair], machine: Machine) -> Hits:
    """What the hub finds, filtered as asked but for heads. A full name or address comes first.

    :raises HubError:
    """
    targets = {pair.target for pair in pairs}
    found: dict[str, HubModel] = {}
    exact = repository_in(query.text)
    if exact:
        with contextlib.suppress(MissingError):  # it may still be a part of other names
            found[exact] = as_model(api.info(exact), targets, machine)
    options: dict[str, Any] = {"search": exact or query.text.strip() or None}
    if query.licence:
        options["filter"] = [f"license:{query.licence}"]
    if query.largest:
        options["num_parameters"] = f"max:{query.largest:g}B"
    most = PAGE * max(1, query.pages)
    listed = api.listed(sort=_SORTS[query.sort], limit=most + 1, expand=_EXPAND, **options)
    for info in listed[:most]:
        if info.pipeline_tag in _TASKS and repository_in(str(info.id)):
            found.setdefault(str(info.id), as_model(info, targets, machine))
    wanted = tuple(model for model in found.values() if _wanted(model, query))
    return Hits(wanted, min(most, len(listed)), len(listed) > most)


def _wanted(model: HubModel, query: Search) -> bool:
    if query.family and query.family.lower() not in f"{model.family} {model.repo_id}".lower().replace(
        "-", " "
    ):
        return False
    if query.licence and model.licence != query.licence:
        return False
    if query.largest and model.parameters > query.largest:
        return False
    return not (query.only_fitting and model.fit is not None and model.fit.verdict is Verdict.NO)


def candidates(
    api: HubApi, target: str, pairs: Iterable[CataloguePair]
) -> list[tuple[str, str, HubModel | None]]:
    """Repositories that may be heads of ``target``: (name, where it was found, hit), likeliest first.

    :raises HubError: the hub does not answer; what the catalogue knows is still known without it.
    """
    known = [pair.head for pair in pairs if pair.target == target]
    found: dict[str, tuple[str, HubModel | None]] = {head: ("catalogue", None) for head in known}
    short = target.rpartition("/")[2]
    asked: list[tuple[str, dict[str, Any]]] = []
    if "/" in target:  # and no file of the user's
        asked += [
            ("metadata", {"filter": [f"base_model:{target}"], "search": "eagle"}),
            ("metadata", {"filter": [f"base_model:{target}", "speculators"]}),
        ]
    asked += [
        ("search", {"search": f"{short} eagle"}),
        ("search", {"search": f"eagle3 {short}"}),
        ("search", {"search": f"{short}-speculator"}),
    ]
    for source, options in asked:
        for info in api.listed(sort="downloads", limit=8, expand=_EXPAND, **options):
            model = as_model(info)
            if not repository_in(model.repo_id):
                continue
            if source == "search" and not re.search(r"eagle|medusa|specul", model.repo_id, re.I):
                continue
            at, hit = found.get(model.repo_id, (source, None))
            found[model.repo_id] = (at, hit or model)
    return [(name, source, hit) for name, (source, hit) in found.items() if name != target]
