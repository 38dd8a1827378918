"""What several tests of the engine share because it takes seconds to make."""

from __future__ import annotations

import pytest

from engine import loaded
from tests.engine.known_times import PAYS, KnownMachine
from tests.engine.toy import Toy


@pytest.fixture(scope="session")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Toy:
    """A target that speaks a small language; heads of each kind are trained for it when first asked for."""
    return Toy.make(tmp_path_factory.mktemp("toy"))


@pytest.fixture
def known_machine(monkeypatch: pytest.MonkeyPatch) -> KnownMachine:
    """Loading a model finds known times instead of measuring this machine: quick, and the same everywhere."""
    machine = KnownMachine(PAYS)
    monkeypatch.setattr(loaded, "timing_for", machine.timing_for)
    return machine
