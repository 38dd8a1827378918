"""From a head's folder to a head that drafts for a loaded target, or to the reason why it does not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from engine.heads.checkpoint import Checkpoint, Eagle1Checkpoint, Eagle3Checkpoint, read_head
from engine.heads.choosing import (
    Answer,
    Measured,
    Reading,
    answer,
    best_of,
    doubt,
    enough,
    measure,
    medusa_acceptance_length,
    note,
    readings,
)
from engine.heads.config import Eagle3Config
from engine.heads.eagle1_inference import Eagle1Inference, TargetParts
from engine.heads.eagle3_inference import Eagle3Inference
from engine.heads.facts import HeadFacts, TargetFacts
from engine.heads.inference import EagleInference
from engine.heads.medusa import MedusaCheckpoint, MedusaHeads
from engine.heads.pairing import Pairing, require_fit
from engine.heads.projections import MakeLinear, int8_linear
from engine.models.decoder import Decoder
from engine.paths import name_of

Prompts = Callable[[], Sequence[Sequence[int]]]
"""Gives a few prompts as token ids; asked only where something is measured."""
Keep = Callable[[Sequence[Reading], Callable[[], tuple[Measured, ...]]], tuple[Measured, ...]]
"""Given the readings and how to measure them: their figures, measured now or kept from before."""


@dataclass(frozen=True)
class LoadedHead:
    """Exactly one of ``eagle`` and ``medusa`` is there."""

    eagle: EagleInference | None
    medusa: MedusaHeads | None
    pairing: Pairing
    notes: tuple[str, ...] = ()
    """For people: caveats of the pair, and what had to be measured."""

    def memory_bytes(self) -> int:
        return sum(head.memory_bytes() for head in (self.eagle, self.medusa) if head is not None)


def load_head(
    folder: Path,
    decoder: Decoder,
    make_linear: MakeLinear = int8_linear,
    *,
    target_name: str = "",
    template: str = "",
    prompts: Prompts = lambda: (),
    end_tokens: Sequence[int] = (),
    report: Callable[[str], None] = lambda _message: None,
    keep: Keep | None = None,
) -> LoadedHead:
    """Read, check and prepare the head in ``folder`` for ``decoder``.

    Raises HeadError naming the file, tensor or property at fault. ``prompts`` are answered by the
    target where the head's files leave something open; the first of them also shows whether a head
    from elsewhere knows this target at all. ``template`` is the source of its chat template.
    """
    checkpoint = read_head(folder)
    verdict = require_fit(
        TargetFacts.from_decoder(decoder.config, target_name, template),
        HeadFacts.from_checkpoint(checkpoint, name_of(folder)),
    )
    if isinstance(checkpoint, MedusaCheckpoint):
        medusa = MedusaHeads(checkpoint, make_linear)
        candidates: tuple[Reading, ...] = (Reading(checkpoint.config),)

        def measured_on(answers: Sequence[Answer]) -> tuple[Measured, ...]:
            return (Measured(candidates[0], medusa_acceptance_length(medusa, decoder, answers)),)

        found = _figures(checkpoint, candidates, measured_on, decoder, prompts, end_tokens, report, keep)
        return LoadedHead(None, medusa, verdict, _notes(verdict, found))
    candidates = readings(checkpoint, decoder.config.num_layers, decoder.weights.embedding)
    read_as = _reader(checkpoint, candidates[0], decoder, make_linear)
    found = _figures(
        checkpoint,
        candidates,
        lambda answers: measure(read_as, candidates, answers),
        decoder,
        prompts,
        end_tokens,
        report,
        keep,
    )
    chosen = best_of(found).reading if found else candidates[0]
    return LoadedHead(read_as(chosen), None, verdict, _notes(verdict, found))


def _notes(verdict: Pairing, found: Sequence[Measured]) -> tuple[str, ...]:
    """Where no reading is any good it does not matter which one was kept."""
    said = doubt(found) or (note(found) if len(found) > 1 else "")
    return (*verdict.reasons, said) if said else verdict.reasons


def _figures(
    checkpoint: Checkpoint,
    candidates: Sequence[Reading],
    measured_on: Callable[[Sequence[Answer]], tuple[Measured, ...]],
    decoder: Decoder,
    prompts: Prompts,
    end_tokens: Sequence[int],
    report: Callable[[str], None],
    keep: Keep | None,
) -> tuple[Measured, ...]:
    """How well each reading does on the target's own replies; nothing where that need not be asked.

    Heads of our own trainer leave nothing open and were measured when they were made, so that
    loading one costs no reply of the target. Where only one reading is possible, one reply shows
    whether the head knows this target at all.
    """
    if len(candidates) == 1 and checkpoint.config.training:
        return ()

    def make() -> tuple[Measured, ...]:
        answers: list[Answer] = []
        for prompt in prompts():
            if not answers:
                report("Measuring how to read the EAGLE head" if len(candidates) > 1 else "Checking the head")
            answers.append(answer(decoder, prompt, _taps(candidates), end_tokens))
            if len(candidates) == 1 and enough(answers):
                break
        if not answers or (len(candidates) == 1 and not enough(answers)):
            return ()
        return measured_on(answers)

    return make() if keep is None else keep(candidates, make)


def _taps(candidates: Sequence[Reading]) -> list[int]:
    return sorted({tap for each in candidates if isinstance(each.config, Eagle3Config) for tap in each.config.taps})


def _reader(
    checkpoint: Eagle1Checkpoint | Eagle3Checkpoint, usual: Reading, decoder: Decoder, make_linear: MakeLinear
) -> Callable[[Reading], EagleInference]:
    """Makes the head once; each reading shares its weights."""
    device = decoder.device
    own = checkpoint.tensors.get("embed_tokens.weight")
    if own is not None and device.type != "cpu":
        own = own.to(device)

    def table(reading: Reading) -> torch.Tensor:
        if not reading.own_embedding:
            return decoder.weights.embedding
        assert own is not None
        return own

    if isinstance(checkpoint, Eagle1Checkpoint):
        first = Eagle1Inference(checkpoint, TargetParts.of(decoder), make_linear, device)
        return lambda reading: first.read_as(table(reading))
    third = Eagle3Inference(checkpoint, table(usual), make_linear, device)

    def read_as(reading: Reading) -> EagleInference:
        assert isinstance(reading.config, Eagle3Config)
        return third.read_as(reading.config, table(reading))

    return read_as
