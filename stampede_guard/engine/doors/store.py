"""What this process knows of the store itself."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sized
from typing import TYPE_CHECKING

from stampede_guard.engine.away.health import StoreHealth
from stampede_guard.engine.away.healthcheck import check_health

if TYPE_CHECKING:
    from stampede_guard.engine.loops.event_loops import Runtimes
    from stampede_guard.errors import StoreRefused
    from stampede_guard.stores.protocol import Store

__all__ = ["StoreDoor"]


class StoreDoor:
    """A side door for operators, probes and tests. No call of a function passes it."""

    def __init__(self, runtimes: Runtimes, prefix: str) -> None:
        self._runtimes = runtimes
        self._prefix = prefix

    @property
    def is_shared(self) -> bool:
        """Whether other processes use the same store."""
        return self._runtimes.store.shared

    @property
    def is_empty(self) -> bool:
        """Whether the store is in this process and has no entry. Of other stores, nobody knows that without asking."""
        store = self.servers
        return not store.shared and isinstance(store, Sized) and not len(store)

    @property
    def servers(self) -> Store:
        """The store that an operator asks: without the encryption around it, which only sessions of guards need."""
        store = self._runtimes.store
        return getattr(store, "inner", store)

    def health(self) -> StoreHealth:
        """What this process knows about the store. Sends nothing."""
        return self._runtimes.health.look()

    async def check_health(self) -> StoreHealth:
        """The same after one read from the store."""
        return await check_health(self._runtimes.here(), f"{self._prefix}health")

    async def fresh_for(self, name: str) -> float:
        """Seconds for which the stored value stays fresh; 0 if there is no value. Raises `StoreError`."""
        reading = await self._runtimes.here().session.read(name)
        return 0.0 if reading is None else max(0.0, (reading.remaining_ms - reading.stale_ms) / 1_000)

    def note_refusal(self, error: StoreRefused, step: str) -> None:
        """For `health()`: the store has refused this step."""
        self._runtimes.here().note_refusal(error, step)

    @contextlib.contextmanager
    def replaced_by(self, store: Store) -> Iterator[None]:
        """Within the block, this engine and its tenants use another store. For tests."""
        with self._runtimes.on_store(store):
            yield
