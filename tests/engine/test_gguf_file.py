"""Damaged, truncated and unknown GGUF files: refused with words, never with a crash."""

from __future__ import annotations

import random
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gguf import GGMLQuantizationType as Kind

from engine.errors import ModelError
from engine.models import gguf
from engine.models.gguf_file import GGUFFile
from tests.engine import tiny_gguf


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_gguf.write(tmp_path_factory.mktemp("gguf") / "tiny-gemma.gguf")


def refused(path: Path, folder: Path) -> ModelError:
    with pytest.raises(ModelError) as caught:
        gguf.convert_once(path, folder)
    assert not folder.exists()
    assert not any(".partial-" in path.name for path in folder.parent.iterdir())
    assert caught.value.next_step
    return caught.value


def test_truncation_anywhere_is_refused(source: Path, tmp_path: Path) -> None:
    whole = source.read_bytes()
    chance = random.Random(6)
    path = tmp_path / "cut.gguf"
    lengths = [0, 3, 4, 23, 24, 100, len(whole) - 1, *(chance.randrange(len(whole)) for _ in range(60))]
    for length in lengths:
        path.write_bytes(whole[:length])
        with pytest.raises(ModelError) as caught, GGUFFile(path):
            pass
        assert str(path) in caught.value.message
    path.write_bytes(whole[:-100])
    error = refused(path, tmp_path / "model")
    assert f"{len(whole) - 100:,} bytes where" in error.message and "truncated" in error.message


def test_damage_in_the_header_never_crashes(source: Path, tmp_path: Path) -> None:
    """Flipped bytes are refused or harmless, but raise nothing else and allocate nothing huge."""
    whole = bytearray(source.read_bytes())
    chance = random.Random(7)
    path = tmp_path / "flipped.gguf"
    refusals = 0
    for _ in range(150):
        damaged = bytearray(whole)
        for _ in range(3):
            damaged[chance.randrange(4, 9000)] = chance.randrange(256)
        path.write_bytes(damaged)
        try:
            with GGUFFile(path) as file:
                gguf.architecture_of(file).checked_shapes(file)
        except ModelError:
            refusals += 1
    assert refusals > 20


def test_another_kind_of_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "page.gguf"
    path.write_bytes(b"<!DOCTYPE html><html><body>Not found</body></html>")
    assert "instead of b'GGUF'" in refused(path, tmp_path / "model").message
    assert "cannot be read" in refused(tmp_path / "nothing.gguf", tmp_path / "model").message


def test_an_unknown_version_is_refused(source: Path, tmp_path: Path) -> None:
    path = tmp_path / "old.gguf"
    path.write_bytes(b"GGUF" + struct.pack("<I", 1) + source.read_bytes()[8:])
    assert "version 1" in refused(path, tmp_path / "model").message


def test_an_unknown_architecture_is_refused(tmp_path: Path) -> None:
    path = tiny_gguf.write(tmp_path / "a.gguf", architecture="mamba")
    error = refused(path, tmp_path / "model")
    assert "mamba" in error.message and "gemma3" in error.message


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"blk.3.attn_q.weight": None}, "lacks blk.3.attn_q.weight"),
        (
            {"blk.0.extra.weight": (np.zeros((2, 32), np.float32), Kind.F32)},
            "unknown tensor: blk.0.extra.weight",
        ),
        (
            {"blk.7.attn_q.weight": (np.zeros((2, 32), np.float32), Kind.F32)},
            "unknown tensor: blk.7.attn_q.weight",
        ),
        (
            {"blk.1.ffn_down.weight": (np.zeros((64, 32), np.float32), Kind.F32)},
            "shape [64, 32] where [64, 96]",
        ),
    ],
)
def test_tensors_that_do_not_fit_are_named(tmp_path: Path, change: dict[str, Any], what: str) -> None:
    assert what in refused(tiny_gguf.write(tmp_path / "a.gguf", change=change), tmp_path / "model").message


def test_metadata_that_does_not_fit_is_named(tmp_path: Path) -> None:
    path = tiny_gguf.write(tmp_path / "a.gguf", metadata={"gemma3.final_logit_softcapping": "many"})
    assert "gemma3.final_logit_softcapping" in refused(path, tmp_path / "model").message
