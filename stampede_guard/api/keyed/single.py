"""The block form: one caller fleet-wide computes in an `async with` block, and all others find the value."""

from __future__ import annotations

import asyncio
import contextlib
from contextvars import Token
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, cast

from stampede_guard.api.results import CallInfo, info
from stampede_guard.engine.engine import CURRENT, Told, tagged
from stampede_guard.engine.previous import Previous, previous
from stampede_guard.engine.tasks import contained, ended, outcome_of, retrieve, running_loop
from stampede_guard.errors import Misuse
from stampede_guard.values.errorcopies import copy_of

if TYPE_CHECKING:
    from stampede_guard.engine.engine import Engine
    from stampede_guard.engine.plan import Plan

__all__ = ["Single"]

T = TypeVar("T")


class Single(Generic[T]):
    """One caller finds that `missing` is True: it computes, and calls `set` once. All others find `value`.

    The new value replaces `previous`, which may be None. To keep that value, call `set(UNCHANGED)`. `flight` is the one
    that this block computes for.
    """

    def __init__(self, engine: Engine, plan: Plan, name: str, tags: tuple[str, ...] = ()) -> None:
        self.missing = False
        self.previous: Previous | None = None
        self._engine = engine
        self._plan = plan
        self._name = name
        self._tags = tags
        self._told = Told()
        self._given: asyncio.Future[Any] | None = None
        self._call: asyncio.Task[Any] | None = None
        self.flight: Any = None
        self._outside: Token[Any] | None = None
        self._value: Any = None
        self._has_value = False
        self._over = False

    @property
    def value(self) -> T:
        """The value of the entry. Raises `Misuse` while it is missing."""
        if not self._has_value and self._over:
            raise Misuse("there is no entry.value: the block ended without `await entry.set(...)`")
        if not self._has_value:
            raise Misuse(
                "entry.value is not there yet: entry.missing is True, so compute and `await entry.set(...)`"
            )
        return cast("T", self._value)

    @property
    def info(self) -> CallInfo[T]:
        """The value, where it came from, and its age. Raises `Misuse` while the value is missing."""
        return info(self.value, self._told)

    async def set(self, value: T) -> T:
        """Store the value and serve it to all waiting callers. Returns it as they get it.

        Raises `UnsupportedValue` if the policy is strict, and `ComputeTimeout` if the block took longer than
        `compute_timeout`. Raises `Misuse` if it is not this caller's turn, or if the block has ended.
        """
        if self._over and not self._has_value:
            raise Misuse("entry.set() works only inside its `async with` block, which has ended")
        if not self.missing or self._given is None or self._call is None:
            raise Misuse("only the caller that finds entry.missing may call entry.set(), and only once")
        self.missing = False
        if not self._given.done():
            self._given.set_result(value)
        await asyncio.shield(self._call)
        self._value = outcome_of(self._call)
        self._has_value = True
        return cast("T", self._value)

    async def __aenter__(self) -> Self:
        if self._call is not None:
            raise Misuse("guard.single(...) is for one `async with`: call it again for the next")
        loop = running_loop()
        turn: asyncio.Future[None] = loop.create_future()

        async def compute() -> Any:
            # A flight may run this more than once, if it loses a grant. The block still computes only once.
            if self._given is None:
                self._given = loop.create_future()
            self.flight = CURRENT.get()
            self.previous = previous()
            if not turn.done():
                turn.set_result(None)
            return await asyncio.shield(self._given)

        async def call() -> Any:
            return await self._engine.serve(self._plan, self._name, tagged(compute, self._tags, self._told))

        self._call = loop.create_task(contained(call), name="stampede_guard single")
        # `set` raises the task's error. No code does after the block overran its time, or its caller was cancelled.
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
            # The block is the computation: a call of the same entry inside it is an error, not a deadlock.
            self._outside = CURRENT.set(self.flight)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        self._over = True
        if self._outside is not None:
            with contextlib.suppress(ValueError):  # the block ends in another context than it began in
                CURRENT.reset(self._outside)
        if self._call is None or self._given is None:
            return
        if not self._given.done() and not self._call.done():
            # A future cannot hold StopIteration. An exception that stops the process is not for other callers.
            if not isinstance(error, Exception) or isinstance(error, StopIteration):
                await self._withdraw()
                return
            # Others get a copy: this caller's own exception leaves the block, and changes on the way.
            self._given.set_exception(copy_of(error) or error)
            self._given.exception()
        await asyncio.wait({self._call})

    async def _withdraw(self) -> None:
        """Leave without a value: the next caller takes over."""
        if self._call is None:
            return
        self._call.cancel()
        # Do not await the task itself: its cancellation would look like a cancellation of this caller.
        await ended(self._call)
