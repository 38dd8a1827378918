"""Observers for plain Python objects, so that the chat's model needs no signals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

Subject = TypeVar("Subject")


class Notifier(Generic[Subject]):
    """Calls every subscriber with the subject of a change, in the order they came."""

    def __init__(self) -> None:
        self._observers: list[Callable[[Subject], None]] = []

    def subscribe(self, observer: Callable[[Subject], None]) -> Callable[[], None]:
        """Add an observer; call what is returned to remove it (more than once does no harm)."""
        self._observers.append(observer)

        def unsubscribe() -> None:
            if observer in self._observers:
                self._observers.remove(observer)

        return unsubscribe

    def __call__(self, subject: Subject) -> None:
        for observer in tuple(self._observers):
            observer(subject)

    def __len__(self) -> int:
        return len(self._observers)
