"""What was measured on this machine, and what follows from it for the draft tree.

:class:`Calibrated` is sent after a model was loaded, after :class:`Calibrate`, and in a reply
whenever the choice changes: other sizes, a pause, an end of one.
"""

from __future__ import annotations

from dataclasses import dataclass

from engine.settings import SettingValue


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """What a step with a tree of this size is expected to bring."""

    nodes: int
    """Rows of the verify pass at most, root included; 1 is plain decoding."""
    tokens: float
    """Tokens of a step, the bonus token included."""
    seconds: float
    """Of a step, drafting and verifying."""
    tokens_per_second: float
    """May differ from ``tokens / seconds``: steps that can tell about large trees are fewer, and
    their luck is taken out by comparison with the present sizes over the same steps."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """For one method, at one moment of a chat."""

    method: str
    """Id of the method."""
    passes: tuple[tuple[int, float], ...]
    """(rows, seconds of a pass of the target over them), fewest rows first, starting with 1."""
    drafting: tuple[tuple[int, float], ...]
    """(levels, seconds of a proposal of so many levels), from 1 on; empty where it was not measured."""
    curve: tuple[CurvePoint, ...]
    """Expected speed by size, with the other sizes as chosen: starts with plain decoding, nodes rising.
    Only plain decoding where too little has been drafted to tell."""
    chosen: CurvePoint
    """Where on the curve drafting stands; its first point while it pauses."""
    depth: int
    """Chosen: levels of guesses at most,"""
    worth: float = 0.0
    """least path probability of a guess, 0 where it does not matter,"""
    top_k: int = 0
    """children considered for each node, 0 where it does not matter,"""
    options: tuple[tuple[str, SettingValue], ...] = ()
    """and settings of the method that were left open, by name."""
    acceptance: tuple[float, ...] = ()
    """``acceptance[d]``: the chance that a step accepts at least d+1 guesses under the chosen sizes,
    as it is believed at present. Never rises with d."""
    steps: int = 0
    """Recent steps that the estimates come from, those at load included."""
    paused: bool = False
    """Whether drafting is switched off because it loses."""
    notice: str = ""
    """For people: why it stands as it stands, e.g. that drafting pauses and until when. May be empty."""


@dataclass(frozen=True, slots=True)
class Calibrate:
    """Measure this machine again, for the loaded model; answered by :class:`Calibrated`."""


@dataclass(frozen=True, slots=True)
class Calibrated:
    calibration: Calibration
    request_id: str | None = None
    """The reply in which the choice changed; None at load and after :class:`Calibrate`."""
