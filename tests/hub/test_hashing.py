"""The checksum of a file that arrives in any order, and how many streams bring it."""

from __future__ import annotations

import hashlib
import random
import threading
from pathlib import Path

import pytest

from engine.hub import hashing, transfer
from engine.hub.hashing import Hashing
from engine.hub.part import Part
from engine.hub.transfer import Transfer
from engine.protocol.hub import Phase
from tests.hub.hub_setting import only, setting, small_segments
from tests.hub.test_downloads import model
from tests.hub_server import Fault, Faults, HubServer, Kind

SIZE = 40_000


def blocks(chance: random.Random) -> list[tuple[int, int]]:
    """The file in pieces of all sizes, neighbours mostly after each other."""
    cuts = sorted(chance.sample(range(1, SIZE), 30))
    pieces = list(zip([0, *cuts], [*cuts, SIZE], strict=True))
    for _ in range(chance.choice((0, 3, 60))):
        first, second = chance.randrange(len(pieces)), chance.randrange(len(pieces))
        pieces[first], pieces[second] = pieces[second], pieces[first]
    return pieces


@pytest.mark.parametrize("seed", range(25))
def test_it_is_right_whatever_is_offered_and_when(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(seed)
    monkeypatch.setattr(hashing, "READ", chance.choice((100, 3000, 1 << 20)))
    monkeypatch.setattr(hashing, "AHEAD", chance.choice((0, 4000, 1 << 20)))
    content = chance.randbytes(SIZE)
    part = Part(tmp_path / "blob", SIZE, "e" * 40)
    part.open()
    digest = hashlib.sha256()
    taken = Hashing(digest, part)
    failed: list[Exception] = []

    def run() -> None:
        try:
            taken.run(lambda: False, lambda _: None)
        except Exception as error:
            failed.append(error)

    thread = threading.Thread(target=run)
    late: list[tuple[int, bytes]] = []
    begins = chance.randrange(30)
    with part.writer(0) as file:
        for number, (start, end) in enumerate(blocks(chance)):
            if number == begins:
                thread.start()
            file.seek(start)
            file.write(content[start:end])
            part.keep(start, end)
            kind = chance.random()
            if kind < 0.6:
                taken.offer(start, content[start:end])
            elif kind < 0.8:  # a thread may be held up between the two
                late.append((start, content[start:end]))
            if late and chance.random() < 0.3:
                taken.offer(*late.pop(0))
    thread.join(20)
    assert not thread.is_alive() and not failed, failed
    assert digest.hexdigest() == hashlib.sha256(content).hexdigest()
    assert not taken._offered


def test_little_is_kept_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hashing, "AHEAD", 4000)
    part = Part(tmp_path / "blob", SIZE, "e" * 40)
    taken = Hashing(hashlib.sha256(), part)
    for start in range(0, SIZE, 1000):  # nobody takes them
        taken.offer(start, bytes(1000))
    assert sum(map(len, taken._offered.values())) == 4000


@pytest.mark.parametrize(("alone", "helped"), [(1e9, False), (0.0, True)])
def test_more_streams_come_only_where_one_is_slow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, alone: float, helped: bool
) -> None:
    small_segments()
    monkeypatch.setattr(transfer, "ALONE_SECONDS", alone)
    seen: set[str] = set()
    real = Transfer._one_request

    def watched(self: Transfer, start: int, end: int, taken: Hashing) -> None:
        seen.add(threading.current_thread().name)
        real(self, start, end, taken)

    monkeypatch.setattr(Transfer, "_one_request", watched)
    slow = Faults({"model.safetensors": [Fault(Kind.SLOW, seconds=0.1)] * 100})
    with HubServer([model(size=600_000)], faults=slow) as hub, setting(hub.endpoint, tmp_path) as here:
        here.downloads.add("org/tiny")
        assert here.downloads.wait(30)
        assert only(here.downloads.states()).phase is Phase.DONE
    assert (len(seen) > 1) is helped
