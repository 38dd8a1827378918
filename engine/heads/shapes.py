"""Every tensor of an EAGLE head with its shape, under this program's names.

The names are those of SafeAILab's EAGLE-3 files (``midlayer``); :func:`public_names`
gives those of other formats. Linear weights are ``[out, in]``.
"""

from __future__ import annotations

from engine.heads.config import TAPS, Eagle1Config, Eagle3Config, EagleConfig
from engine.heads.formats import HeadFormat

Shapes = dict[str, tuple[int, ...]]


def eagle3_shapes(config: Eagle3Config) -> Shapes:
    """An EAGLE-3 head; ``d2t`` and ``t2d`` are there unless it drafts the whole vocabulary."""
    hidden = config.hidden_size
    shapes: Shapes = {"fc.weight": (hidden, TAPS * config.target_hidden_size)}
    for index in range(config.num_layers):
        shapes |= _layer(config, layer_name(index), 2 * hidden if index == 0 else hidden)
        shapes[f"{layer_name(index)}.input_layernorm.weight"] = (hidden,)
    shapes |= {
        "midlayer.hidden_norm.weight": (hidden,),
        "norm.weight": (hidden,),
        "lm_head.weight": (config.draft_vocab_size, hidden),
    }
    if config.norm_before_fc:
        shapes["input_norm.weight"] = (TAPS * config.target_hidden_size,)
    if config.fc_norm:
        shapes |= {f"fc_norm.{tap}.weight": (config.target_hidden_size,) for tap in range(TAPS)}
    if config.own_embedding:
        shapes["embed_tokens.weight"] = (config.vocab_size, hidden)
    if config.draft_vocab_size != config.vocab_size:
        shapes["d2t"] = (config.draft_vocab_size,)
        shapes["t2d"] = (config.vocab_size,)
    return shapes


def eagle1_shapes(config: Eagle1Config) -> Shapes:
    """An EAGLE-1 or EAGLE-2 head; its first layer has no norm before the attention."""
    hidden = config.hidden_size
    shapes: Shapes = {"fc.weight": (hidden, 2 * hidden)}
    if config.fc_bias:
        shapes["fc.bias"] = (hidden,)
    for index in range(config.num_layers):
        shapes |= _layer(config, layer_name(index), hidden)
        if index:
            shapes[f"{layer_name(index)}.input_layernorm.weight"] = (hidden,)
    if config.own_embedding:
        shapes["embed_tokens.weight"] = (config.vocab_size, hidden)
    if config.own_output:
        shapes["lm_head.weight"] = (config.vocab_size, hidden)
    return shapes


def layer_name(index: int) -> str:
    return f"layers.{index}" if index else "midlayer"


def _layer(config: EagleConfig, name: str, width: int) -> Shapes:
    """One decoder layer whose attention reads ``width`` columns; norms before it left out."""
    hidden, wide = config.hidden_size, config.intermediate_size
    queries, keys = config.query_size, config.kv_size
    shapes: Shapes = {
        f"{name}.self_attn.q_proj.weight": (queries, width),
        f"{name}.self_attn.k_proj.weight": (keys, width),
        f"{name}.self_attn.v_proj.weight": (keys, width),
        f"{name}.self_attn.o_proj.weight": (hidden, queries),
        f"{name}.mlp.gate_proj.weight": (wide, hidden),
        f"{name}.mlp.up_proj.weight": (wide, hidden),
        f"{name}.mlp.down_proj.weight": (hidden, wide),
        f"{name}.post_attention_layernorm.weight": (hidden,),
    }
    if config.attention_bias:
        for letter, size in (("q", queries), ("k", keys), ("v", keys)):
            shapes[f"{name}.self_attn.{letter}_proj.bias"] = (size,)
    if config.output_bias:
        shapes[f"{name}.self_attn.o_proj.bias"] = (hidden,)
    if config.qk_norm:
        shapes[f"{name}.self_attn.q_norm.weight"] = (config.head_dim,)
        shapes[f"{name}.self_attn.k_norm.weight"] = (config.head_dim,)
    return shapes


_LEGACY_NORMS = {
    f"fc_norm.{tap}.weight": f"aux_norm_{depth}.weight" for tap, depth in enumerate(("low", "mid", "high"))
}


def public_names(format: HeadFormat, shapes: Shapes, found: object = ()) -> dict[str, str]:
    """For each of this program's names the one that a file of ``format`` uses.

    ``found`` are the file's names: the norms of tapped states have had two.
    """
    names = {name: name for name in shapes}
    if format in (HeadFormat.EAGLE1, HeadFormat.SPECULATORS, HeadFormat.MODELOPT):
        names = {name: name.replace("midlayer.", "layers.0.", 1) for name in shapes}
    if format is HeadFormat.MODELOPT:
        names.pop("t2d", None)
    legacy = isinstance(found, dict) and any(old in found for old in _LEGACY_NORMS.values())
    if legacy:
        names |= {new: old for new, old in _LEGACY_NORMS.items() if new in names}
    return names
