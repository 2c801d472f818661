"""Processes of the simulation: each with a clock of its own, which can stand still, be killed, be cut off."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random

from tests.leases.simulation.loop import VirtualLoop

__all__ = ["Node"]


class Node:
    """A `World`. `rate`: of its monotonic clock against the store's. `wall_step`: what its wall clock was set by.

    `cut`: its requests are lost. `deaf`: the answers are. While it is paused nothing of it runs; what should have
    run meanwhile runs at its end, in no particular order.
    """

    def __init__(self, loop: VirtualLoop, name: str, chance: Random, *, rate: float) -> None:
        self.loop = loop
        self.name = name
        self.rate = rate
        self.chance = chance
        self.wall_step = 0.0
        self.paused = False
        self.dead = False
        self.cut = False
        self.deaf = False
        self.resumed_at = 0.0
        self._offset = chance.uniform(0, 1e6)
        self._backlog: list[Callable[[], object]] = []
        self._fresh = 0

    # --- World

    def now(self) -> float:
        return self._offset + self.rate * self.loop.time()

    def later(self, seconds: float, call: Callable[[], object]) -> Callable[[], object]:
        taken_back = False

        def fire() -> None:
            if not taken_back:
                call()

        def take_back() -> None:
            nonlocal taken_back
            taken_back = True
            handle.cancel()

        handle = self.loop.call_later(max(0.0, seconds) / self.rate, lambda: self.gate(fire))
        return take_back

    def draw(self) -> float:
        return self.chance.random()

    def fresh(self) -> str:
        self._fresh += 1
        return f"{self.name}#{self._fresh}"

    # --- what happens to it

    def gate(self, call: Callable[[], object]) -> None:
        """Whatever reaches the process from outside goes through here."""
        if self.dead:
            return
        if self.paused:
            self._backlog.append(call)
        else:
            call()

    def pause(self) -> None:
        self.paused = True

    def resume(self) -> None:
        self.paused = False
        self.resumed_at = self.loop.time()
        backlog, self._backlog = self._backlog, []
        self.chance.shuffle(backlog)
        for call in backlog:
            self.gate(call)

    def kill(self) -> None:
        self.dead = True

    def virtual(self, own: float) -> float:
        """A time on its own clock, in the time of the simulation."""
        return (own - self._offset) / self.rate

    async def sleep(self, seconds: float) -> None:
        future: asyncio.Future[None] = self.loop.create_future()
        cancel = self.later(seconds, lambda: None if future.done() else future.set_result(None))
        try:
            await future
        finally:
            cancel()
