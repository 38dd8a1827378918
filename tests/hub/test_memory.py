"""What is free and what unloading frees: on a GPU as torch or the driver's tool tell, else main memory."""

from __future__ import annotations

import os
import sys
from types import SimpleNamespace

import psutil  # type: ignore[import-untyped]
import pytest

from engine.hub import memory
from engine.hub.fit import from_parameters, verdict
from engine.protocol.hub import Machine, Verdict

GB = 10**9


def fake_torch(free: int, total: int, started: bool = True) -> SimpleNamespace:
    return SimpleNamespace(
        cuda=SimpleNamespace(
            is_available=lambda: True,
            is_initialized=lambda: started,
            mem_get_info=lambda: (free, total),
            get_device_name=lambda: "RTX 3060",
        )
    )


def fake_driver(monkeypatch: pytest.MonkeyPatch, answers: dict[str, str]) -> list[str]:
    asked: list[str] = []

    def run(command: list[str], **_: object) -> SimpleNamespace:
        asked.append(command[1])
        return SimpleNamespace(stdout=answers[command[1].partition("=")[0]])

    monkeypatch.setattr(memory.shutil, "which", lambda _: "/usr/bin/nvidia-smi")
    monkeypatch.setattr(memory.subprocess, "run", run)
    return asked


def test_torch_is_asked_only_where_it_already_uses_the_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", fake_torch(5 * GB, 12 * GB))
    assert memory.machine() == Machine("RTX 3060", True, 12 * GB, 5 * GB)
    # A context of our own would take memory from the model.
    monkeypatch.setitem(sys.modules, "torch", fake_torch(5 * GB, 12 * GB, started=False))
    asked = fake_driver(monkeypatch, {"--query-gpu": "RTX 4070, 12000, 9000\n"})
    assert memory.machine() == Machine("RTX 4070", True, 12000 << 20, 9000 << 20)
    assert len(asked) == 1


def test_what_the_engine_holds_counts_as_free_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A card of 12 GB with 5 free and 6 in the engine's hands takes a pair of 8 GB."""
    monkeypatch.setitem(sys.modules, "torch", fake_torch(5 * GB, 12 * GB))
    card = memory.machine()
    assert verdict(card, 6 * GB, GB, GB // 4, 0, 4096, False).verdict is Verdict.NO
    asked = fake_driver(monkeypatch, {"--query-compute-apps": "17, 900\n4711, 5722\n4711, 100\n18, [N/A]\n"})
    freed = memory.held(4711, card)
    assert freed == 5822 << 20 and "pid,used_memory" in asked[0]
    found = verdict(card, 6 * GB, GB, GB // 4, freed, 4096, False)
    assert found.verdict is Verdict.FITS and "unloaded first" in found.words
    assert found.left == 5 * GB + freed - found.needed
    # Where the driver does not tell, what the engine says of itself stands in.
    assert memory.held(18, card) is None and memory.held(99, card) is None
    # However much it is said to hold, a card never has more than it has.
    assert verdict(card, 6 * GB, GB, GB // 4, 50 * GB, 4096, False).left < 12 * GB - 7 * GB


def test_without_a_gpu_it_is_main_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory.shutil, "which", lambda _: None)
    monkeypatch.setitem(
        sys.modules, "torch", SimpleNamespace(cuda=SimpleNamespace(is_available=lambda: False))
    )
    here = memory.machine()
    assert not here.is_gpu and here.total == psutil.virtual_memory().total and 0 < here.free < here.total
    own = memory.held(os.getpid(), here)
    assert own is not None and 10**7 < own <= psutil.Process().memory_info().rss
    assert from_parameters(here, 0.5, own).needed > 0
    assert memory.held(2**31 - 5, here) is None
