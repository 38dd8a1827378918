"""Tiny random models of every supported family, made by transformers with the family's true architecture."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

VOCABULARY = 264
POSITIONS = 512
WINDOW = 12
LENGTH = 80
"""Of the texts compared: beyond the window, and beyond the length the scaled ones were made for."""
ORIGINAL = 32
"""Positions before stretching."""


def _common(**more: Any) -> dict[str, Any]:
    return {
        "vocab_size": VOCABULARY,
        "hidden_size": 64,
        "intermediate_size": 96,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": POSITIONS,
        "bos_token_id": 2,
        "eos_token_id": 1,
        "pad_token_id": 0,
        "tie_word_embeddings": False,
    } | more


def _llama(**more: Any) -> Any:
    from transformers import LlamaConfig, LlamaForCausalLM

    return LlamaForCausalLM(LlamaConfig(**_common(**more)))


def _mistral(**more: Any) -> Any:
    from transformers import MistralConfig, MistralForCausalLM

    return MistralForCausalLM(MistralConfig(**_common(head_dim=24, **more)))


def _mixtral() -> Any:
    from transformers import MixtralConfig, MixtralForCausalLM

    return MixtralForCausalLM(MixtralConfig(**_common(num_local_experts=5, num_experts_per_tok=2)))


def _qwen2(**more: Any) -> Any:
    from transformers import Qwen2Config, Qwen2ForCausalLM

    return Qwen2ForCausalLM(Qwen2Config(**_common(**more)))


def _qwen3(**more: Any) -> Any:
    from transformers import Qwen3Config, Qwen3ForCausalLM

    return Qwen3ForCausalLM(Qwen3Config(**_common(head_dim=32, **more)))


def _phi3(**more: Any) -> Any:
    from transformers import Phi3Config, Phi3ForCausalLM

    return Phi3ForCausalLM(Phi3Config(**_common(**more)))


def _gemma2() -> Any:
    from transformers import Gemma2Config, Gemma2ForCausalLM

    return Gemma2ForCausalLM(
        Gemma2Config(
            **_common(head_dim=24, query_pre_attn_scalar=16, sliding_window=WINDOW, tie_word_embeddings=True),
            attn_logit_softcapping=5.0,  # low enough that the caps bite
            final_logit_softcapping=4.0,
        )
    )


def _gemma3_text(**more: Any) -> dict[str, Any]:
    return _common(
        head_dim=32, query_pre_attn_scalar=24, sliding_window=WINDOW, num_hidden_layers=7, tie_word_embeddings=True, **more
    )


def _gemma3_scaled() -> Any:
    from transformers import Gemma3ForCausalLM, Gemma3TextConfig

    rope = {
        "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1e6},
        "sliding_attention": {"rope_type": "default", "rope_theta": 1e4},
    }
    return Gemma3ForCausalLM(Gemma3TextConfig(**_gemma3_text(rope_parameters=rope)))


def _gemma3_multimodal() -> Any:
    from transformers import Gemma3Config, Gemma3ForConditionalGeneration

    vision = {
        "model_type": "siglip_vision_model",
        "hidden_size": 32,
        "intermediate_size": 32,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "image_size": 28,
        "patch_size": 14,
    }
    config = Gemma3Config(
        text_config=_gemma3_text(),
        vision_config=vision,
        mm_tokens_per_image=4,
        boi_token_index=90,
        eoi_token_index=91,
        image_token_index=92,
        tie_word_embeddings=True,
    )
    return Gemma3ForConditionalGeneration(config)


_YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": ORIGINAL, "rope_theta": 1e4}
_LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": ORIGINAL,
    "rope_theta": 5e5,
}


def _longrope(pairs: int) -> dict[str, Any]:
    return {
        "rope_type": "longrope",
        "short_factor": [1.0 + 0.1 * pair for pair in range(pairs)],
        "long_factor": [1.0 + 1.5 * pair for pair in range(pairs)],
        "rope_theta": 1e4,
        "original_max_position_embeddings": ORIGINAL,
    }


MAKERS: dict[str, Callable[[], Any]] = {
    "llama-2": lambda: _llama(num_key_value_heads=4, max_position_embeddings=POSITIONS),
    "llama-2-wide": lambda: _llama(num_key_value_heads=4, intermediate_size=128),
    "llama-3.1": lambda: _llama(rope_parameters=_LLAMA3),
    "llama-3.2-tied": lambda: _llama(rope_parameters=_LLAMA3, tie_word_embeddings=True),
    "llama-linear-biased": lambda: _llama(
        rope_parameters={"rope_type": "linear", "factor": 4.0, "rope_theta": 1e4}, attention_bias=True, mlp_bias=True
    ),
    "mistral-7b": lambda: _mistral(sliding_window=WINDOW),
    "mistral-nemo": lambda: _mistral(sliding_window=None, rope_parameters={"rope_type": "default", "rope_theta": 1e6}),
    "mixtral": _mixtral,
    "qwen2": lambda: _qwen2(tie_word_embeddings=True),
    "qwen2-yarn": lambda: _qwen2(rope_parameters=_YARN),
    "qwen2-window": lambda: _qwen2(use_sliding_window=True, sliding_window=WINDOW, max_window_layers=1),
    "qwen3": lambda: _qwen3(tie_word_embeddings=True, num_key_value_heads=1),
    "qwen3-yarn": lambda: _qwen3(rope_parameters=_YARN),
    "phi3": lambda: _phi3(sliding_window=WINDOW),
    "phi3-longrope": lambda: _phi3(
        rope_parameters=_longrope(8), original_max_position_embeddings=ORIGINAL
    ),
    "phi4-mini": lambda: _phi3(
        rope_parameters=_longrope(6) | {"partial_rotary_factor": 0.75},
        original_max_position_embeddings=ORIGINAL,
        tie_word_embeddings=True,
    ),
    "gemma2": _gemma2,
    "gemma3-scaled": _gemma3_scaled,
    "gemma3-multimodal": _gemma3_multimodal,
}


def make(name: str, seed: int = 0) -> Any:
    """transformers' own model, float32, eager attention, with logits sharp enough to be decided."""
    torch.manual_seed(seed)
    model = MAKERS[name]().eval()
    model.set_attn_implementation("eager")
    with torch.no_grad():
        for key, parameter in model.named_parameters():
            if "norm" in key:
                parameter.normal_(0 if name.startswith("gemma") else 1, 0.2)
            elif key.endswith("bias"):
                parameter.normal_(0, 0.3)
            else:
                parameter.normal_(0, 0.2)
    return model


def save(name: str, folder: Path) -> tuple[Any, Path]:
    model = make(name)
    model.save_pretrained(folder)
    return model, folder


def hub_tensors(model: Any) -> dict[str, torch.Tensor]:
    """A model's tensors under the names of a saved checkpoint."""
    import tempfile

    from safetensors.torch import load_file

    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        return load_file(Path(folder) / "model.safetensors")
