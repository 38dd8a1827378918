from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from engine.errors import ModelError
from engine.models.loading import INDEX, SINGLE, TensorSource, read_header


def tensors(seed: int = 0) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return {
        "a.weight": torch.randn(3, 5, generator=generator),
        "b.weight": torch.randn(7, generator=generator).to(torch.bfloat16),
        "c.ids": torch.arange(6, dtype=torch.int64).view(2, 3),
        "empty": torch.zeros(0, 4),
        "scalar": torch.tensor(2.5),
    }


def sharded(folder: Path) -> dict[str, torch.Tensor]:
    first, second = tensors(1), {"d.weight": torch.ones(4, dtype=torch.float16)}
    folder.mkdir(parents=True, exist_ok=True)
    save_file(first, folder / "model-00001-of-00002.safetensors")
    save_file(second, folder / "model-00002-of-00002.safetensors")
    weight_map = dict.fromkeys(first, "model-00001-of-00002.safetensors") | dict.fromkeys(
        second, "model-00002-of-00002.safetensors"
    )
    (folder / INDEX).write_text(json.dumps({"metadata": {}, "weight_map": weight_map}), encoding="utf-8")
    return first | second


def raw_file(path: Path, header: object, data: bytes = b"", length: int | None = None) -> Path:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text) if length is None else length) + text + data)
    return path


def assert_same(source: TensorSource, expected: dict[str, torch.Tensor]) -> None:
    assert set(source.names()) == set(expected)
    for name, tensor in expected.items():
        found = source.get(name)
        assert found.dtype == tensor.dtype
        assert source.shape(name) == tuple(tensor.shape)
        assert torch.equal(found, tensor)


def test_one_file_is_read_exactly(tmp_path: Path) -> None:
    folder = tmp_path / "Modell ü 模型"
    folder.mkdir()
    save_file(tensors(), folder / SINGLE, {"format": "pt"})
    with TensorSource(folder) as source:
        assert_same(source, tensors())
        assert source.entry("b.weight").dtype == "BF16"


def test_shards_are_read_exactly(tmp_path: Path) -> None:
    expected = sharded(tmp_path)
    with TensorSource(tmp_path) as source:
        assert_same(source, expected)


def test_tensors_outlive_the_source(tmp_path: Path) -> None:
    save_file(tensors(), tmp_path / SINGLE)
    with TensorSource(tmp_path) as source:
        kept = source.get("a.weight")
    del source
    assert torch.equal(kept, tensors()["a.weight"])


def test_an_unknown_tensor_is_named(tmp_path: Path) -> None:
    save_file(tensors(), tmp_path / SINGLE)
    source = TensorSource(tmp_path)
    for ask in (source.get, source.shape, source.entry):
        with pytest.raises(ModelError, match=r"lacks the tensor x\.weight") as caught:
            ask("x.weight")
        assert "download it again" in caught.value.next_step


@pytest.mark.parametrize("cut", [1, 40, 120])
def test_a_truncated_file_tells_both_sizes(tmp_path: Path, cut: int) -> None:
    path = tmp_path / SINGLE
    save_file(tensors(), path)
    whole = path.read_bytes()
    path.write_bytes(whole[:-cut])
    with pytest.raises(ModelError, match=r"model\.safetensors is truncated") as caught:
        TensorSource(tmp_path)
    assert f"{len(whole) - cut:,} bytes" in caught.value.message
    assert f"{len(whole):,}" in caught.value.message
    assert "download it again" in caught.value.next_step


def test_every_possible_truncation_is_refused(tmp_path: Path) -> None:
    path = tmp_path / SINGLE
    save_file({"a": torch.ones(3)}, path)
    whole = path.read_bytes()
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises(ModelError):
            TensorSource(tmp_path)


def test_bytes_at_the_end_are_refused(tmp_path: Path) -> None:
    save_file(tensors(), tmp_path / SINGLE)
    with (tmp_path / SINGLE).open("ab") as file:
        file.write(b"\0")
    with pytest.raises(ModelError, match="too long"):
        TensorSource(tmp_path)


F32 = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}


@pytest.mark.parametrize(
    ("header", "data", "what"),
    [
        (b"not json at all", b"", "header of .* is damaged"),
        (b"[]", b"", "header of .* is damaged"),
        ({"a": {**F32, "dtype": "F33"}}, b"\0" * 8, "unknown number format F33"),
        ({"a": {**F32, "shape": [3]}}, b"\0" * 8, r"8 bytes for F32 of shape \[3\]"),
        ({"a": {**F32, "shape": [-2]}}, b"\0" * 8, "not a whole number"),
        ({"a": {**F32, "shape": [2.0]}}, b"\0" * 8, "not a whole number"),
        ({"a": {"dtype": "F32", "shape": [2]}}, b"\0" * 8, "data_offsets"),
        ({"a": F32, "b": {**F32, "data_offsets": [4, 12]}}, b"\0" * 12, "gap or overlap at byte 8"),
        ({"a": F32, "b": {**F32, "data_offsets": [12, 20]}}, b"\0" * 20, "gap or overlap at byte 8"),
    ],
)
def test_damaged_headers_are_refused(tmp_path: Path, header: object, data: bytes, what: str) -> None:
    with pytest.raises(ModelError, match=what) as caught:
        read_header(raw_file(tmp_path / SINGLE, header, data))
    assert str(tmp_path / SINGLE) in caught.value.message
    assert caught.value.next_step


def test_other_files_are_told_apart(tmp_path: Path) -> None:
    path = tmp_path / SINGLE
    path.write_bytes(b"")
    with pytest.raises(ModelError, match=r"not a safetensors file \(0 bytes\)"):
        read_header(path)
    path.write_bytes(b"<!DOCTYPE html><html>Not found</html>")
    with pytest.raises(ModelError, match="not a safetensors file"):
        read_header(path)
    path.write_bytes(b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n")
    with pytest.raises(ModelError, match="Git LFS pointer") as caught:
        read_header(path)
    assert "git lfs pull" in caught.value.next_step
    with pytest.raises(ModelError, match=r"truncated: .* its header alone needs 1,008"):
        read_header(raw_file(path, b"{", length=1000))


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="no model folder"):
        TensorSource(tmp_path / "nowhere")
    with pytest.raises(ModelError, match="neither"):
        TensorSource(tmp_path)
    (tmp_path / "pytorch_model.bin").write_bytes(b"x")
    with pytest.raises(ModelError, match=r"only pytorch_model\.bin") as caught:
        TensorSource(tmp_path)
    assert "safetensors" in caught.value.next_step


def test_a_missing_shard_is_named(tmp_path: Path) -> None:
    sharded(tmp_path)
    (tmp_path / "model-00002-of-00002.safetensors").unlink()
    with pytest.raises(ModelError, match=r"model-00002-of-00002\.safetensors is missing"):
        TensorSource(tmp_path)


def test_shards_and_index_must_agree(tmp_path: Path) -> None:
    sharded(tmp_path)
    save_file({"other": torch.ones(1)}, tmp_path / "model-00002-of-00002.safetensors")
    with pytest.raises(ModelError, match=r"lacks the tensor d\.weight"):
        TensorSource(tmp_path)
    save_file(
        {"d.weight": torch.ones(1), "a.weight": torch.ones(1)}, tmp_path / "model-00002-of-00002.safetensors"
    )
    with pytest.raises(ModelError, match=r"tensor a\.weight is both in"):
        TensorSource(tmp_path)


@pytest.mark.parametrize("name", ["../model.safetensors", "/etc/passwd", "sub\\file.safetensors", "", ".."])
def test_an_index_cannot_leave_its_folder(tmp_path: Path, name: str) -> None:
    (tmp_path / INDEX).write_text(json.dumps({"weight_map": {"a": name}}), encoding="utf-8")
    with pytest.raises(ModelError, match="outside of its folder"):
        TensorSource(tmp_path)


@pytest.mark.parametrize("text", ["{", "{}", '{"weight_map": []}', '{"weight_map": {}}'])
def test_a_damaged_index_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / INDEX).write_text(text, encoding="utf-8")
    with pytest.raises(ModelError, match=r"index\.json"):
        TensorSource(tmp_path)


def test_a_file_that_vanishes_later_is_named(tmp_path: Path) -> None:
    save_file(tensors(), tmp_path / SINGLE)
    source = TensorSource(tmp_path)
    (tmp_path / SINGLE).unlink()
    with pytest.raises(ModelError, match=r"model\.safetensors cannot be read"):
        source.get("a.weight")
