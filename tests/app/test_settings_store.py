"""Settings on disk: written whole, read with care."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from app.settings.store import FILE_NAME, Settings, SettingsStore
from app.theme import ThemeChoice


def test_defaults_without_a_file(tmp_path: Path) -> None:
    store = SettingsStore(tmp_path)
    assert store.current == Settings()
    assert store.problem == ""
    assert store.save() and list(tmp_path.iterdir()) == []


def test_what_was_chosen_is_there_again(tmp_path: Path) -> None:
    folder = tmp_path / "Dåta földer 鷲"
    store = SettingsStore(folder)
    chosen = replace(
        Settings(),
        temperature=0.7,
        seed=12,
        theme=ThemeChoice.DARK,
        font_size=13,
        tree_nodes=16,
        highlight=False,
    )
    store.update(
        temperature=0.7, seed=12, theme=ThemeChoice.DARK, font_size=13, tree_nodes=16, highlight=False
    )
    assert store.save()
    assert SettingsStore(folder).current == chosen
    assert [path.name for path in folder.iterdir()] == [FILE_NAME], "no temporary file stays behind"


def test_generation_settings_follow() -> None:
    made = Settings(
        temperature=0.5, top_p=0.9, top_k=4, max_new_tokens=9, seed=3, eagle=False, tree_depth=2
    ).generation()
    assert (made.temperature, made.top_p, made.top_k, made.max_new_tokens) == (0.5, 0.9, 4, 9)
    assert (made.seed, made.eagle, made.tree.nodes, made.tree.depth) == (3, False, None, 2)


@pytest.mark.parametrize("content", [b"{", b"[" * 200_000, b"\x00" * 300, b"[1]", b"\xff\xfe", b""])
def test_a_corrupt_file_is_set_aside(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / FILE_NAME
    path.write_bytes(content)
    store = SettingsStore(tmp_path)
    assert store.current == Settings()
    kept = [each for each in tmp_path.iterdir() if each.name.startswith("settings.broken")]
    assert len(kept) == 1 and kept[0].read_bytes() == content
    assert "defaults" in store.problem and kept[0].name in store.problem
    store.update(top_k=5)
    assert store.save()
    assert SettingsStore(tmp_path).current.top_k == 5


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("temperature", "hot"),
        ("temperature", -1),
        ("temperature", float("nan")),
        ("top_p", 0),
        ("top_k", 1.5),
        ("max_new_tokens", True),
        ("seed", "x"),
        ("eagle", 1),
        ("theme", "pink"),
        ("font_size", 900),
        ("licences_seen", "all"),
    ],
)
def test_one_wrong_value_costs_only_itself(tmp_path: Path, name: str, value: object) -> None:
    (tmp_path / FILE_NAME).write_text(json.dumps({name: value, "tree_nodes": 12, "unknown": 1}))
    store = SettingsStore(tmp_path)
    assert store.current == replace(Settings(), tree_nodes=12)
    assert name.replace("_", " ") in store.problem


def test_restoring_defaults_keeps_what_the_user_was_told(tmp_path: Path) -> None:
    store = SettingsStore(tmp_path)
    store.update(temperature=1.0, licences_seen=("A",), demo_notice_dismissed=True)
    store.restore_defaults()
    assert store.current == replace(Settings(), licences_seen=("A",), demo_notice_dismissed=True)


def test_observers_hear_of_real_changes_only(tmp_path: Path) -> None:
    store = SettingsStore(tmp_path)
    heard: list[Settings] = []
    end = store.changed.subscribe(heard.append)
    store.update(top_k=0)
    store.update(top_k=3)
    end()
    store.update(top_k=4)
    assert [each.top_k for each in heard] == [3]


def test_a_failed_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = SettingsStore(tmp_path)
    store.update(top_k=3)
    assert store.save()

    def refuse(source: str, target: str) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", refuse)
    store.update(top_k=9)
    assert not store.save()
    assert "No space left" in store.problem
    assert [path.name for path in tmp_path.iterdir()] == [FILE_NAME]
    monkeypatch.undo()
    assert SettingsStore(tmp_path).current.top_k == 3
    assert store.save(), "what was not written is tried again"
    assert SettingsStore(tmp_path).current.top_k == 9


def test_a_path_that_is_no_proper_text_is_kept(tmp_path: Path) -> None:
    """Names of folders may be any bytes on Linux; what is no UTF-8 comes to Python as halves of pairs."""
    store = SettingsStore(tmp_path)
    store.update(last={"model": "/models/\udce4lter, größer", "head": None})
    assert store.save() and "größer" in store.path.read_text(encoding="utf-8")
    again = SettingsStore(tmp_path)
    assert again.problem == "" and again.current.last == store.current.last
