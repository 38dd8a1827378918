"""Well-known public heads and their targets, by their real sizes: what a picker says before any download.

Sizes from the published configs; no weights are involved.
"""

from __future__ import annotations

from typing import Any

import pytest

from engine.heads.checkpoint import Eagle3Checkpoint
from engine.heads.choosing import readings
from engine.heads.facts import HeadFacts, TargetFacts
from engine.heads.files import Stored
from engine.heads.formats import HeadFormat
from engine.heads.pairing import Fit, pair
from engine.heads.parsing import parse_eagle3

LLAMA31 = {
    "model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
    "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 128256, "max_position_embeddings": 131072,
    "rope_theta": 500000.0, "rms_norm_eps": 1e-5,
    "rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                     "original_max_position_embeddings": 8192},
}  # fmt: skip
VICUNA = {
    "model_type": "llama", "hidden_size": 4096, "intermediate_size": 11008, "num_hidden_layers": 32,
    "num_attention_heads": 32, "vocab_size": 32000, "max_position_embeddings": 2048, "rms_norm_eps": 1e-6,
}  # fmt: skip
QWEN3_4B = {
    "model_type": "qwen3", "hidden_size": 2560, "intermediate_size": 9728, "num_hidden_layers": 36, "head_dim": 128,
    "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 151936, "max_position_embeddings": 40960,
    "rope_theta": 1000000, "rms_norm_eps": 1e-6, "tie_word_embeddings": True,
}  # fmt: skip
QWEN3_8B = QWEN3_4B | {"hidden_size": 4096, "intermediate_size": 12288, "tie_word_embeddings": False}
LLAMA33_70B = LLAMA31 | {
    "hidden_size": 8192, "intermediate_size": 28672, "num_hidden_layers": 80, "num_attention_heads": 64,
}  # fmt: skip


def shapes(c: dict[str, Any], first: str, into: int, fused: int, bias: bool = False) -> dict[str, tuple[int, ...]]:
    """The tensors that heads of all versions have, from the numbers of a config."""
    hidden, wide = c["hidden_size"], c["intermediate_size"]
    width = c.get("head_dim", hidden // c["num_attention_heads"])
    queries = c["num_attention_heads"] * width
    keys = c.get("num_key_value_heads", c["num_attention_heads"]) * width
    found = {
        "fc.weight": (hidden, fused),
        f"{first}.self_attn.q_proj.weight": (queries, into),
        f"{first}.self_attn.k_proj.weight": (keys, into),
        f"{first}.self_attn.v_proj.weight": (keys, into),
        f"{first}.self_attn.o_proj.weight": (hidden, queries),
        f"{first}.mlp.gate_proj.weight": (wide, hidden),
        f"{first}.mlp.up_proj.weight": (wide, hidden),
        f"{first}.mlp.down_proj.weight": (hidden, wide),
        f"{first}.post_attention_layernorm.weight": (hidden,),
    }
    return found | ({"fc.bias": (hidden,)} if bias else {})


def eagle1(c: dict[str, Any], bias: bool) -> dict[str, Stored]:
    hidden = c["hidden_size"]
    found = shapes(c, "layers.0", hidden, 2 * hidden, bias) | {"embed_tokens.weight": (c["vocab_size"], hidden)}
    return {name: Stored(shape, "F16") for name, shape in found.items()}


def eagle3(c: dict[str, Any], first: str, target_hidden: int, maps: tuple[str, ...], draft: int) -> dict[str, Stored]:
    hidden = c["hidden_size"]
    found = shapes(c, first, 2 * hidden, 3 * target_hidden)
    for norm in (f"{first}.hidden_norm", f"{first}.input_layernorm", "norm"):
        found[f"{norm}.weight"] = (hidden,)
    found["lm_head.weight"] = (draft, hidden)
    stored = {name: Stored(shape, "BF16") for name, shape in found.items()}
    sizes = {"d2t": Stored((draft,), "I64"), "t2d": Stored((c["vocab_size"],), "BOOL")}
    return stored | {name: sizes[name] for name in maps}


def layer(target: dict[str, Any], **more: Any) -> dict[str, Any]:
    kept = ("hidden_size", "intermediate_size", "num_attention_heads", "num_key_value_heads", "head_dim", "vocab_size")
    base = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "num_hidden_layers": 1}
    return base | {key: target[key] for key in kept if key in target} | {"max_position_embeddings": 2048} | more


BOTH = ("d2t", "t2d")
SPECULATORS: dict[str, Any] = {
    "architectures": ["Eagle3Speculator"], "speculators_model_type": "eagle3", "draft_vocab_size": 32000,
    "norm_before_residual": True, "target_hidden_size": None, "eagle_aux_hidden_state_layer_ids": None,
    "speculators_config": {"verifier": {"name_or_path": "Qwen/Qwen3-8B"}},
}  # fmt: skip
MODELOPT = {"eagle_config": {"eagle_aux_hidden_state_layer_ids": [1, 15, 28], "use_aux_hidden_state": True}}
SMALLER = layer(LLAMA33_70B, hidden_size=6144, target_hidden_size=8192, draft_vocab_size=32000, num_attention_heads=48)
WIDE = Stored((128256, 6144), "BF16")

KNOWN: dict[str, tuple[dict[str, Any], dict[str, Stored], dict[str, Any], str, HeadFormat, tuple[int, ...]]] = {
    "yuhuili/EAGLE-Vicuna-7B-v1.3": (
        layer(VICUNA), eagle1(VICUNA, True), VICUNA, "lmsys/vicuna-7b-v1.3", HeadFormat.EAGLE1, ()),
    "yuhuili/EAGLE-LLaMA3.1-Instruct-8B": (
        layer(LLAMA31, bias=False, rope_theta=500000.0), eagle1(LLAMA31, False), LLAMA31,
        "meta-llama/Llama-3.1-8B-Instruct", HeadFormat.EAGLE1, ()),
    "yuhuili/EAGLE3-LLaMA3.1-Instruct-8B": (
        layer(LLAMA31, draft_vocab_size=32000), eagle3(LLAMA31, "midlayer", 4096, BOTH, 32000), LLAMA31,
        "meta-llama/Llama-3.1-8B-Instruct", HeadFormat.EAGLE3, (2, 16, 29)),
    "yuhuili/EAGLE3-LLaMA3.3-Instruct-70B": (
        SMALLER, eagle3(SMALLER, "midlayer", 8192, BOTH, 32000) | {"embed_tokens.weight": WIDE}, LLAMA33_70B,
        "meta-llama/Llama-3.3-70B-Instruct", HeadFormat.EAGLE3, (2, 40, 77)),
    "lmsys/SGLang-EAGLE3-Llama-3.1-8B-Instruct-SpecForge": (
        layer(LLAMA31, architectures=["LlamaForCausalLMEagle3"], draft_vocab_size=32000),
        eagle3(LLAMA31, "midlayer", 4096, BOTH, 32000), LLAMA31, "meta-llama/Llama-3.1-8B-Instruct",
        HeadFormat.SPECFORGE, (2, 16, 29)),
    "AngelSlim/Qwen3-4B_eagle3": (
        layer(QWEN3_4B, architectures=["Eagle3LlamaForCausalLM"], draft_vocab_size=32000, tie_word_embeddings=True),
        eagle3(QWEN3_4B, "midlayer", 2560, BOTH, 32000), QWEN3_4B, "Qwen/Qwen3-4B", HeadFormat.ANGELSLIM,
        (2, 18, 33)),
    "RedHatAI/Qwen3-8B-speculator.eagle3": (
        SPECULATORS | {"transformer_layer_config": layer(QWEN3_8B, rope_theta=1000000.0)},
        eagle3(QWEN3_8B, "layers.0", 4096, BOTH, 32000), QWEN3_8B, "Qwen/Qwen3-8B", HeadFormat.SPECULATORS,
        (2, 18, 33)),
    "nvidia/some-8B-Eagle3": (
        layer(LLAMA31, architectures=["LlamaForCausalLMEagle3"], draft_vocab_size=32000, **MODELOPT),
        eagle3(LLAMA31, "layers.0", 4096, ("d2t",), 32000), LLAMA31, "meta-llama/Llama-3.1-8B-Instruct",
        HeadFormat.MODELOPT, (2, 16, 29)),
}  # fmt: skip


@pytest.mark.parametrize("name", KNOWN)
def test_a_known_head_belongs_to_its_target(name: str) -> None:
    raw, stored, target_raw, target_name, format, taps = KNOWN[name]
    head = HeadFacts.from_files(raw, stored, name)
    target = TargetFacts.from_config(target_raw, target_name)
    assert (head.format, head.problem, target.problem) == (format, "", "")
    verdict = pair(target, head)
    # All of these say that they were trained on 2,048 tokens.
    expected = Fit.FITS if target.max_positions <= 2048 else Fit.CAVEAT
    assert verdict.fit is expected, verdict.words
    assert len(verdict.reasons) == (expected is Fit.CAVEAT)
    if format is not HeadFormat.EAGLE1:
        import torch

        config, unsure = parse_eagle3(raw, stored, format)
        checkpoint = Eagle3Checkpoint(config, {}, format, unsure)
        found = readings(checkpoint, target.num_layers, torch.zeros(1, 1))
        assert [each.config.taps for each in found] == [taps]  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", KNOWN)
def test_no_known_head_fits_another_size(name: str) -> None:
    raw, stored, target_raw, *_ = KNOWN[name]
    head = HeadFacts.from_files(raw, stored, name)
    for other in (VICUNA, LLAMA31, QWEN3_4B, QWEN3_8B, LLAMA33_70B):
        verdict = pair(TargetFacts.from_config(other), head)
        assert verdict.usable == (other == target_raw), verdict.words


def test_thinking_is_a_caveat_of_its_own() -> None:
    raw, stored, target_raw, *_ = KNOWN["RedHatAI/Qwen3-8B-speculator.eagle3"]
    head = HeadFacts.from_files(raw, stored, "RedHatAI/Qwen3-8B-Thinking-speculator.eagle3")
    verdict = pair(TargetFacts.from_config(target_raw, "Qwen/Qwen3-8B"), head)
    assert any("thinking" in reason for reason in verdict.reasons)
