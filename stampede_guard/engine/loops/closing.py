"""Close one event loop's part of a guard: flights drain, leases and threads are given back, connections close."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stampede_guard.engine.away.pending import PendingInvalidations
    from stampede_guard.engine.flights.flight import Flight
    from stampede_guard.engine.loops.runtime import Runtime
    from stampede_guard.engine.modes.switches import Switches
    from stampede_guard.engine.stats.publishers import Publishers

__all__ = ["Closing"]

RELEASE_SECONDS = 1.0


class Closing:
    """Flights have `drain_timeout` seconds to land. `cut_short` ends this wait at once. The later steps still run."""

    def __init__(
        self,
        runtime: Runtime,
        pending: PendingInvalidations,
        switches: Switches,
        publishers: Publishers,
        *,
        drain_timeout: float,
    ) -> None:
        self._runtime = runtime
        self._pending = pending
        self._switches = switches
        self._publishers = publishers
        self._drain_timeout = drain_timeout
        self._draining: asyncio.Future[None] = runtime.loop.create_future()
        self.task = runtime.loop.create_task(self._close(), name="stampede_guard closing")

    def cut_short(self) -> None:
        self._draining.cancel()

    async def _close(self) -> None:
        runtime = self._runtime
        try:
            flights = list(runtime.flights.values())
            await self._drain(flights)
            left = [flight for flight in flights if not flight.task.done()]
            tasks = [flight.task for flight in left] + list(runtime.fallbacks.values())
            for task in tasks:
                task.cancel()
            if tasks:
                await asyncio.wait(tasks, timeout=RELEASE_SECONDS * 2)
            await self._give_back(left)
            await self._pending.end(self._draining)
        finally:
            runtime.hand_over()
            runtime.herds.close()
            runtime.threads.close()
            await runtime.shadow.aclose()
            await self._switches.aclose()
            await self._publishers.aclose()
            await runtime.session.aclose()
            runtime.l1.flush()

    async def _drain(self, flights: list[Flight]) -> None:
        if flights:
            drained = asyncio.gather(*(flight.landed for flight in flights))
            either: set[asyncio.Future[Any]] = {drained, self._draining}
            await asyncio.wait(either, timeout=self._drain_timeout, return_when=asyncio.FIRST_COMPLETED)

    async def _give_back(self, flights: list[Flight]) -> None:
        """Release all leases at the same time: if the store does not answer, each release takes its whole deadline."""
        session = self._runtime.session
        there = [flight for flight in flights if not session.away_for(flight.name)]
        if not there:
            return
        releases = [session.release(flight.name, flight=flight.id) for flight in there]
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(RELEASE_SECONDS):
                await asyncio.gather(*releases, return_exceptions=True)
