"""A target and its head, ready to answer: what ``Load`` makes and ``Generate`` uses."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from engine.drafting.drafter import TreeLimits
from engine.drafting.method import Equipment, Methods
from engine.drafting.registry import methods_for
from engine.errors import EngineError, HeadError, ModelError, ResourceError
from engine.generation import Session
from engine.heads.checkpoint import read_eagle3
from engine.heads.eagle3_inference import Eagle3Inference
from engine.heads.pairing import check_fits
from engine.heads.projections import dense_linear, int8_linear
from engine.models.building import ConversionCancelled
from engine.models.config import DecoderConfig
from engine.models.decoder import Decoder
from engine.models.demo import demo_folder, demo_licence
from engine.models.linear import FULL_WEIGHT_LEVELS, body_weight_levels
from engine.models.loading import TensorSource
from engine.models.quantise import FORMAT, int8_weights, quantise
from engine.models.weights import EMBEDDING, Tensors, float_weights
from engine.paths import cache_folder
from engine.prompting import ChatFormat
from engine.protocol import Load, Message, ModelInfo
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
    head: Eagle3Inference | None
    tokenizer: Tokenizer
    chat: ChatFormat
    limits: TreeLimits
    methods: Methods

    def session(self) -> Session:
        """A fresh sequence over the model, for every method that it can use."""
        return Session(self.decoder, self.methods, self.limits, self.info.context_length)

    def prompt(self, messages: Sequence[Message]) -> list[int]:
        """The token ids that ask for the next reply to ``messages``."""
        return self.tokenizer.encode(self.chat.render(messages), add_bos=self.chat.add_bos)


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
    try:
        folder = demo_folder(progress, cancelled) if is_demo else Path(command.model).expanduser()
    except ConversionCancelled:
        raise LoadCancelled from None
    if not folder.is_dir():
        raise ModelError(f"There is no model folder {folder}.", "Choose a folder that holds a model.")

    def report(message: str, fraction: float | None = None) -> None:
        if cancelled():
            raise LoadCancelled
        progress(message, fraction)

    report("Reading the tokenizer")
    config = DecoderConfig.from_folder(folder)
    tokenizer = Tokenizer.load(folder)
    chat = ChatFormat.load(DEMO if is_demo else folder)
    source = TensorSource(folder)
    if exact_float:
        weights = float_weights(config, source)
    else:
        tensors = _int8_tensors(folder, config, source, tokenizer, report)
        report("Packing the weights")
        weights = int8_weights(config, tensors, source.get(EMBEDDING))
    decoder = Decoder(config, weights)
    report("Loading the EAGLE head")
    head, head_name, problem = _load_head(command, is_demo, config, source, exact_float)
    context = min(CONTEXT, config.max_positions)
    methods = methods_for(Equipment(decoder, context, head, head_problem=problem or ""))
    licence = demo_licence() if is_demo else ("", "")
    info = ModelInfo(
        name=DEMO_NAME if is_demo else folder.name,
        path=str(folder),
        architecture=config.model_type,
        weight_format="float32" if exact_float else "row-wise int8",
        device=device_name(),
        context_length=context,
        vocabulary=config.vocab_size,
        memory_bytes=decoder.memory_bytes() + (head.memory_bytes() if head else 0),
        head_name=head_name,
        head_problem=problem,
        is_demo=is_demo,
        licence_name=licence[0],
        licence_text=licence[1],
        methods=methods.infos,
        method=methods.default,
    )
    return LoadedModel(info, decoder, head, tokenizer, chat, cpu_limits(), methods)


def device_name() -> str:
    threads = torch.get_num_threads()
    return f"CPU ({threads} thread{'s' if threads != 1 else ''})"


def _load_head(
    command: Load, is_demo: bool, config: DecoderConfig, source: Tensors, exact_float: bool
) -> tuple[Eagle3Inference | None, str | None, str | None]:
    """(head, its name, why there is none): one of head and reason is None."""
    if command.head == "":
        return None, None, "EAGLE was not asked for."
    if command.head is None and not is_demo:
        return None, None, "No EAGLE head was chosen for this model. Choose one to switch EAGLE on."
    folder = Path(command.head).expanduser() if command.head else DEMO_HEAD
    try:
        checkpoint = read_eagle3(folder)
        check_fits(checkpoint.config, config.hidden_size, config.vocab_size, config.num_layers)
        make = dense_linear if exact_float else int8_linear
        return Eagle3Inference(checkpoint, source.get(EMBEDDING), make), folder.name, None
    except HeadError as error:
        return None, None, f"{error.message} {error.next_step}".strip()


def _int8_tensors(
    folder: Path,
    config: DecoderConfig,
    source: Tensors,
    tokenizer: Tokenizer,
    report: Callable[[str, float | None], None],
) -> dict[str, torch.Tensor]:
    """Row-wise int8 tensors, made once per model and kept in the cache folder."""
    path = cache_folder() / "int8" / f"{_fingerprint(folder)}.safetensors"
    if path.exists():
        report("Reading the weights", None)
        try:
            with safe_open(path, "pt") as file:
                return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        except (SafetensorError, OSError):
            path.unlink(missing_ok=True)  # half-written or damaged: it is made again below
    report("Quantising the weights (once)", 0.0)
    text = CALIBRATION.read_text(encoding="utf-8")
    calibration = torch.tensor(tokenizer.encode(text, add_bos=True)[: config.max_positions])
    with torch.inference_mode():
        tensors = quantise(
            config,
            float_weights(config, source),
            calibration,
            progress=lambda fraction: report("Quantising the weights (once)", fraction),
        )
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_suffix(".part")
        save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, partial)
        partial.replace(path)
    except (OSError, SafetensorError) as error:
        raise ResourceError(
            f"The quantised weights cannot be written to {path.parent}: {error}.",
            "Free about 300 MB on that disk, or choose another folder with EYRIE_DATA_DIR.",
        ) from error
    return tensors


def _fingerprint(folder: Path) -> str:
    """Names the weights by their files' sizes and times, the format and the calibration text."""
    digest = hashlib.sha256(f"{FORMAT}|{body_weight_levels()}".encode())
    digest.update(CALIBRATION.read_bytes())
    for path in sorted(folder.glob("*.safetensors")):
        status = path.stat()
        digest.update(f"{path.resolve()}|{status.st_size}|{status.st_mtime_ns}".encode())
    return digest.hexdigest()[:24]


def explain(error: BaseException) -> EngineError:
    """Any failure as an :class:`EngineError`, for a person."""
    if isinstance(error, EngineError):
        return error
    if isinstance(error, MemoryError) or "out of memory" in str(error).lower():
        return ResourceError("The memory is full.", "Close other programs or choose a smaller model.")
    return EngineError(
        f"The engine failed: {type(error).__name__}: {error}.", "Try again; if it stays, report it."
    )
