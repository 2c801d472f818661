"""Where one peer is measured: a server and a fleet, both renewed after whatever a scenario has done to them."""

from __future__ import annotations

import itertools
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Self

from bench.herd.valkey import ValkeyServer
from bench.peers.adapters import ADAPTERS
from bench.peers.fleet import Fleet
from bench.peers.outcome import Outcome
from bench.peers.plan import Sizes

__all__ = ["Stage"]

_WARM_UP = 0.02


class Stage:
    """Of one adapter. A fleet is shared by scenarios until one of its processes or callers is lost."""

    def __init__(self, adapter: str, sizes: Sizes) -> None:
        self.adapter = adapter
        self.sizes = sizes
        self.server = ValkeyServer()
        self._fleet: Fleet | None = None
        self._directory = tempfile.TemporaryDirectory(prefix="peers-")
        self._numbers = itertools.count()

    async def __aenter__(self) -> Self:
        self.server.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.drop_fleet()
        self.server.close()
        self._directory.cleanup()

    def key(self) -> str:
        """A key that was never called."""
        return f"report-{next(self._numbers)}"

    async def fleet(self) -> Fleet:
        """All processes, connected as widely as a herd makes them. Raises `PeerFailed`."""
        if self._fleet is not None and self._fleet.healthy:
            return self._fleet
        await self.drop_fleet()
        self._fleet = await self._start(self.adapter, self.sizes.processes)
        await self._fleet.stampede(
            self.key(), seconds=_WARM_UP, callers=self.sizes.callers, patience=self.sizes.patience
        )
        self._fleet.healthy = True
        return self._fleet

    async def lone_worker(self) -> Fleet:
        """One process, of the adapter that stands in for this one where hits are timed. The caller stops it."""
        return await self._start(ADAPTERS[self.adapter].about.hits_by or self.adapter, 1)

    async def stampede(self, key: str, *, seconds: float, raises: bool = False) -> Outcome:
        fleet = await self.fleet()
        return await fleet.stampede(
            key, seconds=seconds, raises=raises, callers=self.sizes.callers, patience=self.sizes.patience
        )

    async def drop_fleet(self) -> None:
        if self._fleet is not None:
            await self._fleet.stop()
            self._fleet = None

    async def renew(self) -> None:
        """Another server and, with the next scenario, another fleet."""
        await self.drop_fleet()
        self.server.close()
        self.server = ValkeyServer()
        self.server.start()

    async def _start(self, adapter: str, processes: int) -> Fleet:
        directory = Path(self._directory.name) / str(next(self._numbers))
        directory.mkdir()
        fleet = Fleet(adapter, self.server.url, directory)
        try:
            await fleet.start(processes)
        except BaseException:
            await fleet.stop()
            raise
        return fleet
