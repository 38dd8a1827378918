"""From a head's folder to a head that drafts for a loaded target, or to the reason why it does not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from engine.heads.checkpoint import Eagle1Checkpoint, Eagle3Checkpoint, read_head
from engine.heads.choosing import Reading, answer, best_of, measure, note, readings
from engine.heads.config import Eagle3Config
from engine.heads.eagle1_inference import Eagle1Inference, TargetParts
from engine.heads.eagle3_inference import Eagle3Inference
from engine.heads.facts import HeadFacts, TargetFacts
from engine.heads.inference import EagleInference
from engine.heads.medusa import MedusaCheckpoint, MedusaHeads
from engine.heads.pairing import Pairing, require_fit
from engine.heads.projections import MakeLinear, int8_linear
from engine.models.decoder import Decoder

Prompts = Callable[[], Sequence[Sequence[int]]]
"""Gives a few prompts as token ids; asked only where something must be measured."""


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
    prompts: Prompts = lambda: (),
    end_tokens: Sequence[int] = (),
    report: Callable[[str], None] = lambda _message: None,
) -> LoadedHead:
    """Read, check and prepare the head in ``folder`` for ``decoder``.

    Raises HeadError naming the file, tensor or property at fault. ``prompts`` are
    answered by the target where the head's files leave something open.
    """
    checkpoint = read_head(folder)
    verdict = require_fit(
        TargetFacts.from_decoder(decoder.config, target_name),
        HeadFacts.from_checkpoint(checkpoint, folder.name),
    )
    if isinstance(checkpoint, MedusaCheckpoint):
        return LoadedHead(None, MedusaHeads(checkpoint, make_linear), verdict, verdict.reasons)
    candidates = readings(checkpoint, decoder.config.num_layers, decoder.weights.embedding)
    read_as = _reader(checkpoint, candidates[0], decoder, make_linear)
    given = prompts() if len(candidates) > 1 else ()
    if not given:
        return LoadedHead(read_as(candidates[0]), None, verdict, verdict.reasons)
    report("Measuring how to read the EAGLE head")
    taps = sorted(
        {tap for each in candidates if isinstance(each.config, Eagle3Config) for tap in each.config.taps}
    )
    answers = [answer(decoder, prompt, taps, end_tokens) for prompt in given]
    measured = measure(read_as, candidates, answers)
    return LoadedHead(read_as(best_of(measured).reading), None, verdict, (*verdict.reasons, note(measured)))


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
