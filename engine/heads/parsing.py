"""From the ``config.json`` of any public EAGLE format to one description.

What a file leaves open is said in :class:`Unsure`; what it says, counts, however
unusual: a head may have another RoPE base than its target.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from engine.errors import HeadError
from engine.heads.config import Eagle1Config, Eagle3Config, senseless
from engine.heads.files import Stored
from engine.heads.formats import HeadFormat, flatten
from engine.models.rope import Rope, read_rope

_MODELOPT_FLAGS = {
    "use_input_layernorm_in_first_layer": True,
    "use_last_layernorm": True,
    "use_mtp_layernorm": False,
    "next_layer_regular": True,
    "parallel_draft_step": 1,
}
"""Settings of modelopt under ``eagle_config`` that other values of would change the computation."""
LAYER_IDS = "eagle_aux_hidden_state_layer_ids"


@dataclass(frozen=True, slots=True)
class Unsure:
    """What the files of an EAGLE-3 head do not settle; the config holds the format's usual answer."""

    taps: bool = False
    """The layer ids stand in one convention only, and exporters mix the two up."""
    residual: bool = False
    """``norm_before_residual`` is absent where one engine reads false and another true."""
    recurrence: bool = False
    """``norm_output`` is set by a trainer that gives it another meaning."""


def parse_eagle1(raw: Mapping[str, object], stored: Mapping[str, Stored]) -> Eagle1Config:
    """An EAGLE-1 or EAGLE-2 head (raises HeadError)."""
    flat = flatten(raw)
    common = _common(flat, stored)
    qwen2 = flat.get("model_type") == "qwen2"
    return Eagle1Config(
        **common,
        num_layers=_integer(flat, "num_hidden_layers", 1),
        target_hidden_size=_integer(flat, "target_hidden_size", common["hidden_size"]),
        attention_bias=_flag(flat, "qkv_bias", _flag(flat, "attention_bias", qwen2)),
        fc_bias=_flag(flat, "bias", True),
        own_output="lm_head.weight" in stored,
    )


def parse_eagle3(
    raw: Mapping[str, object], stored: Mapping[str, Stored], format: HeadFormat
) -> tuple[Eagle3Config, Unsure]:
    """An EAGLE-3 head of any format (raises HeadError)."""
    flat = flatten(raw)
    common = _common(flat, stored)
    nested = flat.get("eagle_config")
    nested = nested if isinstance(nested, dict) else {}
    _refuse_variants(flat, nested)
    taps, tap_doubt = _taps(flat, nested)
    names = stored.keys()
    biased = _flag(flat, "qkv_bias", False)
    all_biased = _flag(flat, "attention_bias", False)
    residual = _flag(flat, "norm_before_residual", False)
    recurrence = _flag(flat, "norm_output", False)
    # Where the flag is absent the tensor itself says so; where it is given, it must agree.
    fc_norm = _flag(
        flat, "fc_norm", _flag(flat, "use_aux_norm", any(n.startswith("fc_norm.") for n in names))
    )
    named_middle = format not in (HeadFormat.SPECULATORS, HeadFormat.MODELOPT)
    hidden = common["hidden_size"]
    target_hidden = _integer(flat, "target_hidden_size", hidden)
    common["own_embedding"] = common["own_embedding"] or hidden != target_hidden
    config = Eagle3Config(
        **common,
        # Some configs are copies of the target's, with its number of layers; a "midlayer" is one.
        num_layers=1 if named_middle else _integer(flat, "num_hidden_layers", 1),
        target_hidden_size=target_hidden,
        draft_vocab_size=_integer(
            flat, "draft_vocab_size", _integer(flat, "truncated_vocab_size", common["vocab_size"])
        ),
        taps=taps,
        attention_bias=biased or all_biased,
        output_bias=all_biased,
        qk_norm=any(".q_norm." in name or ".k_norm." in name for name in names)
        or (format is HeadFormat.SPECULATORS and flat.get("model_type") == "qwen3"),
        norm_before_residual=residual,
        norm_before_fc=_flag(flat, "norm_before_fc", "input_norm.weight" in stored),
        fc_norm=fc_norm,
        norm_output=recurrence,
    )
    return config, Unsure(
        taps=tap_doubt,
        residual=format is HeadFormat.SPECULATORS and "norm_before_residual" not in flat,
        recurrence=format is HeadFormat.SPECFORGE and recurrence,
    )


def _common(flat: Mapping[str, object], stored: Mapping[str, Stored]) -> dict[str, Any]:
    """Fields that heads of all versions share."""
    if flat.get("quantization_config"):
        raise HeadError("The head is quantised.", "Choose the head in 16 bits; Eyrie quantises it itself.")
    if flat.get("hidden_act", "silu") not in ("silu", "swish"):
        raise HeadError(f"The head uses {flat['hidden_act']!r} where silu is known.", "Choose another head.")
    if flat.get("mlp_bias"):
        raise HeadError("The head has biases in its MLP, which no known format has.", "Choose another head.")
    hidden = _integer(flat, "hidden_size")
    heads = _integer(flat, "num_attention_heads")
    width = _integer(
        flat, "head_dim", _integer(flat, "attention_head_dim", hidden // heads if heads > 0 else 0)
    )
    positions = _integer(flat, "max_position_embeddings", 2048)
    theta, scaled = _rope(flat, width, positions)
    training = flat.get("training")
    return {
        "hidden_size": hidden,
        "intermediate_size": _integer(flat, "intermediate_size"),
        "num_attention_heads": heads,
        "num_key_value_heads": _integer(flat, "num_key_value_heads", heads),
        "head_dim": width,
        "vocab_size": _integer(flat, "vocab_size"),
        "rms_norm_eps": _number(flat, "rms_norm_eps", 1e-6),
        "rope_theta": theta,
        "scaled_rope": scaled,
        "max_position_embeddings": positions,
        "own_embedding": "embed_tokens.weight" in stored,
        "target_model_type": str(flat.get("target_model_type", "")),
        "target_name": _target_name(flat),
        "training": dict(training) if isinstance(training, dict) else {},
    }


def _rope(flat: Mapping[str, object], head_dim: int, positions: int) -> tuple[float, Rope | None]:
    """The base, and the scaled embedding where there is a scaling. Old and new field names both count."""
    settings = flat.get("rope_parameters")
    settings = dict(settings) if isinstance(settings, dict) else {}
    full = settings.get("full_attention")  # as models with two kinds of layers write it
    if isinstance(full, dict):
        settings = dict(full)
    scaling = flat.get("rope_scaling")
    if isinstance(scaling, dict):
        settings = dict(scaling) | settings
    theta = _number(
        {"rope_theta": settings["rope_theta"]} if "rope_theta" in settings else flat, "rope_theta", 1e4
    )
    kind = settings.get("rope_type", settings.get("type", "default"))
    # A base that changes with the length does so beyond the trained length only.
    if kind in ("default", "dynamic") and "partial_rotary_factor" not in settings:
        return theta, None
    if head_dim <= 0 or head_dim % 2 or theta <= 0:
        return theta, None  # refused as a whole later on, in better words
    try:
        rope = read_rope(settings, theta, head_dim, positions)
    except (KeyError, TypeError, ValueError, ZeroDivisionError) as error:
        raise senseless(f"its RoPE settings cannot be followed ({error})") from error
    if rope.dim != head_dim:
        raise senseless("it turns only part of each head's channels, which no known format does")
    return theta, rope


def _taps(flat: Mapping[str, object], nested: Mapping[str, object]) -> tuple[tuple[int, ...], bool]:
    """(taps as layer inputs or nothing, whether the convention is in doubt)."""
    inner, outer = _layer_ids(nested, f"eagle_config.{LAYER_IDS}"), _layer_ids(flat, LAYER_IDS)
    inputs_of_inner = tuple(layer + 1 for layer in inner)
    if inner and outer:
        if outer not in (inputs_of_inner, inner):
            raise senseless(f"it names the tapped layers twice, as {list(inner)} and as {list(outer)}")
        return inputs_of_inner, outer == inner
    if inner:
        return inputs_of_inner, True
    return outer, bool(outer)


def _layer_ids(raw: Mapping[str, object], words: str) -> tuple[int, ...]:
    layers = raw.get(LAYER_IDS)
    if layers is None or layers == []:
        return ()
    if not isinstance(layers, list) or not all(
        isinstance(i, int) and not isinstance(i, bool) for i in layers
    ):
        raise senseless(f"{words} is {layers!r}, not a list of layers")
    if len(layers) != 3:
        raise senseless(f"{words} is {layers!r}, not three layers")
    return tuple(layers)


def _refuse_variants(flat: Mapping[str, object], nested: Mapping[str, object]) -> None:
    for source in (flat, nested):
        if source.get("use_aux_hidden_state", True) is False:
            raise HeadError(
                "This head reads the model's final state only, a variant of EAGLE-3 that is not supported.",
                "Choose a head that reads three layers.",
            )
    for name, usual in _MODELOPT_FLAGS.items():
        if name in nested and nested[name] not in (usual, None):
            raise HeadError(
                f"This head sets {name} to {nested[name]!r}, a variant that is not supported.",
                "Choose another head.",
            )
    if flat.get("parallel_drafting"):
        raise HeadError(
            "This head drafts all tokens at once, which is not supported.", "Choose another head."
        )


def _target_name(flat: Mapping[str, object]) -> str:
    if flat.get("target_name"):
        return str(flat["target_name"])
    inner = flat.get("speculators_config")
    verifier = inner.get("verifier") if isinstance(inner, dict) else None
    return str(verifier.get("name_or_path") or "") if isinstance(verifier, dict) else ""


def _integer(raw: Mapping[str, object], key: str, default: int | None = None) -> int:
    value = raw.get(key, default)
    if not isinstance(value, int) or isinstance(value, bool):
        raise senseless(f"{key} is {value!r}, not a whole number")
    return value


def _number(raw: Mapping[str, object], key: str, default: float) -> float:
    value = raw.get(key, default)
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise senseless(f"{key} is {value!r}, not a number")
    return float(value)


def _flag(raw: Mapping[str, object], key: str, default: bool) -> bool:
    value = raw.get(key, default)
    if not isinstance(value, bool):
        raise senseless(f"{key} is {value!r}, not true or false")
    return value
