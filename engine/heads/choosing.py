"""What a head's files leave open is settled by measuring: every reading drafts, the best one stays.

A head read under the wrong convention still runs and only drafts badly, and public files
do not always say which convention they follow (:class:`engine.heads.parsing.Unsure`). So
the target answers a few prompts, greedily, and each reading drafts a short chain after
every token of the answers. What counts is how many tokens a step would have emitted.

The same measure tells what no file does: a head with a square matrix stored transposed, or
one made for another model of the same shape, accepts next to nothing (:func:`doubt`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import product

import torch
from torch import Tensor

from engine.heads.checkpoint import Eagle1Checkpoint, Eagle3Checkpoint
from engine.heads.config import Eagle3Config, EagleConfig, usual_taps
from engine.heads.inference import EagleInference
from engine.heads.medusa import MedusaConfig, MedusaHeads
from engine.heads.parsing import Unsure
from engine.models.decoder import Decoder

REPLY_TOKENS = 24
"""Tokens that the target answers to each prompt."""
LEVELS = 3
"""Length of the chain that is drafted after each of them."""
MARGIN = 0.05
"""Tokens a step by which another reading must beat the format's usual one."""
CHECK_ROOTS = 16
"""Chains that tell a head which knows nothing: one that is right two times in five at its first
guess, as weak heads are, fails all of them once in 3,500 heads."""
CHANCE = 1.05
"""Tokens a step up to which a head knows nothing of its target."""


@dataclass(frozen=True)
class Reading:
    """One way to understand a head's files."""

    config: EagleConfig | MedusaConfig
    own_embedding: bool = False
    words: tuple[str, ...] = ()
    """What it assumes, one clause for each open point; empty where nothing is open."""


@dataclass(frozen=True)
class Measured:
    reading: Reading
    acceptance_length: float
    """Tokens a step would emit with a chain of :data:`LEVELS` guesses, the bonus token included."""


@dataclass(frozen=True)
class Answer:
    """A prompt with the target's own greedy reply, and what the target computed on the way."""

    tokens: tuple[int, ...]
    start: int
    """Index of the reply's first token."""
    states: dict[int, Tensor]
    """Tapped state → [tokens - 1, hidden]."""
    final: Tensor
    """The last layer's output [tokens - 1, hidden]."""


def readings(
    checkpoint: Eagle1Checkpoint | Eagle3Checkpoint, layers: int, target_table: Tensor
) -> tuple[Reading, ...]:
    """All sensible readings for a target of this many layers, the format's usual one first.

    Raises HeadError when the tapped layers cannot be worked out.
    """
    tables = _tables(checkpoint, target_table)
    if isinstance(checkpoint, Eagle1Checkpoint):
        return tuple(Reading(checkpoint.config, own, words) for own, words in tables)
    unsure = checkpoint.unsure
    configs = [
        (replace(with_taps, norm_before_residual=residual, norm_output=recurrence), tap_words + words + more)
        for (with_taps, tap_words), (residual, words), (recurrence, more) in product(
            _tap_readings(checkpoint.config, unsure, layers),
            _flag_readings(unsure.residual, checkpoint.config.norm_before_residual, _RESIDUAL),
            _flag_readings(unsure.recurrence, checkpoint.config.norm_output, _RECURRENCE),
        )
    ]
    return tuple(Reading(config, own, words + more) for config, words in configs for own, more in tables)


def open_questions(config: Eagle3Config, unsure: Unsure, layers: int | None) -> tuple[str, ...]:
    """What has to be measured at load, in words; ``layers`` of the target if it is known."""
    taps = unsure.taps if layers is None else len(_tap_readings(config, unsure, layers)) > 1
    named = (
        (taps, "whether tapped layers are counted by input or by output"),
        (unsure.residual, "where the residual starts"),
        (unsure.recurrence, "which state feeds the next level"),
    )
    return tuple(words for doubt, words in named if doubt)


_RESIDUAL = {
    False: "the residual starts before the norm",
    True: "the residual starts behind the norm",
}
_RECURRENCE = {
    False: "the next level reads the state before the last norm",
    True: "the next level reads the state behind the last norm",
}


def _flag_readings(unsure: bool, usual: bool, words: dict[bool, str]) -> list[tuple[bool, tuple[str, ...]]]:
    if not unsure:
        return [(usual, ())]
    return [(value, (words[value],)) for value in (usual, not usual)]


def _tap_readings(
    config: Eagle3Config, unsure: Unsure, layers: int
) -> list[tuple[Eagle3Config, tuple[str, ...]]]:
    usual = usual_taps(layers)
    if not config.taps or not unsure.taps or config.taps == usual:
        return [(config.for_target(layers), ())]
    # The file's own format says one; the numbers may have been written in the other convention.
    others = [tuple(tap + step for tap in config.taps) for step in (-1, 1)]
    others = [usual] if usual in others else others[:1]
    found = [taps for taps in (config.taps, *others) if taps[0] >= 0 and taps[-1] <= layers]
    if len(found) < 2:
        return [(replace(config, taps=taps), ()) for taps in found] or [(config.for_target(layers), ())]
    return [
        (replace(config, taps=taps), (f"it taps the inputs of layers {', '.join(map(str, taps))}",))
        for taps in found
    ]


def _tables(
    checkpoint: Eagle1Checkpoint | Eagle3Checkpoint, target_table: Tensor
) -> list[tuple[bool, tuple[str, ...]]]:
    """(whether the head's own embedding is used, words). Copies of the target's are not used: some
    exporters wrote random ones, so one that differs has to show that it is better."""
    own = checkpoint.tensors.get("embed_tokens.weight")
    if own is None:
        return [(False, ())]
    if own.shape != target_table.shape:
        return [(True, ())]
    if _same(own, target_table):
        return [(False, ())]
    return [
        (False, ("it uses the model's embedding table",)),
        (True, ("it uses its own embedding table",)),
    ]


def _same(own: Tensor, table: Tensor) -> bool:
    rows = torch.linspace(0, len(own) - 1, min(len(own), 512)).long()
    ours, theirs = own[rows].float(), table[rows.to(table.device)].float().cpu()
    return bool((ours - theirs).abs().mean() <= 0.01 * theirs.abs().mean())


# --------------------------------------------------------------------------- measuring


@torch.inference_mode()
def answer(
    decoder: Decoder, prompt: Sequence[int], taps: Sequence[int], end_tokens: Sequence[int] = ()
) -> Answer:
    """Let the target continue ``prompt`` greedily, up to :data:`REPLY_TOKENS` or one of ``end_tokens``."""
    tokens = list(prompt)
    cache = decoder.new_cache(len(tokens) + REPLY_TOKENS)
    parts: list[tuple[Tensor, list[Tensor]]] = []
    fresh = tokens
    while True:
        positions = torch.arange(cache.length, cache.length + len(fresh))
        hidden, tapped = decoder.forward(torch.tensor(fresh), positions, cache, None, taps)
        cache.keep(len(fresh))
        parts.append((hidden, tapped))
        fresh = [int(decoder.argmax(hidden[-1:])[0])]
        tokens += fresh
        if len(tokens) >= len(prompt) + REPLY_TOKENS or fresh[0] in end_tokens:
            break
    states = {tap: torch.cat([tapped[i] for _, tapped in parts]) for i, tap in enumerate(taps)}
    return Answer(tuple(tokens), len(prompt), states, torch.cat([hidden for hidden, _ in parts]))


@torch.inference_mode()
def acceptance_length(head: EagleInference, answers: Sequence[Answer]) -> float:
    """Tokens a step would emit, averaged over all positions of the answers that leave room for a chain.

    All chains of an answer are drafted at once: a row attends to the pairs before its root
    and to its own guesses.
    """
    return _length([_chains(head, each) for each in answers])


@torch.inference_mode()
def medusa_acceptance_length(heads: MedusaHeads, decoder: Decoder, answers: Sequence[Answer]) -> float:
    """As :func:`acceptance_length`, with the heads' likeliest tokens as the chain."""
    return _length([_medusa_chains(heads, decoder, each) for each in answers])


def _length(right: Sequence[Tensor]) -> float:
    accepted = sum(int(each.cumprod(1).sum()) for each in right)
    return 1 + accepted / max(sum(len(each) for each in right), 1)


def _chains(head: EagleInference, each: Answer) -> Tensor:
    """[roots, levels]: 1 where the guess equals the target's token."""
    tokens, pairs = each.tokens, len(each.tokens) - 1
    first = max(each.start - 1, 0)  # the pair that ends in the reply's first token
    chosen = list(range(first, pairs - LEVELS))
    rows = torch.tensor(chosen, dtype=torch.long)
    if not chosen:
        return torch.zeros(0, LEVELS, dtype=torch.long)
    features = torch.cat([each.states[tap] for tap in head.taps], -1) if head.taps else each.final
    cache = head.new_cache(pairs + LEVELS * len(chosen))
    causal = torch.ones(pairs, pairs, dtype=torch.bool).tril_()
    cache.reserve(pairs + LEVELS * len(chosen))
    outputs = head.forward(head.fuse(features), tokens[1:], range(pairs), cache, 0, causal)[rows]
    seen = causal[rows]
    own = torch.eye(len(chosen), dtype=torch.bool)
    right = []
    for level in range(1, LEVELS + 1):
        guesses = [ids[0] for ids in head.best(outputs, 1)[0]]
        truth = [tokens[pair + level + 1] for pair in chosen]
        right.append(torch.tensor([int(guess == true) for guess, true in zip(guesses, truth, strict=True)]))
        if level < LEVELS:
            drafted = seen.shape[1]
            seen = torch.cat((seen, own), 1)
            positions = [pair + level for pair in chosen]
            outputs = head.forward(outputs, guesses, positions, cache, drafted, seen)
    return torch.stack(right, 1)


def measure(
    read_as: Callable[[Reading], EagleInference], candidates: Sequence[Reading], answers: Sequence[Answer]
) -> tuple[Measured, ...]:
    """The acceptance length of each candidate, in their order."""
    return tuple(Measured(each, acceptance_length(read_as(each), answers)) for each in candidates)


def best_of(measured: Sequence[Measured]) -> Measured:
    """The best reading; the first, usual one unless another beats it by :data:`MARGIN`."""
    best = max(measured, key=lambda each: each.acceptance_length)
    return best if best.acceptance_length > measured[0].acceptance_length + MARGIN else measured[0]


def doubt(measured: Sequence[Measured]) -> str:
    """A warning for people where even the best reading foresees nothing of the target's own replies, or ""."""
    if not measured or max(each.acceptance_length for each in measured) > CHANCE:
        return ""
    return (
        "This head guesses no better than chance for this model: it foresees nothing of the model's own replies. "
        "It was made for another model, or its file is damaged. Replies stay right, but they do not get faster: "
        "choose another head, or chat without one."
    )


def enough(answers: Sequence[Answer]) -> bool:
    """Whether the answers have the roots that a judgement takes."""
    return sum(max(0, len(each.tokens) - each.start - LEVELS) for each in answers) >= CHECK_ROOTS


def _medusa_chains(heads: MedusaHeads, decoder: Decoder, each: Answer) -> Tensor:
    """As :func:`_chains`: head k guesses the token k + 2 places after the state's."""
    levels = min(LEVELS, heads.config.heads)
    first, last = max(each.start - 1, 0), len(each.tokens) - 1 - levels
    rows = []
    for at in range(first, last):
        state, factor = decoder.normed(each.final[at : at + 1])
        guesses = heads.propose_logits(state * factor)[:levels].argmax(-1).tolist()
        rows.append([int(guess == each.tokens[at + 2 + level]) for level, guess in enumerate(guesses)])
    return torch.tensor(rows, dtype=torch.long).view(-1, levels)


def note(measured: Sequence[Measured]) -> str:
    """What was chosen and why, for people."""
    kept = best_of(measured)
    others = max(each.acceptance_length for each in measured if each is not kept)
    return (
        f"The head's files leave open how to read it. Measured on the model's own replies: "
        f"{' and '.join(kept.reading.words)} ({kept.acceptance_length:.2f} tokens a step, otherwise {others:.2f})."
    )
