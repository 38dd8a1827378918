"""From a file of prompts to token ids behind one shared prefix.

The target is asked exactly as in a chat, with the same template and tokenizer.
What all prompts begin with (the start token, few-shot examples, a system prompt)
becomes the prefix, which is then processed once instead of once per prompt.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path

from engine.errors import EngineError
from engine.prompting import ChatFormat
from engine.protocol import Message, Role
from engine.tokenizing import Tokenizer


@dataclass(frozen=True)
class EncodedPrompts:
    """``prefix`` begins every prompt; ``prompts`` holds (line in the file, ids behind the prefix)."""

    prefix: list[int]
    prompts: list[tuple[int, list[int]]]


def read_prompts(path: Path) -> list[str]:
    """The first user turn of every line, ``{"turns": ["..."]}``. Raises EngineError naming the line."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise EngineError(f"The prompts in {path} cannot be read: {error}.", "Name another file.") from error
    found = []
    for number, line in enumerate(lines, 1):
        try:
            turn = json.loads(line)["turns"][0]
        except (ValueError, KeyError, IndexError, TypeError) as error:
            raise EngineError(
                f"Line {number} of {path} is not of the form {{\"turns\": [\"...\"]}}.", "Mend or delete the line."
            ) from error
        if not isinstance(turn, str) or not turn.strip():
            raise EngineError(f"Line {number} of {path} holds no text.", "Mend or delete the line.")
        found.append(turn)
    if len(found) < 2:
        raise EngineError(f"{path} holds fewer than two prompts.", "Name a file with more prompts.")
    return found


def encode_prompts(texts: Sequence[str], chat: ChatFormat, tokenizer: Tokenizer) -> EncodedPrompts:
    """Render and tokenise; raises EngineError when the prompts have no common beginning."""
    ids = [tokenizer.encode(chat.render([Message(Role.USER, text)]), add_bos=chat.add_bos) for text in texts]
    # The last token stays with the prompt: every prompt needs a row of its own.
    columns = zip(*(prompt[:-1] for prompt in ids), strict=False)
    shared = sum(1 for _ in takewhile(lambda column: len(set(column)) == 1, columns))
    if not shared:
        raise EngineError(
            "The prompts do not begin with a common token.", "Use a chat template that begins with a start token."
        )
    return EncodedPrompts(ids[0][:shared], [(row, prompt[shared:]) for row, prompt in enumerate(ids)])


def reply_end(chat: ChatFormat, tokenizer: Tokenizer) -> Callable[[list[int]], bool]:
    """Whether a reply's tokens are complete: an end token, or a stop string in the last few tokens."""
    ends = set(chat.eos_token_ids)
    tail = 2 + max((len(stop) for stop in chat.stop_strings), default=0)

    def complete(tokens: list[int]) -> bool:
        if tokens[-1] in ends:
            return True
        text = tokenizer.decode(tokens[-tail:])
        return any(stop in text for stop in chat.stop_strings)

    return complete
