"""The public formats of heads, told apart by the shapes of their tensors.

Nothing in a ``config.json`` says "EAGLE" reliably: heads call themselves Llama models,
and exporters copy each other's architecture names. What decides is how wide the first
layer's attention reads: EAGLE-3 feeds it embedding and state side by side, EAGLE-1 and
EAGLE-2 only one state. Names then tell who wrote the file, and with that its habits.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum

from engine.errors import HeadError
from engine.heads.files import Stored
from engine.heads.medusa import is_medusa

_PROJECTION = re.compile(r"(?:midlayer|layers\.0)\.self_attn\.[qkv]_proj\.weight")


class HeadFormat(StrEnum):
    EAGLE1 = "SafeAILab EAGLE-1/2"
    EAGLE3 = "SafeAILab EAGLE-3"
    SPECFORGE = "SpecForge EAGLE-3"
    ANGELSLIM = "AngelSlim EAGLE-3"
    SPECULATORS = "speculators EAGLE-3"
    MODELOPT = "modelopt EAGLE-3"
    MEDUSA = "Medusa"


_ARCHITECTURES = {
    "LlamaForCausalLMEagle3": HeadFormat.SPECFORGE,
    "Eagle3LlamaForCausalLM": HeadFormat.ANGELSLIM,
}


def flatten(raw: Mapping[str, object]) -> dict[str, object]:
    """A head's config without its nesting: speculators keeps the layer's shape under
    ``transformer_layer_config``, converted EAGLE-1 heads under ``model``. Null means absent."""
    flat: dict[str, object] = {}
    for inner in (raw.get("transformer_layer_config"), raw.get("model"), raw):
        if isinstance(inner, Mapping):
            flat |= {str(key): value for key, value in inner.items() if value is not None}
    return flat


def recognise(raw: Mapping[str, object], stored: Mapping[str, Stored]) -> HeadFormat:
    """The format of a head (raises HeadError when it is none that can be used)."""
    if is_medusa(stored):
        return HeadFormat.MEDUSA
    kind = raw.get("speculators_model_type")
    if kind not in (None, "eagle3"):
        raise _not_supported(f"This drafter is of the kind {kind!r}.")
    _refuse_others(raw, stored)
    wide = [entry for name, entry in stored.items() if _PROJECTION.fullmatch(name)]
    if not wide:
        raise _not_supported("This is no EAGLE head: it has no attention layer of its own.")
    # The tensors' own width: the config may be of another head, which is said later on.
    hidden = hidden_of({name: entry.shape for name, entry in stored.items()}) or flatten(raw).get("hidden_size")
    # A majority, so that one damaged tensor is named later instead of changing the format.
    double = sum(
        len(entry.shape) == 2 and isinstance(hidden, int) and entry.shape[1] == 2 * hidden for entry in wide
    )
    middle = sum(name.startswith("midlayer.") for name in stored)
    numbered = sum(name.startswith("layers.") for name in stored)
    if 2 * double <= len(wide) and middle < numbered:
        return HeadFormat.EAGLE1
    if kind == "eagle3":
        return HeadFormat.SPECULATORS
    if middle < numbered:
        return HeadFormat.MODELOPT
    architectures = raw.get("architectures")
    for name in architectures if isinstance(architectures, list) else []:
        if name in _ARCHITECTURES:
            return _ARCHITECTURES[name]
    return HeadFormat.EAGLE3


def hidden_of(shapes: Mapping[str, tuple[int, ...]]) -> int:
    """The hidden size that most tensors of the first layer tell, under any format's names; 0 where none does."""
    told = []
    for name, shape in shapes.items():
        layer, dot, rest = name.partition("layers.0." if name.startswith("layers.0.") else "midlayer.")
        column = _HIDDEN_AT.get(rest)
        if not layer and dot and column is not None and len(shape) > column:
            told.append(shape[column])
    return max(told, key=told.count) if told else 0


def _refuse_others(raw: Mapping[str, object], stored: Mapping[str, object]) -> None:
    """Drafters of other kinds whose files look like heads of EAGLE."""
    architectures = raw.get("architectures")
    for name in architectures if isinstance(architectures, list) else []:
        found = _OTHERS.search(str(name))
        if found:
            raise _not_supported(f"This is a {found[0]} drafter, not an EAGLE head.")
    if any(".q_a_proj." in name for name in stored):
        raise _not_supported("This head has DeepSeek's multi-head latent attention.")


_HIDDEN_AT = {
    "input_layernorm.weight": 0,
    "post_attention_layernorm.weight": 0,
    "self_attn.o_proj.weight": 0,
    "mlp.down_proj.weight": 0,
    "mlp.gate_proj.weight": 1,
    "mlp.up_proj.weight": 1,
}
"""Which dimension of a layer's tensor is the hidden size."""
_OTHERS = re.compile("DFlash|DSpark|Domino|PEagle|MTP")


def _not_supported(what: str) -> HeadError:
    return HeadError(what, "Choose an EAGLE-1, EAGLE-2, EAGLE-3 or Medusa head.")


def expected_format(raw: Mapping[str, object]) -> HeadFormat:
    """The format that a ``config.json`` alone suggests, where no header can be read (raises HeadError)."""
    if "medusa_num_heads" in raw:
        return HeadFormat.MEDUSA
    if raw.get("speculators_model_type") == "eagle3":
        return HeadFormat.SPECULATORS
    flat = flatten(raw)
    architectures = flat.get("architectures")
    for name in architectures if isinstance(architectures, list) else []:
        if name in _ARCHITECTURES:
            return _ARCHITECTURES[name]
    if "draft_vocab_size" in flat or "truncated_vocab_size" in flat or "eagle_config" in flat:
        return HeadFormat.EAGLE3
    if flat.get("num_hidden_layers") == 1:
        return HeadFormat.EAGLE1
    raise _not_supported("This is no EAGLE head: it has several layers, as a whole model has.")
