"""Faulty downloads, killed and taken up again, and what must hold all along.

In the tests a few dozen run; by hand, from the project's folder::

    python -c "from tests.hub.fuzzing import main; main(300)"
"""

from __future__ import annotations

import multiprocessing
import random
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from engine.hub import cache
from engine.hub.intervals import Intervals
from engine.hub.part import Part
from tests.hub.hub_setting import PATIENCE, setting, small_segments
from tests.hub_server import Faults, HubServer, Repository
from tests.hub_server.repository import HubFile

NAMED = {"hub-changed", "hub-damaged", "hub-unreachable"}
OUTCOME = "outcome.txt"
MOST_KILLS = 3


def download(endpoint: str, folder: Path) -> None:
    """What the child process does: take up the queue, or begin it, and say how it ended."""
    small_segments()
    with setting(endpoint, folder) as here:
        if not here.downloads.states():
            here.downloads.add("org/tiny")
        here.downloads.wait(60)
        (state,) = here.downloads.states()
        words = state.problem.kind if state.problem else str(state.phase)
    scratch = folder / "outcome.new"
    scratch.write_text(words)
    scratch.replace(folder / OUTCOME)


def children() -> multiprocessing.context.BaseContext:
    """Processes that start in an instant, where the system can fork."""
    if sys.platform == "win32":
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.hub.fuzzing", "huggingface_hub.hf_api", "requests"])
    return context


@dataclass
class Case:
    """One repository, one seed of faults, some kills."""

    seed: int
    folder: Path

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)
        self.files = self._files()
        self.repository = Repository("org/tiny", self.files)
        self.faults = Faults(
            rate=self.chance.choice((0.0, 0.2, 0.5, 0.8)),
            seed=self.seed,
            most=self.chance.choice((3, 8, 30)),
            patience=PATIENCE,
        )
        self.kills = 0
        self.outcome = ""
        self.refetched = 0

    def _files(self) -> dict[str, bytes | Path]:
        chance = self.chance
        header = b'{"w":{"dtype":"U8","shape":[%d],"data_offsets":[0,%d]}}'
        size = chance.choice((0, 1, 5000, 70_000, 250_000))
        told = header % (size, size)
        return {
            "config.json": chance.randbytes(chance.randrange(300)),
            "tokenizer.json": chance.randbytes(chance.choice((0, 1, 20_000, 90_000))),
            "model.safetensors": len(told).to_bytes(8, "little") + told + chance.randbytes(size),
        }

    def run(self) -> None:
        """:raises AssertionError: something that must hold does not."""
        with HubServer([self.repository], faults=self.faults) as hub:
            for _ in range(MOST_KILLS + 2):
                kept, since = self._kept(), hub.now()
                self._one_life(hub.endpoint)
                self._check_nothing_twice(hub, kept, since)
                self._check_listed()
                if self.outcome:
                    break
        assert self.outcome == "done" or self.outcome in NAMED, self.outcome
        if self.outcome == "done":
            assert [each.repo_id for each in cache.local_models(self.folder / "hub")] == ["org/tiny"]
            assert not list((self.folder / "hub").rglob("*.eyrie.*"))

    def _one_life(self, endpoint: str) -> None:
        process = children().Process(target=download, args=(endpoint, self.folder))  # type: ignore[attr-defined]
        process.start()
        deadly = self.kills < MOST_KILLS and self.chance.random() < 0.6
        process.join(self.chance.uniform(0.02, 0.4) if deadly else 60)
        if process.is_alive():
            assert deadly, "the download hangs"
            process.kill()
            self.kills += 1
        process.join()
        if (self.folder / OUTCOME).exists():
            self.outcome = (self.folder / OUTCOME).read_text()

    # ------------------------------------------------------------------ what must hold

    def _blobs(self) -> dict[str, HubFile]:
        return self.repository.commits[self.repository.head]

    def _kept(self) -> dict[str, Intervals]:
        """What the journals promise, and files that are whole."""
        found = {}
        for path, file in self._blobs().items():
            blob = cache.blobs_folder(self.folder / "hub", "org/tiny") / file.etag
            part = Part(blob, file.size, file.etag)
            found[path] = Intervals([(0, file.size)]) if blob.exists() else part._read_journal()
        return found

    def _check_nothing_twice(self, hub: HubServer, kept: dict[str, Intervals], since: float) -> None:
        """No byte that a journal named is asked for again, unless the whole file proved to be wrong."""
        for path, file in self._blobs().items():
            have = Intervals(kept[path])
            for start, end in hub.fetched(path, since):
                again = kept[path].covered(start, end)
                if again and have.total == file.size:
                    self.refetched += 1
                    break  # every byte was here and the checksum was wrong: it is fetched anew
                assert not again, f"seed {self.seed}: {path} {start}-{end} was kept: {kept[path]}"
                have.add(start, end)

    def _check_listed(self) -> None:
        """A model is listed only when every byte is right."""
        listed = cache.local_models(self.folder / "hub")
        snapshot = (
            cache.repository_folder(self.folder / "hub", "org/tiny") / "snapshots" / self.repository.head
        )
        for each in listed:
            assert each.folder == snapshot
            for path, content in self.files.items():
                assert (snapshot / path).read_bytes() == content, f"seed {self.seed}: {path}"
        for path in snapshot.glob("*"):
            assert path.read_bytes() == self.files[path.name], (
                f"seed {self.seed}: {path.name} is in the snapshot"
            )


def fuzz(seeds: range, folder: Path) -> Counter[str]:
    """Run the cases; how they ended, and how much befell them."""
    seen: Counter[str] = Counter()
    for seed in seeds:
        case = Case(seed, folder / str(seed))
        case.folder.mkdir(parents=True)
        case.run()
        seen[case.outcome] += 1
        seen["kills"] += case.kills
        seen["faults"] += len(case.faults.given)
        seen["fetched anew"] += case.refetched
        for _, fault in case.faults.given:
            seen[f"fault: {fault.kind}"] += 1
    return seen


def main(cases: int) -> None:
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as place:
        told = fuzz(range(cases), Path(place))
    print(*(f"{count:6} {name}" for name, count in sorted(told.items())), sep="\n")
    print(f"{cases} cases in {time.monotonic() - begun:.0f} s")
