"""What is kept between starts: read again, and made anew when anything it depends on is another one."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from engine.equipping import _keeper
from engine.heads.choosing import Measured, Reading
from engine.remembered import identity, remembered
from tests.engine import tiny


def test_a_damaged_file_counts_as_not_there(data_dir: Path) -> None:
    made: list[int] = []

    def make() -> int:
        made.append(len(made))
        return made[-1]

    def ask(name: str = "one", fresh: bool = False) -> int:
        return remembered(
            "things", name, make, read=lambda raw: int(raw["n"]), write=lambda n: {"n": n}, fresh=fresh
        )  # type: ignore[index]

    assert [ask(), ask(), ask("two"), ask("two")] == [0, 0, 1, 1]
    assert ask(fresh=True) == 2 == ask()
    one = max(data_dir.rglob("things/*.json"), key=lambda path: path.stat().st_mtime_ns)
    for damage in (
        b"",
        b"\xff\xfe",
        b"[]",
        b"{}",
        b"null",
        b'{"n": "x"}',
        b'{"n": Infinity}',
        b"[" * 100_000,
    ):
        before = len(made)
        one.write_bytes(damage)
        assert ask() == before == ask(), damage
    assert not list(data_dir.rglob("*.part"))


def test_a_folder_that_cannot_be_written_is_no_obstacle(data_dir: Path) -> None:
    blocked = next(iter(data_dir.rglob("cache")), data_dir / "cache")
    blocked.mkdir(parents=True, exist_ok=True)
    (blocked / "things").write_text("a file where a folder should be")
    assert remembered("things", "one", lambda: 7, read=int, write=int) == 7  # type: ignore[arg-type]


def test_an_identity_changes_with_the_files(tmp_path: Path) -> None:
    (tmp_path / "a.bin").write_bytes(b"abc")
    seen = {identity(tmp_path), identity(tmp_path / "a.bin"), identity(tmp_path / "missing")}
    assert len(seen) == 3 and identity(tmp_path) in seen
    (tmp_path / "a.bin").write_bytes(b"abcd")
    seen.add(identity(tmp_path))
    os.utime(tmp_path / "a.bin", ns=(1, 1))
    seen.add(identity(tmp_path))
    (tmp_path / "b.bin").write_bytes(b"")
    seen.add(identity(tmp_path))
    assert len(seen) == 6


def test_how_a_head_is_read_is_measured_once(data_dir: Path, tmp_path: Path) -> None:
    checkpoint = tiny.checkpoint()
    readings = tuple(Reading(replace(checkpoint.config, norm_output=value), False) for value in (False, True))
    runs = 0

    def measured() -> tuple[Measured, ...]:
        nonlocal runs
        runs += 1
        return tuple(Measured(each, 1.5 + place) for place, each in enumerate(readings))

    (tmp_path / "model.safetensors").write_bytes(b"weights")
    found = _keeper(tmp_path, "target")(readings, measured)
    assert _keeper(tmp_path, "target")(readings, measured) == found == measured() and runs == 2
    for name, asked in (("another target", readings), ("target", readings[:1])):
        before = runs
        _keeper(tmp_path, name)(asked, measured)
        assert runs == before + 1
    for file in data_dir.rglob("head readings/*.json"):
        file.unlink()
    _keeper(tmp_path, "target")(readings, measured)
    (file,) = data_dir.rglob("head readings/*.json")
    for damage in ("[0.5, 2.5]", "[1.5]", "{}", '["a", "b"]'):
        file.write_text(damage)
        before = runs
        assert _keeper(tmp_path, "target")(readings, measured) == found and runs == before + 1
    (tmp_path / "model.safetensors").write_bytes(b"other weights")
    _keeper(tmp_path, "target")(readings, measured)
    assert runs == before + 2
