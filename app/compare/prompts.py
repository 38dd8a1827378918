"""The prompts of a comparison: one, several lines, a file's, or a chat's own. No Qt."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from app.language import tr, tr_n
from app.text_files import decoded
from engine.protocol import Message, Role

MOST = 200
"""Prompts of one comparison."""
LARGEST_FILE = 8_000_000
"""Bytes."""
LINES_TOLD = 5
"""Broken lines of a file that are told one by one."""


@dataclass(frozen=True, slots=True)
class Prompt:
    messages: tuple[Message, ...]
    """What the engine is asked; the last one is the user's."""

    @property
    def text(self) -> str:
        """What the user asked."""
        return next((each.content for each in reversed(self.messages) if each.role is Role.USER), "")


@dataclass(frozen=True, slots=True)
class PromptFile:
    texts: tuple[str, ...]
    problems: tuple[str, ...] = ()
    """What could not be used of it, a sentence each."""


class PromptFileError(ValueError):
    """A file without a usable prompt; the text says why, and what to do."""


def asked(texts: Sequence[str], system_prompt: str = "") -> tuple[Prompt, ...]:
    """Each text as the first prompt of a chat; empty ones are left out."""
    told = (Message(Role.SYSTEM, system_prompt.strip()),) if system_prompt.strip() else ()
    return tuple(Prompt((*told, Message(Role.USER, text))) for text in texts if text.strip())


def lines_of(text: str) -> tuple[str, ...]:
    """One prompt a line; blank lines are none."""
    return tuple(line.strip() for line in text.splitlines() if line.strip())


def of_conversation(messages: Sequence[Message]) -> tuple[Prompt, ...]:
    """Every prompt of a conversation with what was said before it."""
    return tuple(
        Prompt(tuple(messages[: place + 1]))
        for place, message in enumerate(messages)
        if message.role is Role.USER and message.content.strip()
    )


def read_file(path: Path) -> PromptFile:
    """Prompts of a file: JSON lines with ``turns`` as in the bench's (also ``prompt`` or ``text``), or
    one prompt a line.

    :raises PromptFileError: it cannot be read, or holds no prompt.
    """
    try:
        if path.stat().st_size > LARGEST_FILE:
            raise PromptFileError(
                tr("Compare", "{file} is too large for a list of prompts. Choose a smaller file.").format(file=path.name)
            )
        if path.exists() and not path.is_file():  # a pipe would be waited for
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        text = decoded(path.read_bytes())
    except OSError as error:
        raise PromptFileError(
            tr("Compare", "{file} cannot be read ({reason}). Choose another file.").format(
                file=path.name, reason=error.strerror or error
            )
        ) from error
    except UnicodeDecodeError as error:
        raise PromptFileError(
            tr("Compare", "{file} is not a text in UTF-8. Choose another file.").format(file=path.name)
        ) from error
    if path.suffix.lower() in (".jsonl", ".json", ".ndjson"):
        texts, problems = _json_lines(text)
    else:
        texts, problems = list(lines_of(text)), []
    if not texts:
        reason = f" {problems[0]}" if problems else ""
        raise PromptFileError(
            tr("Compare", "{file} holds no prompts.{reason} Choose another file.").format(
                file=path.name, reason=reason
            )
        )
    if len(texts) > MOST:
        problems.append(
            tr("Compare", "Only the first {most} of its {count} prompts are used.").format(most=MOST, count=len(texts))
        )
    return PromptFile(tuple(texts[:MOST]), tuple(problems))


def _json_lines(text: str) -> tuple[list[str], list[str]]:
    texts: list[str] = []
    wrong: list[str] = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            wrong.append(tr("Compare", "Line {number} is no JSON.").format(number=number))
            continue
        prompt = _prompt_of(row)
        if prompt:
            texts.append(prompt)
        else:
            wrong.append(tr("Compare", "Line {number} has no “turns” with a text.").format(number=number))
    if len(wrong) > LINES_TOLD:
        more = tr_n("Compare", "%n more line was left out.", "%n more lines were left out.", len(wrong) - LINES_TOLD)
        wrong = [*wrong[:LINES_TOLD], more]
    return texts, wrong


def _prompt_of(row: object) -> str:
    if not isinstance(row, dict):
        return ""
    turns = row.get("turns")
    candidates = [turns[0] if isinstance(turns, list) and turns else None, row.get("prompt"), row.get("text")]
    return next((each.strip() for each in candidates if isinstance(each, str) and each.strip()), "")
