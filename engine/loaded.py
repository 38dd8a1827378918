"""A target and its head, ready to answer: what ``Load`` makes and ``Generate`` uses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

import torch

from engine.calibration.at_load import forget_timing, timing_for
from engine.calibration.experience import keep_experience, recall_experience
from engine.calibration.timing import Timing
from engine.drafting.drafter import TreeLimits
from engine.drafting.method import Equipment, Methods
from engine.drafting.registry import METHODS, methods_for
from engine.equipping import DraftTarget, equip
from engine.errors import EngineError, ModelError, ResourceError
from engine.generation import Session
from engine.heads.inference import EagleInference
from engine.models.building import ConversionCancelled
from engine.models.decoder import Decoder
from engine.models.demo import demo_folder, demo_licence
from engine.models.files import open_model
from engine.models.linear import FULL_WEIGHT_LEVELS, body_weight_levels
from engine.placement import choose
from engine.prompting import ChatFormat
from engine.protocol import Load, Message, ModelInfo
from engine.remembered import identity
from engine.spare_memory import give_back
from engine.target import load_target
from engine.tokenizing import Tokenizer

Progress = Callable[[str, float | None], None]
Cancelled = Callable[[], bool]

RESOURCES = Path(__file__).resolve().parent.parent / "resources"
DEMO = "demo"
DEMO_NAME = "Gemma 3 270M (demo)"
DEMO_HEAD = RESOURCES / "heads" / "gemma-3-270m-eagle3"
CALIBRATION = RESOURCES / "calibration.txt"
CONTEXT = 4096
"""Tokens of one chat. More is the model's to give, but the head was trained on less."""


def cpu_limits() -> TreeLimits:
    """The draft tree for row-wise int8 on this processor.

    Without VNNI, 8 rows cost 1.5 times one and 12 rows three times; with it, 12 rows cost
    about 1.7 times one, so a row more costs about a tenth of a token.
    """
    nodes = 12 if body_weight_levels() == FULL_WEIGHT_LEVELS else 8
    return TreeLimits(nodes=nodes, depth=8, top_k=3, worth=0.1)


class LoadCancelled(Exception):
    """Loading was given up on purpose."""


@dataclass(frozen=True, slots=True)
class LoadedModel:
    info: ModelInfo
    decoder: Decoder
    head: EagleInference | None
    tokenizer: Tokenizer
    chat: ChatFormat
    limits: TreeLimits
    methods: Methods
    files: str = ""
    """Changes with the files of model, head and draft model."""
    timing: Timing | None = None
    """What this machine needs for a pass; without it nothing is adapted to it."""
    kept_as: str = ""
    """The name under which timing and experience are kept."""

    def session(self, experienced: bool = True) -> Session:
        """A fresh sequence over the model, for every method that it can use; ``experienced`` in what
        earlier chats have brought."""
        known = recall_experience(self.kept_as) if self.kept_as and experienced else None
        return Session(self.decoder, self.methods, self.limits, self.info.context_length, self.timing, known)

    def learn(self, session: Session) -> None:
        """After a reply: keep what drafting brought, and drop a timing that the reply's steps refute."""
        if not self.kept_as:
            return
        if session.pilots.refuted:
            forget_timing(self.kept_as)
        learned = session.pilots.learned()
        if learned:
            keep_experience(self.kept_as, learned)

    def calibrated(self, fresh: bool = False) -> LoadedModel:
        """The same model with its timing on this machine, measured (a few seconds) or as it was kept;
        ``fresh`` measures again."""
        if not any(info.drafts and not info.problem for info in self.methods.infos):
            return self
        info = self.info
        usable = ",".join(each.id for each in self.methods.infos if not each.problem)
        name = f"{self.files}|{info.weight_format}|{info.device}|{info.context_length}|{usable}"
        text = self.tokenizer.encode(CALIBRATION.read_text(encoding="utf-8"), add_bos=True)
        timing = timing_for(self.decoder, self.methods, self.limits, text, name, fresh)
        return replace(self, timing=timing, kept_as=name)

    def prompt(self, messages: Sequence[Message], thinking: bool | None = None) -> list[int]:
        """The token ids that ask for the next reply to ``messages``; see :meth:`ChatFormat.render`."""
        return self.tokenizer.encode(self.chat.render(messages, thinking), add_bos=self.chat.add_bos)


def load_model(
    command: Load,
    progress: Progress = lambda _message, _fraction: None,
    cancelled: Cancelled = lambda: False,
    *,
    exact_float: bool = False,
) -> LoadedModel:
    """Load what ``command`` names; ``exact_float`` keeps float32 weights (a reference).

    A head that does not load leaves ``info.head_problem`` and a model that decodes
    plainly. Raises :class:`EngineError` for a target that cannot be loaded and
    :class:`LoadCancelled` when ``cancelled`` turned true.
    """
    is_demo = command.model == DEMO

    def report(message: str, fraction: float | None = None) -> None:
        if cancelled():
            raise LoadCancelled
        progress(message, fraction)

    try:
        path = demo_folder(progress, cancelled) if is_demo else Path(command.model).expanduser()
        files = open_model(path, progress, cancelled)
    except ConversionCancelled:
        raise LoadCancelled from None
    placement = choose(replace(command, device="cpu", weight_format="float32") if exact_float else command)
    report("Reading the tokenizer")
    tokenizer = Tokenizer.load(files.folder)
    chat = ChatFormat.load(DEMO if is_demo else files.folder, files.name)
    limit = command.context or CONTEXT
    text = CALIBRATION.read_bytes()
    target = load_target(
        files,
        placement,
        limit,
        lambda: torch.tensor(tokenizer.encode(text.decode("utf-8"), add_bos=True)),
        text,
        report,
    )
    # A target that runs through transformers has the decoder's face as far as plain decoding uses it.
    decoder = cast(Decoder, target.decoder)
    context = min(limit, decoder.config.max_positions)
    folder, no_head = _head_folder(command, is_demo, target.problem)
    model_files = "|".join(map(identity, (files.folder, *files.weights)))
    equipped = equip(
        decoder,
        tokenizer,
        context,
        placement,
        head=folder,
        no_head=no_head,
        target_name=files.name,
        draft=None if target.problem or not command.draft else lambda: _draft(command, report, cancelled),
        chat=chat,
        report=report,
        exact_float=exact_float,
        model_files=f"{model_files}|{target.weight_format}|{placement.device}",
    )
    equipment = equipped.equipment
    methods = _methods(equipment, target.problem)
    licence = demo_licence() if is_demo else ("", "")
    info = ModelInfo(
        name=DEMO_NAME if is_demo else files.name,
        path=str(files.path),
        architecture=decoder.config.model_type,
        weight_format=target.weight_format,
        device=device_name(placement.device),
        context_length=context,
        vocabulary=decoder.config.vocab_size,
        memory_bytes=decoder.memory_bytes() + equipped.memory_bytes,
        head_name=equipped.head_name,
        head_problem=equipped.head_problem,
        is_demo=is_demo,
        licence_name=licence[0],
        licence_text=licence[1],
        methods=methods.infos,
        method=methods.default,
        notice=" ".join(filter(None, (chat.notice, *(() if folder == DEMO_HEAD else equipped.notes)))),
        thinking_tags=chat.thinking_tags,
        thinking_optional=chat.thinking_optional,
    )
    others = (folder, Path(command.draft).expanduser() if command.draft else None)
    identities = "|".join((model_files, *(identity(other) for other in others if other is not None)))
    give_back()
    return LoadedModel(
        info, decoder, equipment.head, tokenizer, chat, cpu_limits(), methods, files=identities
    )


def _methods(equipment: Equipment, problem: str) -> Methods:
    """What can be used; only plain decoding where ``problem`` says why there are no trees."""
    if not problem:
        return methods_for(equipment)
    known = [
        method if method.make is None else replace(method, missing=lambda _equipment: problem)
        for method in METHODS
    ]
    return Methods(equipment, tuple(known))


def device_name(device: torch.device | None = None) -> str:
    """For people; without ``device``, of the one that is taken when none is named."""
    if device is None:
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    threads = torch.get_num_threads()
    return f"CPU ({threads} thread{'s' if threads != 1 else ''})"


def _head_folder(command: Load, is_demo: bool, problem: str) -> tuple[Path | None, str]:
    """(the head's folder, why there is none): one of both is empty."""
    if problem:
        return None, problem
    if command.head == "":
        return None, "EAGLE was not asked for."
    if command.head is None and not is_demo:
        return None, "No EAGLE head was chosen for this model. Choose one to switch EAGLE on."
    return (Path(command.head).expanduser() if command.head else DEMO_HEAD), ""


def _draft(command: Load, report: Progress, cancelled: Cancelled) -> DraftTarget:
    """The smaller model, loaded as the target is."""
    small = load_model(replace(command, model=command.draft, head="", draft=""), report, cancelled)
    if not isinstance(small.decoder, Decoder):
        raise ModelError(f"{small.info.name} runs through transformers.", "Choose another one to draft with.")
    return DraftTarget(small.decoder, small.tokenizer, small.info.name, small.info.memory_bytes)


def explain(error: BaseException) -> EngineError:
    """Any failure as an :class:`EngineError`, for a person."""
    if isinstance(error, EngineError):
        return error
    if isinstance(error, MemoryError) or "out of memory" in str(error).lower():
        where = "GPU's memory" if isinstance(error, torch.OutOfMemoryError) else "memory"
        return ResourceError(f"The {where} is full.", "Close other programs or choose a smaller model.")
    return EngineError(
        f"The engine failed: {type(error).__name__}: {error}.", "Try again; if it stays, report it."
    )
