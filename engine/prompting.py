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
from pathlib import Path
from typing import Any

import jinja2
from jinja2.ext import Extension, loopcontrols
from jinja2.nodes import Node
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace

from engine.errors import PromptError
from engine.protocol import Message, Role
from engine.thinking import SWITCH, without_thoughts

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
    def load(cls, model: str | Path, name: str = "") -> ChatFormat:
        """The format of the model in folder ``model``, or of the demo model for ``"demo"``.

        ``name`` is the model's for people, where the folder has another.

        A model without a template gets a plain one, which ``notice`` says.

        :raises PromptError: the template is not valid jinja.
        :raises ModelError: one of the folder's files is missing or is not valid JSON.
        """
        from engine.chat_formats import load_demo, load_folder

        loaded = load_demo() if model == DEMO else load_folder(Path(model), name)
        loaded._compiled()
        return loaded

    def render(self, messages: Sequence[Message], thinking: bool | None = None) -> str:
        """The prompt for the next reply to ``messages``; rendering is deterministic.

        ``thinking`` switches thoughts on or off where the template can; None leaves it to
        the template. Thoughts of earlier replies are left out.

        When the last message is the assistant's, the prompt ends behind its text, so that
        the model writes on. Neighbouring messages of one role are joined, for many templates insist on
        turns that alternate. A system message goes into the first user message
        where the template refuses to have one.

        :raises PromptError: there is nothing to answer, or the template refuses the conversation.
        """
        turns = _joined(messages, self.thinking_tags)
        begun = turns.pop()["content"] if turns and turns[-1]["role"] == Role.ASSISTANT else ""
        if not turns or turns[-1]["role"] != Role.USER:
            raise PromptError("There is no user message to answer.", "Write a message and send it.")
        try:
            return self._run(turns, begun, thinking)
        except jinja2.TemplateError as error:
            folded = _without_system(turns)
            if folded == turns:
                raise self._refusal(error) from error
        except (TypeError, ValueError, ArithmeticError, LookupError, RecursionError, MemoryError) as error:
            raise self._refusal(error) from error
        try:
            return self._run(folded, begun, thinking)
        except Exception as error:  # whatever a stranger's template does
            raise self._refusal(error) from error

    def _refusal(self, error: BaseException) -> PromptError:
        return PromptError(
            f"The chat template of {self.name} does not accept this conversation: {error}",
            "Start a new chat, or take the system prompt out. If it happens again, use another model.",
        )

    def _run(self, turns: Sequence[Mapping[str, str]], begun: str, thinking: bool | None) -> str:
        """The prompt; with the beginning of a reply it ends behind that, joined as the template joins it."""
        asked = self._fill(turns, True, thinking)
        words = begun.strip()
        if not words:
            return asked
        if self.thinking_tags is not None and asked.rstrip().endswith(self.thinking_tags[0]):
            return asked + begun  # the prompt opens a thought, which no finished message shows
        whole = self._fill([*turns, {"role": "assistant", "content": begun}], False, thinking)
        end = whole.rfind(words)
        if end < 0:  # the template leaves a part out, such as a thought
            return asked + begun
        return whole[: end + len(words)] + begun[len(begun.rstrip()) :]

    def _fill(
        self, turns: Sequence[Mapping[str, str]], add_generation_prompt: bool, thinking: bool | None
    ) -> str:
        context: dict[str, Any] = dict(self.tokens)
        if thinking is not None and self.thinking_optional:
            context[SWITCH] = thinking
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


def _joined(messages: Sequence[Message], tags: tuple[str, str] | None) -> list[dict[str, str]]:
    """Plain dictionaries for the template, system messages first, one message a turn."""
    ordered = [m for m in messages if m.role is Role.SYSTEM] + [
        m for m in messages if m.role is not Role.SYSTEM
    ]
    turns: list[dict[str, str]] = []
    for message in ordered:
        role, content = str(message.role.value), str(message.content)
        if role == Role.SYSTEM and not content.strip():
            continue
        if tags is not None and role == Role.ASSISTANT and message is not messages[-1]:
            content = without_thoughts(content, tags)
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
