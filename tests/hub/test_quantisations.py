"""Repositories of many GGUF files: which are offered, which is suggested and why, and that only one comes."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from engine.errors import ModelError
from engine.hub import cache
from engine.hub.local import cached, look_at
from engine.hub.problems import HubError
from engine.hub.quantisations import base_name, best, bits_of, label_of, named, parts_of, quantisations
from engine.protocol.hub import Phase, Verdict
from engine.protocol.hub_messages import Details, Fetch, FindHeads, Heads, Local, LookAt, Queue
from tests.hub.hub_setting import setting
from tests.hub.test_download_command import command
from tests.hub.test_hub_worker import Line
from tests.hub_server import Fault, Faults, HubServer, Kind, Repository

PARTS = tuple(f"BF16/Tiny-1B-BF16-0000{number}-of-00003.gguf" for number in (1, 2, 3))
SIZES = {"Tiny-1B-Q2_K.gguf": 30_000, "Tiny-1B-Q4_K_M.gguf": 50_000, "Tiny-1B-Q8_0.gguf": 90_000}


def repository() -> Repository:
    chance = random.Random(2)
    files: dict[str, bytes | Path] = {"README.md": b"# Tiny", "config.json": b"{}"}
    files |= {path: b"GGUF" + chance.randbytes(size) for path, size in SIZES.items()}
    files |= {path: b"GGUF" + chance.randbytes(60_000) for path in PARTS}
    files["mmproj-Tiny-F16.gguf"] = b"GGUF" + bytes(100)
    return Repository("org/Tiny-1B-GGUF", files, parameters=1_000_000_000, base_models=("org/Tiny-1B",))


@pytest.mark.parametrize(
    ("path", "label"),
    [
        ("Meta-Llama-3.1-8B-Instruct-Q4_K_M.gguf", "Q4_K_M"),
        ("Qwen3-8B.i1-IQ2_XXS.gguf", "IQ2_XXS"),
        ("gemma-3-27b-it-UD-Q4_K_XL.gguf", "UD-Q4_K_XL"),
        ("qwen2.5-7b-instruct-q5_k_m-00001-of-00002.gguf", "Q5_K_M"),
        ("BF16/Qwen3-32B-BF16-00002-of-00002.gguf", "BF16"),
        ("gpt-oss-20b-mxfp4.gguf", "MXFP4"),
        ("ggml-model-f16.gguf", "F16"),
        ("Tiny.gguf", "Tiny"),
    ],
)
def test_labels_are_read_from_names(path: str, label: str) -> None:
    assert label_of(path) == label


def test_names_and_bits() -> None:
    assert base_name("unsloth/Qwen3-8B-GGUF") == "unsloth/Qwen3-8B"
    assert base_name("Qwen3-8B-Q4_K_M") == "Qwen3-8B"
    assert base_name("org/plain") == "org/plain"
    assert (bits_of("BF16"), bits_of("Q8_0"), bits_of("Tiny")) == (16, 8.5, 4.8)
    assert bits_of("Q4_K_M") == pytest.approx(4.85, rel=0.05)  # 4.92 GB for 8.03 billion


def test_parts_count_as_one_and_only_together() -> None:
    found = quantisations([*SIZES.items(), *((path, 60_000) for path in PARTS), ("mmproj-F16.gguf", 1)])
    assert [(each.label, each.size) for each in found] == [
        ("Q2_K", 30_000),
        ("Q4_K_M", 50_000),
        ("Q8_0", 90_000),
        ("BF16", 180_000),
    ]
    assert found[3].paths == PARTS and parts_of(PARTS[1], PARTS) == PARTS
    assert len(quantisations((path, 1) for path in PARTS[:2])) == 0
    assert named("r", found, "q4-k-m").path == "Tiny-1B-Q4_K_M.gguf"
    with pytest.raises(HubError, match="has no Q9"):
        named("r", found, "Q9")


def test_the_suggestion_has_a_reason() -> None:
    found = quantisations([*SIZES.items(), *((path, 60_000) for path in PARTS)])
    assert best(found, 10**9)[0].label == "Q4_K_M"
    small, reason = best(found, 40_000)
    assert small.label == "Q2_K" and "Q4_K_M does not fit on the disk" in reason
    assert "not even it" in best(found, 10)[1]
    without = tuple(each for each in found if each.label != "Q4_K_M")
    largest, reason = best(without, 10**9)
    assert largest.label == "Q8_0" and "Q4_K_M is not there" in reason


def fetched(hub: HubServer) -> set[str]:
    return {each.path for each in hub.log if each.path.endswith(".gguf")}


def test_the_command_takes_one_quantisation(tmp_path: Path) -> None:
    with HubServer([repository()]) as hub:
        usual = command(hub.endpoint, tmp_path / "a", "org/Tiny-1B-GGUF")
        output, errors = usual.communicate(timeout=60)
        assert usual.returncode == 0, errors
        assert "Q4_K_M is the usual choice" in errors and "BF16 (" in errors
        assert fetched(hub) == {"Tiny-1B-Q4_K_M.gguf"}
        assert [path.name for path in Path(output.strip()).glob("*.gguf")] == ["Tiny-1B-Q4_K_M.gguf"]
        hub.log.clear()
        part = command(hub.endpoint, tmp_path / "a", "org/Tiny-1B-GGUF", "--file", PARTS[1], "--quiet")
        _, errors = part.communicate(timeout=60)
        assert part.returncode == 0, errors
        assert fetched(hub) == set(PARTS)
        hub.log.clear()
        wrong = command(hub.endpoint, tmp_path / "a", "org/Tiny-1B-GGUF", "--quant", "Q9")
        _, errors = wrong.communicate(timeout=60)
        assert wrong.returncode == 1 and "has no Q9" in errors and "Q8_0 (" in errors
        assert not hub.log
    entries = cached(tmp_path / "a")
    assert {(entry.file, entry.size) for entry in entries} == {
        ("Tiny-1B-Q4_K_M.gguf", 50_004),
        (PARTS[0], 180_012),
    }


def test_the_picker_is_told_of_each_and_gets_the_chosen_one(tmp_path: Path) -> None:
    base = {"config.json": b'{"model_type": "llama"}', "model.safetensors": b"x"}
    with HubServer([repository(), Repository("org/Tiny-1B", base)]) as hub:
        line = Line(hub, tmp_path)
        line.tell(LookAt(1, "org/Tiny-1B-GGUF"))
        details = line.wait(Details).details
        assert [(each.label, each.has_room) for each in details.quantisations] == [
            ("Q2_K", True),
            ("Q4_K_M", True),
            ("Q8_0", True),
            ("BF16", True),
        ]
        assert all(each.fit and each.fit.verdict is Verdict.FITS for each in details.quantisations)
        assert details.file == "Tiny-1B-Q4_K_M.gguf" and "usual choice" in details.file_reason
        # A billion weights, whatever the file: what is loaded is int8 or NF4.
        assert details.fit and details.fit.weights > 500_000_000
        line.tell(LookAt(2, "org/Tiny-1B-GGUF", "", PARTS[2]))
        details = line.wait(Details).details
        assert details.file == PARTS[0] and details.file_reason == ""
        assert set(PARTS) <= {path for path, _ in details.files} and details.folder == ""
        assert "Tiny-1B-Q4_K_M.gguf" not in dict(details.files)
        chosen = next(each for each in details.quantisations if each.label == "Q8_0")
        line.tell(Fetch(("org/Tiny-1B-GGUF",), chosen.paths))
        line.wait(Queue, lambda event: any(each.phase is Phase.DONE for each in event.downloads))
        assert fetched(hub) == {"Tiny-1B-Q8_0.gguf"}
        (entry,) = line.wait(Local, lambda event: event.entries).entries
        assert (entry.file, entry.name) == ("Tiny-1B-Q8_0.gguf", "org/Tiny-1B-GGUF  Q8_0")
        line.tell(LookAt(3, "org/Tiny-1B-GGUF", "", entry.file))
        assert line.wait(Details).details.folder == entry.path
        # Heads are looked for by the name of the model that the file was made of.
        hub.add(Repository("org/Tiny-1B-eagle3", {"config.json": b"{}", "model.safetensors": b"y"}))
        line.tell(FindHeads(4, "org/Tiny-1B-GGUF"))
        heads = line.wait(Heads, lambda event: event.is_complete).heads
        assert [head.repo_id for head in heads] == ["org/Tiny-1B-eagle3"]
        line.close()


def test_one_that_is_coming_does_not_hide_one_that_is_here(tmp_path: Path) -> None:
    stalled = Faults({"Tiny-1B-Q8_0.gguf": [Fault(Kind.STALL, after=10, seconds=20)] * 50})
    with HubServer([repository()], faults=stalled) as hub, setting(hub.endpoint, tmp_path) as here:
        here.downloads.add("org/Tiny-1B-GGUF", only=("Tiny-1B-Q2_K.gguf",))
        assert here.downloads.wait(20)
        here.downloads.add("org/Tiny-1B-GGUF", only=("Tiny-1B-Q8_0.gguf",))
        while not here.downloads.unfinished():
            here.downloads.wait(0.02)
        listed = cache.local_models(here.place.cache, here.downloads.unfinished())
        assert [each.gguf for each in listed] == ["Tiny-1B-Q2_K.gguf"]


def test_a_split_file_is_imported_by_any_of_its_parts(tmp_path: Path) -> None:
    for number in (1, 2):
        (tmp_path / f"x-Q4_0-0000{number}-of-00002.gguf").write_bytes(b"GGUF" + bytes(10))
    entry = look_at(tmp_path / "x-Q4_0-00002-of-00002.gguf")
    assert (Path(entry.path).name, entry.size) == ("x-Q4_0-00001-of-00002.gguf", 28)
    assert look_at(tmp_path).path == entry.path
    (tmp_path / "x-Q4_0-00001-of-00002.gguf").unlink()
    with pytest.raises(ModelError, match="not all of them are here"):
        look_at(tmp_path / "x-Q4_0-00002-of-00002.gguf")
