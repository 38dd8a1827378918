"""Thoughts in a reply: what stands between ``<think>`` and ``</think>`` before the answer.

Some templates open the thought in the prompt (DeepSeek-R1), so a reply may begin inside
one and show only its end. Text is never changed here, only marked.
"""

from __future__ import annotations

from dataclasses import dataclass

TAGS = (("<think>", "</think>"), ("[THINK]", "[/THINK]"), ("<thinking>", "</thinking>"))
"""Opening and closing tags that models are trained with."""
TAG_TEXTS = frozenset(text for pair in TAGS for text in pair)
SWITCH = "enable_thinking"
"""The template variable that switches thoughts on and off (Qwen3 and others)."""


@dataclass(frozen=True, slots=True)
class ThinkingFormat:
    tags: tuple[str, str]
    optional: bool
    """Whether the template has :data:`SWITCH`."""


def recognise(template: str) -> ThinkingFormat | None:
    """The format of a model's thoughts, from its chat template; None where it has none."""
    for tags in TAGS:
        if tags[1] in template:
            return ThinkingFormat(tags, SWITCH in template)
    return None


def without_thoughts(text: str, tags: tuple[str, str]) -> str:
    """An earlier reply as the model should see it again: the answer alone.

    A thought that was never closed is dropped whole; the opening tag may be missing.
    """
    start, end = tags
    before, closed, answer = text.partition(end)
    if closed:
        head = before.partition(start)[0] if start in before else ""
        return head + without_thoughts(answer.lstrip("\n"), tags)
    return text.partition(start)[0] if start in text else text


class ThinkingMarker:
    """Follows a reply as it streams and says which parts are thought, tags included."""

    def __init__(self, tags: tuple[str, str], begun: bool = False) -> None:
        """``begun``: the thought was opened before the reply."""
        self._tags = tags
        self._inside = begun
        self._over = False
        self._tail = ""
        self._seen = 0
        self.end = 0
        """Characters of the text so far that belong to thoughts at its beginning."""

    def push(self, text: str) -> bool:
        """Take the next piece; true when it belongs to a thought, also where it only ends one.

        A thought begins before anything else of a reply: later tags are the answer's own words.
        """
        self._seen += len(text)
        if self._over or not text:
            return self._inside and not self._over
        self._tail += text
        start, end = self._tags
        if not self._inside:
            words = self._tail.lstrip()
            if words.startswith(start):
                self._inside = True
            elif start.startswith(words):
                return False  # as yet nothing, or the beginning of a tag
            else:
                self._over = True
                return False
        at = self._tail.find(end)
        if at >= 0:
            self._over = True
            self.end = self._seen - (len(self._tail) - at - len(end))
        else:
            self.end = self._seen
            if len(self._tail) > 4 * len(end):
                self._tail = self._tail[-len(end) :]
        return True


def open_in(prompt_end: str, tags: tuple[str, str]) -> bool:
    """Whether a prompt that ends with ``prompt_end`` leaves a thought open."""
    return prompt_end.rfind(tags[0]) > prompt_end.rfind(tags[1])
