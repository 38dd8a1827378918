"""Where chat formats come from: a model's own files, our demo's, or a plain one where there is none."""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

from engine.errors import ModelError
from engine.prompting import STOPS_FILE, ChatFormat
from engine.thinking import recognise

PLAIN = "plain.jinja"
PLAIN_STOPS = ("\nUser:", "\nAssistant:", "\nSystem:")
PLAIN_NOTICE = (
    "{name} has no chat template: it may be a base model, which continues text and was not taught to answer. "
    "A plain User/Assistant form is used. For answers, choose an instruction-tuned model "
    "(its name often ends in -it, -Instruct or -Chat)."
)
KNOWN = {"vicuna": ("vicuna.jinja", ("USER:",))}
"""Templates and stop strings of models that bring none in their files, by a part of the name."""
KNOWN_NOTICE = "{name} has no chat template of its own; the one its makers describe is used."


def load_demo() -> ChatFormat:
    resources = files("resources")
    about = json.loads(resources.joinpath("models", "demo.json").read_text(encoding="utf-8"))
    return ChatFormat(
        name=about["name"],
        template=_resource(about["chat_template"]),
        stop_strings=tuple(about["stop_strings"]),
        eos_token_ids=tuple(about["eos_token_ids"]),
        tokens=about["special_tokens"],
    )


def load_folder(folder: Path, name: str = "") -> ChatFormat:
    name = name or folder.name
    settings = _read_json(folder / "tokenizer_config.json")
    template = _template_of(folder, settings)
    notice = ""
    own = template is not None
    substitute: tuple[str, ...] = ()
    if template is None:
        template, substitute, notice = _substitute(name)
    generation = _read_json(folder / "generation_config.json", optional=True)
    config = _read_json(folder / "config.json", optional=True)
    tokens = {
        key: text
        for key, value in settings.items()
        if key.endswith("_token") and (text := _token_text(value)) is not None
    }
    ours = _read_json(folder / STOPS_FILE, optional=True)
    stops = ours.get("stop_strings") or generation.get("stop_strings") or substitute
    thinking = recognise(template)
    return ChatFormat(
        name=name,
        template=template,
        stop_strings=(stops,) if isinstance(stops, str) else tuple(stops),
        eos_token_ids=_eos_ids(generation, config, settings, tokens.get("eos_token")),
        add_bos=not own,
        tokens=tokens,
        notice=notice,
        thinking_tags=thinking.tags if thinking else None,
        thinking_optional=thinking.optional if thinking else False,
    )


def _substitute(name: str) -> tuple[str, tuple[str, ...], str]:
    """(template, stop strings, notice) for a model without one."""
    for part, (file, stops) in KNOWN.items():
        if part in name.lower():
            return _resource(file), stops, KNOWN_NOTICE.format(name=name)
    return _resource(PLAIN), PLAIN_STOPS, PLAIN_NOTICE.format(name=name)


def _resource(file: str) -> str:
    return files("resources").joinpath("chat_templates", file).read_text(encoding="utf-8")


def _template_of(folder: Path, settings: Mapping[str, Any]) -> str | None:
    """The file wins over the entry, and of several named templates the one called ``default``."""
    path = folder / "chat_template.jinja"
    if path.is_file():
        return path.read_text(encoding="utf-8")
    found = settings.get("chat_template")
    if found is None:
        found = _read_json(folder / "chat_template.json", optional=True).get("chat_template")
    if isinstance(found, list):
        named = {entry["name"]: entry["template"] for entry in found}
        found = named.get("default")
    return found if isinstance(found, str) else None


def _eos_ids(
    generation: Mapping[str, Any],
    config: Mapping[str, Any],
    settings: Mapping[str, Any],
    eos_token: str | None,
) -> tuple[int, ...]:
    """Every id that ends a reply: those of the generation settings, else of the config, and ``eos_token`` itself."""
    named = generation.get("eos_token_id")
    if named is None:
        named = config.get("eos_token_id", config.get("text_config", {}).get("eos_token_id"))
    ids = [] if named is None else [named] if isinstance(named, int) else [int(i) for i in named]
    for number, entry in settings.get("added_tokens_decoder", {}).items():
        if eos_token is not None and _token_text(entry) == eos_token:
            ids.append(int(number))
    return tuple(dict.fromkeys(ids))


def _token_text(value: object) -> str | None:
    if isinstance(value, Mapping):
        value = value.get("content")
    return value if isinstance(value, str) else None


def _read_json(path: Path, optional: bool = False) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        if optional:
            return {}
        raise ModelError(f"{path.name} is missing in {path.parent}.", "Download the model again.") from None
    except (OSError, ValueError) as error:
        raise ModelError(
            f"{path} cannot be read ({error}).", "Delete the file and download it again."
        ) from error
    if not isinstance(content, dict):
        raise ModelError(f"{path} does not hold a JSON object.", "Delete the file and download it again.")
    return content
