"""From each family's ``config.json`` to a :class:`DecoderConfig`.

Defaults are those of the family's class in transformers: a checkpoint leaves out what
equals them. Settings that the decoder does not follow are refused by name, so that such
a model runs through transformers instead of running wrongly.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from engine.errors import ModelError
from engine.models.config import DecoderConfig, UnsupportedModel
from engine.models.rope import Rope, UnknownRope, read_rope

Raw = Mapping[str, Any]

MULTIMODAL = ("gemma3", "mistral3")
"""Checkpoints whose text part is one of the families, under ``text_config``."""
ACTIVATIONS = {
    "silu": "silu",
    "swish": "silu",
    "gelu_pytorch_tanh": "gelu_tanh",
    "gelu_tanh": "gelu_tanh",
}


def read_family(raw: Raw) -> DecoderConfig:
    """The decoder that a transformers configuration describes.

    :raises UnsupportedModel: an architecture, or a setting of one, that the decoder does not follow.
    :raises ModelError: a field is missing or makes no sense.
    """
    model_type = raw.get("model_type", "")
    text = raw.get("text_config")
    if model_type in MULTIMODAL and isinstance(text, Mapping):
        inner = dict(text)
        inner.setdefault("model_type", "gemma3_text" if model_type == "gemma3" else "mistral")
        if model_type == "gemma3":
            inner = _GEMMA3_TEXT | inner
        if "tie_word_embeddings" in raw:
            inner.setdefault("tie_word_embeddings", raw["tie_word_embeddings"])
        return read_family(inner)
    if model_type not in FAMILIES:
        raise UnsupportedModel(
            f"The architecture “{model_type or 'unknown'}” is not one that EAGLE runs on here.",
            f"EAGLE works with {', '.join(sorted(FAMILIES))}.",
        )
    try:
        return FAMILIES[model_type](raw)
    except UnknownRope as error:
        raise UnsupportedModel(f"{error} is not supported.", "The model runs without EAGLE.") from error
    except UnsupportedModel:
        raise
    except (KeyError, TypeError, ValueError, ZeroDivisionError) as error:
        raise ModelError(
            f"config.json lacks or garbles a field: {error}.",
            "Delete the model and download it again.",
        ) from error


def _unsupported(what: str) -> UnsupportedModel:
    return UnsupportedModel(f"The model's {what} is not supported.", "The model runs without EAGLE.")


def _shape(raw: Raw) -> dict[str, Any]:
    """What all families say in the same words."""
    layers = int(raw["num_hidden_layers"])
    hidden, heads = int(raw["hidden_size"]), int(raw["num_attention_heads"])
    if raw.get("head_dim") is None and hidden % heads:
        raise ValueError(f"hidden_size {hidden} is not a multiple of num_attention_heads {heads}")
    width = int(raw.get("head_dim") or hidden // heads)
    kv_heads = int(raw.get("num_key_value_heads") or heads)
    if heads % kv_heads or width % 2:
        raise ValueError(f"{heads} heads of width {width} over {kv_heads} key heads")
    act = raw.get("hidden_activation") or raw.get("hidden_act") or "silu"
    if act not in ACTIVATIONS:
        raise _unsupported(f"activation “{act}”")
    return {
        "model_type": str(raw["model_type"]),
        "vocab_size": int(raw["vocab_size"]),
        "hidden_size": hidden,
        "intermediate_size": int(raw["intermediate_size"]),
        "num_layers": layers,
        "num_heads": heads,
        "num_kv_heads": kv_heads,
        "head_dim": width,
        "norm_eps": float(raw.get("rms_norm_eps", 1e-6)),
        "attention_scale": width**-0.5,
        "activation": ACTIVATIONS[act],
    }


def _rope(raw: Raw, shape: Mapping[str, Any], max_positions: int, theta: float = 10_000.0) -> Rope:
    """The one rotary embedding of a family that has one."""
    settings = dict(raw.get("rope_scaling") or {}) or dict(raw.get("rope_parameters") or {})
    settings.setdefault("rope_theta", raw.get("rope_theta", theta))
    if "partial_rotary_factor" in raw:
        settings.setdefault("partial_rotary_factor", raw["partial_rotary_factor"])
    original = int(raw.get("original_max_position_embeddings") or 0)
    return read_rope(settings, theta, int(shape["head_dim"]), max_positions, original)


def _windows(raw: Raw, layers: int, default: Callable[[int], bool]) -> tuple[int, tuple[bool, ...]]:
    """The window and which layers use it; ``default`` says so where the file does not."""
    window = int(raw.get("sliding_window") or 0)
    kinds = raw.get("layer_types")
    if kinds is None:
        sliding = tuple(bool(window) and default(layer) for layer in range(layers))
    else:
        if len(kinds) != layers:
            raise ValueError(f"layer_types names {len(kinds)} layers, num_hidden_layers {layers}")
        unknown = set(kinds) - {"full_attention", "sliding_attention"}
        if unknown:
            raise _unsupported(f"attention of kind “{sorted(unknown)[0]}”")
        sliding = tuple(kind == "sliding_attention" for kind in kinds)
    if not any(sliding):
        return 0, sliding
    if window < 1:
        raise ValueError("sliding layers without a sliding_window")
    return window, sliding


def _decoder(
    raw: Raw,
    shape: Mapping[str, Any],
    positions: int,
    rope: Rope,
    windows: tuple[int, tuple[bool, ...]] | None = None,
    local: Rope | None = None,
    **more: Any,
) -> DecoderConfig:
    """The decoder of ``shape`` and of ``more``, what only some families have.

    ``windows`` as of :func:`_windows`, without it no layer slides; ``local`` is the rotary embedding of
    layers that do, where it is another one.
    """
    window, sliding = windows or (0, (False,) * shape["num_layers"])
    whole = {"tied_head": bool(raw.get("tie_word_embeddings", False))} | dict(shape) | more
    return DecoderConfig(
        **whole,
        max_positions=positions,
        rope=rope,
        rope_sliding=local or rope,
        sliding_window=window,
        layer_is_sliding=sliding,
    )


# --------------------------------------------------------------------------- Llama and its kin


def _llama(raw: Raw) -> DecoderConfig:
    """Llama 2 to 3.3, Vicuna, DeepSeek-R1-Distill-Llama."""
    shape = _shape(raw)
    positions = int(raw.get("max_position_embeddings", 2048))
    rope = _rope(raw, shape, positions)
    bias = bool(raw.get("attention_bias", False))
    return _decoder(
        raw,
        shape,
        positions,
        rope,
        qkv_bias=bias,
        out_bias=bias,
        mlp_bias=bool(raw.get("mlp_bias", False)),
    )


def _mistral(raw: Raw) -> DecoderConfig:
    """Mistral 7B, Nemo, Small; every layer slides where a window is set."""
    shape = _shape(raw)
    positions = int(raw.get("max_position_embeddings", 131_072))
    rope = _rope(raw, shape, positions)
    # The class has a window of 4096 where the file says nothing, and none where it says null.
    windows = _windows({"sliding_window": 4096} | dict(raw), shape["num_layers"], lambda _layer: True)
    return _decoder(raw, shape, positions, rope, windows)


def _mixtral(raw: Raw) -> DecoderConfig:
    shape = _shape({"rms_norm_eps": 1e-5} | dict(raw))
    positions = int(raw.get("max_position_embeddings", 131_072))
    rope = _rope(raw, shape, positions, 1_000_000.0)
    windows = _windows(raw, shape["num_layers"], lambda _layer: True)
    experts, chosen = int(raw.get("num_local_experts", 8)), int(raw.get("num_experts_per_tok", 2))
    if not 1 <= chosen <= experts:
        raise ValueError(f"{chosen} of {experts} experts a token")
    return _decoder(raw, shape, positions, rope, windows, experts=experts, experts_per_token=chosen)


def _qwen(raw: Raw) -> DecoderConfig:
    """Qwen2, 2.5 and 3 (dense), DeepSeek-R1-Distill-Qwen. Windows only where ``use_sliding_window`` says so."""
    third = raw["model_type"] == "qwen3"
    if third:
        raw = {"head_dim": 128} | dict(raw)
    shape = _shape(raw)
    positions = int(raw.get("max_position_embeddings", 32_768))
    rope = _rope(raw, shape, positions)
    first = int(raw.get("max_window_layers", 28))
    used = dict(raw) if raw.get("use_sliding_window") else dict(raw) | {"sliding_window": None}
    windows = _windows(used, shape["num_layers"], lambda layer: layer >= first)
    bias = bool(raw.get("attention_bias", False))
    return _decoder(
        raw,
        shape,
        positions,
        rope,
        windows,
        qk_norm=third,
        qkv_bias=bias if third else True,
        out_bias=bias,
    )


def _phi3(raw: Raw) -> DecoderConfig:
    """Phi-3, 3.5, Phi-4 and Phi-4-mini (dense text models)."""
    shape = _shape({"rms_norm_eps": 1e-5} | dict(raw))
    positions = int(raw.get("max_position_embeddings", 4096))
    settings = dict(raw)
    for name in ("rope_scaling", "rope_parameters"):
        # Early files call longrope "su" or, wrongly, "yarn".
        old = dict(settings.get(name) or {})
        for key in ("type", "rope_type"):
            if old.get(key) in ("su", "yarn"):
                old[key] = "longrope"
        settings[name] = old
    rope = _rope({"original_max_position_embeddings": 4096} | settings, shape, positions)
    windows = _windows(raw, shape["num_layers"], lambda _layer: True)
    return _decoder(raw, shape, positions, rope, windows, fused_projections=True)


# --------------------------------------------------------------------------- Gemma

_GEMMA3_TEXT: dict[str, Any] = {
    "vocab_size": 262_208,
    "hidden_size": 2304,
    "intermediate_size": 9216,
    "num_hidden_layers": 26,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "head_dim": 256,
    "max_position_embeddings": 131_072,
    "query_pre_attn_scalar": 256,
    "sliding_window": 4096,
}
"""What the text part of a multimodal Gemma 3 leaves out: its class's defaults."""


def _gemma(raw: Raw, shape: dict[str, Any]) -> dict[str, Any]:
    if raw.get("attention_bias"):
        raise _unsupported("attention bias")
    if raw.get("use_bidirectional_attention"):
        raise _unsupported("bidirectional attention")
    if raw.get("hidden_activation") and shape["activation"] != "gelu_tanh":
        raise _unsupported(f"activation “{raw['hidden_activation']}”")
    # ``hidden_act`` says "gelu" in old files and means the tanh form.
    shape["activation"] = "gelu_tanh"
    shape["attention_scale"] = float(raw.get("query_pre_attn_scalar") or shape["head_dim"]) ** -0.5
    return shape | {
        "embedding_scale": float(shape["hidden_size"]) ** 0.5,
        "norm_offset": 1.0,
        "post_norms": True,
        "tied_head": bool(raw.get("tie_word_embeddings", True)),
        "attention_softcap": float(raw.get("attn_logit_softcapping") or 0.0),
        "logit_softcap": float(raw.get("final_logit_softcapping") or 0.0),
    }


def _without_old_name(raw: Raw) -> dict[str, Any]:
    return {name: value for name, value in raw.items() if name != "hidden_act"}


def _gemma2(raw: Raw) -> DecoderConfig:
    raw = {"attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0, "sliding_window": 4096} | dict(raw)
    raw = {"head_dim": 256, "query_pre_attn_scalar": 256} | raw
    shape = _gemma(raw, _shape(_without_old_name(raw)))
    positions = int(raw.get("max_position_embeddings", 8192))
    rope = _rope(raw, shape, positions)
    windows = _windows(raw, shape["num_layers"], lambda layer: layer % 2 == 0)
    return _decoder(raw, shape, positions, rope, windows)


def _gemma3(raw: Raw) -> DecoderConfig:
    shape = _gemma(raw, _shape(_without_old_name(raw)))
    positions = int(raw["max_position_embeddings"])
    every = int(raw.get("sliding_window_pattern", 6))
    windows = _windows(raw, shape["num_layers"], lambda layer: (layer + 1) % every != 0)
    parameters = raw.get("rope_parameters") or {}
    if "rope_type" in parameters or "rope_theta" in parameters:  # one entry for all layers
        parameters = {"full_attention": parameters}
    full = dict(parameters.get("full_attention") or {}) | dict(raw.get("rope_scaling") or {})
    local = dict(parameters.get("sliding_attention") or {})
    full_theta = float(raw.get("rope_theta") or 1_000_000.0)
    local_theta = float(raw.get("rope_local_base_freq") or 10_000.0)
    return _decoder(
        raw,
        shape,
        positions,
        read_rope(full, full_theta, shape["head_dim"], positions),
        windows,
        local=read_rope(local, local_theta, shape["head_dim"], positions),
        qk_norm=True,
    )


FAMILIES: dict[str, Callable[[Raw], DecoderConfig]] = {
    "llama": _llama,
    "mistral": _mistral,
    "mixtral": _mixtral,
    "qwen2": _qwen,
    "qwen3": _qwen,
    "phi3": _phi3,
    "gemma2": _gemma2,
    "gemma3_text": _gemma3,
}
