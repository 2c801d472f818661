"""Combines acquirers that give up at the same time into one statement. So a burst of cancellations delays no acquirer.

Requests that arrive while a statement runs wait for the next statement, which contains all of them. So at most one
connection is in use. While the database is away, all requests fail after one time-out, not after one each.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from stampede_guard.errors import StoreError, StoreUnavailable
from stampede_guard.leases.postgres.connections import NotNow

__all__ = ["AT_ONCE", "Leave", "Leaving"]

AT_ONCE = 200
"""Acquirers in one statement."""


@dataclass(eq=False, slots=True)
class Leave:
    name: str
    holder: str
    timeout: float
    done: asyncio.Future[None]


class Leaving:
    """`leave_all(leaves, timeout)` gives up these places, and leases that were granted to them, in one step."""

    def __init__(self, leave_all: Callable[[Sequence[Leave], float], Awaitable[None]]) -> None:
        self._leave_all = leave_all
        self._waiting: list[Leave] = []
        self._work: asyncio.Task[None] | None = None

    async def leave(self, name: str, holder: str, timeout: float) -> None:
        """Give up one place. `timeout`: seconds for the combined statement. Raises `StoreError`."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[None] = loop.create_future()
        self._waiting.append(Leave(name, holder, timeout, done))
        if self._work is None or self._work.done() or self._work.get_loop() is not loop:
            self._work = loop.create_task(self._run(), name="stampede_guard gives up places")
        await done

    async def _run(self) -> None:
        while self._waiting:
            leaves, self._waiting = self._waiting[:AT_ONCE], self._waiting[AT_ONCE:]
            error = await self._tried(leaves)
            if isinstance(error, NotNow) and len(leaves) > 1:
                # A fenced transaction may have locked one row. Try the others one by one, so that they do not fail.
                for leave in leaves:
                    _settle(leave, await self._tried([leave]))
                continue
            if isinstance(error, StoreUnavailable) and not isinstance(error, NotNow):
                # The database does not answer. Fail all waiting requests now; otherwise each would add a time-out.
                leaves, self._waiting = [*leaves, *self._waiting], []
            for leave in leaves:
                _settle(leave, error)

    async def _tried(self, leaves: list[Leave]) -> StoreError | None:
        # Sorted by name, so that all processes lock rows in the same order.
        ordered = sorted(leaves, key=lambda leave: (leave.name, leave.holder))
        try:
            await self._leave_all(ordered, max(leave.timeout for leave in leaves))
        except StoreError as error:
            return error
        except Exception as error:
            return StoreUnavailable(f"unexpected error in stampede_guard: {error!r}")
        return None

    async def aclose(self) -> None:
        """Send the waiting requests first; each statement has a time-out."""
        if self._work is not None and not self._work.done():
            await asyncio.wait({self._work})


def _settle(leave: Leave, error: StoreError | None) -> None:
    if leave.done.done():
        return
    if error is None:
        leave.done.set_result(None)
    else:
        leave.done.set_exception(error)
