"""The block form: one caller fleet-wide computes within an `async with` block, all others find the value."""

from __future__ import annotations

import asyncio
import contextlib
from contextvars import Token
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from stampede_guard.computation import CURRENT
from stampede_guard.ending import contained, ended, outcome_of, retrieve
from stampede_guard.errorcopies import copy_of
from stampede_guard.errors import Misuse
from stampede_guard.oldvalue import Previous, previous
from stampede_guard.tagged import tagged

if TYPE_CHECKING:
    from stampede_guard.flight import Flight
    from stampede_guard.guard import StampedeGuard
    from stampede_guard.plan import Plan

__all__ = ["Single"]


class Single:
    """`missing` says whether this caller is the one; then it calls `set` once. Otherwise `value` is there.

    `previous` is what the new value is to replace, None if there is nothing: `set(UNCHANGED)` keeps it.
    """

    def __init__(self, guard: StampedeGuard, plan: Plan, key: str, tags: tuple[str, ...] = ()) -> None:
        self.missing = False
        self.previous: Previous | None = None
        self._guard = guard
        self._plan = plan
        self._key = key
        self._tags = tags
        self._given: asyncio.Future[Any] | None = None
        self._call: asyncio.Task[Any] | None = None
        self._flight: Flight | None = None
        self._outside: Token[Flight | None] | None = None
        self._value: Any = None
        self._has_value = False
        self._over = False

    @property
    def value(self) -> Any:
        """Raises `Misuse` while it is missing."""
        if not self._has_value and self._over:
            raise Misuse("there is no entry.value: the block ended without `await entry.set(...)`")
        if not self._has_value:
            raise Misuse(
                "entry.value is not there yet: entry.missing is True, so compute and `await entry.set(...)`"
            )
        return self._value

    async def set(self, value: Any) -> Any:
        """Store the value and serve it to all who wait. Returns it as all others get it.

        Raises `UnsupportedValue`, `ComputeTimeout` when the block took longer than `compute_timeout`, and `Misuse` when
        it is not this caller's turn, or the block is over.
        """
        if self._over and not self._has_value:
            raise Misuse("entry.set() is for the block of `async with`, and that is over")
        if not self.missing or self._given is None or self._call is None:
            raise Misuse("entry.set() is for the one caller that finds entry.missing, once")
        self.missing = False
        if not self._given.done():
            self._given.set_result(value)
        await asyncio.shield(self._call)
        self._value = outcome_of(self._call)
        self._has_value = True
        return self._value

    async def __aenter__(self) -> Self:
        if self._call is not None:
            raise Misuse("guard.single(...) is for one `async with`: call it again for the next")
        loop = asyncio.get_running_loop()
        turn: asyncio.Future[None] = loop.create_future()

        async def compute() -> Any:
            # Run by a flight, maybe more than once if a grant was lost in between; the block computes once.
            if self._given is None:
                self._given = loop.create_future()
            self._flight = CURRENT.get()
            self.previous = previous()
            if not turn.done():
                turn.set_result(None)
            return await asyncio.shield(self._given)

        async def call() -> Any:
            return await self._guard.call(self._plan, self._key, tagged(compute, self._tags))

        self._call = loop.create_task(contained(call), name="stampede_guard single")
        # Raised by `set`, or nobody's any more: the block overran its time, or its caller was cancelled.
        self._call.add_done_callback(retrieve)
        try:
            await asyncio.wait({turn, self._call}, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            await self._withdraw()
            raise
        if self._call.done():
            self._value = outcome_of(self._call)
            self._has_value = True
        else:
            self.missing = True
            # The block is the computation: calls of the same entry within it are an error and not a deadlock.
            self._outside = CURRENT.set(self._flight)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        self._over = True
        if self._outside is not None:
            with contextlib.suppress(ValueError):  # left in another context than it was entered in
                CURRENT.reset(self._outside)
        if self._call is None or self._given is None:
            return
        if not self._given.done() and not self._call.done():
            # StopIteration cannot be put into a future; like what stops the process, it is nobody else's.
            if not isinstance(error, Exception) or isinstance(error, StopIteration):
                await self._withdraw()
                return
            # Its own goes on from this block, and is changed on its way.
            self._given.set_exception(copy_of(error) or error)
            self._given.exception()
        await asyncio.wait({self._call})

    async def _withdraw(self) -> None:
        """Leave without a value: the next caller takes over."""
        if self._call is None:
            return
        self._call.cancel()
        # Not awaited itself: its cancellation could not be told from one of this caller's own.
        await ended(self._call)
