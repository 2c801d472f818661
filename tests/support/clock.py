"""A clock that only goes when it is told to."""

from __future__ import annotations

__all__ = ["Clock"]


class Clock:
    """Called, it gives seconds, like `time.monotonic`."""

    def __init__(self, now: float = 1_000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += seconds
