"""Several event loops of one process in one virtual time: one step of one of them at a time, drawn by the seed.

They are run by one thread, so a step is never interrupted: what two threads do within a step is for
`tests/engine/fuzz/threads.py`.
"""

from __future__ import annotations

import threading
from asyncio import events
from collections.abc import Coroutine
from random import Random
from typing import Any

from tests.leases.simulation.loop import MOST_TURNS, Stuck, VirtualLoop

__all__ = ["Loops"]


class _Loop(VirtualLoop):
    """Its clock is moved by `Loops`, and never by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.virtual.select = lambda timeout=None: []  # type: ignore[method-assign]

    @property
    def next_at(self) -> float | None:
        """When it has something to do. None: nothing, until another loop tells it something."""
        if self._ready:  # type: ignore[attr-defined]
            return self.virtual.now
        scheduled = self._scheduled  # type: ignore[attr-defined]
        return max(scheduled[0].when(), self.virtual.now) if scheduled else None

    def step(self) -> None:
        events._set_running_loop(self)
        try:
            self._run_once()  # type: ignore[attr-defined]
        finally:
            events._set_running_loop(None)


class Loops:
    def __init__(self, count: int, seed: int) -> None:
        self.all = [_Loop() for _ in range(count)]
        self._chance = Random(f"{seed} loops")

    def run(self, main: Coroutine[Any, Any, None]) -> None:
        """Until the coroutine has ended, in the first loop."""
        for loop in self.all:
            # Each of them counts as running: its thread stands still between two steps.
            loop._thread_id = threading.get_ident()  # type: ignore[attr-defined]
        task, turns = self.all[0].create_task(main), 0
        while not task.done():
            now = self.all[0].time()
            moments = [(moment, loop) for loop in self.all if (moment := loop.next_at) is not None]
            if not moments:
                raise Stuck
            first = min(moment for moment, _ in moments)
            turns = turns + 1 if first <= now else 0
            if turns > MOST_TURNS:
                raise Stuck
            for loop in self.all:
                loop.virtual.now = max(now, first)
            self._chance.choice([loop for moment, loop in moments if moment <= first]).step()
        task.result()

    def close(self) -> None:
        for loop in self.all:
            loop._thread_id = None  # type: ignore[attr-defined]
            loop.close()
