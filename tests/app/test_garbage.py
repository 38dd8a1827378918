"""Full collections wait until nothing happens."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest
from PySide6.QtCore import QCoreApplication, QEvent, QObject
from PySide6.QtWidgets import QApplication

from app import garbage
from app.garbage import CalmGarbage


@pytest.fixture
def thawed() -> Iterator[None]:
    yield
    gc.unfreeze()


class Cycle:
    def __init__(self, gone: list[str]) -> None:
        self.me = self
        self.gone = gone

    def __del__(self) -> None:
        self.gone.append("gone")


def test_a_running_reply_is_not_stopped_and_nothing_is_kept_for_ever(qapp: QApplication, thawed: None) -> None:
    running = True
    watch = CalmGarbage(QObject(), lambda: running)
    gc.unfreeze()
    gone: list[str] = []
    Cycle(gone)
    watch.look()
    assert gc.get_freeze_count() > 1000, "what there is was set aside"
    assert not watch.is_watching, "no event of a running reply goes through Python"
    gc.collect()
    assert gone == [], "a full collection in between has nothing to look at"
    running = False
    for _ in range(garbage.IDLE_LOOKS - 1):
        watch.look()
    assert gone == [] and watch.is_watching
    watch.look()
    assert gone == ["gone"] and not watch.is_watching
    assert gc.get_freeze_count() > 1000


def test_keys_put_it_off(qapp: QApplication, thawed: None) -> None:
    holder = QObject()
    watch = CalmGarbage(holder, lambda: False)
    gone: list[str] = []
    Cycle(gone)
    for _ in range(garbage.IDLE_LOOKS - 1):
        watch.look()
    QCoreApplication.sendEvent(holder, QEvent(QEvent.Type.Wheel))
    watch.look()
    assert gone == []
