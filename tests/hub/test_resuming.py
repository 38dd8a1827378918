"""After sleep, a network that was gone, a full disk: a download goes on, and keeps what it had."""

from __future__ import annotations

import errno
import os
import time
from pathlib import Path
from typing import Any

import pytest

from engine.hub import downloads, transfer
from engine.hub.intervals import Intervals
from engine.hub.part import Part
from engine.hub.transfer import Retry
from engine.protocol.hub import Phase
from tests.hub.hub_setting import Setting, only, setting, small_segments, until
from tests.hub.test_downloads import model
from tests.hub_server import Fault, Faults, HubServer, Kind

SIZE = 1_500_000


def kept(here: Setting, hub: HubServer) -> Intervals:
    """What the journal of the large file promises."""
    repository = hub.repositories["org/tiny"]
    file = repository.commits[repository.head]["model.safetensors"]
    blob = here.place.cache / "models--org--tiny" / "blobs" / file.etag
    return Part(blob, file.size, file.etag)._read_journal()


def no_byte_twice(hub: HubServer, before: Intervals, since: float) -> None:
    for start, end in hub.fetched("model.safetensors", since):
        assert not before.covered(start, end), f"{start}-{end} was kept already"


def test_it_goes_on_after_sleep(tmp_path: Path) -> None:
    """The sockets are dead when the machine wakes, and the network takes a while to come back."""
    small_segments()
    slow = Faults({"model.safetensors": [Fault(Kind.SLOW, seconds=0.4)] * 100})
    patient = Retry(tries=200, first_wait=0.02, longest_wait=0.1)
    with (
        HubServer([model(size=SIZE)], faults=slow) as hub,
        setting(hub.endpoint, tmp_path, retry=patient) as here,
    ):
        here.downloads.add("org/tiny")
        until(here, lambda state: state.done > SIZE // 4)
        hub.freeze()  # nothing more comes, and nobody says so
        until(here, lambda state: state.phase is Phase.RUNNING and not state.speed)
        hub.leave()  # and now nobody is there at all
        asleep = until(here, lambda state: "next try" in state.note or not state.speed)
        time.sleep(0.3)  # some tries that find nobody
        asleep = only(here.downloads.states())
        assert asleep.phase is Phase.RUNNING and asleep.done < SIZE, "it keeps trying"
        before, since = kept(here, hub), hub.now()
        assert before.total > SIZE // 5
        slow._script.clear()
        hub.come_back()
        done = until(here, lambda state: state.phase in (Phase.DONE, Phase.FAILED))
        assert done.phase is Phase.DONE, done.problem
        no_byte_twice(hub, before, since)
        got = (Path(done.folder) / "model.safetensors").read_bytes()
        assert got == hub.repositories["org/tiny"].files["model.safetensors"]


def test_one_that_gave_up_for_want_of_a_network_tries_again_by_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_segments()
    monkeypatch.setattr(downloads, "RETRY_SECONDS", 0.5)
    quick = Retry(tries=2, first_wait=0.01, longest_wait=0.01)
    with HubServer([model(size=SIZE)]) as hub, setting(hub.endpoint, tmp_path, retry=quick) as here:
        hub.leave()
        here.downloads.add("org/tiny")
        stopped = until(here, lambda state: state.phase is Phase.FAILED)
        assert stopped.problem is not None and stopped.problem.kind == "hub-unreachable"
        hub.come_back()
        done = until(here, lambda state: state.phase is Phase.DONE)
        assert done.problem is None, "an old error does not stay"


def test_a_disk_that_fills_up_is_named_and_costs_nothing_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_segments()
    monkeypatch.setattr(transfer, "JOURNAL_SECONDS", 0.0)
    room = [SIZE // 3]

    class Filling:
        """A disk with ``room`` bytes: writes fail beyond it, as they do on a real one."""

        def __init__(self, file: Any) -> None:
            self._file = file

        def write(self, data: memoryview) -> int:
            if room[0] < len(data):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            room[0] -= len(data)
            return int(self._file.write(data))

        def __enter__(self) -> Filling:
            return self

        def __exit__(self, *_: object) -> None:
            self._file.close()

    real = Part.writer
    monkeypatch.setattr(Part, "writer", lambda self, start: Filling(real(self, start)))
    with HubServer([model(size=SIZE)]) as hub, setting(hub.endpoint, tmp_path) as here:
        key = here.downloads.add("org/tiny")
        full = until(here, lambda state: state.phase is Phase.FAILED)
        assert full.problem is not None and full.problem.kind == "disk"
        assert "is full" in full.problem.message and "Free some space" in full.problem.next_step
        assert full.folder == "" and 0 < full.done < SIZE
        before, since = kept(here, hub), hub.now()
        room[0] = 10 * SIZE
        here.downloads.resume(key)
        done = until(here, lambda state: state.phase in (Phase.DONE, Phase.FAILED))
        assert done.phase is Phase.DONE, done.problem
        assert before.total > 0
        no_byte_twice(hub, before, since)


def test_a_disk_that_others_fill_stops_it_before_the_last_byte(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The room is looked at while running, too: the reserve is left to the rest of the machine."""
    small_segments()
    usage = transfer.shutil.disk_usage(tmp_path)
    free = [usage.free]
    monkeypatch.setattr(
        "shutil.disk_usage", lambda _: type("Usage", (), {"free": free[0], "total": usage.total})()
    )
    slow = Faults({"model.safetensors": [Fault(Kind.SLOW, seconds=0.4)] * 100})
    with HubServer([model(size=SIZE)], faults=slow) as hub, setting(hub.endpoint, tmp_path) as here:
        here.downloads.add("org/tiny")
        until(here, lambda state: state.done > 100_000)
        free[0] = 1000
        full = until(here, lambda state: state.phase is Phase.FAILED)
        assert full.problem is not None and full.problem.kind == "disk"
        assert "still needs" in full.problem.message and full.done < SIZE


def test_a_pause_before_anything_was_asked_for_drops_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The threads then end at once, unseen: bytes that nobody has hashed are no wrong bytes."""
    small_segments()
    slow = Faults({"model.safetensors": [Fault(Kind.SLOW, seconds=0.2)] * 100})
    with HubServer([model(size=SIZE)], faults=slow) as hub, setting(hub.endpoint, tmp_path) as here:
        here.downloads.add("org/tiny")
        state = until(here, lambda state: state.done > SIZE // 4)
        here.downloads.pause(state.download_id)
        until(here, lambda state: state.phase is Phase.PAUSED)
        before = kept(here, hub)
        assert before.total
        (download,) = here.downloads._downloads.values()
        (large,) = (
            each for each in download.transfers if each.part.size == SIZE or each.part.peek() > SIZE // 5
        )
        monkeypatch.setattr(
            transfer.Transfer, "_attend", lambda _self, threads: [each.join() for each in threads]
        )
        large.stop()
        with pytest.raises(transfer.Stopped):
            large.run()
        assert kept(here, hub).total == before.total


def test_the_queue_keeps_its_order_over_restarts(tmp_path: Path) -> None:
    """Though what ran is written down anew, later than what waits."""
    names = [f"org/{letter}" for letter in "dacb"]
    with HubServer([]) as hub:
        with setting(hub.endpoint, tmp_path, start=False) as here:
            for name in names:
                here.downloads.add(name)
            first, *_ = here.downloads._downloads.values()
            here.downloads._remember(first)
        with setting(hub.endpoint, tmp_path, start=False) as again:
            again.downloads.add("org/e")
            assert [state.repo_id for state in again.downloads.states()] == [*names, "org/e"]
