"""What an EAGLE head is: its shape, its norms, and which hidden states of the target it reads.

Two conventions are in use for the tapped layers. Files in the SpecForge and
SGLang format name layers whose *output* is tapped; this program counts like
``hidden_states`` of transformers, where index ``i`` is the *input* of layer
``i``. The two differ by one, and reading one as the other costs most of the
acceptance without any error. The conversion happens in :mod:`engine.heads.parsing`
and nowhere else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from engine.errors import HeadError
from engine.models.rope import Rope

ARCHITECTURE = "LlamaForCausalLMEagle3"
TAPS = 3
"""Hidden states that an EAGLE-3 head reads."""
MOST_LAYERS = 64
"""A bound against files of strangers; published heads have one to five."""


@dataclass(frozen=True, kw_only=True)
class EagleConfig:
    """What heads of all EAGLE versions have. Raises HeadError when the numbers contradict each other."""

    hidden_size: int
    """Width of the head; equal to the target's unless the head brings its own embedding."""
    target_hidden_size: int
    """Width of the target's states."""
    intermediate_size: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    """Kept apart because heads * head_dim need not equal hidden_size."""
    vocab_size: int
    """The target's vocabulary."""
    num_layers: int = 1
    rms_norm_eps: float = 1e-6
    rope_theta: float = 10000.0
    """The head's own: public heads may differ from their target here, and the head's value counts."""
    scaled_rope: Rope | None = None
    """Rotary positions with a scaling; None for plain ones of ``rope_theta``."""
    max_position_embeddings: int = 2048
    """Length the head was trained for."""
    attention_bias: bool = False
    """Biases on queries, keys and values."""
    output_bias: bool = False
    """A bias on the attention's output projection."""
    qk_norm: bool = False
    """RMS norms on each query and key (heads shaped like Qwen3)."""
    own_embedding: bool = False
    """The file brings an embedding table. It need not be used: see :mod:`engine.heads.choosing`."""
    target_model_type: str = ""
    target_name: str = ""
    """What the file says it was made for; may be empty."""
    training: Mapping[str, object] = field(default_factory=dict)
    """Facts about the training run, for people."""

    def __post_init__(self) -> None:
        positive = (
            "hidden_size target_hidden_size intermediate_size num_attention_heads num_key_value_heads head_dim "
            "vocab_size num_layers max_position_embeddings rms_norm_eps rope_theta"
        )
        for name in positive.split():
            if getattr(self, name) <= 0:
                raise senseless(f"{name} is {getattr(self, name)}")
        if self.num_layers > MOST_LAYERS:
            raise senseless(f"num_hidden_layers is {self.num_layers}, more than any head has")
        if self.num_attention_heads % self.num_key_value_heads:
            raise senseless(
                f"{self.num_attention_heads} attention heads cannot share {self.num_key_value_heads} keys"
            )
        if self.head_dim % 2:
            raise senseless(f"head_dim {self.head_dim} is odd, rotary positions need pairs")

    @property
    def query_size(self) -> int:
        return self.num_attention_heads * self.head_dim

    @property
    def kv_size(self) -> int:
        return self.num_key_value_heads * self.head_dim

    @property
    def rope(self) -> Rope:
        return self.scaled_rope or Rope(self.rope_theta, self.head_dim)


@dataclass(frozen=True, kw_only=True)
class Eagle1Config(EagleConfig):
    """A head of EAGLE-1 or EAGLE-2: they are the same, only the draft tree differs."""

    fc_bias: bool = True
    """The first heads have one and do not say so; later ones say that they have none."""
    own_output: bool = False
    """The file brings an output table; otherwise the target's is used."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.hidden_size != self.target_hidden_size:
            raise senseless(
                f"an EAGLE-1 or EAGLE-2 head of width {self.hidden_size} cannot stand in for states "
                f"of width {self.target_hidden_size}"
            )


@dataclass(frozen=True, kw_only=True)
class Eagle3Config(EagleConfig):
    """Shape of an EAGLE-3 head, the variants of EAGLE-3.1 included."""

    draft_vocab_size: int
    """Tokens that the head can draft. Drafting cost on a CPU is proportional to it."""
    taps: tuple[int, ...] = ()
    """Tapped hidden states, low to high, counted as layer *inputs* (0 is the embeddings). Empty where
    the file leaves it to the target's number of layers: see :meth:`for_target`."""
    norm_before_residual: bool = False
    """The residual starts behind hidden_norm; true in the heads of one publisher."""
    norm_before_fc: bool = False
    """One norm over all tapped states side by side."""
    fc_norm: bool = False
    """A norm of its own for each tapped state (EAGLE-3.1)."""
    norm_output: bool = False
    """Feed the normed state to the next level (EAGLE-3.1) instead of the raw one."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.draft_vocab_size <= 0:
            raise senseless(f"draft_vocab_size is {self.draft_vocab_size}")
        if self.draft_vocab_size > self.vocab_size:
            raise senseless(
                f"draft vocabulary {self.draft_vocab_size} exceeds the vocabulary {self.vocab_size}"
            )
        taps = self.taps
        if taps and (len(taps) != TAPS or list(taps) != sorted(set(taps)) or taps[0] < 0):
            raise senseless(f"the tapped layers {taps} are not three increasing hidden state indices")
        if self.norm_before_fc and self.fc_norm:
            raise senseless("norm_before_fc and fc_norm exclude each other")

    @property
    def output_layer_ids(self) -> tuple[int, ...]:
        """The taps as SpecForge's files write them: layers whose output is tapped."""
        return tuple(tap - 1 for tap in self.taps)

    def for_target(self, layers: int) -> Eagle3Config:
        """With taps: those of the file, or the usual ones of a target with this many layers (raises HeadError)."""
        if self.taps:
            return self
        taps = usual_taps(layers)
        if list(taps) != sorted(set(taps)) or taps[0] < 0 or taps[-1] > layers:
            raise HeadError(
                f"This head does not say which layers it taps, and the usual ones do not exist in a model of {layers}.",
                "Choose a head made for this model.",
            )
        return replace(self, taps=taps)


def usual_taps(layers: int) -> tuple[int, int, int]:
    """EAGLE-3's choice, as layer inputs: the hidden states 2, L // 2 and L - 3."""
    return (2, layers // 2, layers - 3)


def senseless(what: str) -> HeadError:
    return HeadError(
        f"The head's config.json makes no sense: {what}.", "Download the head again or choose another."
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
        # The same taps in the other convention: two that agree leave nothing to doubt.
        "eagle_aux_hidden_state_layer_ids": list(config.taps),
        "training": dict(config.training),
    }
