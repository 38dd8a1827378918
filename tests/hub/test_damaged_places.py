"""Damaged records, links that lead nowhere, folders that cannot be used: each costs itself and nothing else."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from engine.errors import EngineError, ModelError
from engine.hub import cache
from engine.hub.content import folder_content
from engine.hub.downloads import Downloads
from engine.hub.head_memory import HeadMemory
from engine.hub.local import Imports, cached, look_at
from engine.hub.manifest import Manifest
from engine.hub.part import JOURNAL, PART, Part
from engine.hub.place import HubPlace
from engine.hub.transfer import FileSpec, Retry
from engine.protocol.hub import Phase
from tests.hub.hub_setting import only, setting, small_segments, until
from tests.hub.test_downloads import model, weights
from tests.hub_server import Fault, Faults, HubServer, Kind

DAMAGED = [b"", b"\xff\xfe\x00", b"[" * 100_000, b"null", b"[1, 2]", b'"text"', b"{}", b'{"id": 5}']
COMMIT, OTHER = "a" * 40, "b" * 40


def put(hub_cache: Path, repo_id: str, commit: str, *, config: bool = True, seed: int = 1) -> Path:
    """A whole model in a cache, as the hub's own tools leave it."""
    top = cache.repository_folder(hub_cache, repo_id)
    folder = top / "snapshots" / commit
    for name, content in (("config.json", b"{}"), ("model.safetensors", weights(500, seed))):
        blob = top / "blobs" / f"{commit[:4]}{name}"
        blob.parent.mkdir(parents=True, exist_ok=True)
        blob.write_bytes(content)
        folder.mkdir(parents=True, exist_ok=True)
        if config or name != "config.json":
            (folder / name).symlink_to(os.path.relpath(blob, folder))
    return folder


# --------------------------------------------------------------------------- our own records


def test_damaged_records_of_downloads_leave_the_others(tmp_path: Path) -> None:
    records = tmp_path / "records"
    records.mkdir()
    good = {"id": "x", "repo": "org/tiny", "revision": "main", "only": [], "paused": True, "manifest": None}
    wrong = [
        {**good, "only": 5},
        {**good, "manifest": {"repo": "a/b", "revision": "main", "commit": COMMIT, "files": [["x", 1e999, COMMIT, None]]}},
        {**good, "manifest": {"repo": "a/b", "revision": "main", "commit": COMMIT, "files": [[5, 5, COMMIT, None]]}},
        {**good, "manifest": {"repo": "a/b", "revision": "main", "commit": COMMIT, "files": [["../x", 5, COMMIT, None]]}},
        {**good, "manifest": [COMMIT]},
        {**good, "number": "first"},
    ]  # fmt: skip
    for number, content in enumerate([*DAMAGED, *(json.dumps(each).encode() for each in wrong)]):
        (records / f"{number}.json").write_bytes(content)
    (records / "nowhere.json").symlink_to(tmp_path / "gone")
    (records / "folder.json").mkdir()
    (records / "whole.json").write_text(json.dumps({**good, "id": "../../escaped"}))
    with HubServer([model()]) as hub, setting(hub.endpoint, tmp_path) as here:
        state = only(here.downloads.states())
        assert (state.download_id, state.repo_id, state.phase) == ("whole", "org/tiny", Phase.PAUSED)
        here.downloads.resume("whole")
        assert here.downloads.wait(20) and only(here.downloads.states()).phase is Phase.DONE
    assert not (records / "whole.json").exists() and (records / "0.json").exists()


def test_a_folder_of_records_that_cannot_be_read_holds_none(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    for place in (tmp_path / "file", tmp_path / "file" / "below", tmp_path / ("n" * 300)):
        with HubServer([]) as hub, setting(hub.endpoint, tmp_path, start=False) as here:
            again = Downloads(here.api, here.connection, place)
            assert again.states() == ()
            again.add("org/tiny")  # which cannot be remembered, and runs nevertheless
            assert only(again.states()).phase is Phase.QUEUED


@pytest.mark.parametrize("content", DAMAGED)
def test_damaged_lists_are_empty_ones(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "list.json"
    path.write_bytes(content)
    assert Imports(path).entries() == ()
    memory = HeadMemory(path)
    assert memory.has_head("org/tiny") is None
    memory.keep("org/tiny", True)
    assert HeadMemory(path).has_head("org/tiny") is True
    part = Part(tmp_path / "blob", 1000, COMMIT)
    part.open()
    (tmp_path / f"blob{JOURNAL}").write_bytes(content)
    assert Part(tmp_path / "blob", 1000, COMMIT).peek() == 0


def test_one_damaged_entry_leaves_the_others(tmp_path: Path) -> None:
    folder = tmp_path / "whole"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    (folder / "model.safetensors").write_bytes(weights(100))
    strange = ["~nobody-of-this-name/x", "a\0b", 5, None, ["x"], "", "n" * 5000, str(tmp_path / "gone")]
    path = tmp_path / "imports.json"
    path.write_text(json.dumps([*strange, str(folder)]))
    assert [entry.path for entry in Imports(path).entries()] == [str(folder)]
    for each in ("~nobody-of-this-name/x", "n" * 5000):
        with pytest.raises(ModelError) as told:
            look_at(Path(each))
        assert told.value.next_step
    path.write_text(
        json.dumps({"org/a": [True, time.time()], "org/b": "x", "org/c": [True, "then"], "org/d": 1})
    )
    memory = HeadMemory(path)
    assert [memory.has_head(f"org/{name}") for name in "abcd"] == [True, None, None, None]


# --------------------------------------------------------------------------- the shared cache


def test_every_whole_model_of_a_damaged_cache_is_listed(tmp_path: Path) -> None:
    folders = [put(tmp_path, "org/good", COMMIT), put(tmp_path, "org/half", OTHER)]
    broken = put(tmp_path, "org/half", COMMIT, seed=2)
    (broken / "model.safetensors").resolve().unlink()  # one commit of two lost its weights
    lost = put(tmp_path, "org/lost", COMMIT)
    (lost.parent.parent / "refs").mkdir()
    (lost.parent.parent / "refs" / "main").write_text(OTHER)  # names a commit that is not here
    put(tmp_path, "org/bare", COMMIT, config=False)
    (tmp_path / "models--org--file").write_text("no folder")
    (tmp_path / "models--org--odd" / "snapshots").mkdir(parents=True)
    (tmp_path / "models--org--odd" / "snapshots" / "file").write_text("no commit")
    (tmp_path / "models--").mkdir()
    (tmp_path / "models--org--loop").symlink_to("models--org--loop")
    (tmp_path / "datasets--org--good" / "snapshots" / COMMIT).mkdir(parents=True)
    shut = put(tmp_path, "org/shut", COMMIT)
    shut.chmod(0)
    try:
        found = {each.repo_id: each.folder for each in cache.local_models(tmp_path)}
        found.pop("org/shut", None)  # which only a common user cannot read
        assert found == {"org/good": folders[0], "org/half": folders[1], "org/lost": lost}
    finally:
        shut.chmod(0o755)
    assert cache.local_models(tmp_path / "models--org--file") == ()
    assert cache.local_models(tmp_path / ("n" * 300)) == ()
    assert [entry.size for entry in cached(tmp_path) if entry.repo_id == "org/good"] == [
        len(weights(500)) + 2
    ]
    gone = folder_content(tmp_path / "gone")  # of a head that was deleted since it was listed
    assert (gone.config, gone.header, gone.weight_bytes) == ({}, None, 0)


def test_deletion_takes_what_was_asked_for_and_nothing_else(tmp_path: Path) -> None:
    ours, copy = put(tmp_path, "org/tiny", COMMIT), put(tmp_path, "other/copy", COMMIT)
    part = cache.blobs_folder(tmp_path, "org/tiny") / f"{OTHER}{PART}"
    part.write_bytes(b"a newer commit, on its way")
    with pytest.raises(EngineError, match="unfinished download") as told:
        cache.delete_model(tmp_path, "org/tiny", COMMIT)
    assert told.value.next_step and ours.is_dir() and part.exists()
    part.unlink()
    assert cache.delete_model(tmp_path, "org/tiny", COMMIT) > 500
    assert not ours.exists() and (copy / "model.safetensors").exists(), "its copy has the same commits"
    (copy.parent.parent / "refs").mkdir()
    (copy.parent.parent / "refs" / "main").write_text(OTHER)  # the library's scan gives such a one up
    with pytest.raises(EngineError, match="cannot be deleted") as told:
        cache.delete_model(tmp_path, "other/copy", COMMIT)
    assert str(copy.parent.parent) in told.value.next_step
    with pytest.raises(EngineError, match="does not hold"):
        cache.delete_model(tmp_path, "org/none", COMMIT)


def test_a_cache_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    small_segments()
    (tmp_path / "hub").write_text("a file in the place of the folder")
    with HubServer([model()]) as hub, setting(hub.endpoint, tmp_path) as here:
        key = here.downloads.add("org/tiny")
        state = until(here, lambda state: state.phase is Phase.FAILED)
        assert state.problem is not None and state.problem.kind == "disk"
        assert "cannot be written" in state.problem.message and "HF_HUB_CACHE" in state.problem.next_step
        (tmp_path / "hub").unlink()
        here.downloads.resume(key)
        until(here, lambda state: state.phase is Phase.DONE)
        # What is here needs no writing at all, as in a cache that others fill.
        shutil.rmtree(tmp_path / "hub" / ".locks")
        (tmp_path / "hub" / ".locks").write_text("no locks here")
        here.downloads.add("org/tiny")
        assert here.downloads.wait(20)
        assert [state.phase for state in here.downloads.states()] == [Phase.DONE, Phase.DONE]


@pytest.mark.parametrize("gone", ["models--org--tiny", "models--org--tiny/blobs"])
def test_files_deleted_under_a_running_download(tmp_path: Path, gone: str) -> None:
    small_segments()
    endless = Faults({"model.safetensors": [Fault(Kind.STALL, after=5000, seconds=9)] * 1000})
    with (
        HubServer([model(size=1_000_000)], faults=endless) as hub,
        setting(hub.endpoint, tmp_path, retry=Retry(tries=1000, first_wait=0.01, longest_wait=0.01)) as here,
    ):
        key = here.downloads.add("org/tiny")
        until(here, lambda state: state.done > 20_000)
        shutil.rmtree(here.place.cache / gone)
        state = until(here, lambda state: state.phase in (Phase.FAILED, Phase.DONE))
        assert state.problem is not None and state.problem.kind == "disk" and not state.folder
        assert "was deleted or moved" in state.problem.message and "Resume" in state.problem.next_step
        endless._script.clear()
        here.downloads.resume(key)
        done = until(here, lambda state: state.phase in (Phase.FAILED, Phase.DONE))
        assert done.phase is Phase.DONE, done.problem
        got = (Path(done.folder) / "model.safetensors").read_bytes()
        assert got == hub.repositories["org/tiny"].files["model.safetensors"]


def test_a_journal_finds_room_on_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else what came last before it was full would be fetched again."""
    part = Part(tmp_path / "blob", 10**6, COMMIT)
    part.open()
    for start in range(0, 900_000, 100_000):
        part.keep(start, start + 50_000)
    part.save()

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("engine.hub.part.replace_text", full)
    for end in (600_000, 850_000):  # fewer ranges, and so a shorter text each time
        part.keep(0, end)
        part.save()
        assert Part(tmp_path / "blob", 10**6, COMMIT).peek() == part.done
    (tmp_path / f"blob{JOURNAL}").unlink()
    part.keep(900_000, 950_000)
    with pytest.raises(EngineError):
        part.save()


def _manifest(*files: tuple[str, bytes, str]) -> Manifest:
    return Manifest(
        "org/tiny", "main", COMMIT, tuple(FileSpec(path, len(data), etag) for path, data, etag in files)
    )


def test_a_model_is_placed_only_with_all_its_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where links cannot be made and two files have the same bytes."""
    manifest = _manifest(
        ("a.json", b"{}", "1" * 40), ("b.json", b"{}", "1" * 40), ("c.json", b"[1]", "2" * 40)
    )
    blobs = cache.blobs_folder(tmp_path, "org/tiny")
    cache.prepare(tmp_path, "org/tiny")
    (blobs / ("1" * 40)).write_bytes(b"{}")
    with pytest.raises(EngineError, match=r"c.json was deleted"):
        cache.place(tmp_path, manifest)
    assert not cache.is_placed(tmp_path, manifest)
    (blobs / ("2" * 40)).write_bytes(b"[1]")

    def refused(*_: object) -> None:
        raise OSError("no right to make links")

    monkeypatch.setattr(os, "symlink", refused)
    folder = cache.place(tmp_path, replace(manifest, files=manifest.files[::-1]))
    assert [(folder / name).read_bytes() for name in ("a.json", "b.json", "c.json")] == [b"{}", b"{}", b"[1]"]
    assert cache.is_placed(tmp_path, manifest)


def test_two_programs_share_one_cache(tmp_path: Path) -> None:
    """The second waits for the first; it neither fetches again nor deletes what the other is at."""
    small_segments()
    with (
        HubServer([model(size=600_000)]) as hub,
        setting(hub.endpoint, tmp_path, start=False) as one,
        setting(hub.endpoint, tmp_path, records=False) as two,
        setting(hub.endpoint, tmp_path, records=False) as three,
    ):
        repository = hub.repositories["org/tiny"]
        file = repository.commits[repository.head]["model.safetensors"]
        with one.downloads._lock("org/tiny"):  # as it is held while files arrive
            part = Part(cache.blobs_folder(one.place.cache, "org/tiny") / file.etag, file.size, file.etag)
            part.open()
            with part.writer(0) as half:
                half.write(file.read(0, 300_000))
            part.keep(0, 300_000)
            part.save()
            two.downloads.add("org/tiny")
            key = three.downloads.add("org/tiny")
            for each in (two, three):
                until(each, lambda state: "Another Eyrie" in state.note)
            three.downloads.cancel(key, delete=True)
            assert three.downloads.wait(20) and part.path.exists() and part.journal.exists()
        assert two.downloads.wait(30)
        assert only(two.downloads.states()).phase is Phase.DONE
        assert min(start for start, _ in hub.fetched("model.safetensors")) == 300_000


# --------------------------------------------------------------------------- the environment


def test_an_endpoint_that_cannot_be_taken_apart_costs_only_the_hub(tmp_path: Path) -> None:
    """The libraries cannot even be imported beside it: what is here is used nevertheless."""
    put(tmp_path / "hub", "org/good", COMMIT)
    script = """
import sys
from engine.__main__ import main
from engine.hub.local import cached
from engine.hub.place import HubPlace
code = main(["download", "org/good"])
import transformers.utils.hub
print(code, [entry.repo_id for entry in cached(HubPlace.from_environment().cache)])
"""
    environment = dict(os.environ, HF_ENDPOINT="http://[bad", HF_HOME=str(tmp_path), HF_HUB_OFFLINE="0")
    environment.pop("HF_HUB_CACHE", None)
    done = subprocess.run(
        [sys.executable, "-c", script],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.stdout.split() == ["1", "['org/good']"], done.stderr
    assert "HF_ENDPOINT is “http://[bad”, which is no address of a hub." in done.stderr
    assert "unset it" in done.stderr and "Traceback" not in done.stderr


@pytest.mark.parametrize("endpoint", ["nonsense", "ftp://host", "http://", "http://host:99999"])
def test_an_endpoint_that_is_none_is_never_asked(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", endpoint)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    with pytest.raises(EngineError, match="no address of a hub"):
        HubPlace.from_environment().require_network()
