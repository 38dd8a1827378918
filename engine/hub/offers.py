"""The catalogue as this machine sees it: what fits, what is here, what is worth trying first."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from engine.hub.content import Contents
from engine.hub.fit import from_parameters
from engine.hub.problems import HubError, UnreachableError
from engine.protocol.hub import CataloguePair, LocalEntry, Machine, PairOffer, Verdict

_ORDER = {Verdict.FITS: 0, Verdict.TIGHT: 1, Verdict.UNKNOWN: 2, Verdict.NO: 3}
CPU_PARAMETERS = 4.5
"""Billions above which a model is too slow on a processor to be recommended."""


def offers(
    pairs: Iterable[CataloguePair], machine: Machine, entries: Iterable[LocalEntry], loaded_bytes: int
) -> tuple[PairOffer, ...]:
    """Every pair with a first guess of its memory, the best for this machine first."""
    here = {entry.repo_id: entry for entry in entries if entry.repo_id and not entry.file}
    made = []
    for pair in pairs:
        target, head = here.get(pair.target), here.get(pair.head)
        made.append(
            PairOffer(
                pair,
                from_parameters(machine, pair.parameters, loaded_bytes),
                target.path if target else "",
                head.path if head else "",
                (target.size if target else 0) + (head.size if head else 0) if target and head else 0,
            )
        )
    return arrange(made, machine)


def arrange(made: Iterable[PairOffer], machine: Machine) -> tuple[PairOffer, ...]:
    """Fitting and recommended first; among those the largest that the machine runs well."""

    def is_slow(offer: PairOffer) -> bool:
        return not machine.is_gpu and offer.pair.parameters > CPU_PARAMETERS

    def judged(offer: PairOffer) -> PairOffer:
        fits = offer.fit.verdict in (Verdict.FITS, Verdict.TIGHT)
        return replace(offer, is_recommended=offer.pair.is_recommended and fits and not is_slow(offer))

    def order(offer: PairOffer) -> tuple[object, ...]:
        pair, slow, rank = offer.pair, is_slow(offer), _ORDER[offer.fit.verdict]
        size = pair.parameters if slow else -pair.parameters
        return (rank == 3, not offer.is_recommended, slow, rank, size, -pair.speedup, pair.head)

    return tuple(sorted(map(judged, made), key=order))


def exact(offer: PairOffer, contents: Contents, machine: Machine, loaded_bytes: int) -> PairOffer | None:
    """The offer with its memory from the tensors themselves; None where they cannot be looked at.

    :raises UnreachableError: nor would those of other offers be.
    """
    pair = offer.pair
    try:
        target = (
            contents.of_path(Path(offer.target_folder))
            if offer.target_folder
            else contents.of_repository(pair.target)
        )
        head = (
            contents.of_path(Path(offer.head_folder))
            if offer.head_folder
            else contents.of_repository(pair.head)
        )
    except UnreachableError:
        raise
    except HubError:
        return None
    fit = contents.fit(machine, target, head, loaded_bytes, pair.parameters)
    size = target.weight_bytes + head.weight_bytes
    return replace(offer, fit=fit, download_bytes=offer.download_bytes or size)
