"""A holder's environment besides the back end: clock, timers, random numbers, new names. Simulations replace it."""

from __future__ import annotations

import asyncio
import functools
import random
import sys
import time
import uuid
from collections.abc import Callable
from typing import Protocol

from stampede_guard.values.forks import in_children

__all__ = ["SystemWorld", "World", "generation"]

LONGEST_TIMER = 1.0
"""Seconds. The event loop's clock stops while the machine sleeps, so timers compare with our clock this often."""


class World(Protocol):
    def now(self) -> float:
        """Seconds on a monotonic clock that also runs while the machine sleeps."""

    def later(self, seconds: float, call: Callable[[], object]) -> Callable[[], object]:
        """Call `call()` in the event loop after at least `seconds`. The returned function cancels this."""

    def draw(self) -> float:
        """A random number from 0 to 1."""

    def fresh(self) -> str:
        """A globally unique name."""


class SystemWorld:
    """The real world, for the running event loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()

    def now(self) -> float:
        return _clock()

    def later(self, seconds: float, call: Callable[[], object]) -> Callable[[], object]:
        return _Timer(self._loop, self.now() + seconds, call).cancel

    def draw(self) -> float:
        return random.random()

    def fresh(self) -> str:
        return str(uuid.uuid4())


class _Timer:
    """`due`: a time on our clock. The timer checks that clock at least every `LONGEST_TIMER` seconds."""

    def __init__(self, loop: asyncio.AbstractEventLoop, due: float, call: Callable[[], object]) -> None:
        self._loop, self._due, self._call = loop, due, call
        self._wait()

    def cancel(self) -> None:
        self._handle.cancel()

    def _wait(self) -> None:
        left = self._due - _clock()
        self._handle = self._loop.call_later(min(max(0.0, left), LONGEST_TIMER), self._look)

    def _look(self) -> None:
        if _clock() >= self._due:
            self._call()
        else:
            self._wait()


def _going_on() -> Callable[[], float]:
    """A clock that runs while a laptop or a virtual machine is suspended, as the back end's clock does."""
    if hasattr(time, "CLOCK_BOOTTIME"):
        return functools.partial(time.clock_gettime, time.CLOCK_BOOTTIME)
    if sys.platform == "darwin":
        # On macOS CLOCK_MONOTONIC runs during sleep (clock_gettime(3)). The clock of `time.monotonic` stops.
        return functools.partial(time.clock_gettime, time.CLOCK_MONOTONIC)
    return time.monotonic


_clock = _going_on()

_generation = 0


def generation() -> int:
    """A number that differs in a forked child: the child does not hold its parent's leases."""
    return _generation


@in_children
def _after_fork() -> None:
    global _generation
    _generation += 1
