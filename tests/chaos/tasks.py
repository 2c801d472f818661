"""What a computation of the chaos tests does. Its value is its own name, so a value tells who computed it, and when."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from tests.chaos.journal import Journal

__all__ = ["TaskFailed", "Tasks"]


class TaskFailed(Exception):
    """What a computation of kind `raise` raises."""


class Tasks:
    """The computations of one process. `report(event, **details)` is told when one starts and how it ends.

    `gate` waits until it is opened by name; `sleep`, `block` (the event loop) and `raise` are what they say; `hang`
    ends only by cancellation; `deaf` hangs and ignores that too, until its gate is opened.
    """

    def __init__(self, worker: str, journal: Journal, report: Callable[..., None]) -> None:
        self._worker = worker
        self._journal = journal
        self._report = report
        self._numbers = itertools.count(1)
        self._gates: dict[str, asyncio.Event] = {}

    def make(self, key: str, task: Mapping[str, Any]) -> Callable[[], Awaitable[str]]:
        async def compute() -> str:
            name = f"{self._worker}#{next(self._numbers)}"
            self._note(key, name, "started")
            try:
                await self._carry_out(name, task)
            except asyncio.CancelledError:
                self._note(key, name, "cancelled")
                raise
            except TaskFailed:
                self._note(key, name, "raised")
                raise
            self._note(key, name, "ended")
            return name

        return compute

    def open(self, name: str) -> None:
        self._gate(name).set()

    def _gate(self, name: str) -> asyncio.Event:
        return self._gates.setdefault(name, asyncio.Event())

    def _note(self, key: str, name: str, what: str) -> None:
        self._journal.write(key, name, what)
        self._report(what, key=key, computation=name)

    async def _carry_out(self, name: str, task: Mapping[str, Any]) -> None:
        match task:
            case {"kind": "gate"}:
                await self._gate(name).wait()
            case {"kind": "sleep", "seconds": seconds}:
                await asyncio.sleep(seconds)
            case {"kind": "block", "seconds": seconds}:
                # The report must leave before the loop stands still.
                await asyncio.sleep(0.05)
                time.sleep(seconds)
            case {"kind": "raise"}:
                await asyncio.sleep(0)
                raise TaskFailed(f"{name} failed")
            case {"kind": "hang"}:
                await asyncio.get_running_loop().create_future()
            case {"kind": "deaf"}:
                gate = self._gate(name)
                while not gate.is_set():
                    try:
                        await gate.wait()
                    except asyncio.CancelledError:
                        continue
            case _:
                raise ValueError(f"no such task: {task}")
