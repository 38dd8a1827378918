"""The GPU's path: its arithmetic on a CPU, its devices without one, and on a GPU itself where there is one."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor

from engine.models.checkpoint import Checkpoint
from engine.models.config import DecoderConfig, read_config
from engine.models.decoder import Decoder
from engine.models.formats import DenseFormat, Nf4Format, WeightFormat
from engine.models.loading import TensorSource
from engine.models.weights import build_weights
from engine.protocol import GenerationSettings, Load, Message, Role
from engine.tree import DraftTree
from tests.engine import four_bits, tiny
from tests.engine import tiny_families as families

PARENTS = (-1, 0, 0, 1, 1, 2, 3, 6, 7, 8)
TOKENS = tuple(10 + node for node in range(len(PARENTS)))
IDS = torch.randint(3, 90, (50,), generator=torch.Generator().manual_seed(2))
GPU = torch.device("cuda")


def decoder(folder: Path, form: WeightFormat) -> Decoder:
    raw = read_config(folder)
    config = DecoderConfig.from_hf(raw)
    checkpoint = Checkpoint(TensorSource(folder), raw.get("quantization_config"))
    return Decoder(config, build_weights(config, checkpoint, form))


@torch.inference_mode()
def tree_logits(model: Decoder) -> Tensor:
    """Logits of a tree's nodes behind a text, and of a token behind its kept path: [nodes + 1, vocab]."""
    ones = (1.0,) * len(PARENTS)
    drafted = DraftTree(TOKENS, PARENTS, ones, ones)
    cache = model.new_cache(families.POSITIONS)
    for begin in (0, 30):
        part = IDS[begin : begin + 30]
        model.forward(part, torch.arange(begin, begin + len(part)), cache)
        cache.keep(len(part))
    hidden, taps = model.forward(
        torch.tensor(TOKENS), drafted.positions(len(IDS)), cache, drafted.mask(), (0, 2, 3)
    )
    assert all(tap.device == model.device and tap.dtype == torch.float32 for tap in taps)
    path = drafted.path(7)
    cache.keep(torch.tensor(path))
    last, _ = model.forward(torch.tensor([50]), torch.tensor([len(IDS) + len(path)]), cache)
    assert torch.equal(model.argmax(last), model.logits(last).argmax(-1))
    return torch.cat((model.logits(hidden), model.logits(last)))


@pytest.mark.parametrize("name", ["llama-3.1", "mistral-7b", "qwen2", "qwen3", "gemma2", "gemma3-scaled", "mixtral"])
def test_the_gpus_operations_give_the_same_numbers(tmp_path: Path, name: str) -> None:
    """Fused norms and attention, as a GPU runs them, on the CPU against the CPU's own."""
    _, folder = families.save(name, tmp_path / "model")
    plain, fused = decoder(folder, DenseFormat()), decoder(folder, DenseFormat())
    fused._cpu = False
    fused._attend = fused._attention_of(fused.config, fused.weights)
    torch.testing.assert_close(tree_logits(fused), tree_logits(plain), atol=2e-4, rtol=2e-4)


@torch.inference_mode()
@pytest.mark.parametrize("name", ["llama-2", "llama-3.2-tied", "mistral-7b", "qwen2", "qwen3", "phi4-mini", "gemma2"])
def test_no_tensor_of_a_pass_is_left_on_another_device(tmp_path: Path, name: str) -> None:
    """Tensors of torch's "meta" device refuse to meet those of a CPU, as a GPU's do."""
    _, folder = families.save(name, tmp_path / "model")
    meta = torch.device("meta")
    model = decoder(folder, DenseFormat(torch.bfloat16, meta))
    if model.weights.embedding.device.type == "cpu":  # a row is copied over: here from nowhere
        model.weights = type(model.weights)(
            **{
                field: getattr(model.weights, field) if field != "embedding" else model.weights.embedding.to(meta)
                for field in type(model.weights).__dataclass_fields__
            }
        )
    cache = model.new_cache(64)
    assert cache.keys[0].dtype == torch.bfloat16
    for rows in (20, 1, 9):
        positions = torch.arange(cache.length, cache.length + rows)
        mask = torch.ones(rows, rows, dtype=torch.bool).tril() if rows == 9 else None
        hidden, taps = model.forward(torch.arange(rows), positions, cache, mask, (1,))
        assert hidden.device == taps[0].device == model.logits(hidden).device == meta
        cache.keep(rows if rows != 9 else torch.tensor([0, 2, 4]))


# --------------------------------------------------------------------------- where there is a GPU


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["llama-3.1", "mistral-7b", "qwen2", "qwen3", "phi3", "gemma2", "mixtral"])
def test_on_a_gpu_every_family_agrees_with_the_cpu(tmp_path: Path, name: str) -> None:
    _, folder = families.save(name, tmp_path / "model")
    expected = tree_logits(decoder(folder, DenseFormat()))
    found = tree_logits(decoder(folder, DenseFormat(torch.float32, GPU)))
    torch.testing.assert_close(found.cpu(), expected, atol=5e-3, rtol=5e-3)


@pytest.mark.gpu
@pytest.mark.parametrize("double_quant", [False, True])
def test_on_a_gpu_nf4_agrees_with_its_own_numbers(tmp_path: Path, double_quant: bool) -> None:
    _, folder = families.save("llama-2-wide", tmp_path / "model")
    expected = tree_logits(decoder(folder, Nf4Format(torch.float32, double_quant=double_quant)))
    for dtype in (torch.float16, torch.bfloat16):
        found = tree_logits(decoder(folder, Nf4Format(dtype, GPU, double_quant=double_quant))).cpu()
        assert (found - expected).square().mean() < 2e-3 * expected.square().mean()


@pytest.mark.gpu
@pytest.mark.parametrize("method", ["gptq", "awq"])
def test_on_a_gpu_four_bit_checkpoints_agree_with_their_numbers(tmp_path: Path, method: str) -> None:
    """In sizes that torch's 4-bit kernel takes, so that it is used where there is one."""
    torch.manual_seed(0)
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=300, hidden_size=256, intermediate_size=512, num_hidden_layers=2, num_attention_heads=4
    )
    LlamaForCausalLM(config).save_pretrained(tmp_path / "model")
    four_bits.rewrite(tmp_path / "model", method)
    expected = tree_logits(decoder(tmp_path / "model", DenseFormat()))
    found = tree_logits(decoder(tmp_path / "model", Nf4Format(torch.bfloat16, GPU))).cpu()
    assert (found - expected).square().mean() < 2e-3 * expected.square().mean()


@pytest.mark.gpu
def test_on_a_gpu_a_model_answers_with_every_method_it_has(tmp_path: Path) -> None:
    from engine.generation import Switches
    from engine.loaded import load_model

    _, folder = families.save("qwen3", tmp_path / "model")
    tiny.write_tokenizer(folder)
    model = load_model(Load(str(folder)))
    assert model.info.weight_format == "NF4" and model.decoder.device.type == "cuda"
    prompt = model.prompt((Message(Role.USER, "Hello"),))
    replies: dict[str, list[int]] = {}
    for method in (info.id for info in model.info.methods if not info.problem):
        emitted: list[int] = []

        def emit(token: int, into: list[int] = emitted) -> bool:
            into.append(token)
            return False

        settings = GenerationSettings(max_new_tokens=24, method=method)
        list(model.session().generate(prompt, settings, emit=emit, switches=Switches()))
        replies[method] = emitted
    assert all(len(reply) == 24 for reply in replies.values()), replies
