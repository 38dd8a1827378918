"""Whether a head's ``config.json`` and its tensors speak of the same head, size by size.

A config of another head beside the weights would otherwise show as one tensor of a wrong
shape, or as a missing one, and not tell what is wrong. A size counts as contradicted
where every tensor that tells it, two at least, tells another one than the config; a
single tensor that is out of step is named by :mod:`engine.heads.strictness` instead.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from engine.errors import HeadError
from engine.heads.config import TAPS, Eagle3Config, EagleConfig
from engine.heads.formats import hidden_of
from engine.heads.strictness import AGAIN

Shape = tuple[int, ...]


def verify_sizes(config: EagleConfig, found: Mapping[str, Shape], source: str) -> None:
    """``found`` are the tensors' shapes under this program's names. Raises HeadError naming both sizes."""
    told: dict[str, list[int]] = {}
    for size, value in _told(config, found):
        told.setdefault(size, []).append(value)
    for size, wanted in _claimed(config).items():
        values = told.get(size, [])
        if len(values) > 1 and len(set(values)) == 1 and values[0] != wanted:
            raise HeadError(
                f"{source}: config.json says {size} {wanted:,}, but the tensors have {values[0]:,}.", AGAIN
            )


def _claimed(config: EagleConfig) -> dict[str, int]:
    claimed = {
        "hidden size": config.hidden_size,
        "MLP size": config.intermediate_size,
        _queries(config): config.query_size,
        _keys(config): config.kv_size,
        "target hidden size": config.target_hidden_size,
        "vocabulary": config.vocab_size,
    }
    if isinstance(config, Eagle3Config):
        claimed["draft vocabulary"] = config.draft_vocab_size
    return claimed


def _queries(config: EagleConfig) -> str:
    return f"{config.num_attention_heads} attention heads of {config.head_dim}, together"


def _keys(config: EagleConfig) -> str:
    return f"{config.num_key_value_heads} key/value heads of {config.head_dim}, together"


def _told(config: EagleConfig, found: Mapping[str, Shape]) -> Iterator[tuple[str, int]]:
    """(which size, its value) for every dimension of the first layer and the tables that tells one."""
    queries, keys = _queries(config), _keys(config)
    matrices: dict[str, tuple[str, str]] = {
        "midlayer.self_attn.q_proj.weight": (queries, ""),
        "midlayer.self_attn.k_proj.weight": (keys, ""),
        "midlayer.self_attn.v_proj.weight": (keys, ""),
        "midlayer.self_attn.o_proj.weight": ("hidden size", queries),
        "midlayer.mlp.gate_proj.weight": ("MLP size", "hidden size"),
        "midlayer.mlp.up_proj.weight": ("MLP size", "hidden size"),
        "midlayer.mlp.down_proj.weight": ("hidden size", "MLP size"),
        "embed_tokens.weight": ("vocabulary", "hidden size"),
    }
    if isinstance(config, Eagle3Config):
        matrices["lm_head.weight"] = ("draft vocabulary", "hidden size")
    for name, sizes in matrices.items():
        shape = found.get(name, ())
        if len(shape) == 2:
            yield from ((size, value) for size, value in zip(sizes, shape, strict=True) if size)
    for name in ("hidden_norm", "input_layernorm", "post_attention_layernorm"):
        if len(shape := found.get(f"midlayer.{name}.weight", ())) == 1:
            yield "hidden size", shape[0]
    for name, size in (("d2t", "draft vocabulary"), ("t2d", "vocabulary")):
        if len(shape := found.get(name, ())) == 1:
            yield size, shape[0]
    fusion = found.get("fc.weight", ())
    if isinstance(config, Eagle3Config) and len(fusion) == 2 and fusion[1] % TAPS == 0:
        yield "target hidden size", fusion[1] // TAPS
        if "embed_tokens.weight" not in found:  # then it uses the target's, which is as wide as the head
            yield "target hidden size", hidden_of(found) or config.hidden_size
