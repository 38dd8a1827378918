"""What an EAGLE-3 head is, and how its public ``config.json`` says so.

Two conventions are in use for the tapped layers. Files in the SpecForge and
SGLang format name layers whose *output* is tapped; this program counts like
``hidden_states`` of transformers, where index ``i`` is the *input* of layer
``i``. The two differ by one, and reading one as the other costs most of the
acceptance without any error. The conversion happens here and nowhere else.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from engine.errors import HeadError

ARCHITECTURE = "LlamaForCausalLMEagle3"


@dataclass(frozen=True)
class Eagle3Config:
    """Shape of an EAGLE-3 head. Raises HeadError when the numbers contradict each other."""

    hidden_size: int
    """Width of the head; equal to the target's unless the head brings its own embedding."""
    target_hidden_size: int
    """Width of the tapped states: ``fc`` reads three of them."""
    intermediate_size: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    """Kept apart because heads * head_dim need not equal hidden_size."""
    draft_vocab_size: int
    """Tokens that the head can draft. Drafting cost on a CPU is proportional to it."""
    vocab_size: int
    """The target's vocabulary, into which ``d2t`` points."""
    taps: tuple[int, ...]
    """Tapped hidden states, low to high, counted as layer *inputs* (0 is the embeddings)."""
    rms_norm_eps: float = 1e-6
    rope_theta: float = 10000.0
    """The head's own: public heads may differ from their target here, and the head's value counts."""
    max_position_embeddings: int = 2048
    """Length the head was trained for."""
    norm_before_residual: bool = False
    """The residual starts behind hidden_norm; true in the heads of one publisher."""
    norm_output: bool = False
    """Feed the normed state to the next level (EAGLE-3.1) instead of the raw one."""
    target_model_type: str = ""
    target_name: str = ""
    training: Mapping[str, object] = field(default_factory=dict)
    """Facts about the training run, for people."""

    def __post_init__(self) -> None:
        positive = (
            "hidden_size target_hidden_size intermediate_size num_attention_heads num_key_value_heads head_dim "
            "draft_vocab_size vocab_size max_position_embeddings rms_norm_eps rope_theta"
        )
        for name in positive.split():
            if getattr(self, name) <= 0:
                raise _bad(f"{name} is {getattr(self, name)}")
        if self.num_attention_heads % self.num_key_value_heads:
            raise _bad(f"{self.num_attention_heads} attention heads cannot share {self.num_key_value_heads} keys")
        if self.head_dim % 2:
            raise _bad(f"head_dim {self.head_dim} is odd, rotary positions need pairs")
        if self.draft_vocab_size > self.vocab_size:
            raise _bad(f"draft vocabulary {self.draft_vocab_size} exceeds the vocabulary {self.vocab_size}")
        if len(self.taps) != 3 or list(self.taps) != sorted(set(self.taps)) or self.taps[0] < 1:
            raise _bad(f"the tapped layers {self.taps} are not three increasing hidden state indices from 1")

    @property
    def output_layer_ids(self) -> tuple[int, ...]:
        """The taps as the public files write them: layers whose output is tapped."""
        return tuple(tap - 1 for tap in self.taps)


def _bad(what: str) -> HeadError:
    return HeadError(f"The head's config.json makes no sense: {what}.", "Download the head again or choose another.")


def read_config(path: Path) -> Eagle3Config:
    """Read a SpecForge-style ``config.json`` (raises HeadError naming what is wrong)."""
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise HeadError(
            f"{path} is missing.", "Choose a folder that holds config.json and model.safetensors."
        ) from error
    except (OSError, ValueError) as error:
        raise HeadError(f"{path} cannot be read as JSON: {error}.", "Download the head again.") from error
    if not isinstance(raw, dict):
        raise HeadError(f"{path} holds no JSON object.", "Download the head again.")
    return parse_config(raw)


def parse_config(raw: Mapping[str, object]) -> Eagle3Config:
    """Read the fields of a public ``config.json`` (raises HeadError)."""
    architectures = raw.get("architectures")
    if architectures != [ARCHITECTURE]:
        raise HeadError(
            f"This is no EAGLE-3 head: its config.json says architectures {architectures!r}, not {[ARCHITECTURE]!r}.",
            "Choose the folder of an EAGLE-3 head.",
        )
    hidden = _integer(raw, "hidden_size")
    heads = _integer(raw, "num_attention_heads")
    vocabulary = _integer(raw, "vocab_size")
    nested = raw.get("eagle_config")
    nested = nested if isinstance(nested, dict) else {}
    layers = nested.get("eagle_aux_hidden_state_layer_ids")
    if not isinstance(layers, list) or not all(isinstance(i, int) and not isinstance(i, bool) for i in layers):
        raise _bad(f"eagle_config.eagle_aux_hidden_state_layer_ids is {layers!r}, not a list of layers")
    rope = raw.get("rope_parameters")
    theta = rope.get("rope_theta") if isinstance(rope, dict) else None
    training = raw.get("training")
    return Eagle3Config(
        hidden_size=hidden,
        target_hidden_size=_integer(raw, "target_hidden_size", hidden),
        intermediate_size=_integer(raw, "intermediate_size"),
        num_attention_heads=heads,
        num_key_value_heads=_integer(raw, "num_key_value_heads", heads),
        head_dim=_integer(raw, "head_dim", hidden // heads if heads > 0 else None),
        draft_vocab_size=_integer(raw, "draft_vocab_size", vocabulary),
        vocab_size=vocabulary,
        taps=tuple(layer + 1 for layer in layers),
        rms_norm_eps=_number(raw, "rms_norm_eps", 1e-6),
        rope_theta=_number({"rope_theta": theta} if theta is not None else raw, "rope_theta", 10000.0),
        max_position_embeddings=_integer(raw, "max_position_embeddings", 2048),
        norm_before_residual=_flag(raw, "norm_before_residual"),
        norm_output=_flag(raw, "norm_output"),
        target_model_type=str(raw.get("target_model_type", "")),
        target_name=str(raw.get("target_name", "")),
        training=dict(training) if isinstance(training, dict) else {},
    )


def config_json(config: Eagle3Config, dtype: str) -> dict[str, object]:
    """The public ``config.json`` of a head; ``dtype`` is e.g. ``"float16"``."""
    return {
        "architectures": [ARCHITECTURE],
        "model_type": "llama",
        "num_hidden_layers": 1,
        "hidden_size": config.hidden_size,
        "target_hidden_size": config.target_hidden_size,
        "intermediate_size": config.intermediate_size,
        "num_attention_heads": config.num_attention_heads,
        "num_key_value_heads": config.num_key_value_heads,
        "head_dim": config.head_dim,
        "hidden_act": "silu",
        "attention_bias": False,
        "draft_vocab_size": config.draft_vocab_size,
        "vocab_size": config.vocab_size,
        "rms_norm_eps": config.rms_norm_eps,
        "rope_theta": config.rope_theta,
        "max_position_embeddings": config.max_position_embeddings,
        "norm_before_residual": config.norm_before_residual,
        "norm_output": config.norm_output,
        "tie_word_embeddings": False,
        "torch_dtype": dtype,
        "target_model_type": config.target_model_type,
        "target_name": config.target_name,
        "eagle_config": {
            "eagle_aux_hidden_state_layer_ids": list(config.output_layer_ids),
            "use_aux_hidden_state": True,
        },
        "training": dict(config.training),
    }


def _integer(raw: Mapping[str, object], key: str, default: int | None = None) -> int:
    value = raw.get(key, default)
    if not isinstance(value, int) or isinstance(value, bool):
        raise _bad(f"{key} is {value!r}, not a whole number")
    return value


def _number(raw: Mapping[str, object], key: str, default: float) -> float:
    value = raw.get(key, default)
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise _bad(f"{key} is {value!r}, not a number")
    return float(value)


def _flag(raw: Mapping[str, object], key: str) -> bool:
    value = raw.get(key, False)
    if not isinstance(value, bool):
        raise _bad(f"{key} is {value!r}, not true or false")
    return value
