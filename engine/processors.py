"""Processors that look at what came before: penalties, repeated n-grams, and fixed biases.

The history of a node of the draft tree is the known tokens and the node's own path, never
the prefix alone: only then has a drafted token the distribution that plain decoding
gives it. The order is that of transformers (``_get_logits_processor`` in
generation/utils.py): bias, penalties, n-grams; temperature and filters come after
(:mod:`engine.sampling`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import torch
from torch import Tensor

from engine.settings import GenerationSettings


class HistoryProcessors:
    """For one reply. Known tokens are counted once and kept; a path is added for its node alone."""

    def __init__(self, settings: GenerationSettings, reply_begins: int) -> None:
        """``reply_begins`` is the position of the reply's first token: the presence and the
        frequency penalty look at the reply alone, the others at the prompt too."""
        self._repetition = settings.repetition_penalty
        self._presence = settings.presence_penalty
        self._frequency = settings.frequency_penalty
        self._ngram = settings.no_repeat_ngram
        self._bias = dict(settings.logit_bias)
        self._reply_begins = reply_begins
        self._seen: dict[int, None] = {}
        self._reply: Counter[int] = Counter()
        self._following: dict[tuple[int, ...], set[int]] = {}
        self._known: list[int] = []

    @property
    def active(self) -> bool:
        """Whether any of them is switched on."""
        return bool(
            self._repetition != 1 or self._presence or self._frequency or self._ngram or self._bias
        )

    def apply(self, logits: Tensor, tokens: Sequence[int], path: Sequence[int]) -> Tensor:
        """Processed logits [vocab] of the node reached by ``path`` after the known ``tokens``."""
        self._learn(list(tokens))
        out = logits.float().clone()
        if self._bias:
            out[list(self._bias)] += torch.tensor(list(self._bias.values()))
        if self._repetition != 1:
            ids = list({**self._seen, **dict.fromkeys(path)})
            values = out[ids]
            out[ids] = torch.where(values > 0, values / self._repetition, values * self._repetition)
        if self._presence or self._frequency:
            counts = self._reply + Counter(path)
            if counts:
                times = torch.tensor(list(counts.values()), dtype=out.dtype)
                out[list(counts)] -= self._presence + self._frequency * times
        if self._ngram:
            banned = list(self._banned(tokens, path))
            # Where nothing would be left, the rule cannot be kept.
            if banned and len(banned) < out.numel():
                out[banned] = -torch.inf
        return out

    def _learn(self, tokens: list[int]) -> None:
        """Count what is new in ``tokens``; start over when they are not a continuation."""
        size, known = self._ngram, self._known
        if known != tokens[: len(known)]:
            self._seen, self._reply, self._following = {}, Counter(), {}
            known.clear()
        for position in range(len(known), len(tokens)):
            token = tokens[position]
            known.append(token)
            self._seen[token] = None
            if position >= self._reply_begins:
                self._reply[token] += 1
            if size and position >= size - 1:
                before = tuple(known[position - size + 1 : position])
                self._following.setdefault(before, set()).add(token)

    def _banned(self, tokens: Sequence[int], path: Sequence[int]) -> set[int]:
        """Tokens that would end an n-gram a second time."""
        size = self._ngram
        if size == 1:
            return {*self._seen, *path}
        recent = [*tokens[max(0, len(tokens) - size + 1) :], *path]
        if len(recent) < size - 1:
            return set()
        last = tuple(recent[len(recent) - size + 1 :])
        banned = set(self._following.get(last, ()))
        for end in range(size - 1, len(recent)):
            if tuple(recent[end - size + 1 : end]) == last:
                banned.add(recent[end])
        return banned
