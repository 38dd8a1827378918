"""From a row of logits to one token: greedy, or drawn from the processed distribution.

Temperature, then top-k, then top-p, as in transformers. One uniform number is used
for each token, by inversion of the cumulative distribution: token n of a reply
takes the n-th number of the seed's stream whether it was drafted or not.
"""

from __future__ import annotations

import torch
from torch import Tensor

from engine.errors import PromptError
from engine.protocol import GenerationSettings

_NUCLEUS_GUESS = 256
"""Most nuclei hold fewer tokens; a full sort of a large vocabulary is the fallback."""


class Sampler:
    """Chooses tokens for one reply."""

    def __init__(self, settings: GenerationSettings) -> None:
        check(settings)
        self.settings = settings
        self.greedy = settings.temperature == 0
        self._generator = torch.Generator()
        if settings.seed is None:
            self._generator.seed()
        else:
            self._generator.manual_seed(settings.seed)

    def choose(self, logits: Tensor) -> int:
        """One token from the logits [vocab] of one node."""
        if self.greedy:
            return int(logits.argmax())
        probabilities, tokens = self.distribution(logits)
        cumulative = probabilities.cumsum(0, dtype=torch.float64)
        draw = torch.rand(1, generator=self._generator, dtype=torch.float64) * cumulative[-1]
        index = int(torch.searchsorted(cumulative, draw, right=True))
        index = min(index, probabilities.numel() - 1)
        return index if tokens is None else int(tokens[index])

    def distribution(self, logits: Tensor) -> tuple[Tensor, Tensor | None]:
        """The processed distribution: probabilities [n] (not normalised after filtering)
        and their token ids [n], or None when these are all tokens in order."""
        scaled = logits.float() / self.settings.temperature
        vocabulary = scaled.numel()
        top_k = min(self.settings.top_k or vocabulary, vocabulary)
        top_p = self.settings.top_p
        if top_k == vocabulary and top_p >= 1:
            return torch.softmax(scaled, -1), None
        if top_k < vocabulary:
            values, tokens = scaled.topk(top_k)
            probabilities = torch.softmax(values, -1)
        else:
            probabilities = torch.softmax(scaled, -1)
            probabilities, tokens = probabilities.topk(min(_NUCLEUS_GUESS, vocabulary))
            if top_p < 1 and probabilities.sum() < top_p:
                probabilities, tokens = torch.softmax(scaled, -1).sort(descending=True, stable=True)
        if top_p < 1:
            # A token stays while the mass before it is below top_p; the first always stays.
            before = probabilities.cumsum(0) - probabilities
            kept = max(1, int((before < top_p).sum()))
            probabilities, tokens = probabilities[:kept], tokens[:kept]
        return probabilities, tokens


def check(settings: GenerationSettings) -> None:
    """:class:`PromptError` for a setting out of range."""
    if settings.temperature < 0:
        raise PromptError(f"The temperature is {settings.temperature}.", "It must be 0 or more.")
    if not 0 < settings.top_p <= 1:
        raise PromptError(f"Top-p is {settings.top_p}.", "It must be above 0 and at most 1.")
    if settings.top_k < 0:
        raise PromptError(f"Top-k is {settings.top_k}.", "It must be 0 (off) or more.")
    if settings.max_new_tokens < 1:
        raise PromptError(f"The reply length is {settings.max_new_tokens} tokens.", "It must be at least 1.")
