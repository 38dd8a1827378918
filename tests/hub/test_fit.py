"""The estimate of memory against what the engine holds once it has loaded, and its verdicts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from engine.heads.checkpoint import write_eagle3
from engine.hub.content import folder_content
from engine.hub.fit import Shape, estimate, head_bytes, target_bytes, verdict
from engine.hub.headers import Entry, parse, read
from engine.hub.memory import parse_tool
from engine.loaded import load_model
from engine.protocol import Load
from engine.protocol.hub import Machine, Verdict
from tests.engine import tiny

GPU = Machine("RTX 4070", True, 12 * 10**9, 11 * 10**9)
CONTEXT = 512


def build(family: str, folder: Path) -> Path:
    """A random model of a family, large enough that no fixed cost decides."""
    from transformers import LlamaConfig, LlamaForCausalLM, Qwen3Config, Qwen3ForCausalLM

    torch.manual_seed(3)
    if family == "gemma":
        return tiny.save_with_tokenizer(folder)
    sizes: dict[str, Any] = {
        "vocab_size": 1200,
        "hidden_size": 192,
        "intermediate_size": 512,
        "num_hidden_layers": 3,
        "num_attention_heads": 6,
        "num_key_value_heads": 2,
        "head_dim": 32,
        "max_position_embeddings": CONTEXT,
        "bos_token_id": 2,
        "eos_token_id": 1,
    }
    if family == "llama":
        model: Any = LlamaForCausalLM(LlamaConfig(**sizes, tie_word_embeddings=False))
    else:
        model = Qwen3ForCausalLM(Qwen3Config(**sizes, tie_word_embeddings=True))
    return tiny.write_tokenizer(tiny.save(model.to(torch.bfloat16), folder))


@pytest.mark.parametrize("family", ["llama", "qwen", "gemma"])
def test_the_estimate_agrees_with_what_is_held(family: str, tmp_path: Path) -> None:
    folder = build(family, tmp_path / family)
    held = load_model(Load(str(folder), head="", device="cpu", weight_format="int8", context=CONTEXT))
    content = folder_content(folder)
    assert content.header is not None
    guessed = target_bytes(content.header, content.config, is_gpu=False)
    embedding = held.decoder.weights.embedding  # stays in its file
    in_memory = held.info.memory_bytes - embedding.numel() * embedding.element_size()
    assert guessed == pytest.approx(in_memory, rel=0.1)
    cache = held.decoder.new_cache(CONTEXT)
    cache.reserve(CONTEXT)
    assert Shape.of(content.config).cache_bytes(CONTEXT, is_gpu=False) == pytest.approx(
        cache.memory_bytes(), rel=0.1
    )
    # NF4 as on a GPU: the layers' matrices are alike, tables are 16 bits there.
    nf4 = load_model(Load(str(folder), head="", device="cpu", weight_format="nf4", context=CONTEXT)).decoder
    layers = sum(
        part.memory_bytes()
        for layer in nf4.weights.layers
        for part in (layer.qkv, layer.out, layer.gate_up, layer.down)
        if part is not None
    )
    config = nf4.config
    tables = config.vocab_size * config.hidden_size * 2
    assert target_bytes(content.header, content.config, is_gpu=True) == pytest.approx(
        layers + tables, rel=0.1
    )


def test_the_estimate_of_a_head_agrees_with_what_is_held(tmp_path: Path) -> None:
    target, head = tiny.save_with_tokenizer(tmp_path / "target"), tmp_path / "head"
    write_eagle3(head, tiny.checkpoint(1, vocabulary=tiny.BYTES))
    with_head = load_model(Load(str(target), str(head), device="cpu", weight_format="int8"))
    without = load_model(Load(str(target), "", device="cpu", weight_format="int8"))
    content = folder_content(head)
    assert content.header is not None
    held = with_head.info.memory_bytes - without.info.memory_bytes
    assert head_bytes(content.header, is_gpu=False) == pytest.approx(held, rel=0.1)


def test_a_public_model_comes_out_as_its_table_says() -> None:
    """Llama 3.1 8B: 7.0 billion in the layers, two tables of 128,256 x 4,096."""
    config = {
        "hidden_size": 4096, "num_attention_heads": 32, "num_key_value_heads": 8, "num_hidden_layers": 32,
        "vocab_size": 128256, "max_position_embeddings": 131072, "tie_word_embeddings": False,
    }  # fmt: skip
    shapes = {"self_attn.q_proj": (4096, 4096), "self_attn.k_proj": (1024, 4096), "self_attn.v_proj": (1024, 4096),
              "self_attn.o_proj": (4096, 4096), "mlp.gate_proj": (14336, 4096), "mlp.up_proj": (14336, 4096),
              "mlp.down_proj": (4096, 14336)}  # fmt: skip
    header = {
        f"model.layers.{layer}.{name}.weight": Entry("BF16", shape)
        for layer in range(32)
        for name, shape in shapes.items()
    }
    header |= {
        name: Entry("BF16", (128256, 4096)) for name in ("model.embed_tokens.weight", "lm_head.weight")
    }
    fit = estimate(GPU, config, header, 0)
    assert fit.weights == 6_979_321_856 * 9 // 16 + 128256 * 4096 * 2
    assert fit.cache == 4096 * 131072
    assert (fit.verdict, fit.weight_format, fit.is_rough) == (Verdict.FITS, "NF4", False)
    assert estimate(Machine("RTX", True, 8 * 10**9, 68 * 10**8), config, header, 0).verdict is Verdict.TIGHT
    small = estimate(Machine("RTX", True, 6 * 10**9, 5 * 10**9), config, header, 0)
    assert small.verdict is Verdict.NO and small.left < 0 and "6.2 GB" in small.words
    # What is loaded now goes first, but a card never has more than it has.
    freed = estimate(Machine("RTX", True, 68 * 10**8, 2 * 10**9), config, header, 0, loaded_bytes=5 * 10**9)
    assert freed.verdict is Verdict.TIGHT and "unloaded first" in freed.words
    assert verdict(Machine("RTX", True, 8 * 10**9, 7 * 10**9), 9 * 10**9, 0, 0, 9 * 10**9, 1, True).left < 0


def test_headers_are_read_in_parts_and_nonsense_is_refused() -> None:
    text = (
        b'{"__metadata__":{"a":"b"},"w":{"dtype":"F16","shape":[2,3],"data_offsets":[0,12]}}' + b" " * 300_000
    )
    file = len(text).to_bytes(8, "little") + text + bytes(12)
    asked: list[tuple[int, int]] = []

    def read_range(start: int, end: int) -> bytes:
        asked.append((start, end))
        return file[start:end]

    assert read(read_range) == {"w": Entry("F16", (2, 3))}
    assert len(asked) == 2 and asked[1] == (asked[0][1], 8 + len(text))
    for wrong in (b"", b"GGUF" + bytes(20), (1 << 40).to_bytes(8, "little") + b"{}"):
        with pytest.raises(ValueError, match="no safetensors file"):
            read(lambda start, end, wrong=wrong: wrong[start:end])
    with pytest.raises(ValueError):
        parse(b'{"w": {"shape": [-1], "dtype": "F16"}}')


def test_the_drivers_tool_is_read() -> None:
    machine = parse_tool("NVIDIA GeForce RTX 4090, 24564, 22000\nsecond, 1, 1\n")
    assert machine == Machine("NVIDIA GeForce RTX 4090", True, 24564 << 20, 22000 << 20)
    assert parse_tool("") is None
    assert parse_tool("No devices were found") is None
