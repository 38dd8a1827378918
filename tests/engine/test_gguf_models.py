"""GGUF files of every family we read, written here as llama.cpp's converter does, against the original model."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import torch
from gguf import GGMLQuantizationType as Kind
from gguf.quants import dequantize, quantize
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

from engine.errors import ModelError
from engine.loaded import load_model
from engine.models.checkpoint import Checkpoint
from engine.models.config import DecoderConfig
from engine.models.decoder import Decoder
from engine.models.formats import DenseFormat
from engine.models.gguf_families import family_of
from engine.models.gguf_file import GGUFFile
from engine.models.gguf_tensors import GGUFTensors
from engine.models.weights import build_weights
from engine.protocol import Load, Message, Role
from tests.engine import tiny_families as families

SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
TEXTS = [
    "Hello world, it's 12345 apples!",
    "naïve café — 日本語のテキスト 🙂👩‍👩‍👧 end\n\n  two",
    "def f(x):\n\treturn x ** 2",
]
LEAVES = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.qkv_proj": "attn_qkv",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.gate_up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "block_sparse_moe.gate": "ffn_gate_inp",
    "pre_feedforward_layernorm": "ffn_norm",
    "post_feedforward_layernorm": "post_ffw_norm",
}
ARCHITECTURES = {
    "llama-2": "llama",
    "llama-3.1": "llama",
    "mistral-nemo": "llama",
    "mixtral": "llama",
    "qwen2": "qwen2",
    "qwen3": "qwen3",
    "phi3": "phi3",
    "phi4-mini": "phi3",
    "gemma2": "gemma2",
}


def byte_level() -> Tokenizer:
    """A byte-level BPE with Llama 3's split, as tiktoken's vocabularies become."""
    backend = Tokenizer(models.BPE(ignore_merges=True))
    backend.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(SPLIT), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    backend.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=261, initial_alphabet=alphabet, show_progress=False)
    backend.train_from_iterator(["the cat in the hat " * 5], trainer)
    backend.add_special_tokens(["<|begin|>", "<|end|>", "<|pad|>"])
    return backend


def _tensors(name: str, model: Any) -> Iterator[tuple[str, np.ndarray[Any, Any]]]:
    config = model.config
    gemma, llama = name.startswith("gemma"), ARCHITECTURES[name] == "llama"
    experts: dict[str, list[np.ndarray[Any, Any]]] = {}
    for key, tensor in families.hub_tensors(model).items():
        numbers = tensor.float().numpy()
        stem, _, kind = key.rpartition(".")
        if key.endswith("norm.weight") and gemma:
            numbers = numbers + 1
        if llama and ("q_proj" in key or "k_proj" in key):
            heads = config.num_attention_heads if "q_proj" in key else config.num_key_value_heads
            shape = numbers.shape
            numbers = numbers.reshape(heads, 2, shape[0] // heads // 2, *shape[1:]).swapaxes(1, 2).reshape(shape)
        outer = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}
        if stem in outer:
            if stem != "lm_head" or not config.tie_word_embeddings:
                yield f"{outer[stem]}.{kind}", numbers
            continue
        _, _, layer, leaf = stem.split(".", 3)
        if ".experts." in stem:
            which = {"w1": "ffn_gate_exps", "w3": "ffn_up_exps", "w2": "ffn_down_exps"}[stem[-2:]]
            experts.setdefault(f"blk.{layer}.{which}.weight", []).append(numbers)
            continue
        if leaf == "post_attention_layernorm":
            leaf = "post_attention_norm" if gemma else "ffn_norm"
        yield f"blk.{layer}.{LEAVES.get(leaf, leaf)}.{kind}", numbers
    for key, parts in experts.items():
        yield key, np.stack(parts)


def write(path: Path, name: str, model: Any, kind: Kind = Kind.F32, extra: tuple[str, ...] = ()) -> Path:
    arch, config = ARCHITECTURES[name], model.config
    writer = gguf.GGUFWriter(str(path), arch)
    width = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_key_length(width)
    rope = config.rope_parameters
    writer.add_rope_freq_base(rope["rope_theta"])
    writer.add_rope_dimension_count(int(width * rope.get("partial_rotary_factor", 1.0)))
    if getattr(config, "sliding_window", None):
        writer.add_sliding_window(config.sliding_window)
    if name == "mixtral":
        writer.add_expert_count(config.num_local_experts)
        writer.add_expert_used_count(config.num_experts_per_tok)
    if name == "gemma2":
        writer.add_attn_logit_softcapping(config.attn_logit_softcapping)
        writer.add_final_logit_softcapping(config.final_logit_softcapping)
    floats = np.float32
    if rope.get("rope_type") == "llama3":
        plain = rope["rope_theta"] ** -(np.arange(0, width, 2) / width)
        from engine.models.rope import read_rope

        scaled = read_rope(rope, 1e4, width, 1).frequencies().numpy()
        writer.add_tensor("rope_freqs.weight", (plain / scaled).astype(floats))
    if rope.get("rope_type") == "longrope":
        writer.add_tensor("rope_factors_long.weight", np.array(rope["long_factor"], floats))
        writer.add_tensor("rope_factors_short.weight", np.array(rope["short_factor"], floats))
        stretch = config.max_position_embeddings / families.ORIGINAL
        writer.add_rope_scaling_orig_ctx_len(families.ORIGINAL)
        writer.add_rope_scaling_attn_factors(float(np.sqrt(1 + np.log(stretch) / np.log(families.ORIGINAL))))
    backend = byte_level()
    vocabulary = sorted(backend.get_vocab().items(), key=lambda item: item[1])
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("llama-bpe")
    writer.add_token_list([token for token, _ in vocabulary])
    writer.add_token_types([3 if token.startswith("<|") else 1 for token, _ in vocabulary])
    merges = json.loads(backend.to_str())["model"]["merges"]
    writer.add_token_merges([" ".join(merge) for merge in merges])
    writer.add_bos_token_id(backend.token_to_id("<|begin|>"))
    writer.add_eos_token_id(backend.token_to_id("<|end|>"))
    writer.add_chat_template("{{ bos_token }}{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}")
    for key, numbers in _tensors(name, model):
        plain_kind = kind is Kind.F32 or numbers.ndim == 1 or numbers.shape[-1] % 32
        writer.add_tensor(
            key,
            numbers.astype(floats) if plain_kind else quantize(numbers, kind),
            raw_dtype=None if plain_kind else kind,
        )
    for key in extra:
        writer.add_tensor(key, np.zeros(4, floats))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def decoder(path: Path) -> Decoder:
    with GGUFFile(path) as file:
        config = DecoderConfig.from_hf(family_of(file).config(file))
    return Decoder(config, build_weights(config, Checkpoint(GGUFTensors(path)), DenseFormat()))


@torch.inference_mode()
@pytest.mark.parametrize("name", sorted(ARCHITECTURES))
def test_logits_are_those_of_the_original(tmp_path: Path, name: str) -> None:
    model = families.make(name)
    if name == "gemma2":  # the file does not hold it: all but the 27B model have the head's width
        for layer in model.model.layers:
            layer.self_attn.scaling = model.config.head_dim**-0.5
    ours = decoder(write(tmp_path / "model.gguf", name, model))
    ids = torch.randint(3, 90, (families.LENGTH,), generator=torch.Generator().manual_seed(1))
    expected = model(ids[None]).logits[0]
    hidden, _ = ours.forward(ids, torch.arange(len(ids)), ours.new_cache())
    torch.testing.assert_close(ours.logits(hidden), expected, atol=3e-4, rtol=3e-4)


@torch.inference_mode()
def test_quantised_tensors_are_what_gguf_makes_of_them(tmp_path: Path) -> None:
    model = families.make("llama-2")
    path = write(tmp_path / "model.gguf", "llama-2", model, Kind.Q8_0)
    name = "model.layers.1.mlp.down_proj.weight"
    original = model.state_dict()[name].numpy()
    expected = dequantize(quantize(original, Kind.Q8_0), Kind.Q8_0)
    assert np.array_equal(GGUFTensors(path).get(name).numpy(), expected)
    assert not np.array_equal(expected, original)


def test_a_gguf_file_answers_and_its_tokenizer_is_the_original(tmp_path: Path) -> None:
    path = write(tmp_path / "tiny-llama.gguf", "llama-3.1", families.make("llama-3.1"), Kind.Q8_0)
    model = load_model(Load(str(path), device="cpu"))
    assert model.info.name == "tiny-llama"
    assert model.info.weight_format == "row-wise int8"
    # The embedding is packed in the file; a copy of 16 bits is mapped instead of 32 held in memory.
    table = model.decoder.weights.embedding
    assert table.dtype == torch.float16
    expected = GGUFTensors(path).get("model.embed_tokens.weight")
    torch.testing.assert_close(table.float(), expected, atol=1e-3, rtol=1e-3)
    original = byte_level()
    for text in TEXTS:
        ids = model.tokenizer.encode(text)
        assert ids == original.encode(text).ids
        assert model.tokenizer.decode(ids) == text
    assert model.chat.eos_token_ids == (original.token_to_id("<|end|>"),)
    prompt = model.prompt((Message(Role.USER, "Hi"),))
    assert prompt[0] == original.token_to_id("<|begin|>")
    # The folder that holds the file does as well.
    assert load_model(Load(str(tmp_path), device="cpu")).info.path == str(path)


def test_an_unknown_tensor_and_an_unknown_family_are_named(tmp_path: Path) -> None:
    model = families.make("llama-2")
    path = write(tmp_path / "model.gguf", "llama-2", model, extra=("blk.0.attn_sinks.weight",))
    with pytest.raises(ModelError, match=r"blk\.0\.attn_sinks\.weight"):
        GGUFTensors(path)
    writer = gguf.GGUFWriter(str(tmp_path / "rwkv.gguf"), "rwkv7")
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    with pytest.raises(ModelError, match="rwkv7"):
        GGUFTensors(tmp_path / "rwkv.gguf")
