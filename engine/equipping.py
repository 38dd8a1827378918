"""What stands beside a loaded target: an EAGLE head or Medusa heads, and a smaller model to draft with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from engine.drafting.method import Equipment
from engine.errors import EngineError, HeadError
from engine.heads.choosing import Measured, Reading
from engine.heads.loading import Keep, load_head
from engine.heads.projections import MakeLinear, dense_linear, int8_linear, placed_linear
from engine.models.decoder import Decoder
from engine.paths import name_of
from engine.placement import Placement
from engine.prompting import ChatFormat
from engine.protocol import Message, Role
from engine.remembered import identity, remembered
from engine.tokenizing import Tokenizer

QUESTIONS = (
    "Explain in a few sentences why the sky is blue.",
    "Write a Python function that reverses a list.",
    "Name five fruits and a use of each.",
)
"""What the target answers where a head's files leave open how to read it. Heads were trained on
chats, so plain text would show the differences less clearly."""


@dataclass(frozen=True)
class Equipped:
    equipment: Equipment
    head_name: str | None
    head_problem: str | None
    """Exactly one of name and problem is None."""
    notes: tuple[str, ...]
    """For people: caveats of the pair, and what had to be measured."""
    memory_bytes: int
    """Of everything but the target."""


@dataclass(frozen=True)
class DraftTarget:
    """A loaded smaller model."""

    decoder: Decoder
    tokenizer: Tokenizer
    name: str
    memory_bytes: int


def equip(
    decoder: Decoder,
    tokenizer: Tokenizer,
    context: int,
    placement: Placement,
    *,
    head: Path | None,
    no_head: str,
    target_name: str,
    draft: Callable[[], DraftTarget] | None,
    chat: ChatFormat,
    report: Callable[[str], None],
    exact_float: bool = False,
    model_files: str = "",
) -> Equipped:
    """Load the head in the folder ``head`` and the model that ``draft`` loads, each if there is one.

    ``model_files`` changes with the target's files and how they are loaded; with it, what had to
    be measured about the head is kept for the next time.
    ``no_head`` is the reason where ``head`` is None. What cannot be loaded is told of and left out.
    """
    eagle = medusa = None
    name, problem = None, no_head or None
    notes: tuple[str, ...] = ()
    memory = 0
    if head is not None:
        report("Loading the EAGLE head")
        try:
            loaded = load_head(
                head,
                decoder,
                _make_linear(placement, exact_float),
                target_name=target_name,
                template=chat.template,
                prompts=lambda: _questions(tokenizer, chat),
                end_tokens=chat.eos_token_ids,
                report=report,
                keep=_keeper(head, model_files) if model_files else None,
            )
            eagle, medusa, notes = loaded.eagle, loaded.medusa, loaded.notes
            memory += loaded.memory_bytes()
            name, problem = name_of(head), None
        except HeadError as error:
            problem = f"{error.message} {error.next_step}".strip()
    small, draft_problem = _draft(tokenizer, draft, report)
    memory += small.memory_bytes if small is not None else 0
    equipment = Equipment(
        decoder,
        context,
        eagle,
        medusa,
        small.decoder if small is not None else None,
        head_problem=problem or "",
        draft_problem=draft_problem,
    )
    return Equipped(equipment, name, problem, notes, memory)


def _make_linear(placement: Placement, exact_float: bool) -> MakeLinear:
    if placement.device.type != "cpu":
        return placed_linear(placement.device, placement.dtype)
    return dense_linear if exact_float else int8_linear


def _keeper(head: Path, model_files: str) -> Keep:
    """Keeps the figures of a head's readings, for these files of head and target."""

    def keep(readings: Sequence[Reading], make: Callable[[], tuple[Measured, ...]]) -> tuple[Measured, ...]:
        def read(raw: object) -> tuple[Measured, ...]:
            if not isinstance(raw, list):
                raise TypeError("not a list")
            figures = [float(figure) for figure in raw]
            if not all(1 <= figure < 100 for figure in figures):
                raise ValueError("no acceptance lengths")
            return tuple(Measured(*pair) for pair in zip(readings, figures, strict=True))

        return remembered(
            "head readings",
            f"{identity(head)}|{model_files}|{readings}",
            make,
            read=read,
            write=lambda measured: [each.acceptance_length for each in measured],
        )

    return keep


def _questions(tokenizer: Tokenizer, chat: ChatFormat) -> list[list[int]]:
    prompts = (chat.render([Message(Role.USER, question)]) for question in QUESTIONS)
    return [tokenizer.encode(prompt, add_bos=chat.add_bos) for prompt in prompts]


def _draft(
    tokenizer: Tokenizer, load: Callable[[], DraftTarget] | None, report: Callable[[str], None]
) -> tuple[DraftTarget | None, str]:
    """(the smaller model, why there is none although one was named)."""
    if load is None:
        return None, ""
    report("Loading the draft model")
    try:
        small = load()
    except EngineError as error:
        return None, f"The draft model cannot be used. {error.message} {error.next_step}".strip()
    if not small.tokenizer.same_as(tokenizer):
        return None, (
            f"{small.name} has another vocabulary than the model. Choose a smaller model of the same family."
        )
    return small, ""
