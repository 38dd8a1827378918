"""What can be known of a target and a head without reading their weights: configs and file headers.

Everything here also works on the ``config.json`` and the header of a file that has not
been downloaded, given as plain dictionaries.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from engine.errors import HeadError, ModelError
from engine.heads.checkpoint import Checkpoint
from engine.heads.config import Eagle3Config, EagleConfig
from engine.heads.files import CONFIG, Stored, read_json, stored_tensors
from engine.heads.formats import HeadFormat, expected_format, recognise
from engine.heads.medusa import MedusaCheckpoint, MedusaConfig, medusa_shapes, parse_medusa
from engine.heads.parsing import parse_eagle1, parse_eagle3
from engine.heads.shapes import eagle1_shapes, eagle3_shapes, public_names
from engine.heads.sizes import verify_sizes
from engine.heads.strictness import verify_header
from engine.heads.thoughts import Thoughts, of_head, of_template, template_in
from engine.models.config import DecoderConfig
from engine.paths import name_of

_BYTES = {"F64": 8, "I64": 8, "F32": 4, "I32": 4, "F16": 2, "BF16": 2, "I16": 2, "I8": 1, "U8": 1, "BOOL": 1}


@dataclass(frozen=True, slots=True)
class TargetFacts:
    """A target, as far as a head must match it."""

    name: str
    """A repository or folder name; may be empty."""
    model_type: str
    hidden_size: int
    vocab_size: int
    num_layers: int
    max_positions: int
    experts: int = 0
    thoughts: Thoughts = Thoughts.UNKNOWN
    problem: str = ""
    """Why no head can be used with it, for people; empty when one can."""

    @classmethod
    def from_config(cls, raw: Mapping[str, Any], name: str = "", template: str = "") -> TargetFacts:
        """From a transformers ``config.json`` as a dictionary, and the source of its chat template
        where it is at hand (raises ModelError when the config has no shape)."""
        name = name or str(raw.get("_name_or_path") or "")
        try:
            return cls.from_decoder(DecoderConfig.from_hf(raw), name, template)
        except ModelError as error:
            text = raw.get("text_config")
            inner = {**raw, **text} if isinstance(text, Mapping) else raw
            try:
                return cls(
                    name=name,
                    model_type=str(inner.get("model_type", "unknown")),
                    hidden_size=int(inner["hidden_size"]),
                    vocab_size=int(inner["vocab_size"]),
                    num_layers=int(inner["num_hidden_layers"]),
                    max_positions=int(inner.get("max_position_embeddings", 0)),
                    experts=int(inner.get("num_experts") or inner.get("num_local_experts") or 0),
                    thoughts=of_template(template, name),
                    problem=error.message,
                )
            except (KeyError, TypeError, ValueError):
                raise error from None

    @classmethod
    def from_decoder(cls, config: DecoderConfig, name: str = "", template: str = "") -> TargetFacts:
        """From the configuration of a target that the decoder can run, and its chat template's source."""
        return cls(
            name=name,
            model_type=config.model_type,
            hidden_size=config.hidden_size,
            vocab_size=config.vocab_size,
            num_layers=config.num_layers,
            max_positions=config.max_positions,
            experts=config.experts,
            thoughts=of_template(template, name),
        )

    @classmethod
    def from_folder(cls, folder: Path) -> TargetFacts:
        """From a model folder (raises ModelError)."""
        try:
            raw = json.loads((folder / CONFIG).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise ModelError(
                f"{folder / CONFIG} cannot be read: {error}.", "Choose another folder."
            ) from error
        if not isinstance(raw, dict):
            raise ModelError(f"{folder / CONFIG} is not a JSON object.", "Choose another folder.")
        return cls.from_config(raw, name_of(folder), template_in(folder))


@dataclass(frozen=True, slots=True)
class HeadFacts:
    """A head, as far as a target must match it."""

    format: HeadFormat
    name: str
    """A repository or folder name; may be empty."""
    target_name: str
    """What its files say it was made for; may be empty."""
    hidden_size: int
    target_hidden_size: int
    vocab_size: int
    draft_vocab_size: int
    taps: tuple[int, ...]
    """As layer inputs; empty for the usual ones of an EAGLE-3 head, and for heads without any."""
    max_positions: int
    """Length it was trained for; 0 when that does not matter (Medusa)."""
    own_embedding: bool = False
    thoughts: Thoughts = Thoughts.UNKNOWN
    """Whether it was trained on replies with thoughts."""
    problem: str = ""
    """What is wrong with its files, for people; empty when nothing is."""
    bytes_by_part: tuple[tuple[str, int], ...] = ()
    """Bytes as stored: fusion, attention, MLP, norms, output, embedding, maps. Empty without a header."""

    @classmethod
    def from_files(
        cls, raw: Mapping[str, object], stored: Mapping[str, Stored] | None = None, name: str = ""
    ) -> HeadFacts:
        """From ``config.json`` and a file's header. Without a header (files of the older PyTorch format
        have none that can be read alone) the config is believed. Raises HeadError for what is no head."""
        if stored is None:
            format, stored, complete = expected_format(raw), {}, False
        else:
            format, complete = recognise(raw, stored), True
        if format is HeadFormat.MEDUSA:
            if not complete:
                raise HeadError(
                    "Medusa heads do not say their size in their config.", "Download the file first."
                )
            medusa = parse_medusa(raw, stored)
            problem = _problem(medusa_shapes(medusa), stored)
            return replace(cls._of_medusa(medusa, name, problem, _parts(stored)), thoughts=of_head(raw, name, medusa.target_name))
        config: EagleConfig
        if format is HeadFormat.EAGLE1:
            config = first = parse_eagle1(raw, stored)
            shapes = eagle1_shapes(first)
        else:
            config, _ = third = parse_eagle3(raw, stored, format)
            shapes = eagle3_shapes(third[0])
        public = public_names(format, shapes, dict(stored))
        wanted = {public[own]: shapes[own] for own in public}
        found = {own: stored[name].shape for own, name in public.items() if name in stored}
        problem = _problem(wanted, stored, lambda: verify_sizes(config, found, "The file")) if complete else ""
        facts = cls.of(config, format, name, problem, _parts(stored))
        return replace(facts, thoughts=of_head(raw, name, config.target_name))

    @classmethod
    def of(
        cls,
        config: EagleConfig,
        format: HeadFormat,
        name: str = "",
        problem: str = "",
        parts: tuple[tuple[str, int], ...] = (),
    ) -> HeadFacts:
        """From the configuration of an EAGLE head that was read."""
        third = config if isinstance(config, Eagle3Config) else None
        return cls(
            format=format,
            name=name,
            target_name=config.target_name,
            hidden_size=config.hidden_size,
            target_hidden_size=config.target_hidden_size,
            vocab_size=config.vocab_size,
            draft_vocab_size=third.draft_vocab_size if third else config.vocab_size,
            taps=third.taps if third else (),
            max_positions=config.max_position_embeddings,
            own_embedding=config.own_embedding,
            thoughts=of_head({"training": config.training}, name, config.target_name),
            problem=problem,
            bytes_by_part=parts,
        )

    @classmethod
    def from_checkpoint(cls, checkpoint: Checkpoint, name: str = "") -> HeadFacts:
        """Of a head that was read and verified."""
        if isinstance(checkpoint, MedusaCheckpoint):
            return cls._of_medusa(checkpoint.config, name, "", ())
        return cls.of(checkpoint.config, checkpoint.format, name)

    @classmethod
    def _of_medusa(
        cls, config: MedusaConfig, name: str, problem: str, parts: tuple[tuple[str, int], ...]
    ) -> HeadFacts:
        return cls(
            format=HeadFormat.MEDUSA,
            name=name,
            target_name=config.target_name,
            hidden_size=config.hidden_size,
            target_hidden_size=config.hidden_size,
            vocab_size=config.vocab_size,
            draft_vocab_size=config.vocab_size,
            taps=(),
            max_positions=0,
            problem=problem,
            bytes_by_part=parts,
        )

    @classmethod
    def from_folder(cls, folder: Path) -> HeadFacts:
        """From a head's folder, reading no weights (raises HeadError)."""
        return cls.from_files(read_json(folder / CONFIG), stored_tensors(folder), name_of(folder))


def header(content: Mapping[str, Any]) -> dict[str, Stored]:
    """The tensors of a safetensors header that was parsed as JSON (raises HeadError)."""
    try:
        return {
            str(name): Stored(tuple(int(size) for size in entry["shape"]), str(entry["dtype"]))
            for name, entry in content.items()
            if name != "__metadata__"
        }
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise HeadError("The header of the head's file is damaged.", "Download the head again.") from error


def _problem(
    shapes: Mapping[str, tuple[int, ...]],
    stored: Mapping[str, Stored],
    before: Callable[[], None] = lambda: None,
) -> str:
    try:
        before()
        verify_header(shapes, stored)
    except HeadError as error:
        return error.message
    return ""


def _parts(stored: Mapping[str, Stored]) -> tuple[tuple[str, int], ...]:
    sizes: dict[str, int] = {}
    for name, entry in stored.items():
        count = _BYTES.get(entry.dtype, 2)
        for size in entry.shape:
            count *= size
        part = part_of(name)
        sizes[part] = sizes.get(part, 0) + count
    return tuple(sorted(sizes.items(), key=lambda pair: -pair[1]))


def part_of(name: str) -> str:
    """The part of a head that a tensor belongs to, for people."""
    if "norm" in name:
        return "norms"
    for mark, part in (
        ("embed_tokens", "embedding"),
        ("lm_head", "output"),
        ("self_attn", "attention"),
        ("mlp", "MLP"),
        ("fc.", "fusion"),
        ("linear", "residual blocks"),
    ):
        if mark in name:
            return part
    return "maps" if name in ("d2t", "t2d") else "output"
