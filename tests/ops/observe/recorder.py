"""A hook that keeps what it is told, but for samples: how many there are is left to chance."""

from __future__ import annotations

from collections import Counter
from typing import Any, TypeVar

from stampede_guard.events import Event, RoundTrip

__all__ = ["Recorder"]

E = TypeVar("E")


class Recorder:
    def __init__(self) -> None:
        self.events: list[Event] = []

    def __call__(self, event: Event, /) -> None:
        if not isinstance(event, RoundTrip):
            self.events.append(event)

    def of(self, kind: type[E]) -> list[E]:
        return [event for event in self.events if isinstance(event, kind)]

    def counts(self) -> Counter[str]:
        return Counter(type(event).__name__ for event in self.events)

    def forget(self) -> None:
        self.events.clear()

    def outcomes(self) -> Counter[Any]:
        """Of the calls that waited."""
        from stampede_guard.events import Waited

        return Counter(event.outcome for event in self.of(Waited))
