"""Callers that ask for tagged entries without a pause, while one process changes the data and invalidates the tag.

Two numbers in a file that all processes share: `truth` is what a computation reads; `settled` is the truth of the last
invalidation that has returned. A caller notes `settled`, then asks: what it is given must not be smaller.
"""

from __future__ import annotations

import asyncio
import mmap
import os
import random
from pathlib import Path

from stampede_guard.api.guard import StampedeGuard
from tests.chaos.journal import Journal

__all__ = ["Hammer", "Numbers"]

TAG = "project:7"
TRUTH, SETTLED = 0, 8


class Numbers:
    """Eight aligned bytes are written and read at once on every machine that the tests run on."""

    def __init__(self, path: Path) -> None:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT)
        os.ftruncate(descriptor, 16)
        self._words = memoryview(mmap.mmap(descriptor, 16)).cast("Q")
        os.close(descriptor)

    def get(self, which: int) -> int:
        return int(self._words[which // 8])

    def set(self, which: int, number: int) -> None:
        self._words[which // 8] = number


class Hammer:
    """`served` counts calls of this process. Every call and computation has a line in the journal."""

    def __init__(self, worker: str, guard: StampedeGuard, journal: Journal) -> None:
        self.served = 0
        self._worker = worker
        self._guard = guard
        self._journal = journal
        self._numbers = Numbers(journal.path.with_name("numbers"))
        self._stopped = asyncio.Event()
        self._begun = 0
        self._progress = asyncio.Event()

    def stop(self) -> None:
        self._stopped.set()

    async def run(self, keys: list[str], callers: int) -> None:
        await asyncio.gather(*(self._ask(keys[number % len(keys)]) for number in range(callers)))

    async def _ask(self, key: str) -> None:
        async def compute() -> int:
            seen = self._numbers.get(TRUTH)
            self._journal.write(key, f"{self._worker}@{seen}", "started")
            self._begun += 1
            self._progress.set()
            await asyncio.sleep(random.random() * 0.02)
            return seen

        while not self._stopped.is_set():
            # So that some come while a computation is under way.
            await asyncio.sleep(random.random() * 0.02)
            need = self._numbers.get(SETTLED)
            value = await self._guard.get_or_compute(key, compute, tags=(TAG, "all"))
            self._journal.write(key, f"{need} {value}", "served")
            self.served += 1
            self._progress.set()

    async def invalidate(self, times: int) -> int:
        """Change the data and invalidate, again and again. How often it took."""
        tries = 0
        for number in range(1, times + 1):
            self._numbers.set(TRUTH, number)
            tries += 1
            while await self._guard.invalidate_tag(TAG) != "done":
                tries += 1
            self._numbers.set(SETTLED, number)
            # In the middle of a computation, if there is one before so many calls are answered.
            until, begun = self.served + random.choice((1, 30)), self._begun
            while self.served < until and self._begun == begun:
                self._progress.clear()
                await self._progress.wait()
        return tries
