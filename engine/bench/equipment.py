"""The model that a bench runs on, with everything beside it that the methods ask for."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from engine.bench.progress import say
from engine.bench.variants import Variant
from engine.commands.chat import load_command
from engine.drafting.registry import methods_for
from engine.errors import EngineError, HeadError
from engine.heads.loading import load_head
from engine.heads.projections import int8_linear, placed_linear
from engine.loaded import LoadedModel, load_model


def load(arguments: argparse.Namespace) -> LoadedModel:
    """The model, its head, Medusa heads and a draft model, as far as they are named."""
    model = load_model(load_command(arguments), lambda message, _fraction: say(message))
    if arguments.medusa_head:
        say("Loading the Medusa heads")
        model = with_medusa(model, Path(arguments.medusa_head).expanduser())
    if not arguments.no_adapt and not arguments.identity:
        say("Timing the model on this machine")
        model = model.calibrated()
    say("")
    return model


def with_medusa(model: LoadedModel, folder: Path) -> LoadedModel:
    """The model with Medusa heads beside its EAGLE head: a chat loads one of both, a bench compares them.

    Raises HeadError for heads that do not fit, or are of another kind.
    """
    decoder = model.decoder
    on_cpu = decoder.device.type == "cpu"
    # A GPU's own type, as the keys have it.
    make = int8_linear if on_cpu else placed_linear(decoder.device, decoder.weights.cache_dtype)
    medusa = load_head(folder, decoder, make, target_name=model.info.name).medusa
    if medusa is None:
        raise HeadError(f"{folder} holds an EAGLE head.", "Name it with --head instead.")
    methods = methods_for(replace(model.methods.equipment, medusa=medusa))
    return replace(
        model, methods=methods, info=replace(model.info, methods=methods.infos, method=methods.default)
    )


def usable(model: LoadedModel, variants: Sequence[Variant]) -> tuple[list[Variant], dict[str, str]]:
    """(variants that this model can run, label of each other one → the reason).

    Raises :class:`EngineError` when none can.
    """
    problems = {info.id: info.problem for info in model.methods.infos}
    missing = {each.label: problems[each.method] for each in variants if problems[each.method]}
    able = [each for each in variants if not problems[each.method]]
    if not able:
        reasons = " ".join(f"{label}: {reason}" for label, reason in missing.items())
        raise EngineError("None of the methods can be used here.", reasons or "Name some with --methods.")
    return able, missing
