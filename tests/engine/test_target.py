"""Loading a target by what a user chooses: device, format, and models that EAGLE does not run on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from engine import placement
from engine.errors import ModelError, ResourceError
from engine.generation import Switches
from engine.loaded import LoadedModel, load_model
from engine.protocol import Finished, Generate, GenerationSettings, Load, Message, Role
from engine.reply import run_reply
from tests.engine import tiny
from tests.engine import tiny_families as families


def folder_of(name: str, tmp_path: Path) -> Path:
    return tiny.write_tokenizer(families.save(name, tmp_path / name)[1])


def answer(model: LoadedModel, words: str = "Hello", new_tokens: int = 12, session: Any = None) -> Finished:
    messages = (Message(Role.USER, words),)
    settings = GenerationSettings(max_new_tokens=new_tokens)
    return run_reply(
        session or model.session(),
        model.tokenizer,
        Generate("one", messages, settings),
        model.prompt(messages),
        stop_strings=(),
        end_tokens=model.chat.eos_token_ids,
        switches=Switches(False),
        send=lambda _event: None,
    )


def greedy(folder: Path, prompt: list[int], count: int, ends: tuple[int, ...]) -> list[int]:
    """transformers' own greedy decoding, without a cache."""
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    ids = list(prompt)
    with torch.inference_mode():
        while len(ids) < len(prompt) + count and ids[-1] not in ends:
            ids.append(int(model(torch.tensor([ids])).logits[0, -1].argmax()))
    return ids[len(prompt) :]


@pytest.mark.parametrize("name", ["llama-3.1", "qwen3", "phi3", "mixtral"])
def test_a_float_model_answers_as_transformers_does(tmp_path: Path, name: str) -> None:
    folder = folder_of(name, tmp_path)
    model = load_model(Load(str(folder), device="cpu", weight_format="float32"))
    assert model.info.weight_format == "float32"
    prompt = model.prompt((Message(Role.USER, "Hello"),))
    reply = answer(model)
    assert list(reply.token_ids) == greedy(folder, prompt, 12, model.chat.eos_token_ids)
    assert reply.stats.new_tokens > 3


def test_int8_is_made_once_and_found_again(tmp_path: Path) -> None:
    folder = folder_of("qwen2", tmp_path)
    said: list[str] = []
    first = load_model(Load(str(folder), device="cpu"), lambda message, _fraction: said.append(message))
    assert first.info.weight_format == "row-wise int8"
    assert any("once" in message for message in said)
    said.clear()
    second = load_model(Load(str(folder), device="cpu"), lambda message, _fraction: said.append(message))
    assert not any("once" in message for message in said)
    assert answer(first).token_ids == answer(second).token_ids
    # A damaged store is made anew.
    shard = next((tmp_path / "data").rglob("layers.1.safetensors"))
    shard.write_bytes(shard.read_bytes()[:-100])
    said.clear()
    third = load_model(Load(str(folder), device="cpu"), lambda message, _fraction: said.append(message))
    assert any("once" in message for message in said)
    assert answer(third).token_ids == answer(first).token_ids


def test_the_context_is_the_users_choice_up_to_the_models_own(tmp_path: Path) -> None:
    folder = folder_of("llama-2", tmp_path)
    for asked, given in ((64, 64), (0, families.POSITIONS), (100_000, families.POSITIONS)):
        model = load_model(Load(str(folder), device="cpu", weight_format="float32", context=asked))
        assert model.info.context_length == given


# --------------------------------------------------------------------------- through transformers


def _gpt2(folder: Path) -> Path:
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    config = GPT2Config(vocab_size=264, n_embd=32, n_layer=2, n_head=2, n_positions=256, bos_token_id=2, eos_token_id=1)
    model = GPT2LMHeadModel(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.3)
    model.save_pretrained(folder)
    return tiny.write_tokenizer(folder)


def _mamba(folder: Path) -> Path:
    from transformers import MambaConfig, MambaForCausalLM

    torch.manual_seed(0)
    config = MambaConfig(vocab_size=264, hidden_size=32, state_size=4, num_hidden_layers=2, bos_token_id=2, eos_token_id=1)
    model = MambaForCausalLM(config).eval()
    model.save_pretrained(folder)
    return tiny.write_tokenizer(folder)


@pytest.mark.parametrize("make", [_gpt2, _mamba], ids=["gpt2", "mamba"])
def test_another_architecture_runs_plainly_and_says_why(tmp_path: Path, make: Any) -> None:
    folder = make(tmp_path / "other")
    model = load_model(Load(str(folder), device="cpu"))
    assert model.head is None
    assert model.info.head_problem is not None and model.info.architecture in model.info.head_problem
    assert model.info.method == "plain"
    assert [method.id for method in model.info.methods if not method.problem] == ["plain"]
    session = model.session()
    prompt = model.prompt((Message(Role.USER, "Hello"),))
    first = answer(model, session=session)
    assert list(first.token_ids) == greedy(folder, prompt, 12, model.chat.eos_token_ids)
    # The next turn keeps what both have in common, also where a cache cannot be cut.
    other = answer(model, "Help", session=session)
    fresh = answer(model, "Help")
    assert other.token_ids == fresh.token_ids
    assert other.stats.reused_tokens > 0


def test_a_model_that_nobody_knows_is_refused_with_both_reasons(tmp_path: Path) -> None:
    folder = folder_of("llama-2", tmp_path)
    raw = json.loads((folder / "config.json").read_text())
    raw |= {"model_type": "zebra", "architectures": ["ZebraForCausalLM"], "auto_map": {"AutoConfig": "evil.Config"}}
    (folder / "config.json").write_text(json.dumps(raw))
    (folder / "evil.py").write_text("raise SystemExit('code of the model was run')")
    with pytest.raises(ModelError, match=r"zebra.*transformers cannot load"):
        load_model(Load(str(folder), device="cpu"))


# --------------------------------------------------------------------------- what is missing


def test_a_gpu_that_is_not_there_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    folder = folder_of("llama-2", tmp_path)
    with pytest.raises(ResourceError, match=r"GPU|CPU"):
        load_model(Load(str(folder), device="cuda"))


def test_without_a_gpu_the_choice_is_int8_on_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    chosen = placement.choose(Load())
    assert (chosen.device.type, chosen.format) == ("cpu", "int8")


@pytest.mark.parametrize(
    ("load", "words"),
    [
        (Load(device="tpu0"), "tpu0"),
        (Load(device="cpu", weight_format="int3"), "int3"),
    ],
)
def test_a_choice_that_does_not_exist_is_named(load: Load, words: str) -> None:
    with pytest.raises(ModelError, match=words):
        placement.choose(load)


def test_too_little_memory_is_said_before_anything_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Full:
        @staticmethod
        def virtual_memory() -> Any:
            return type("Memory", (), {"available": 1000, "total": 2000})

    monkeypatch.setattr(placement, "_psutil", lambda: Full)
    folder = folder_of("llama-2", tmp_path)
    (folder / "model.safetensors").write_bytes(b"not looked at")
    with pytest.raises(ResourceError, match=r"needs .* GB of the main memory"):
        load_model(Load(str(folder), device="cpu"))


@pytest.mark.parametrize("missing", ["model.safetensors", "tokenizer.json", "config.json"])
def test_a_missing_file_is_named(tmp_path: Path, missing: str) -> None:
    folder = folder_of("llama-2", tmp_path)
    (folder / missing).unlink()
    with pytest.raises(ModelError, match=missing.replace(".", r"\.")):
        load_model(Load(str(folder), device="cpu"))


def test_the_estimate_of_weights_is_near_the_truth(tmp_path: Path) -> None:
    from engine.models.config import DecoderConfig

    for name in ("llama-2", "qwen3", "mixtral"):
        folder = folder_of(name, tmp_path)
        model = load_model(Load(str(folder), device="cpu", weight_format="float32"))
        place = placement.choose(Load(device="cpu", weight_format="float32"))
        told = placement.weight_bytes(DecoderConfig.from_folder(folder), place)
        table = 4 * families.VOCABULARY * 64
        assert model.decoder.memory_bytes() - table <= told * 1.1
        assert told <= model.decoder.memory_bytes() * 1.1


def test_a_gpu_that_is_too_small_is_named_with_what_would_help(monkeypatch: pytest.MonkeyPatch) -> None:
    from engine.models.config import DecoderConfig

    raw = {
        "model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
        "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 128256,
    }  # fmt: skip
    config = DecoderConfig.from_hf(raw)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _device=None: (8, 9))
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda _device=None: "Test GPU")
    gpu = torch.device("cuda", 0)
    free = 7_000_000_000
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _device=None: (free, 8_000_000_000))
    place = placement.Placement(gpu, "nf4")
    # 6.98 billion weights in 0.5625 bytes and a table in 2: what public figures give for this model.
    assert placement.weight_bytes(config, place) == pytest.approx(6.98e9 * 0.5625 + 1.05e9, rel=0.01)
    assert placement.cache_bytes(config, place, 4096) == 4096 * 131072
    placement.require_memory(config, place, 4096, "Llama-8B")
    with pytest.raises(ResourceError, match=r"Llama-8B needs .* in bfloat16, and 7\.0 of 8\.0 GB are free") as caught:
        placement.require_memory(config, placement.Placement(gpu, "bfloat16"), 4096, "Llama-8B")
    assert "nf4" in caught.value.next_step
    free = 5_000_000_000
    with pytest.raises(ResourceError, match="Test GPU") as caught:
        placement.require_memory(config, place, 4096, "Llama-8B")
    assert "double quantisation" in caught.value.next_step
