"""Guards in memory: one that replaces the default guard, and a memory store under every other guard."""

from __future__ import annotations

import contextlib
import os
import time
import unittest.mock
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from stampede_guard.api import defaults
from stampede_guard.api.environment import policy_variables
from stampede_guard.api.guard import StampedeGuard
from stampede_guard.engine.loops.event_loops import RUNTIMES, Runtimes
from stampede_guard.engine.modes.modes import MODE_VARIABLE
from stampede_guard.policy import Policy
from stampede_guard.stores.memory import MemoryStore
from stampede_guard.testing.clock import FakeClock

__all__ = ["default_guard_in_memory"]


@contextlib.contextmanager
def default_guard_in_memory(clock: FakeClock) -> Iterator[StampedeGuard]:
    """Strict. Ignores the environment's modes and policy: a test with this guard wants to see it cache.

    Every other guard gets an empty memory store, too, also one that is made within the block.
    """
    before = defaults._default
    with unittest.mock.patch.dict(os.environ):
        policy = set(policy_variables().values())
        for variable in [name for name in os.environ if name.startswith(MODE_VARIABLE) or name in policy]:
            del os.environ[variable]
        # A test must see that its results are not cached.
        guard = StampedeGuard(MemoryStore(clock=clock), namespace="test", policy=Policy(strict=True))
    with _every_guard_in_memory(clock):
        defaults.configure(guard)
        try:
            yield guard
        finally:
            defaults.configure(before)
            guard.close()


@contextlib.contextmanager
def _every_guard_in_memory(clock: FakeClock) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        covering = _Covering(clock, stack)
        make = Runtimes.__init__

        def made_later(runtimes: Runtimes, *args: Any, **kwargs: Any) -> None:
            make(runtimes, *args, **kwargs)
            covering.cover(runtimes)

        for runtimes in list(RUNTIMES):
            covering.cover(runtimes)
        stack.enter_context(unittest.mock.patch.object(Runtimes, "__init__", made_later))
        yield


class _Covering:
    """Guards of one server share a memory store, as they share the server."""

    def __init__(self, clock: FakeClock, stack: contextlib.ExitStack) -> None:
        self._clock = clock
        self._stack = stack
        self._stores: dict[object, MemoryStore] = {}

    def cover(self, runtimes: Runtimes) -> None:
        store = runtimes.store
        # A store with another clock, or with faults, was made for a test.
        if not store.shared and not (isinstance(store, MemoryStore) and store.clock is time.monotonic):
            return
        place = getattr(store, "place", "") or store
        memory = self._stores.setdefault(place, MemoryStore(clock=self._clock))
        self._stack.enter_context(runtimes.on_store(memory))
        self._stack.enter_context(_own_modes(runtimes))


@contextlib.contextmanager
def _own_modes(runtimes: Runtimes) -> Iterator[None]:
    """The modes that the program sets, without those of the environment and of the fleet."""
    modes = runtimes._modes
    before = modes.said
    modes.said = replace(before, environment={}, fleet={})
    try:
        yield
    finally:
        modes.said = replace(modes.said, environment=before.environment, fleet=before.fleet)
