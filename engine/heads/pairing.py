"""Whether a head belongs to a target, with reasons in plain words, before any weights are read."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from engine.errors import HeadError
from engine.heads.config import Eagle3Config
from engine.heads.facts import HeadFacts, TargetFacts
from engine.heads.formats import HeadFormat
from engine.heads.thoughts import caveat

LONG_ENOUGH = 4096
"""Tokens of a chat that a head should have been trained for."""


class Fit(StrEnum):
    FITS = "fits"
    CAVEAT = "fits with a caveat"
    NOT = "does not fit"


@dataclass(frozen=True, slots=True)
class Pairing:
    """A verdict. ``reasons`` are whole sentences; none are needed where a head simply fits."""

    fit: Fit
    reasons: tuple[str, ...] = ()

    @property
    def usable(self) -> bool:
        return self.fit is not Fit.NOT

    @property
    def words(self) -> str:
        """The verdict and its reasons in one line."""
        verdict = f"It {self.fit}"
        return f"{verdict}: {' '.join(self.reasons)}" if self.reasons else f"{verdict}."


def pair(target: TargetFacts, head: HeadFacts) -> Pairing:
    """Judge by facts alone; pure, reads nothing."""
    against = _against(target, head)
    if against:
        return Pairing(Fit.NOT, tuple(against))
    caveats = _caveats(target, head)
    return Pairing(Fit.CAVEAT if caveats else Fit.FITS, tuple(caveats))


def require_fit(target: TargetFacts, head: HeadFacts) -> Pairing:
    """:func:`pair`, and HeadError with the reasons when the head does not fit."""
    verdict = pair(target, head)
    if verdict.usable:
        return verdict
    made_for = f" It was made for {head.target_name}." if head.target_name else ""
    raise HeadError(
        f"This head belongs to another model. {' '.join(verdict.reasons)}{made_for}",
        "Choose a head made for this model, or chat without one.",
    )


def check_fits(config: Eagle3Config, target_hidden_size: int, target_vocab: int, target_layers: int) -> None:
    """Raise HeadError when an EAGLE-3 head was made for another target, saying what differs."""
    target = TargetFacts("", "", target_hidden_size, target_vocab, target_layers, LONG_ENOUGH)
    require_fit(target, HeadFacts.of(config, HeadFormat.SPECFORGE))


def _against(target: TargetFacts, head: HeadFacts) -> list[str]:
    if target.problem:
        return [target.problem]
    if head.problem:
        return [head.problem]
    reasons = []
    if head.target_hidden_size != target.hidden_size:
        reasons.append(
            f"It was made for hidden size {head.target_hidden_size:,}, this model has {target.hidden_size:,}."
        )
    elif head.hidden_size != target.hidden_size and not head.own_embedding:
        reasons.append(
            f"It needs embeddings of width {head.hidden_size:,}, this model's have {target.hidden_size:,}, "
            "and it brings none."
        )
    if head.vocab_size != target.vocab_size:
        reasons.append(
            f"It was made for a vocabulary of {head.vocab_size:,} tokens, this model has {target.vocab_size:,}."
        )
    if head.taps and head.taps[-1] > target.num_layers:
        reasons.append(f"It taps layer {head.taps[-1] - 1}, the model has {target.num_layers} layers.")
    if not head.taps and head.format not in (HeadFormat.EAGLE1, HeadFormat.MEDUSA) and target.num_layers < 6:
        reasons.append(
            f"It does not say which layers it taps, and the usual ones do not exist in {target.num_layers} layers."
        )
    return reasons


def _caveats(target: TargetFacts, head: HeadFacts) -> list[str]:
    caveats = []
    if _differently_named(target.name, head.target_name):
        caveats.append(
            f"The head was made for {head.target_name}, which has the same shape; with another model it drafts worse."
        )
    if words := caveat(target.thoughts, head.thoughts):
        caveats.append(words)
    if 0 < head.max_positions < min(target.max_positions, LONG_ENOUGH):
        caveats.append(
            f"The head was trained on texts of up to {head.max_positions:,} tokens; in longer chats it drafts less well."
        )
    if target.experts:
        caveats.append("The model is a mixture of experts, where drafting gains little.")
    return caveats


_PACKAGING = re.compile(
    r"[-_.](?:gguf|awq|gptq|int[48]|w4a16|fp8|nf4|bf16|fp16|bnb|4bit|8bit|q\d\w*|unsloth|mlx)\b.*$"
)


_SIZE = re.compile(r"(?<![a-z0-9])\d+(?:\.\d+)?[bm](?![a-z0-9])")


def _differently_named(target: str, made_for: str) -> bool:
    """Whether two names are surely of different models. A name without a size, like 8B, tells nothing."""
    names = [
        _PACKAGING.sub("", re.split(r"[/\\]", name.rstrip("/\\"))[-1].lower()) for name in (target, made_for)
    ]
    if not all(_SIZE.search(name) for name in names):
        return False
    one, other = (re.sub(r"[^a-z0-9]", "", name) for name in names)
    return one not in other and other not in one
