"""Callers of several guards on one store, who go on calling whatever happens, and what is counted about them."""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter

from stampede_guard import StampedeGuard

__all__ = ["Crowd"]

CALLERS = 2
"""Of each key, in each guard."""


class Crowd:
    """`peak`: the most computations at once; `alone`: of one guard, of those that were begun without the store."""

    def __init__(self, guards: list[StampedeGuard], keys: list[str], *, computing: float) -> None:
        self.guards = guards
        self.keys = keys
        self.errors: list[BaseException] = []
        self.calls: Counter[int] = Counter()
        self.peak = 0
        self.alone = 0
        self.of_one_key = 0
        self.computed: Counter[str] = Counter()
        self._computing = computing
        self._numbers = itertools.count(1)
        self._running: Counter[tuple[int, str]] = Counter()
        self._running_alone: Counter[int] = Counter()
        self._stopped = False
        self._tasks = [
            asyncio.create_task(self._stay(number, key))
            for number in range(len(guards))
            for key in keys
            for _ in range(CALLERS)
        ]

    def count_anew(self) -> None:
        """What is counted is what comes from now on."""
        self.calls.clear()
        self.peak = self.alone = self.of_one_key = 0

    async def _stay(self, number: int, key: str) -> None:
        async def compute() -> int:
            return await self._compute(number, key)

        while not self._stopped:
            try:
                await self.guards[number].get_or_compute(key, compute)
            except BaseException as error:
                self.errors.append(error)
                raise
            self.calls[number] += 1
            await asyncio.sleep(0.01)

    async def _compute(self, number: int, key: str) -> int:
        alone = self.guards[number].engine.runtime().session.away
        self._running[number, key] += 1
        self._running_alone[number] += alone
        self.peak = max(self.peak, self._running.total())
        self.alone = max(self.alone, self._running_alone[number])
        self.of_one_key = max(self.of_one_key, self._running[number, key])
        self.computed[key] += 1
        try:
            await asyncio.sleep(self._computing)
        finally:
            self._running[number, key] -= 1
            self._running_alone[number] -= alone
        return next(self._numbers)

    async def stop(self) -> None:
        self._stopped = True
        await asyncio.gather(*self._tasks, return_exceptions=True)
