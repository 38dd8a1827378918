"""``python -m engine inspect``: what a folder or file holds, what it pairs with, and its memory by part."""

from __future__ import annotations

import argparse
import math
import re
from collections.abc import Mapping
from pathlib import Path

from torch import Tensor

from engine.errors import EngineError, HeadError, ModelError
from engine.heads.config import Eagle3Config, usual_taps
from engine.heads.facts import HeadFacts, TargetFacts, part_of
from engine.heads.files import CONFIG, read_json, stored_tensors
from engine.heads.formats import recognise
from engine.heads.pairing import pair
from engine.loaded import DEMO, DEMO_HEAD, RESOURCES
from engine.models.config import DecoderConfig
from engine.models.loading import TensorSource


def run(arguments: argparse.Namespace) -> int:
    if arguments.path == DEMO:
        from engine.models.demo import demo_folder

        folder = demo_folder(lambda *_: None, lambda: False)
        _target(folder)
        print()
        return _head(DEMO_HEAD, folder)
    path = Path(arguments.path).expanduser()
    if not path.exists():
        path = _from_hub(arguments.path)
    if path.suffix == ".gguf":
        _gguf(path)
        return 0
    if not path.is_dir():
        raise ModelError(f"{path} is a file.", "Give a model folder, a head folder or a .gguf file.")
    if is_head(path):
        return _head(path, Path(arguments.target).expanduser() if arguments.target else None)
    _target(path)
    return 0


def _from_hub(name: str) -> Path:
    """The folder of a repository in this machine's hub cache (raises ModelError saying what to do)."""
    if not re.fullmatch(r"[\w.-]+/[\w.-]+", name):
        raise ModelError(f"There is no folder {name}.", "Give a model folder, a head folder or a .gguf file.")
    from engine.hub.local import cached
    from engine.hub.place import HubPlace

    for entry in cached(HubPlace.from_environment().cache):
        if entry.repo_id.lower() == name.lower():
            return Path(entry.path)
    raise ModelError(
        f"There is no folder {name}, and no repository of that name on this machine.",
        f"If it is on the model hub, download it first: python -m engine download {name}",
    )


def is_head(folder: Path) -> bool:
    """Whether a folder holds a head, whole or damaged, rather than a target."""
    try:
        recognise(read_json(folder / CONFIG), stored_tensors(folder))
    except HeadError:
        try:
            raw = read_json(folder / CONFIG)
        except HeadError:
            return False
        marks = ("draft_vocab_size", "eagle_config", "speculators_model_type", "medusa_num_heads")
        return any(mark in raw for mark in marks)
    return True


# --------------------------------------------------------------------------- heads


def _head(folder: Path, target: Path | None) -> int:
    """Print what the head is; 1 when it does not fit ``target``."""
    from engine.heads.checkpoint import Eagle3Checkpoint, read_head
    from engine.heads.choosing import open_questions

    facts = HeadFacts.from_folder(folder)
    print(f"Head: {folder}")
    print(f"  {facts.format} format, hidden {facts.hidden_size:,}")
    checkpoint = read_head(folder)  # names the tensor at fault, if any
    print("  every tensor is there and finite")
    config = checkpoint.config
    if isinstance(checkpoint, Eagle3Checkpoint) and isinstance(config, Eagle3Config):
        print(f"  drafts {config.draft_vocab_size:,} of {config.vocab_size:,} tokens")
        print(f"  {_taps(config)}")
        layers = TargetFacts.from_folder(target).num_layers if target else None
        if questions := open_questions(config, checkpoint.unsure, layers):
            print(f"  its files leave open {', '.join(questions)}: measured when it is loaded")
    if facts.max_positions:
        print(f"  trained for {facts.max_positions:,} positions")
    print("Pairs with")
    print(f"  made for: {facts.target_name or 'not said'}")
    print(
        f"  any target of hidden {facts.target_hidden_size:,} and {facts.vocab_size:,} tokens has its shape"
    )
    fits = True
    if target is not None:
        verdict = pair(TargetFacts.from_folder(target), facts)
        fits = verdict.usable
        print(f"  {target}: {verdict.words}")
    print("Memory")
    _table([(part, size, "as stored") for part, size in facts.bytes_by_part])
    print(f"  {'in row-wise int8':<16}{_int8_bytes(checkpoint.tensors) / 1e6:10,.1f} MB  as loaded on a CPU")
    return 0 if fits else 1


def _int8_bytes(tensors: Mapping[str, Tensor]) -> int:
    """Matrices in bytes with a scale a row; an embedding stays as it is stored."""
    tables = sum(t.numel() * t.element_size() for n, t in tensors.items() if part_of(n) == "embedding")
    matrices = [t for n, t in tensors.items() if t.ndim == 2 and part_of(n) != "embedding"]
    return tables + sum(t.numel() + 4 * len(t) for t in matrices)


def _taps(config: Eagle3Config) -> str:
    if not config.taps:
        return "taps the usual layers: inputs of 2, L / 2 and L - 3 of the target's L layers"
    layers = ", ".join(map(str, config.taps))
    return f"taps the inputs of layers {layers} (as hidden_states of transformers)"


# --------------------------------------------------------------------------- targets


def _target(folder: Path) -> None:
    print(f"Target: {folder}")
    facts = TargetFacts.from_folder(folder)
    print(
        f"  {facts.model_type}, {facts.num_layers} layers, hidden {facts.hidden_size:,}, "
        f"vocabulary {facts.vocab_size:,}, context {facts.max_positions:,}"
    )
    if facts.problem:
        print(f"  EAGLE cannot be offered: {facts.problem}")
    with TensorSource(folder) as source:
        sizes = {name: math.prod(source.shape(name)) for name in source.names()}
    total = sum(sizes.values())
    print(f"  {total / 1e6:,.0f} M numbers in its files")
    if facts.problem:
        return
    print("Pairs with")
    print(f"  EAGLE-3 heads for it usually tap the inputs of layers {usual_taps(facts.num_layers)}")
    for shipped in sorted(path.parent for path in (RESOURCES / "heads").glob(f"*/{CONFIG}")):
        verdict = pair(facts, HeadFacts.from_folder(shipped))
        if verdict.usable:
            print(f"  {shipped.name}, which comes with Eyrie: {verdict.words}")
    config = DecoderConfig.from_folder(folder)
    table = sum(size for name, size in sizes.items() if name.endswith("embed_tokens.weight"))
    output = config.vocab_size * (config.hidden_size + 4)
    stored_output = sum(size for name, size in sizes.items() if name.endswith("lm_head.weight"))
    cache = 2 * config.num_layers * config.kv_size * 4 * 4096
    print("Memory")
    _table(
        [
            ("layers", total - table - stored_output, "row-wise int8"),
            ("output head", output, "row-wise int8"),
            ("embedding", table * 4, "float32, read from disk as needed"),
            ("keys, values", cache, "float32, at 4,096 tokens"),
        ]
    )


def _gguf(path: Path) -> None:
    from engine.models.gguf import architecture_of
    from engine.models.gguf_file import GGUFFile

    with GGUFFile(path) as file:
        print(f"GGUF: {path}")
        print(f"  {file.text('general.architecture')}: {file.text('general.name', path.stem)}")
        try:
            architecture_of(file)
            print("  can be converted and loaded")
        except EngineError as error:
            print(f"  {error.message}")


def _table(rows: list[tuple[str, int, str]]) -> None:
    for part, size, words in rows:
        print(f"  {part:<16}{size / 1e6:10,.1f} MB  {words}")
    print(f"  {'together':<16}{sum(size for _, size, _ in rows) / 1e6:10,.1f} MB")
