"""Configurations as the hub has them, and checkpoints in all their files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from engine.errors import ModelError
from engine.models.building import never, quiet
from engine.models.checkpoint import Checkpoint
from engine.models.config import DecoderConfig
from engine.models.decoder import Decoder
from engine.models.files import open_model
from engine.models.formats import DenseFormat
from engine.models.loading import TensorSource
from engine.models.weights import build_weights, float_weights
from tests.engine import tiny_families as families

LLAMA = {
    "model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
    "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 128256, "rms_norm_eps": 1e-5,
}  # fmt: skip
HUB: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    # name: (what its config.json says, what it must come to)
    "Llama-2-7b-chat-hf": (
        LLAMA | {"num_key_value_heads": 32, "vocab_size": 32000, "max_position_embeddings": 4096, "rope_scaling": None},
        {"num_kv_heads": 32, "rope_theta": 10_000.0, "sliding_window": 0, "tied_head": False},
    ),
    "vicuna-7b-v1.3": (
        {k: v for k, v in LLAMA.items() if k != "num_key_value_heads"} | {"max_position_embeddings": 2048},
        {"num_kv_heads": 32, "head_dim": 128, "max_positions": 2048},
    ),
    "vicuna-7b-v1.5-16k": (
        LLAMA | {"max_position_embeddings": 4096, "rope_scaling": {"factor": 4.0, "type": "linear"}},
        {"rope.kind": "linear", "rope.factor": 4.0},
    ),
    "Llama-3.1-8B-Instruct": (
        LLAMA
        | {
            "max_position_embeddings": 131072,
            "rope_theta": 500000.0,
            "rope_scaling": {
                "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                "original_max_position_embeddings": 8192, "rope_type": "llama3",
            },
        },
        {"rope.kind": "llama3", "rope_theta": 500000.0, "rope.original_positions": 8192, "qkv_bias": False},
    ),
    "Mistral-7B-Instruct-v0.1": (
        LLAMA | {"model_type": "mistral", "vocab_size": 32000, "sliding_window": 4096, "max_position_embeddings": 32768},
        {"sliding_window": 4096, "layer_is_sliding": (True,) * 32},
    ),
    "Mistral-Nemo-Instruct-2407": (
        LLAMA
        | {
            "model_type": "mistral", "hidden_size": 5120, "num_hidden_layers": 40, "head_dim": 128,
            "rope_theta": 1000000.0, "sliding_window": None, "max_position_embeddings": 131072,
        },
        {"head_dim": 128, "query_size": 4096, "sliding_window": 0, "rope_theta": 1000000.0},
    ),
    "Qwen2-7B-Instruct": (
        LLAMA
        | {
            "model_type": "qwen2", "hidden_size": 3584, "num_attention_heads": 28, "num_key_value_heads": 4,
            "num_hidden_layers": 28, "use_sliding_window": False, "sliding_window": 131072, "rope_theta": 1000000.0,
        },
        {"qkv_bias": True, "out_bias": False, "sliding_window": 0, "head_dim": 128},
    ),
    "Qwen3-4B": (
        LLAMA
        | {
            "model_type": "qwen3", "hidden_size": 2560, "head_dim": 128, "intermediate_size": 9728,
            "attention_bias": False, "tie_word_embeddings": True, "use_sliding_window": False,
            "sliding_window": None, "max_window_layers": 36, "rope_theta": 1000000, "rope_scaling": None,
        },
        {"qk_norm": True, "qkv_bias": False, "query_size": 4096, "tied_head": True},
    ),
    "gemma-2-2b-it": (
        {
            "model_type": "gemma2", "hidden_size": 2304, "intermediate_size": 9216, "num_hidden_layers": 26,
            "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256, "vocab_size": 256000,
            "hidden_act": "gelu_pytorch_tanh", "hidden_activation": "gelu_pytorch_tanh", "sliding_window": 4096,
            "query_pre_attn_scalar": 256, "attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0,
        },
        {"attention_softcap": 50.0, "logit_softcap": 30.0, "attention_scale": 1 / 16, "post_norms": True,
         "layer_is_sliding": (True, False) * 13, "tied_head": True},
    ),
    "gemma-3-4b-it": (
        {
            "model_type": "gemma3",
            "text_config": {
                "model_type": "gemma3_text", "hidden_size": 2560, "intermediate_size": 10240,
                "num_hidden_layers": 34, "sliding_window": 1024, "rope_scaling": {"factor": 8.0, "rope_type": "linear"},
            },
            "vision_config": {"hidden_size": 1152},
        },
        {"num_heads": 8, "num_kv_heads": 4, "head_dim": 256, "vocab_size": 262208, "rope.kind": "linear",
         "rope_theta": 1000000.0, "rope_theta_sliding": 10000.0, "rope_sliding.kind": "default", "qk_norm": True,
         "sliding_window": 1024},
    ),
    "Phi-3.5-mini-instruct": (
        LLAMA
        | {
            "model_type": "phi3", "hidden_size": 3072, "num_key_value_heads": 32, "sliding_window": 262144,
            "max_position_embeddings": 131072, "original_max_position_embeddings": 4096,
            "rope_scaling": {"type": "longrope", "long_factor": [2.0] * 48, "short_factor": [1.0] * 48},
        },
        {"rope.kind": "longrope", "rope.dim": 96, "rope.original_positions": 4096, "fused_projections": True},
    ),
    "Phi-4-mini-instruct": (
        LLAMA
        | {
            "model_type": "phi3", "hidden_size": 3072, "num_attention_heads": 24, "partial_rotary_factor": 0.75,
            "max_position_embeddings": 131072, "original_max_position_embeddings": 4096, "tie_word_embeddings": True,
            "rope_scaling": {"type": "longrope", "long_factor": [2.0] * 48, "short_factor": [1.0] * 48},
        },
        {"head_dim": 128, "rope.dim": 96, "tied_head": True},
    ),
    "DeepSeek-R1-Distill-Qwen-1.5B": (
        LLAMA | {"model_type": "qwen2", "hidden_size": 1536, "num_attention_heads": 12, "num_key_value_heads": 2,
                 "rope_theta": 10000, "use_sliding_window": False, "use_mrope": False},
        {"qkv_bias": True, "rope_theta": 10000.0, "head_dim": 128},
    ),
    "Mixtral-8x7B-Instruct-v0.1": (
        LLAMA | {"model_type": "mixtral", "num_local_experts": 8, "num_experts_per_tok": 2, "sliding_window": None,
                 "rope_theta": 1000000.0, "vocab_size": 32000},
        {"experts": 8, "experts_per_token": 2, "sliding_window": 0},
    ),
    "Mistral-Small-3.1-24B": (
        {
            "model_type": "mistral3",
            "text_config": LLAMA | {"model_type": "mistral", "hidden_size": 5120, "head_dim": 128,
                                    "rope_theta": 1000000000.0, "sliding_window": None, "vocab_size": 131072},
        },
        {"model_type": "mistral", "query_size": 4096, "rope_theta": 1000000000.0, "tied_head": False},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(HUB))
def test_a_configuration_of_the_hub_is_understood(name: str) -> None:
    raw, expected = HUB[name]
    config = DecoderConfig.from_hf(raw)
    for field, value in expected.items():
        found: Any = config
        for part in field.split("."):
            found = getattr(found, part)
        assert found == pytest.approx(value) if isinstance(value, float) else found == value, field


# --------------------------------------------------------------------------- files


@torch.inference_mode()
def logits(folder: Path) -> torch.Tensor:
    model = open_model(folder, quiet, never)
    config = DecoderConfig.from_hf(model.raw)
    decoder = Decoder(config, build_weights(config, Checkpoint(model.tensors()), DenseFormat()))
    ids = torch.arange(3, 23)
    hidden, _ = decoder.forward(ids, torch.arange(20), decoder.new_cache())
    return decoder.logits(hidden)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return families.save("llama-2", tmp_path / "model")[1]


def test_shards_and_old_files_hold_the_same_model(folder: Path, tmp_path: Path) -> None:
    expected = logits(folder)
    model = families.make("llama-2")
    model.save_pretrained(tmp_path / "shards", max_shard_size="100KB")
    assert len(list((tmp_path / "shards").glob("*.safetensors"))) > 2
    assert torch.equal(logits(tmp_path / "shards"), expected)

    tensors = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    torch.save(tensors, folder / "pytorch_model.bin")
    assert torch.equal(logits(folder), expected)
    torch.save(tensors, folder / "pytorch_model.bin", _use_new_zipfile_serialization=False)
    assert torch.equal(logits(folder), expected)

    (folder / "pytorch_model.bin").unlink()
    names = sorted(tensors)
    files = {name: f"pytorch_model-0000{1 + place % 2}-of-00002.bin" for place, name in enumerate(names)}
    for file in set(files.values()):
        torch.save({name: tensors[name] for name in names if files[name] == file}, folder / file)
    (folder / "pytorch_model.bin.index.json").write_text(json.dumps({"weight_map": files}))
    assert torch.equal(logits(folder), expected)
    (folder / "pytorch_model-00002-of-00002.bin").unlink()
    with pytest.raises(ModelError, match="pytorch_model-00002-of-00002"):
        logits(folder)


class Evil:
    def __reduce__(self) -> Any:
        return (print, ("code of the file was run",))


@pytest.mark.parametrize("content", [{"a": Evil()}, [torch.zeros(2)], {"a": 1}])
def test_a_bin_file_that_holds_more_than_tensors_is_not_opened(
    folder: Path, content: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "model.safetensors").unlink()
    torch.save(content, folder / "pytorch_model.bin")
    with pytest.raises(ModelError, match=r"pytorch_model\.bin"):
        logits(folder)
    assert "code" not in capsys.readouterr().out


def test_a_missing_shard_is_named(tmp_path: Path) -> None:
    families.make("llama-2").save_pretrained(tmp_path / "shards", max_shard_size="100KB")
    shard = sorted((tmp_path / "shards").glob("*.safetensors"))[1]
    shard.unlink()
    with pytest.raises(ModelError, match=shard.name):
        logits(tmp_path / "shards")


def test_reading_gives_what_mapping_gives(folder: Path) -> None:
    source = TensorSource(folder)
    for name in source.names():
        assert torch.equal(source.read(name), source.get(name))


def test_a_stored_head_counts_unless_it_is_the_embedding(folder: Path) -> None:
    """Multimodal checkpoints call a head tied that they store; what is stored is used."""
    raw = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(raw | {"tie_word_embeddings": True}))
    config = DecoderConfig.from_folder(folder)
    weights = float_weights(config, TensorSource(folder))
    head: Any = weights.head
    assert torch.equal(head.weight, load_file(folder / "model.safetensors")["lm_head.weight"])
    assert not torch.equal(head.weight, weights.embedding)
