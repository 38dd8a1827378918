from __future__ import annotations

from pathlib import Path

import platformdirs
import pytest

from engine import paths
from engine.errors import ResourceError

FOLDERS = [paths.data_folder, paths.cache_folder, paths.config_folder, paths.log_folder]


def test_one_variable_moves_everything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "Dätä 数据"
    monkeypatch.setenv(paths.DATA_DIR_VARIABLE, str(root))
    found = [folder() for folder in FOLDERS]
    assert found == [root, root / "cache", root / "config", root / "logs"]
    assert all(folder.is_dir() for folder in found)


def test_a_relative_folder_becomes_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(paths.DATA_DIR_VARIABLE, "here")
    assert paths.cache_folder() == tmp_path / "here" / "cache"


def test_the_system_decides_otherwise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(paths.DATA_DIR_VARIABLE, raising=False)
    for kind in ("data", "cache", "config", "log"):
        monkeypatch.setattr(
            platformdirs, f"user_{kind}_path", lambda name, appauthor, kind=kind: tmp_path / kind / name
        )
    assert [folder() for folder in FOLDERS] == [
        tmp_path / k / "eyrie" for k in ("data", "cache", "config", "log")
    ]


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    monkeypatch.setenv(paths.DATA_DIR_VARIABLE, str(tmp_path / "file"))
    with pytest.raises(ResourceError, match="cannot be made") as caught:
        paths.cache_folder()
    assert paths.DATA_DIR_VARIABLE in caught.value.next_step


def test_a_snapshot_is_called_by_its_repository(tmp_path: Path) -> None:
    """And not by its commit, which says nothing to anybody."""
    snapshot = tmp_path / "models--Qwen--Qwen3-8B" / "snapshots" / ("0" * 40)
    assert paths.name_of(snapshot) == "Qwen/Qwen3-8B"
    assert paths.name_of(tmp_path / "models--gpt2" / "snapshots" / "1") == "gpt2"
    assert paths.name_of(tmp_path / "snapshots" / "mine") == "mine"
