"""A GGUF model that was split into several files is the same as in one."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from engine.errors import ModelError
from engine.models.gguf_file import GGUFFile
from tests.engine import tiny_gguf


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("split")
    tiny_gguf.write(folder / "tiny.gguf", tensors_a_part=40)
    return folder / "tiny-00001-of-00003.gguf"


def test_the_parts_are_read_as_one(first: Path, tmp_path: Path) -> None:
    tiny_gguf.write(tmp_path / "tiny.gguf")
    with GGUFFile(tmp_path / "tiny.gguf") as single, GGUFFile(first) as split:
        assert set(split.tensors) == set(single.tensors)
        assert split.text("general.architecture") == "gemma3"
        for name in single.tensors:
            theirs = np.concatenate(list(single.rows(name)))
            assert np.array_equal(np.concatenate(list(split.rows(name))), theirs)


def test_parts_that_are_missing_or_of_another_model_are_named(first: Path, tmp_path: Path) -> None:
    def copied(place: str) -> Path:
        shutil.copytree(first.parent, tmp_path / place)
        return tmp_path / place / first.name

    lacking = copied("lacking")
    lacking.with_name("tiny-00003-of-00003.gguf").unlink()
    with pytest.raises(ModelError, match="tiny-00003-of-00003"):
        GGUFFile(lacking)
    mixed = copied("mixed")
    shutil.copy(mixed.with_name("tiny-00002-of-00003.gguf"), mixed.with_name("tiny-00003-of-00003.gguf"))
    with pytest.raises(ModelError, match="not part 3"):
        GGUFFile(mixed)
    renamed = copied("renamed").rename(tmp_path / "tiny.gguf")
    with pytest.raises(ModelError, match="one of 3 parts"):
        GGUFFile(renamed)
