"""Many acquirers that give up at once are one statement: a storm of cancellations must not hold up who asks.

What comes while a statement is under way waits for the next one, which takes all of it. So there is never more than one
connection at it, and with the database away all who wait learn that by one time-out and not by one each.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from stampede_guard.errors import StoreError, StoreUnavailable
from stampede_guard.leases.postgres.rooms import NotNow

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
    """`leave_all(leaves, timeout)` gives up these places, and what was granted for them, in one step."""

    def __init__(self, leave_all: Callable[[Sequence[Leave], float], Awaitable[None]]) -> None:
        self._leave_all = leave_all
        self._waiting: list[Leave] = []
        self._work: asyncio.Task[None] | None = None

    async def leave(self, name: str, holder: str, timeout: float) -> None:
        """Raises `StoreError`. `timeout`: seconds for the statement that it becomes part of."""
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
                # One row may be locked by a fenced transaction: the others are not to lose their turn for it.
                for leave in leaves:
                    _settle(leave, await self._tried([leave]))
                continue
            if isinstance(error, StoreUnavailable) and not isinstance(error, NotNow):
                # The database is silent: it would be so to all who wait, one time-out after the other.
                leaves, self._waiting = [*leaves, *self._waiting], []
            for leave in leaves:
                _settle(leave, error)

    async def _tried(self, leaves: list[Leave]) -> StoreError | None:
        # By name: two processes lock the same rows in the same order.
        ordered = sorted(leaves, key=lambda leave: (leave.name, leave.holder))
        try:
            await self._leave_all(ordered, max(leave.timeout for leave in leaves))
        except StoreError as error:
            return error
        except Exception as error:
            return StoreUnavailable(f"a mistake of ours: {error!r}")
        return None

    async def aclose(self) -> None:
        """What waits is sent first; each statement has a time-out."""
        if self._work is not None and not self._work.done():
            await asyncio.wait({self._work})


def _settle(leave: Leave, error: StoreError | None) -> None:
    if leave.done.done():
        return
    if error is None:
        leave.done.set_result(None)
    else:
        leave.done.set_exception(error)
