"""What ``inspect`` prints of a head or a target: what it is, what it pairs with, its memory by part."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from engine.commands.looking import Looked, count
from engine.errors import EngineError, HeadError
from engine.heads.config import Eagle3Config, usual_taps
from engine.heads.facts import HeadFacts, TargetFacts, part_of
from engine.heads.files import CONFIG, Stored
from engine.heads.formats import HeadFormat
from engine.heads.pairing import pair
from engine.heads.parsing import Unsure, parse_eagle3
from engine.heads.thoughts import Thoughts
from engine.loaded import RESOURCES
from engine.models.config import DecoderConfig
from engine.models.loading import TensorSource
from engine.paths import data_folder
from engine.protocol.hub import CataloguePair

CONTEXT = 4096
_TABLES = ("embed_tokens.weight", "lm_head.weight")
_THOUGHTS = {
    Thoughts.UNKNOWN: "not known",
    Thoughts.NEVER: "no",
    Thoughts.SWITCHED: "yes, and it can be switched off",
    Thoughts.ALWAYS: "always",
}


def head(found: Looked, target: Looked | None) -> int:
    """Print what a head is; 1 when its files are wrong or it does not fit ``target``."""
    from engine.heads.choosing import open_questions

    facts = found.head()
    print(f"Head: {found.name}{_place(found)}")
    print(f"  {facts.format} format, hidden {facts.hidden_size:,}")
    if found.folder is not None:
        from engine.heads.checkpoint import read_head

        read_head(found.folder)  # names the tensor at fault, if any
        print("  every tensor is there and finite")
    elif facts.problem:
        raise HeadError(f"{found.name}: {facts.problem}", "Choose another head.")
    elif found.stored is not None:
        print("  every tensor is there in its shape; its numbers are checked when it is loaded")
    else:
        _say_unread(found)
    parsed = _eagle3(found, facts)
    if parsed is not None:
        config, unsure = parsed
        print(f"  drafts {config.draft_vocab_size:,} of {config.vocab_size:,} tokens")
        print(f"  {_taps(config)}")
        layers = target.target().num_layers if target is not None else None
        if questions := open_questions(config, unsure, layers):
            print(f"  its files leave open {', '.join(questions)}: measured when it is loaded")
    if facts.max_positions:
        print(f"  trained for {facts.max_positions:,} positions")
    print("Pairs with")
    print(f"  made for: {facts.target_name or 'not said'}")
    for known in _known():
        if found.repo_id and known.head.lower() == found.repo_id.lower():
            print(f"  {known.target}, as Eyrie's catalogue knows. {known.notes}".rstrip())
    print(f"  any target of hidden {facts.target_hidden_size:,} and {facts.vocab_size:,} tokens has its shape")
    fits = True
    if target is not None:
        verdict = pair(target.target(), facts)
        fits = verdict.usable
        print(f"  {target.name}: {verdict.words}")
    print("Memory")
    if found.stored is None:
        print(f"  {sum(size for _, size in found.files) / 1e6:,.1f} MB in its files")
        return 0 if fits else 1
    _table([(part, size, "as stored") for part, size in facts.bytes_by_part])
    _line("in row-wise int8", _head_bytes(found.stored, 1, 4), "as loaded on a CPU")
    _line("in 16 bits", _head_bytes(found.stored, 2, 0), "as loaded on a GPU")
    return 0 if fits else 1


def target(found: Looked, asked: Looked | None) -> int:
    """Print what a target is; 1 when the head that was ``asked`` about does not fit it."""
    print(f"Target: {found.name}{_place(found)}")
    if any(name.endswith(".gguf") for name, _ in found.files):
        for name, size in found.files:
            print(f"  {name}, {size / 1e9:.2f} GB")
        print("  What a GGUF file holds is read once it is here. Download one with")
        print(f"    python -m engine download {found.name} --file {found.files[0][0]}")
        return 0
    facts = found.target()
    print(
        f"  {facts.model_type}, {facts.num_layers} layers, hidden {facts.hidden_size:,}, "
        f"vocabulary {facts.vocab_size:,}, context {facts.max_positions:,}"
    )
    if found.template:
        print(f"  thinks before it answers: {_THOUGHTS[facts.thoughts]}")
    if facts.problem:
        print(f"  EAGLE cannot be offered: {facts.problem}")
    if found.stored is None and found.folder is None:
        _say_unread(found)
    sizes = _sizes(found)
    if sizes:
        print(f"  {sum(count(each) for each in sizes.values()) / 1e6:,.0f} M numbers in its files")
    fits = True
    if not facts.problem:
        fits = _heads_for(found, facts, asked)
    if sizes and not facts.problem:
        _target_memory(DecoderConfig.from_hf(found.raw), sizes)
    return 0 if fits else 1


def _heads_for(found: Looked, facts: TargetFacts, asked: Looked | None) -> bool:
    print("Pairs with")
    print(f"  EAGLE-3 heads for it usually tap the inputs of layers {usual_taps(facts.num_layers)}")
    for shipped in sorted(path.parent for path in (RESOURCES / "heads").glob(f"*/{CONFIG}")):
        verdict = pair(facts, HeadFacts.from_folder(shipped))
        if verdict.usable:
            print(f"  {shipped.name}, which comes with Eyrie: {verdict.words}")
    for known in _known():
        if found.repo_id and known.target.lower() == found.repo_id.lower():
            print(f"  {known.head} ({known.format}), as Eyrie's catalogue knows. {known.notes}".rstrip())
    if asked is None:
        return True
    verdict = pair(facts, asked.head())
    print(f"  {asked.name}: {verdict.words}")
    return verdict.usable


def _target_memory(config: DecoderConfig, stored: Mapping[str, Stored]) -> None:
    """As loaded: matrices in row-wise int8 on a CPU and NF4 on a GPU, tables and 4-bit files as they are kept."""
    from engine.hub.fit import NF4_BYTES, target_bytes
    from engine.hub.headers import Entry

    layers = {name: Entry(each.dtype, each.shape) for name, each in stored.items() if not name.endswith(_TABLES)}
    raw = {
        "num_attention_heads": config.num_heads,
        "hidden_size": config.hidden_size,
        "tie_word_embeddings": config.tied_head,
    }
    table = config.vocab_size * config.hidden_size
    cache = 2 * config.num_layers * config.kv_size * CONTEXT
    where = "read from disk as needed"
    print("Memory on a CPU")
    _table(
        [
            ("layers", target_bytes(layers, raw, is_gpu=False), "row-wise int8"),
            ("output head", table + 4 * config.vocab_size, "row-wise int8"),
            ("embedding", table * 4, f"float32, {where}"),
            ("keys, values", cache * 4, f"float32, at {CONTEXT:,} tokens"),
        ]
    )
    print("Memory on a GPU")
    kept = "the embedding too" if config.tied_head else f"the embedding is {where}"
    _table(
        [
            ("layers", target_bytes(layers, raw, is_gpu=True), f"NF4, {NF4_BYTES:.4g} bytes a number"),
            ("output head", table * 2, f"16 bits; {kept}"),
            ("keys, values", cache * 2, f"16 bits, at {CONTEXT:,} tokens"),
        ]
    )


def _sizes(found: Looked) -> dict[str, Stored]:
    """Shapes of a target's tensors; of files that only :class:`TensorSource` reads, without types."""
    if found.stored is not None:
        return found.stored
    if found.folder is None:
        return {}
    with TensorSource(found.folder) as source:
        return {name: Stored(tuple(source.shape(name)), "F16") for name in source.names()}


def gguf(path: Path) -> None:
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


# --------------------------------------------------------------------------- small parts


def _place(found: Looked) -> str:
    if found.folder is None:
        return " (on the hub; read from its configuration and the headers of its files)"
    return "" if str(found.folder) == found.name else f" ({found.folder})"


def _say_unread(found: Looked) -> None:
    names = ", ".join(name for name, _ in found.files) or "its files"
    print(f"  The shapes in {names} cannot be read without downloading: files of the older PyTorch format")
    print("  have no header. What is said here is what config.json says. To look inside:")
    print(f"    python -m engine download {found.name}")


def _eagle3(found: Looked, facts: HeadFacts) -> tuple[Eagle3Config, Unsure] | None:
    if facts.format in (HeadFormat.EAGLE1, HeadFormat.MEDUSA):
        return None
    return parse_eagle3(found.raw, found.stored or {}, facts.format)


def _known() -> tuple[CataloguePair, ...]:
    from engine.hub.catalogue import catalogue

    return catalogue(data_folder())[0]


def _head_bytes(stored: Mapping[str, Stored], each: int, a_row: int) -> int:
    """Matrices in ``each`` bytes and ``a_row`` for a row's scale; an embedding stays as it is stored."""
    total = 0
    for name, entry in stored.items():
        if part_of(name) == "embedding":
            total += count(entry) * (4 if entry.dtype == "F32" else 2)
        elif len(entry.shape) == 2:
            total += count(entry) * each + a_row * entry.shape[0]
    return total


def _taps(config: Eagle3Config) -> str:
    if not config.taps:
        return "taps the usual layers: inputs of 2, L / 2 and L - 3 of the target's L layers"
    layers = ", ".join(map(str, config.taps))
    return f"taps the inputs of layers {layers} (as hidden_states of transformers)"


def _table(rows: Iterable[tuple[str, int, str]]) -> None:
    rows = list(rows)
    for part, size, words in rows:
        _line(part, size, words)
    print(f"  {'together':<16}{sum(size for _, size, _ in rows) / 1e6:10,.1f} MB")


def _line(part: str, size: int, words: str) -> None:
    print(f"  {part:<16}{size / 1e6:10,.1f} MB  {words}")
