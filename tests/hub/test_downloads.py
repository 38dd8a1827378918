"""Downloads from a hub that behaves: what arrives, where, and who else finds it there."""

from __future__ import annotations

import json
import random
import time
from pathlib import Path

import pytest
from huggingface_hub import constants, scan_cache_dir, try_to_load_from_cache

from engine.hub import cache
from engine.hub.intervals import Intervals
from engine.hub.manifest import needed
from engine.hub.part import Part
from engine.protocol.hub import Phase
from tests.hub.hub_setting import only, setting, small_segments
from tests.hub_server import Account, Fault, Faults, HubServer, Kind, Repository


def weights(size: int, seed: int = 1) -> bytes:
    """A safetensors file of one tensor of ``size`` bytes."""
    header = json.dumps({"w": {"dtype": "U8", "shape": [size], "data_offsets": [0, size]}}).encode()
    return len(header).to_bytes(8, "little") + header + random.Random(seed).randbytes(size)


def model(repo_id: str = "org/tiny", size: int = 300_000, **options: object) -> Repository:
    files: dict[str, bytes | Path] = {
        "config.json": b'{"model_type": "llama"}',
        "tokenizer.json": b"{}" * 100,
        "model.safetensors": weights(size),
        "pytorch_model.bin": b"old" * 1000,
        "original/consolidated.00.pth": b"older" * 1000,
        "README.md": b"# Tiny",
        "onnx/model.onnx": b"x" * 100,
    }
    return Repository(repo_id, files, **options)  # type: ignore[arg-type]


WANTED = {"config.json", "tokenizer.json", "model.safetensors", "README.md"}


def test_a_model_arrives_whole_and_everybody_finds_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_segments()
    repository = model()
    with HubServer([repository]) as hub, setting(hub.endpoint, tmp_path) as here:
        here.downloads.add("org/tiny")
        assert here.downloads.wait(20)
        state = only(here.downloads.states())
        assert (state.phase, state.problem) == (Phase.DONE, None)
        folder = Path(state.folder)
        assert {path.name for path in folder.iterdir()} == WANTED
        for name in WANTED:
            assert (folder / name).read_bytes() == repository.files[name]
        # The large file came in many parts; no byte came twice, and the store never saw an account.
        ranges = hub.fetched("model.safetensors")
        assert len(ranges) > 4
        assert sum(end - start for start, end in ranges) == len(repository.files["model.safetensors"])
        found = cache.local_models(here.place.cache)
        assert [(each.repo_id, each.commit, each.folder) for each in found] == [
            ("org/tiny", repository.head, folder)
        ]
        assert not list((tmp_path / "records").glob("*.json"))
        before = len(hub.log)
        here.downloads.add("org/tiny")
        assert here.downloads.wait(20)
        assert len(hub.log) == before, "what is here is not fetched again"
    scan = scan_cache_dir(here.place.cache)
    assert [each.repo_id for each in scan.repos] == ["org/tiny"]
    assert not scan.warnings and not scan.incomplete_files
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    path = try_to_load_from_cache("org/tiny", "model.safetensors", cache_dir=here.place.cache)
    assert path == str(folder / "model.safetensors")
    cache.delete_model(here.place.cache, "org/tiny", repository.head)
    assert cache.local_models(here.place.cache) == ()
    assert not list(here.place.cache.rglob("*.safetensors"))


def test_pause_restart_resume(tmp_path: Path) -> None:
    small_segments()
    repository = model(size=2_000_000)
    slow = Faults({"model.safetensors": [Fault(Kind.SLOW, seconds=0.15)] * 100})
    with HubServer([repository], faults=slow) as hub:
        with setting(hub.endpoint, tmp_path) as here:
            key = here.downloads.add("org/tiny")
            deadline = time.monotonic() + 20
            while only(here.downloads.states()).done < 600_000 and time.monotonic() < deadline:
                time.sleep(0.01)
            assert only(here.downloads.states()).speed > 0
            here.downloads.pause(key)
            assert here.downloads.wait(5)
            paused = only(here.downloads.states())
            assert paused.phase is Phase.PAUSED
            assert cache.local_models(here.place.cache) == ()
        kept = sum(file.done for file in paused.files)
        assert 600_000 <= kept < 2_000_000
        with setting(hub.endpoint, tmp_path) as here:
            still = only(here.downloads.states())
            assert (still.phase, still.done, still.total) == (Phase.PAUSED, paused.done, paused.total)
            part = Part(
                cache.blobs_folder(here.place.cache, "org/tiny")
                / repository.commits[repository.head]["model.safetensors"].etag,
                len(repository.files["model.safetensors"]),
                repository.commits[repository.head]["model.safetensors"].etag,
            )
            part.peek()
            gaps = Intervals(part._read_journal().missing(part.size))
            since = hub.now()
            slow._script.clear()
            here.downloads.resume(key)
            assert here.downloads.wait(20)
            state = only(here.downloads.states())
            assert state.phase is Phase.DONE
            assert Intervals(hub.fetched("model.safetensors", since)) == gaps, "exactly the gaps are fetched"
            got = (Path(state.folder) / "model.safetensors").read_bytes()
            assert got == repository.files["model.safetensors"]


def test_a_running_download_goes_on_after_a_restart_by_itself(tmp_path: Path) -> None:
    small_segments()
    stalled = Faults({"model.safetensors": [Fault(Kind.STALL, after=5000, seconds=9)] * 4})
    with HubServer([model()], faults=stalled) as hub:
        with setting(hub.endpoint, tmp_path) as here:
            here.downloads.add("org/tiny")
            while only(here.downloads.states()).phase is not Phase.RUNNING:
                time.sleep(0.01)
        stalled._script.clear()
        with setting(hub.endpoint, tmp_path) as here:
            assert here.downloads.wait(20)
            assert only(here.downloads.states()).phase is Phase.DONE


@pytest.mark.parametrize("delete", [True, False])
def test_cancel_keeps_or_deletes(tmp_path: Path, delete: bool) -> None:
    small_segments()
    slow = Faults({"model.safetensors": [Fault(Kind.SLOW, seconds=0.1)] * 100})
    with HubServer([model(size=1_000_000)], faults=slow) as hub, setting(hub.endpoint, tmp_path) as here:
        key = here.downloads.add("org/tiny")
        while only(here.downloads.states()).done < 200_000:
            time.sleep(0.01)
        here.downloads.cancel(key, delete)
        deadline = time.monotonic() + 5
        while here.downloads.states() and time.monotonic() < deadline:
            time.sleep(0.01)
        assert here.downloads.states() == ()
        left = [path for path in here.place.cache.rglob("*") if path.is_file() and path.suffix != ".lock"]
        assert bool(left) is not delete
        assert not list((tmp_path / "records").glob("*.json"))


def test_the_token_stays_with_the_hub(tmp_path: Path) -> None:
    secret = "hf_abcdefghij"
    accounts = {secret: Account("ann", accepted=frozenset({"org/tiny"}))}
    with (
        HubServer([model(gated=True)], accounts) as hub,
        setting(hub.endpoint, tmp_path, token=secret) as here,
    ):
        here.downloads.add("org/tiny")
        assert here.downloads.wait(20)
        assert only(here.downloads.states()).phase is Phase.DONE
        stored = [each for each in hub.log if each.path == "model.safetensors"]
        assert stored and not any(each.authorised for each in stored)
        assert all(authorised for _, authorised in hub.requests)
        assert here.tokens.redact(f"GET {hub.store}/x?signature=12 Bearer {secret}, http://me:pw@proxy/") == (
            f"GET {hub.store}/x?*** Bearer ***, http://***@proxy/"
        )
        kept = [path for path in tmp_path.rglob("*") if path.is_file()]
        assert not [path for path in kept if secret.encode() in path.read_bytes()]


@pytest.mark.parametrize(
    ("token", "kind"),
    [
        ("", "hub-login"),
        ("hf_plain1", "hub-licence"),
        ("hf_narrow", "hub-right"),
        ("hf_stale1", "hub-token"),
    ],
)
def test_gates_are_told_apart(tmp_path: Path, token: str, kind: str) -> None:
    accounts = {
        "hf_plain1": Account("ann"),
        "hf_narrow": Account("bob", accepted=frozenset({"org/tiny"}), gated_right=False),
    }
    with (
        HubServer([model(gated=True)], accounts) as hub,
        setting(hub.endpoint, tmp_path, token=token) as here,
    ):
        here.downloads.add("org/tiny")
        assert here.downloads.wait(20)
        problem = only(here.downloads.states()).problem
        assert problem is not None and problem.kind == kind
        assert problem.next_step
        if kind in ("hub-login", "hub-licence"):
            assert problem.link == f"{hub.endpoint}/org/tiny"
        assert token == "" or token not in problem.message + problem.next_step
        assert cache.local_models(here.place.cache) == ()


def test_a_missing_repository_and_a_full_disk_are_named(tmp_path: Path) -> None:
    with HubServer([model()]) as hub, setting(hub.endpoint, tmp_path, reserve=1 << 60) as here:
        here.downloads.add("org/none")
        here.downloads.add("org/tiny")
        assert here.downloads.wait(20)
        missing, full = here.downloads.states()
        assert missing.problem is not None and missing.problem.kind == "hub-missing"
        assert full.problem is not None and full.problem.kind == "disk"
        assert not hub.log, "nothing is fetched that has no room"


def test_weights_that_lie_damaged_on_the_hub_are_named_and_never_ready(tmp_path: Path) -> None:
    small_segments()
    broken = Repository(
        "org/tiny", {"config.json": b'{"model_type": "llama"}', "model.safetensors": weights(20_000)[:-500]}
    )
    with HubServer([broken]) as hub, setting(hub.endpoint, tmp_path) as here:
        for _ in range(2):  # and asking again does not turn it into a model
            here.downloads.add("org/tiny")
            assert here.downloads.wait(20)
            state = only(here.downloads.states())
            assert state.phase is Phase.FAILED and state.problem is not None and not state.folder
            assert "model.safetensors of org/tiny" in state.problem.message and state.problem.next_step
            assert cache.local_models(here.place.cache) == ()


def test_only_one_form_of_the_weights_is_needed() -> None:
    shards = [f"model-0000{n}-of-00002.safetensors" for n in (1, 2)]
    files = ["config.json", *shards, "model.safetensors.index.json", "consolidated.safetensors", "x.bin"]
    assert set(needed(files)) == {"config.json", *shards, "model.safetensors.index.json"}
    assert needed(["config.json", "pytorch_model.bin", "training_args.bin"]) == (
        "config.json",
        "pytorch_model.bin",
    )
    assert needed(["medusa_lm_head.pt", "config.json"]) == ("config.json", "medusa_lm_head.pt")
    assert needed(["a-Q8_0.gguf", "a-Q4_K_M.gguf", "mmproj.gguf"]) == ("a-Q4_K_M.gguf",)
    assert needed(["a-Q8_0.gguf", "a-Q4_K_M.gguf"], ["a-Q8_0.gguf"]) == ("a-Q8_0.gguf",)


def test_intervals_are_sets_of_bytes() -> None:
    chance = random.Random(5)
    for _ in range(60):
        ours, truth = Intervals(), set()
        for _ in range(12):
            start, length = chance.randrange(40), chance.randrange(9)
            if chance.random() < 0.75:
                ours.add(start, start + length)
                truth |= set(range(start, start + length))
            else:
                ours.remove(start, start + length)
                truth -= set(range(start, start + length))
            flat = [byte for low, high in ours for byte in range(low, high)]
            assert flat == sorted(truth)
            missing = [byte for low, high in ours.missing(50) for byte in range(low, high)]
            assert missing == sorted(set(range(50)) - truth)
            assert ours.total == len(truth)
            assert ours.covered(5, 20) == len(truth & set(range(5, 20)))


def test_after_a_power_cut_only_flushed_bytes_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    part = Part(tmp_path / "blob", 1000, "e" * 40)
    part.open()
    part.keep(0, 400)
    part.save(sync=True)
    part.keep(400, 700)
    part.save()
    assert Part(tmp_path / "blob", 1000, "e" * 40).peek() == 700
    monkeypatch.setattr("engine.hub.part.boot_id", lambda: "another start of the machine")
    assert Part(tmp_path / "blob", 1000, "e" * 40).peek() == 400
    assert Part(tmp_path / "blob", 1000, "f" * 40).peek() == 0, "another version of the file"
    assert Part(tmp_path / "blob", 1001, "e" * 40).peek() == 0
