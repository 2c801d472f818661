"""Several workers in one process. Here each worker has its own copy of what a guard keeps per event loop.

Each worker has its own flights, last values and session on the guard's store. There is one store, and it cannot
tell them from processes. They share what threads of one process share: the event loop, and your own globals.

A ContextVar names the worker of a call. A computation runs in a clean context, where the flight finds its worker.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import threading
import unittest.mock
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable
from contextvars import ContextVar
from dataclasses import replace
from typing import Any

from stampede_guard.engine.engine import CURRENT
from stampede_guard.engine.loops.event_loops import Runtimes
from stampede_guard.engine.loops.runtime import Runtime
from stampede_guard.engine.threads.portal import portal, portal_loop
from stampede_guard.values.forks import renew_in_children

__all__ = ["Seat", "seats"]

_SEAT: ContextVar[Seat | None] = ContextVar("stampede_guard_testing_seat", default=None)
_seat_of: weakref.WeakKeyDictionary[Runtime, Seat] = weakref.WeakKeyDictionary()

_opening = threading.RLock()
"""While a guard opens another part, no other thread may read its parts."""
renew_in_children(sys.modules[__name__], "_opening", threading.RLock)


class Seat:
    """One worker."""

    def __init__(self) -> None:
        self._opened: dict[tuple[Runtimes, asyncio.AbstractEventLoop], Runtime] = {}

    def at(self, caller: Callable[[], Awaitable[Any]]) -> Callable[[], Awaitable[Any]]:
        """The same caller, in this worker."""

        async def here() -> Any:
            _SEAT.set(self)
            return await caller()

        return here

    def runtime(self, runtimes: Runtimes) -> Runtime:
        place = (runtimes, asyncio.get_running_loop())
        with _opening:
            runtime = self._opened.get(place)
            if runtime is None:
                runtime = self._opened[place] = runtimes.another()
                _seat_of[runtime] = self
        return runtime

    async def aclose(self) -> None:
        """Waits for running computations first, as when a worker is stopped."""
        # Repeated, because computations may call other guards, for which a new part opens.
        while self._opened:
            parts, self._opened = self._opened, {}
            await asyncio.gather(*(_closed(loop, runtime) for (_, loop), runtime in parts.items()))

    def hurry(self) -> None:
        """Do not wait for running computations: their callers have given up."""
        for runtime in self._opened.values():
            runtime.limits = replace(runtime.limits, drain_timeout=0.0)


async def _closed(loop: asyncio.AbstractEventLoop, runtime: Runtime) -> None:
    if loop is asyncio.get_running_loop():
        await runtime.aclose()
    elif loop is portal_loop():
        await portal().elsewhere(runtime.aclose)
    else:  # a caller created its own
        runtime.abandon()


def _taken() -> Seat | None:
    flight = CURRENT.get()
    if flight is not None:
        return _seat_of.get(flight.runtime)
    return _SEAT.get()


_plain_here = Runtimes.here


def _here(runtimes: Runtimes) -> Runtime:
    seat = _taken()
    if seat is not None:
        return seat.runtime(runtimes)
    with _opening:
        return _plain_here(runtimes)


def _remember(runtimes: Runtimes, current: Runtime | None) -> None:
    vars(runtimes)["current"] = current


_no_current = property(lambda _: None, _remember)
"""The shortest path uses the current runtime, of whatever worker. Without one it asks `here`."""


class _Routing:
    """During a herd, every guard looks up the worker of a call. Otherwise it does not, so a hit costs nothing more."""

    def __init__(self) -> None:
        self._herds = 0
        self._lock = threading.Lock()
        renew_in_children(self, "_lock")
        self._patch = unittest.mock.patch.multiple(Runtimes, here=_here, current=_no_current)

    def __enter__(self) -> None:
        with self._lock:
            if not self._herds:
                self._patch.__enter__()
            self._herds += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._herds -= 1
            if not self._herds:
                self._patch.__exit__(None, None, None)


_routing = _Routing()


@contextlib.asynccontextmanager
async def seats(workers: int) -> AsyncIterator[list[Seat]]:
    """Opens this many workers, which end with the block."""
    with _routing:
        made = [Seat() for _ in range(workers)]
        try:
            yield made
        except BaseException:
            for seat in made:
                seat.hurry()
            raise
        finally:
            await asyncio.gather(*(seat.aclose() for seat in made))
