"""From a row of logits to one token: greedy, or drawn from the processed distribution.

Processors with history first (:mod:`engine.processors`), then temperature, top-k, top-p
and min-p, as in transformers. A token is drawn by inversion of the cumulative
distribution with a number that depends on the seed and the token's position alone:
position n gets the same number whether its token was drafted or not, and however many
were drafted before it.
"""

from __future__ import annotations

import math
import secrets
import struct
from collections.abc import Sequence
from enum import IntEnum
from hashlib import blake2b

import torch
from torch import Tensor

from engine.errors import PromptError
from engine.processors import HistoryProcessors
from engine.settings import GenerationSettings

_NUCLEUS_GUESS = 256
"""Most nuclei hold fewer tokens; a full sort of a large vocabulary is the fallback."""


class Purpose(IntEnum):
    """What a random number is for; numbers of different purposes are independent."""

    CHOICE = 0
    ACCEPT = 1
    """Whether a drawn guess stands."""
    RESIDUAL = 2
    """The token after all guesses of a node failed."""
    DRAFT = 3


class Noise:
    """Random numbers by address: a keyed hash of position, purpose and index."""

    def __init__(self, seed: int | None) -> None:
        """``seed=None`` takes one from the system."""
        name = secrets.token_bytes(32) if seed is None else f"seed {seed}".encode()
        self._key = blake2b(name, digest_size=32).digest()

    def uniform(self, position: int, purpose: Purpose = Purpose.CHOICE, index: int = 0) -> float:
        """In [0, 1), of 53 bits."""
        digest = blake2b(struct.pack("<qqq", position, purpose, index), key=self._key, digest_size=8)
        return (int.from_bytes(digest.digest(), "little") >> 11) * 2.0**-53


class Sampler:
    """Chooses the tokens of one reply, whose first token stands at ``reply_begins``."""

    def __init__(self, settings: GenerationSettings, reply_begins: int = 0) -> None:
        check(settings)
        self.settings = settings
        self._processors = HistoryProcessors(settings, reply_begins)
        self.greedy = settings.temperature == 0
        self.plain_greedy = self.greedy and not self._processors.active
        """The largest raw logit wins, whatever came before."""
        self.noise = Noise(settings.seed)

    def choose(self, logits: Tensor, tokens: Sequence[int] = (), path: Sequence[int] = ()) -> int:
        """One token from the logits [vocab] of the node that ``path`` leads to.

        ``tokens`` are all known tokens, the root included; ``path`` those of the nodes
        from there on, the node's own included. The new token's position is their count.
        """
        logits = self.processed(logits, tokens, path)
        if self.greedy:
            return int(logits.argmax())
        probabilities, ids = self.distribution(logits)
        index = draw(probabilities, self.noise.uniform(len(tokens) + len(path)))
        return index if ids is None else int(ids[index])

    def probabilities(
        self, logits: Tensor, tokens: Sequence[int] = (), path: Sequence[int] = ()
    ) -> Tensor:
        """The distribution that :meth:`choose` draws from. [vocab] float64, sum 1"""
        logits = self.processed(logits, tokens, path)
        return self.filtered(logits)

    def filtered(self, logits: Tensor) -> Tensor:
        """Temperature and filters without history: what a drafter draws from. [vocab] float64, sum 1"""
        dense = torch.zeros(logits.numel(), dtype=torch.float64)
        if self.greedy:
            dense[logits.argmax()] = 1
            return dense
        probabilities, ids = self.distribution(logits)
        if ids is None:
            dense += probabilities
        else:
            dense[ids] = probabilities.double()
        return dense / dense.sum()

    def processed(self, logits: Tensor, tokens: Sequence[int], path: Sequence[int]) -> Tensor:
        """Logits after the processors with history. [vocab]"""
        return self._processors.apply(logits, tokens, path) if self._processors.active else logits

    def distribution(self, logits: Tensor) -> tuple[Tensor, Tensor | None]:
        """After temperature and filters: probabilities [n] (not normalised after filtering)
        and their token ids [n], or None when these are all tokens in order."""
        settings = self.settings
        scaled = logits.float() / settings.temperature
        vocabulary = scaled.numel()
        top_k = min(settings.top_k or vocabulary, vocabulary)
        top_p, min_p = settings.top_p, settings.min_p
        if top_k == vocabulary and top_p >= 1:
            probabilities = torch.softmax(scaled, -1)
            if min_p:
                probabilities = probabilities.masked_fill(probabilities < min_p * probabilities.max(), 0.0)
            return probabilities, None
        if top_k < vocabulary:
            values, tokens = scaled.topk(top_k)
            probabilities = torch.softmax(values, -1)
        else:
            probabilities = torch.softmax(scaled, -1)
            probabilities, tokens = probabilities.topk(min(_NUCLEUS_GUESS, vocabulary))
            if top_p < 1 and probabilities.sum() < top_p:
                probabilities, tokens = torch.softmax(scaled, -1).sort(descending=True, stable=True)
        kept = probabilities.numel()
        if top_p < 1:
            # A token stays while the mass before it is below top_p; the first always stays.
            before = probabilities.cumsum(0) - probabilities
            kept = max(1, int((before < top_p).sum()))
        if min_p:
            kept = min(kept, int((probabilities >= min_p * probabilities[0]).sum()))
        return probabilities[:kept], tokens[:kept]


def draw(probabilities: Tensor, number: float) -> int:
    """Index drawn from weights [n] (any sum above 0) by inversion of ``number`` in [0, 1)."""
    cumulative = probabilities.cumsum(0, dtype=torch.float64)
    wanted = cumulative[-1] * number
    index = int(torch.searchsorted(cumulative, wanted, right=True))
    if index == cumulative.numel():  # rounded up to the whole
        index = int(probabilities.nonzero()[-1])
    return index


def check(settings: GenerationSettings) -> None:
    """:class:`PromptError` for a setting out of range."""
    must = "It must be"
    for wrong, message, rule in (
        (not 0 <= settings.temperature < math.inf, f"The temperature is {settings.temperature}.", "0 or more"),
        (not 0 < settings.top_p <= 1, f"Top-p is {settings.top_p}.", "above 0 and at most 1"),
        (settings.top_k < 0, f"Top-k is {settings.top_k}.", "0 (off) or more"),
        (not 0 <= settings.min_p <= 1, f"Min-p is {settings.min_p}.", "0 (off) to 1"),
        (
            not 0 < settings.repetition_penalty < math.inf,
            f"The repetition penalty is {settings.repetition_penalty}.",
            "above 0; 1 switches it off",
        ),
        (
            settings.no_repeat_ngram < 0,
            f"The length of n-grams not to repeat is {settings.no_repeat_ngram}.",
            "0 (off) or more",
        ),
        (
            settings.max_new_tokens < 1,
            f"The reply length is {settings.max_new_tokens} tokens.",
            "at least 1",
        ),
    ):
        if wrong:
            raise PromptError(message, f"{must} {rule}.")
