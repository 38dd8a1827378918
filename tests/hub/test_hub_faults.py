"""Downloads from a hub that misbehaves, one fault at a time and by chance, with kills in between."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from engine.protocol.hub import Phase
from tests.hub.fuzzing import fuzz
from tests.hub.hub_setting import only, setting, small_segments
from tests.hub.test_downloads import model
from tests.hub_server import Fault, Faults, HubServer, Kind

CASES = 16


def test_faulty_downloads_with_kills(tmp_path: Path) -> None:
    seen = fuzz(range(CASES), tmp_path)
    assert seen["done"] > CASES / 2
    assert seen["kills"] > 2
    assert seen["faults"] > CASES


@pytest.mark.parametrize("kind", [kind for kind in Kind if kind is not Kind.STATUS])
def test_each_fault_is_got_over(tmp_path: Path, kind: Kind) -> None:
    small_segments()
    faults = Faults(
        {"model.safetensors": [Fault(kind, after=20_000, seconds=0.5 if kind is Kind.STALL else 0.0)] * 2}
    )
    repository = model(size=100_000)
    with HubServer([repository], faults=faults) as hub, setting(hub.endpoint, tmp_path) as here:
        here.downloads.add("org/tiny")
        assert here.downloads.wait(20)
        state = only(here.downloads.states())
        assert (state.phase, state.problem) == (Phase.DONE, None)
        got = (Path(state.folder) / "model.safetensors").read_bytes()
        assert got == repository.files["model.safetensors"]
    assert len(faults.given) == 2


@pytest.mark.parametrize(
    ("kind", "named"),
    [
        (Kind.WRONG_BYTES, "hub-damaged"),
        (Kind.DROP, "hub-unreachable"),
        (Kind.NO_RANGE, "hub-unreachable"),
        (Kind.STATUS, "hub-unreachable"),
    ],
)
def test_a_fault_that_stays_ends_in_a_named_error(tmp_path: Path, kind: Kind, named: str) -> None:
    small_segments()
    faults = Faults({"model.safetensors": [Fault(kind, after=7)] * 500})
    with HubServer([model(size=100_000)], faults=faults) as hub, setting(hub.endpoint, tmp_path) as here:
        here.downloads.add("org/tiny")
        assert here.downloads.wait(30)
        state = only(here.downloads.states())
        assert state.problem is not None and state.problem.kind == named
        assert state.problem.message and state.problem.next_step
        assert state.folder == ""


def test_another_version_behind_the_same_address_is_noticed(tmp_path: Path) -> None:
    """The hub's own name of the file changes in the middle: it ends in that error, not in a mixture."""
    small_segments()
    repository = model(size=200_000)
    faults = Faults({"model.safetensors": [Fault(Kind.CUT, after=9000)]})
    with HubServer([repository], faults=faults) as hub, setting(hub.endpoint, tmp_path, start=False) as here:
        here.downloads.add("org/tiny")
        info = here.api.info("org/tiny", files=True)
        files = repository.commits[repository.head]
        other = type(files["model.safetensors"])("model.safetensors", bytes(200_064))
        here.downloads._api = type("Fixed", (), {"info": lambda *_, **__: info, "tokens": here.tokens})()
        files["model.safetensors"] = other
        here.downloads.start()
        assert here.downloads.wait(20)
        problem = only(here.downloads.states()).problem
        assert problem is not None and problem.kind == "hub-changed"


def test_the_hub_is_given_the_time_it_asks_for(tmp_path: Path) -> None:
    faults = Faults({"config.json": [Fault(Kind.STATUS, status=429, seconds=1)]})
    with HubServer([model()], faults=faults) as hub, setting(hub.endpoint, tmp_path) as here:
        here.downloads.add("org/tiny")
        noted = set()
        while only(here.downloads.states()).phase is not Phase.DONE:
            noted.add(only(here.downloads.states()).note)
            time.sleep(0.02)
        asked = [each.at for each in hub.log if each.path == "config.json"]
        assert len(asked) == 2 and asked[1] - asked[0] >= 1
        assert any("next try in 1 s" in note for note in noted)
