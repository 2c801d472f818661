"""Threads that a test holds, and counts while they wait."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

from django.core.cache import close_caches
from django.db import connections

from stampede_guard.integrations.django.bridge import wait

__all__ = ["PATIENCE", "Gate", "joined", "threads", "until"]

T = TypeVar("T")
PATIENCE = 60.0


class Gate:
    """Whoever comes to `hold` is counted in `entered`. While it is `closed`, they stay."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.reset()

    def reset(self) -> None:
        self.entered = 0
        self._opened = threading.Event()
        self._opened.set()

    def close(self) -> None:
        self._opened = threading.Event()

    def open(self) -> None:
        self._opened.set()

    def hold(self) -> None:
        with self._lock:
            self.entered += 1
        assert self._opened.wait(PATIENCE), "nobody opened the gate"


def until(condition: Callable[[], object]) -> None:
    """Wait until something is so that no event tells of."""
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, "it never was"
        threading.Event().wait(0.001)


def joined(guard: Any, number: int) -> None:
    """Wait until so many callers are in the flights of a guard."""

    async def count() -> int:
        return sum(flight.joined for flight in guard.engine.runtime().flights.values())

    until(lambda: wait(count) >= number)


@contextmanager
def threads(number: int) -> Iterator[Callable[..., Future[Any]]]:
    """A function that calls another one in a thread, which leaves nothing open."""
    with ThreadPoolExecutor(number) as pool:

        def submit(function: Callable[..., T], *args: Any) -> Future[T]:
            def call() -> T:
                try:
                    return function(*args)
                finally:
                    close_caches()
                    connections.close_all()

            return pool.submit(call)

        yield submit
