"""Names whose invalidation has begun but is not applied yet. Every event loop of a guard must know them.

1. The store is away. 2. A plain function calls `guard.sync.invalidate`. It runs on its own event loop and gets the
answer "pending". 3. A coroutine on the main event loop calls the cached function. It must not get the older value. So
pending names belong to the guard, and not to one of its event loops.

A name is unsettled from the first moment of its invalidation until the store has carried it out. In this time, answers
of the store about this name are not remembered. 1. A read is on its way. 2. `invalidate()` begins. 3. The answer
arrives with the older value. 4. The store goes away, and `invalidate()` returns "pending". If the value had been
remembered, it would be served now.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stampede_guard.engine.threads.locks import PassableLock
from stampede_guard.values.forks import renew_in_children

if TYPE_CHECKING:
    from stampede_guard.engine.loops.invalidating import Invalidating

__all__ = ["Unsettled"]


class Unsettled:
    """Entries and tags by their complete names. All methods may be called from any thread.

    `names`: running and pending invalidations, for reading only. `pending`: the store is not read for these names.
    """

    def __init__(self) -> None:
        self.names: dict[str, int] = {}
        self.pending: dict[str, int] = {}
        self.lock = PassableLock()
        renew_in_children(self, "lock", PassableLock)
        self._runtimes: list[Invalidating] = []

    def enter(self, runtime: Invalidating) -> None:
        """Add an event loop, which is then notified of changes."""
        with self.lock:
            self._runtimes = [*self._runtimes, runtime]

    def leave(self, runtime: Invalidating) -> None:
        with self.lock:
            self._runtimes = [other for other in self._runtimes if other is not runtime]

    def all(self) -> list[Invalidating]:
        """The parts of all event loops."""
        return self._runtimes

    def others(self, runtime: object) -> list[Invalidating]:
        """The parts of other event loops."""
        return [other for other in self._runtimes if other is not runtime]

    def take_ended(self) -> list[Invalidating]:
        """Parts whose event loop was closed without closing the guard. Only one caller gets each of them."""
        if not any(runtime.loop.is_closed() for runtime in self._runtimes):
            return []
        with self.lock:
            runtimes = self._runtimes
            self._runtimes = [runtime for runtime in runtimes if not runtime.loop.is_closed()]
        return [runtime for runtime in runtimes if runtime not in self._runtimes]

    def begin(self, name: str) -> None:
        with self.lock:
            self.names[name] = self.names.get(name, 0) + 1

    def end(self, name: str) -> None:
        with self.lock:
            _less(self.names, name)

    def wait(self, name: str) -> None:
        """It is pending now, for all event loops. Called before its caller gets the answer."""
        with self.lock:
            self.begin(name)
            self.pending[name] = self.pending.get(name, 0) + 1
            for runtime in self._runtimes:
                runtime.away = True

    def settle(self, name: str) -> None:
        """It was applied or given up."""
        with self.lock:
            self.end(name)
            _less(self.pending, name)
            for runtime in self._runtimes:
                runtime.note_whether_away()


def _less(counts: dict[str, int], name: str) -> None:
    left = counts.get(name, 0) - 1
    if left > 0:
        counts[name] = left
    else:
        counts.pop(name, None)
