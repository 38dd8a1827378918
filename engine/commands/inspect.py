"""``python -m engine inspect``: what a folder or file holds, and whether a head fits."""

from __future__ import annotations

import argparse
from pathlib import Path

from engine.errors import EngineError, HeadError, ModelError
from engine.heads.checkpoint import check_fits
from engine.heads.config import Eagle3Config, read_config
from engine.loaded import DEMO, DEMO_HEAD
from engine.models.config import DecoderConfig
from engine.models.loading import TensorSource


def run(arguments: argparse.Namespace) -> int:
    if arguments.path == DEMO:
        from engine.models.demo import demo_folder

        _target(demo_folder(lambda *_: None, lambda: False))
        print()
        _head(DEMO_HEAD)
        return 0
    path = Path(arguments.path).expanduser()
    if path.suffix == ".gguf":
        _gguf(path)
        return 0
    if not path.is_dir():
        raise ModelError(f"There is no folder {path}.", "Give a model folder, a head folder or a .gguf file.")
    head = _as_head(path)
    if head is None:
        _target(path)
        return 0
    _head(path)
    if arguments.target:
        target = DecoderConfig.from_folder(Path(arguments.target).expanduser())
        try:
            check_fits(head, target.hidden_size, target.vocab_size, target.num_layers)
            print(f"It fits {arguments.target}.")
        except HeadError as error:
            print(f"It does not fit {arguments.target}: {error.message}")
            return 1
    return 0


def _as_head(path: Path) -> Eagle3Config | None:
    """The head's configuration, None when the folder holds something else."""
    try:
        return read_config(path / "config.json")
    except HeadError:
        if "draft_vocab_size" in (path / "config.json").read_text(encoding="utf-8", errors="replace"):
            raise
        return None
    except OSError:
        return None


def _target(folder: Path) -> None:
    print(f"Target: {folder}")
    config = DecoderConfig.from_folder(folder)
    source = TensorSource(folder)
    sizes = {name: _count(source.shape(name)) for name in source.names()}
    total = sum(sizes.values())
    table = sizes.get("model.embed_tokens.weight", 0)
    print(
        f"  {config.model_type}, {config.num_layers} layers, hidden {config.hidden_size}, {total / 1e6:.0f} M parameters"
    )
    print(f"  {config.num_heads} heads of {config.head_dim}, {config.num_kv_heads} for keys and values")
    window = f", sliding window {config.sliding_window}" if config.sliding_window else ""
    print(f"  vocabulary {config.vocab_size:,}, context {config.max_positions:,}{window}")
    cache = 2 * config.num_layers * config.kv_size * 4
    print("  memory in row-wise int8:")
    print(f"    layers         {(total - table) / 1e6:8.0f} MB")
    print(f"    output head    {config.vocab_size * (config.hidden_size + 4) / 1e6:8.0f} MB")
    print(f"    embedding      {table * 4 / 1e6:8.0f} MB, read from disk as needed")
    print(f"    keys, values   {cache * 4096 / 1e6:8.0f} MB at 4,096 tokens")
    layers = config.num_layers
    print(f"  an EAGLE-3 head for it taps layers such as {(2, layers // 2, layers - 3)}")


def _head(folder: Path) -> None:
    from engine.heads.checkpoint import read_eagle3

    print(f"EAGLE-3 head: {folder}")
    checkpoint = read_eagle3(folder)
    config = checkpoint.config
    count = sum(tensor.numel() for tensor in checkpoint.tensors.values() if tensor.is_floating_point())
    print(
        f"  {count / 1e6:.1f} M parameters, hidden {config.hidden_size}, for a target of hidden {config.target_hidden_size}"
    )
    print(f"  target: {config.target_name or 'not named'}")
    print(
        f"  taps the inputs of layers {', '.join(map(str, config.taps))} (as hidden_states of transformers)"
    )
    print(
        f"  drafts {config.draft_vocab_size:,} of {config.vocab_size:,} tokens, trained for {config.max_position_embeddings:,} positions"
    )
    print(f"  every tensor is there and finite; memory in row-wise int8 {count / 1e6:.0f} MB")


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


def _count(shape: tuple[int, ...]) -> int:
    count = 1
    for size in shape:
        count *= size
    return count
