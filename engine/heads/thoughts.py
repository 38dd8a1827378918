"""Whether a model thinks before it answers, and whether a head learned on such replies.

A head trained on thoughts drafts less well without them, and the other way round. No
format has a field for it, so the facts that there are count: the target's chat template
(closing tags of thoughts, and the variable that switches them), what a head's files say
about their training, and the names of both.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from enum import StrEnum
from pathlib import Path

from engine.thinking import SWITCH, recognise


class Thoughts(StrEnum):
    """What is known of a model's or a head's thoughts."""

    UNKNOWN = "unknown"
    NEVER = "never"
    SWITCHED = "switched"
    """Of a target: its template turns them on and off."""
    ALWAYS = "always"


_WITHOUT = re.compile(r"(?:no|non)[-_ ]?think|(?<![a-z])instruct-2507", re.IGNORECASE)
_WITH = re.compile(r"think|reasoning|(?<![a-z])(?:r1|qwq|magistral)(?![a-z0-9])", re.IGNORECASE)
_TRAINING_KEYS = ("training", "chat_template", "data_chat_template", SWITCH, "thinking", "dataset", "train_dataset")
"""Where exporters put what they know of a run; free text, so it is only searched for words."""


def by_names(*names: str) -> Thoughts:
    """By words such as “Thinking”, “R1” or “no_think” in the names of repositories."""
    if any(_WITHOUT.search(name) for name in names):
        return Thoughts.NEVER
    return Thoughts.ALWAYS if any(_WITH.search(name) for name in names) else Thoughts.UNKNOWN


def of_template(template: str, name: str = "") -> Thoughts:
    """Of a target: by its chat template, and by its name where there is none."""
    if not template:
        return by_names(name)
    found = recognise(template)
    if found is None:
        return Thoughts.NEVER
    return Thoughts.SWITCHED if found.optional else Thoughts.ALWAYS


def of_head(raw: Mapping[str, object], *names: str) -> Thoughts:
    """Of a head: by what its config says of its training; by names where it says nothing."""
    for key in _TRAINING_KEYS:
        for value in _values(raw.get(key), key):
            if isinstance(value, bool):
                return Thoughts.ALWAYS if value else Thoughts.NEVER
            found = by_names(value)
            if found is not Thoughts.UNKNOWN:
                return found
    return by_names(*names)


def _values(value: object, key: str) -> Iterator[str | bool]:
    if isinstance(value, Mapping):
        for inner, content in value.items():
            yield from _values(content, str(inner))
    elif isinstance(value, bool):
        if "think" in key.lower():
            yield value
    elif isinstance(value, str):
        yield value


def template_in(folder: Path) -> str:
    """The chat template that lies in a model folder, "" where there is none that can be read."""
    try:
        return (folder / "chat_template.jinja").read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        pass
    try:
        return template_of((folder / "tokenizer_config.json").read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError):
        return ""


def template_of(tokenizer_config: str) -> str:
    """The chat template in the text of a ``tokenizer_config.json``; "" where there is none."""
    try:
        found = json.loads(tokenizer_config)
    except ValueError:
        return ""
    template = found.get("chat_template") if isinstance(found, dict) else None
    if isinstance(template, list):  # several by name; the default one is what chats use
        named = {str(each.get("name")): each.get("template") for each in template if isinstance(each, dict)}
        template = named.get("default", next(iter(named.values()), None))
    return template if isinstance(template, str) else ""


def caveat(target: Thoughts, head: Thoughts) -> str:
    """What to say of the pair, "" where the two agree or one is not known to differ."""
    if head is Thoughts.ALWAYS:
        if target is Thoughts.NEVER:
            return "The head was trained on replies with thinking, which this model does not do: it drafts less well."
        if target is Thoughts.SWITCHED:
            return "The head was trained on replies with thinking: leave thinking on, or it drafts less well."
        if target is Thoughts.UNKNOWN:
            return "The head was trained on replies with thinking; where thinking is off it drafts less well."
    if head is Thoughts.NEVER:
        if target is Thoughts.ALWAYS:
            return "The head was trained on replies without thinking, and this model always thinks: it drafts less well."
        if target is Thoughts.SWITCHED:
            return "The head was trained on replies without thinking: switch thinking off, or it drafts less well."
    return ""
