"""How near the race between two tokens was, for a comparison of two replies that part."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from engine.settings import GenerationSettings

if TYPE_CHECKING:
    from engine.protocol import Message


@dataclass(frozen=True, slots=True)
class MeasureMargin:
    """Look at the target's logits after the first tokens of a reply; answered by
    :class:`MarginMeasured`, or by ``Failed`` with the same id."""

    request_id: str
    messages: tuple[Message, ...]
    token_ids: tuple[int, ...]
    """Of the reply, up to the place; empty for its first token."""
    candidates: tuple[int, ...]
    """Token ids that are compared there, at least one."""
    settings: GenerationSettings
    """Processors and temperature as in the replies."""


@dataclass(frozen=True, slots=True)
class MarginMeasured:
    """Everything is in the order of the candidates."""

    request_id: str
    logits: tuple[float, ...]
    """From plain decoding's pass, after the processors with history; minus infinity for a token that
    they forbid."""
    probabilities: tuple[float, ...]
    """What the reply's tokens are drawn from; without sampling, the softmax of the logits."""
    texts: tuple[str, ...]
    noise: float
    """Difference between two candidates' logits that rounding accounts for: twice the most by which
    it changed when the same rows were computed few or many at a time, and at least one step of the
    numbers that the logits are kept in. 0 where passes agree bit for bit and nothing was rounded off."""
    best: int
    """Id of the token with the largest logit."""
    best_text: str
    best_logit: float
