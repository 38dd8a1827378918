"""Turns a conversation into the text a model reads, and says when its reply ends.

A model folder in the Hugging Face layout brings its own template, in
``chat_template.jinja`` or ``tokenizer_config.json``. The demo model is a *base*
model without one: its few-shot template and stop strings are shipped in
``resources/`` and behave like any other model's.

Templates come from strangers: they run in jinja's immutable sandbox and see
plain strings only. What people write is data and never parsed as a template.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import jinja2
from jinja2.ext import Extension, loopcontrols
from jinja2.nodes import Node
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace

from engine.errors import ModelError, PromptError
from engine.protocol import Message, Role

DEMO = "demo"
STOPS_FILE = "chat_format.json"
"""Eyrie's own file for ``stop_strings``: with them in ``generation_config.json``,
transformers' ``generate`` refuses to run without a tokenizer."""
OTHER_MODEL = "Choose an instruction-tuned model (its name often ends in -it, -Instruct or -Chat)."


@dataclass(frozen=True, slots=True)
class ChatFormat:
    """How one model wants its conversations written. Immutable, safe to share between threads."""

    name: str
    template: str
    """Source of the jinja template."""
    stop_strings: tuple[str, ...] = ()
    """Texts at which a reply ends; they are not part of the reply."""
    eos_token_ids: tuple[int, ...] = ()
    """Token ids at which a reply ends."""
    add_bos: bool = False
    """Whether the tokenizer has to put a start token in front of the rendered text.

    False for every template that writes its own, as the Hugging Face ones do.
    """
    tokens: Mapping[str, str] = field(default_factory=dict)
    """Special tokens by the names templates use: ``bos_token``, ``eos_token`` and so on."""
    notice: str = ""
    """What the user should know about it, e.g. that the model brings none of its own."""
    thinking_tags: tuple[str, str] | None = None
    """What the model's thoughts stand between, where it thinks before it answers."""
    thinking_optional: bool = False
    """Whether the template can switch that off."""

    @classmethod
    def load(cls, model: str | Path) -> ChatFormat:
        """The format of the model in folder ``model``, or of the demo model for ``"demo"``.

        :raises PromptError: the model has no chat template, or one that is not valid jinja.
        :raises ModelError: one of the folder's files is missing or is not valid JSON.
        """
        loaded = _load_demo() if model == DEMO else _load_folder(Path(model))
        loaded._compiled()
        return loaded

    def render(self, messages: Sequence[Message]) -> str:
        """The prompt for the next reply to ``messages``; rendering is deterministic.

        When the last message is the assistant's, the prompt ends behind its text, so that
        the model writes on. Neighbouring messages of one role are joined, for many templates insist on
        turns that alternate. A system message goes into the first user message
        where the template refuses to have one.

        :raises PromptError: there is nothing to answer, or the template refuses the conversation.
        """
        turns = _joined(messages)
        begun = turns.pop()["content"] if turns and turns[-1]["role"] == Role.ASSISTANT else ""
        if not turns or turns[-1]["role"] != Role.USER:
            raise PromptError("There is no user message to answer.", "Write a message and send it.")
        try:
            return self._run(turns, begun)
        except jinja2.TemplateError as error:
            folded = _without_system(turns)
            if folded == turns:
                raise self._refusal(error) from error
        except (TypeError, ValueError, ArithmeticError, LookupError, RecursionError, MemoryError) as error:
            raise self._refusal(error) from error
        try:
            return self._run(folded, begun)
        except Exception as error:  # whatever a stranger's template does
            raise self._refusal(error) from error

    def _refusal(self, error: BaseException) -> PromptError:
        return PromptError(
            f"The chat template of {self.name} does not accept this conversation: {error}",
            "Start a new chat, or take the system prompt out. If it happens again, use another model.",
        )

    def _run(self, turns: Sequence[Mapping[str, str]], begun: str = "") -> str:
        """The prompt; with the beginning of a reply it ends behind that, joined as the template joins it."""
        asked = self._fill(turns, add_generation_prompt=True)
        words = begun.strip()
        if not words:
            return asked
        whole = self._fill([*turns, {"role": "assistant", "content": begun}], add_generation_prompt=False)
        end = whole.rfind(words)
        if end < 0:  # the template leaves a part out, such as a thought
            return asked + begun
        return whole[: end + len(words)] + begun[len(begun.rstrip()) :]

    def _fill(self, turns: Sequence[Mapping[str, str]], add_generation_prompt: bool) -> str:
        context: dict[str, Any] = dict(self.tokens)
        copies = [dict(turn) for turn in turns]
        return self._compiled().render(
            messages=copies,
            add_generation_prompt=add_generation_prompt,
            tools=None,
            documents=None,
            **context,
        )

    def _compiled(self) -> jinja2.Template:
        try:
            return _compile(self.template)
        except jinja2.TemplateSyntaxError as error:
            raise PromptError(
                f"The chat template of {self.name} is broken (line {error.lineno}: {error.message}).",
                OTHER_MODEL,
            ) from error


# --------------------------------------------------------------------------- conversations


def _joined(messages: Sequence[Message]) -> list[dict[str, str]]:
    """Plain dictionaries for the template, system messages first, one message a turn."""
    ordered = [m for m in messages if m.role is Role.SYSTEM] + [
        m for m in messages if m.role is not Role.SYSTEM
    ]
    turns: list[dict[str, str]] = []
    for message in ordered:
        role, content = str(message.role.value), str(message.content)
        if role == Role.SYSTEM and not content.strip():
            continue
        if turns and turns[-1]["role"] == role:
            turns[-1]["content"] += "\n\n" + content
        else:
            turns.append({"role": role, "content": content})
    return turns


def _without_system(turns: Sequence[Mapping[str, str]]) -> list[dict[str, str]]:
    if len(turns) < 2 or turns[0]["role"] != Role.SYSTEM or turns[1]["role"] != Role.USER:
        return [dict(turn) for turn in turns]
    first = {"role": str(Role.USER.value), "content": f"{turns[0]['content']}\n\n{turns[1]['content']}"}
    return [first, *(dict(turn) for turn in turns[2:])]


# --------------------------------------------------------------------------- the sandbox


class _GenerationTag(Extension):
    """``{% generation %}`` marks the reply for training in some templates; here it changes nothing."""

    tags = {"generation"}  # noqa: RUF012 - jinja's own declaration

    def parse(self, parser: Parser) -> list[Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


class _PlainNamespace(Namespace):
    """jinja's namespace without names that begin with an underscore, which lead into Python's internals."""

    def __init__(*args: Any, **values: Any) -> None:  # like jinja's, so that namespace(self=...) works
        attributes = dict(*args[1:], **values)
        for name in attributes:
            _PlainNamespace._check(name)
        Namespace.__init__(args[0], attributes)

    def __setitem__(self, name: str, value: Any) -> None:
        _PlainNamespace._check(name)
        Namespace.__setitem__(self, name, value)

    @staticmethod
    def _check(name: object) -> None:
        if isinstance(name, str) and name.startswith("_"):
            raise jinja2.exceptions.SecurityError(f"a namespace cannot hold {name!r}")


@lru_cache(maxsize=16)
def _compile(source: str) -> jinja2.Template:
    """The same settings as transformers' ``apply_chat_template``, so that templates give the same text."""
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[_GenerationTag, loopcontrols]
    )
    environment.filters["tojson"] = _to_json
    environment.globals["raise_exception"] = _raise_exception
    environment.globals["strftime_now"] = _strftime_now
    environment.globals["namespace"] = _PlainNamespace
    return environment.from_string(source)


def _to_json(value: Any, ensure_ascii: bool = False, indent: int | None = None, **options: Any) -> str:
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, **options)


def _raise_exception(message: str) -> None:
    raise jinja2.TemplateError(message)


def _strftime_now(layout: str) -> str:
    return datetime.now().strftime(layout)


# --------------------------------------------------------------------------- where formats come from


def _load_demo() -> ChatFormat:
    resources = files("resources")
    about = json.loads(resources.joinpath("models", "demo.json").read_text(encoding="utf-8"))
    return ChatFormat(
        name=about["name"],
        template=resources.joinpath("chat_templates", about["chat_template"]).read_text(encoding="utf-8"),
        stop_strings=tuple(about["stop_strings"]),
        eos_token_ids=tuple(about["eos_token_ids"]),
        tokens=about["special_tokens"],
    )


def _load_folder(folder: Path) -> ChatFormat:
    settings = _read_json(folder / "tokenizer_config.json")
    template = _template_of(folder, settings)
    if template is None:
        raise PromptError(
            f"{folder.name} has no chat template: it is a base model and continues text only.", OTHER_MODEL
        )
    generation = _read_json(folder / "generation_config.json", optional=True)
    config = _read_json(folder / "config.json", optional=True)
    tokens = {
        name: text
        for name, value in settings.items()
        if name.endswith("_token") and (text := _token_text(value)) is not None
    }
    ours = _read_json(folder / STOPS_FILE, optional=True)
    stops = ours.get("stop_strings") or generation.get("stop_strings") or ()
    return ChatFormat(
        name=folder.name,
        template=template,
        stop_strings=(stops,) if isinstance(stops, str) else tuple(stops),
        eos_token_ids=_eos_ids(generation, config, settings, tokens.get("eos_token")),
        tokens=tokens,
    )


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
