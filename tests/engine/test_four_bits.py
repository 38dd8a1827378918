"""4-bit weights: NF4 made on loading, and ready-made checkpoints, against plain dequantisation."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from engine.errors import ModelError, ResourceError
from engine.loaded import load_model
from engine.models.checkpoint import Checkpoint
from engine.models.config import DecoderConfig, UnsupportedModel, read_config
from engine.models.decoder import Decoder
from engine.models.formats import DenseFormat, Nf4Format, WeightFormat
from engine.models.linear_4bit import quantise_nf4
from engine.models.loading import TensorSource
from engine.models.weights import build_weights
from engine.protocol import Load
from tests.engine import four_bits, tiny
from tests.engine import tiny_families as families

CPU = torch.device("cpu")


def decoder(folder: Path, form: WeightFormat) -> Decoder:
    raw = read_config(folder)
    config = DecoderConfig.from_hf(raw)
    checkpoint = Checkpoint(TensorSource(folder), raw.get("quantization_config"))
    return Decoder(config, build_weights(config, checkpoint, form))


@torch.inference_mode()
def logits(model: Decoder, ids: Tensor) -> Tensor:
    hidden, _ = model.forward(ids, torch.arange(len(ids)), model.new_cache())
    return model.logits(hidden)


@torch.inference_mode()
def with_weights(model: Any, change: Any, ids: Tensor) -> Tensor:
    """transformers' logits with every layer's matrix replaced by ``change(name, matrix)``."""
    for name, parameter in model.named_parameters():
        if ".layers." in name and parameter.dim() == 2:
            parameter.copy_(change(name, parameter))
    return model(ids[None]).logits[0]


IDS = torch.randint(3, 90, (40,), generator=torch.Generator().manual_seed(3))


@pytest.mark.parametrize("double_quant", [False, True])
def test_nf4_made_on_loading_equals_its_own_numbers(tmp_path: Path, double_quant: bool) -> None:
    from bitsandbytes.functional import dequantize_4bit, quantize_4bit

    model, folder = families.save("qwen2", tmp_path / "model")

    def change(name: str, matrix: Tensor) -> Tensor:
        packed, state = quantize_4bit(matrix.data, quant_type="nf4", compress_statistics=double_quant)
        return dequantize_4bit(packed, state)

    ours = decoder(folder, Nf4Format(torch.float32, double_quant=double_quant))
    expected = with_weights(model, change, IDS)
    if double_quant:
        # A fused matrix's magnitudes are quantised together, which moves them by some tenths of a per cent.
        assert (logits(ours, IDS) - expected).square().mean() < 1e-3 * expected.square().mean()
    else:
        torch.testing.assert_close(logits(ours, IDS), expected, atol=2e-4, rtol=1e-3)
    float_bytes = decoder(folder, DenseFormat()).memory_bytes()
    assert ours.memory_bytes() < float_bytes


def bitsandbytes_checkpoint(folder: Path, name: str, double_quant: bool) -> Any:
    """Saved by transformers itself."""
    from transformers import AutoModelForCausalLM, BitsAndBytesConfig

    families.save(name, folder / "float")
    settings = BitsAndBytesConfig(
        load_in_4bit=True,
        bnb_4bit_quant_type="nf4",
        bnb_4bit_use_double_quant=double_quant,
        bnb_4bit_compute_dtype=torch.float32,
    )
    model = AutoModelForCausalLM.from_pretrained(
        folder / "float", quantization_config=settings, dtype=torch.float32, device_map={"": "cpu"}
    )
    model.save_pretrained(folder / "four")
    return model


@pytest.mark.parametrize("double_quant", [False, True])
def test_a_bitsandbytes_checkpoint_is_kept_as_it_is(tmp_path: Path, double_quant: bool) -> None:
    from bitsandbytes.functional import dequantize_4bit

    quantised = bitsandbytes_checkpoint(tmp_path, "llama-2-wide", double_quant)
    numbers = {
        name: dequantize_4bit(weight.data, weight.quant_state)
        for name, weight in quantised.named_parameters()
        if hasattr(weight, "quant_state")
    }
    assert len(numbers) == 3 * 7
    expected = with_weights(families.make("llama-2-wide"), lambda name, _matrix: numbers[name], IDS)
    for form in (Nf4Format(torch.float32), DenseFormat()):
        ours = decoder(tmp_path / "four", form)
        torch.testing.assert_close(logits(ours, IDS), expected, atol=2e-4, rtol=1e-3)


@pytest.mark.parametrize(
    ("method", "options"),
    [
        ("gptq", {}),
        ("gptq", {"act_order": True}),
        ("gptq", {"v2": True}),
        ("awq", {}),
    ],
    ids=["gptq", "gptq-act-order", "gptq-v2", "awq"],
)
def test_gptq_and_awq_give_the_numbers_they_stand_for(
    tmp_path: Path, method: str, options: dict[str, bool]
) -> None:
    model, folder = families.save("qwen2", tmp_path / "model")
    meant = four_bits.rewrite(folder, method, **options)
    expected = with_weights(model, lambda name, _matrix: meant[name], IDS)
    for form in (DenseFormat(), Nf4Format(torch.float32)):
        ours = decoder(folder, form)
        torch.testing.assert_close(logits(ours, IDS), expected, atol=2e-3, rtol=2e-3)
    kept = decoder(folder, Nf4Format(torch.float32)).memory_bytes()
    assert kept < decoder(folder, DenseFormat()).memory_bytes()


def test_on_a_cpu_a_gptq_checkpoint_becomes_int8(tmp_path: Path) -> None:
    model, folder = families.save("llama-2", tmp_path / "model")
    tiny.write_tokenizer(folder)
    meant = four_bits.rewrite(folder, "gptq")
    loaded = load_model(Load(str(folder), device="cpu"))
    assert loaded.info.weight_format == "row-wise int8 (from GPTQ 4-bit)"
    expected = torch.log_softmax(with_weights(model, lambda name, _matrix: meant[name], IDS), -1)
    ours = torch.log_softmax(logits(loaded.decoder, IDS), -1)
    assert (expected.exp() * (expected - ours)).sum(-1).median() < 0.02


def test_other_quantisations_are_named(tmp_path: Path) -> None:
    for settings, words in (
        ({"quant_method": "gptq", "bits": 3}, "GPTQ in 3 bits"),
        ({"quant_method": "fp8"}, "FP8"),
        ({"quant_method": "bitsandbytes", "load_in_8bit": True}, "8 bits"),
    ):
        _, folder = families.save("llama-2", tmp_path / "model")
        with pytest.raises(UnsupportedModel, match=words):
            Checkpoint(TensorSource(folder), settings)


def test_a_spoilt_packed_tensor_is_named(tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    _, folder = families.save("llama-2", tmp_path / "model")
    four_bits.rewrite(folder, "gptq")
    path = folder / "model.safetensors"
    good = load_file(path)
    module = "model.layers.1.mlp.down_proj"
    for part, change in (
        ("scales", lambda tensor: torch.full_like(tensor, float("nan"))),
        ("qzeros", lambda tensor: tensor[:, :-1].contiguous()),
        ("qweight", lambda tensor: tensor.T.contiguous()),
        ("g_idx", lambda tensor: torch.zeros_like(tensor)),
        ("bias", lambda tensor: torch.ones_like(tensor)),
        ("scales", None),
    ):
        name = f"{module}.{part}"
        spoilt = dict(good)
        if change is None:
            del spoilt[name]
        else:
            spoilt[name] = change(good[name])
        save_file(spoilt, path)
        with pytest.raises(ModelError, match=name.replace(".", r"\.")):
            decoder(folder, DenseFormat())


PEAK = """
import json, resource, sys, torch
sys.path.insert(0, sys.argv[2])
import bitsandbytes
from pathlib import Path
from engine.models.checkpoint import Checkpoint
from engine.models.config import DecoderConfig
from engine.models.decoder import Decoder
from engine.models.formats import Nf4Format
from engine.models.linear_4bit import quantise_nf4
from engine.models.loading import TensorSource
from engine.models.weights import build_weights
from engine.models.linear_4bit import quantise_nf4
torch.set_num_threads(1)
quantise_nf4(torch.randn(64, 64, dtype=torch.bfloat16))  # what the libraries take themselves

def resident(name):
    for line in open("/proc/self/status"):
        if line.startswith(name):
            return int(line.split()[1]) * 1024

folder = Path(sys.argv[1])
config = DecoderConfig.from_folder(folder)
before = resident("VmRSS")
with torch.inference_mode():
    weights = build_weights(config, Checkpoint(TensorSource(folder)), Nf4Format(torch.bfloat16))
decoder = Decoder(config, weights)
print(json.dumps({"peak": resident("VmHWM") - before, "final": decoder.memory_bytes()}))
"""


def load_peak(folder: Path) -> dict[str, int]:
    """Bytes in memory at the height of an NF4 load beyond the start, and of the result."""
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run(
        [sys.executable, "-c", PEAK, str(folder), str(root)], capture_output=True, text=True, check=True
    )
    found: dict[str, int] = json.loads(done.stdout)
    return found


def test_pieces_on_a_cpu_are_what_bitsandbytes_makes_of_the_whole() -> None:
    from bitsandbytes.functional import dequantize_4bit, quantize_4bit

    weight = torch.randn(700, 448)  # more than one piece, the last one short
    x = torch.randn(3, 448)
    for double_quant in (False, True):
        packed, state = quantize_4bit(weight, quant_type="nf4", compress_statistics=double_quant)
        expected = x @ dequantize_4bit(packed, state).T
        ours = quantise_nf4(weight, double_quant=double_quant)(x)
        torch.testing.assert_close(ours, expected, atol=1e-3, rtol=1e-3)


def constant_model(folder: Path, hidden: int, inner: int, layers: int, vocabulary: int) -> tuple[int, int]:
    """A tied Llama in bfloat16, a shard a layer, quickly made; its weights' number and its largest tensor's bytes."""
    from safetensors.torch import save_file
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=hidden,
        intermediate_size=inner,
        num_hidden_layers=layers,
        num_attention_heads=hidden // 64,
        num_key_value_heads=hidden // 256,
        tie_word_embeddings=True,
    )
    with torch.device("meta"):
        shapes = {name: tensor.shape for name, tensor in LlamaForCausalLM(config).named_parameters()}
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config.to_dict()))
    files: dict[str, str] = {}
    for file, names in _shards(shapes).items():
        tensors = {name: torch.full(shapes[name], 0.01, dtype=torch.bfloat16) for name in names}
        save_file(tensors, folder / file)
        files |= dict.fromkeys(names, file)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": files}))
    sizes = [shape.numel() for shape in shapes.values()]
    return sum(sizes), 2 * max(sizes)


def _shards(names: Any) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for name in names:
        part = name.split(".")[2] if ".layers." in name else "rest"
        found.setdefault(f"model-{part}.safetensors", []).append(name)
    return found


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_loading_nf4_needs_little_more_than_the_result(tmp_path: Path) -> None:
    """At most 1.3 times the final size and one tensor, and what the allocator keeps back."""
    size, largest = constant_model(tmp_path / "model", hidden=1024, inner=2048, layers=8, vocabulary=16_000)
    told = load_peak(tmp_path / "model")
    assert told["final"] < size  # of 2 bytes a weight in the files
    assert told["peak"] < 1.3 * told["final"] + largest + 16_000_000, told


def test_a_bitsandbytes_that_does_not_load_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    import importlib

    def fail(name: str) -> None:
        raise RuntimeError("CUDA Setup failed despite GPU being available")

    monkeypatch.setattr(importlib, "import_module", fail)
    with pytest.raises(ResourceError, match="CUDA Setup failed"):
        Nf4Format(torch.float32)


def test_torchs_four_bit_kernel_is_fed_as_it_computes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The layout for the GPU's kernel, in a stand-in that computes as torch documents: (q - 8) * scale + zero."""
    from engine.models import linear_4bit
    from engine.models.matrices import GroupMatrix

    torch.manual_seed(0)
    out, width, group = 16, 128, 32
    q = torch.randint(0, 16, (out, width), dtype=torch.uint8)
    scale, zero = torch.rand(out, width // group) + 0.5, torch.randint(1, 15, (out, width // group)).float()
    matrix = GroupMatrix(q[:, 0::2] | (q[:, 1::2] << 4), scale, zero)
    seen: dict[str, Tensor] = {}

    def convert(packed: Tensor, inner: int) -> Tensor:
        assert inner == 8
        seen["q"] = torch.stack((packed >> 4, packed & 15), -1).view(out, width).float()
        return packed

    monkeypatch.setattr(linear_4bit, "_to_kernel", convert)
    _, both = linear_4bit._kernel_layout(matrix)
    assert both.shape == (width // group, out, 2)
    scales, zeros = (both[..., part].float().T.repeat_interleave(group, 1) for part in (0, 1))
    written = (seen["q"] - 8) * scales + zeros
    torch.testing.assert_close(written, matrix.stored(), atol=0.1, rtol=0.02)  # bfloat16
