"""What several tests of the engine share because it takes seconds to make."""

from __future__ import annotations

import pytest

from tests.engine.toy import Toy


@pytest.fixture(scope="session")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Toy:
    """A target that speaks a small language; heads of each kind are trained for it when first asked for."""
    return Toy.make(tmp_path_factory.mktemp("toy"))
