"""`async with leases.hold(...)`: the body runs while the lease is held, and is cancelled before the lease ends.

Our cancellation is distinguished from others as in `asyncio.timeout`: a cancel() by other code raises CancelledError.
"""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import TYPE_CHECKING

from stampede_guard.engine.threads.portal import portal
from stampede_guard.errors import LeaseLost, LeaseTaken, Misuse, StoreError
from stampede_guard.leases.core.holding import Lost, Released
from stampede_guard.leases.core.timing import Timing
from stampede_guard.leases.keeping import reporting
from stampede_guard.leases.keeping.acquire import Acquisition
from stampede_guard.leases.keeping.keeper import Keeper
from stampede_guard.leases.keeping.loop_state import LoopState
from stampede_guard.leases.lease import Lease, PlainLease
from stampede_guard.leases.messages import Owner

if TYPE_CHECKING:
    from stampede_guard.leases.client import Leases

__all__ = ["Hold", "acquired", "given_back"]


async def acquired(
    part: LoopState,
    name: str,
    owner: Owner,
    timing: Timing,
    *,
    wait: float,
    handed_over: bool = False,
    title: str = reporting.HOLD,
) -> Keeper:
    """Acquire the lease, and log and report the result. Raises `LeaseTaken` or `StoreError`."""
    asked_at = part.world.now()
    attempt = Acquisition(part, name, owner, timing, handed_over=handed_over, title=title)
    try:
        state = await attempt.granted(wait=wait)
    except (LeaseTaken, StoreError) as error:
        reporting.skipped(part, name, title, error, part.world.now() - asked_at)
        raise
    keeper = Keeper(attempt, state)
    reporting.won(keeper, part.world.now() - asked_at)
    return keeper


async def given_back(keeper: Keeper, *, at_least_for: float = 0.0, to: str = "") -> Released | Lost:
    """Release the lease, log and report the outcome, and return it.

    If the caller is cancelled, the release continues in the background, at most for the request's time-out.
    """
    part = keeper.part

    async def give_back() -> Released | Lost:
        outcome = await keeper.release(at_least_for=at_least_for, to=to)
        reporting.ended(keeper, outcome, part.world.now() - keeper.won_at)
        return outcome

    return await part.carry_out(give_back(), name=f"gives back {keeper.name}")


class Hold:
    """Made by `Leases.hold`, for one `with` or `async with`. `handed_over`: see `words.Ask`."""

    def __init__(
        self,
        client: Leases,
        name: str,
        timing: Timing,
        *,
        wait: float,
        at_least_for: float,
        handed_over: bool = False,
        title: str = reporting.HOLD,
    ) -> None:
        self._handed_over = handed_over
        self._title = title
        self._client = client
        self._name = name
        self._timing = timing
        self._wait = wait
        self._at_least_for = at_least_for
        self._used = False
        self._keeper: Keeper | None = None
        self._task: asyncio.Task[object] | None = None
        self._cancelling = 0
        self._told = False

    async def __aenter__(self) -> Lease:
        keeper = await self._acquired()
        self._task = asyncio.current_task()
        if self._task is None:
            raise Misuse("leases.hold() needs a task to cancel: call it from a coroutine that runs in one")
        self._cancelling = self._task.cancelling()
        keeper.stopping.then(self._tell_body)
        return Lease(keeper)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        keeper, task = self._keeper, self._task
        assert keeper is not None and task is not None
        # From here on the keeper cannot cancel this task.
        self._task = None
        ours = self._told and task.uncancel() <= self._cancelling and kind is asyncio.CancelledError
        outcome = await given_back(keeper, at_least_for=self._at_least_for)
        self._judge(outcome, keeper, error, stopped=ours)

    def _tell_body(self) -> None:
        task = self._task
        if task is None:
            return
        if asyncio.current_task() is task:
            # The body itself runs now, inside `check()`. It may leave the block next; then no cancel is needed.
            asyncio.get_running_loop().call_soon(self._cancel_body)
        else:
            self._cancel_body()

    def _cancel_body(self) -> None:
        if self._task is not None:
            self._told = True
            self._task.cancel()

    async def _acquired(self) -> Keeper:
        if self._used:
            raise Misuse(f"this hold of {self._name!r} was already used: call leases.hold() for each block")
        # Set before the grant. Otherwise a second caller could enter during the wait and overwrite `_keeper`.
        self._used = True
        try:
            part = self._client.part()
            self._keeper = await acquired(
                part,
                self._name,
                part.owner,
                self._timing,
                wait=self._wait,
                handed_over=self._handed_over,
                title=self._title,
            )
        except BaseException:
            self._used = False
            raise
        return self._keeper

    def _judge(
        self, outcome: Released | Lost, keeper: Keeper, error: BaseException | None, *, stopped: bool
    ) -> None:
        """Raises `LeaseLost` if the body was stopped, or if it ended without an error after the lease was lost.

        An exception of the body itself is not replaced.
        """
        if stopped or (error is None and isinstance(outcome, Lost)):
            why = keeper.stopping.why or outcome.why
            raise LeaseLost(keeper.name, token=keeper.token, why=why) from error

    # --- for code without an event loop

    def __enter__(self) -> PlainLease:
        if asyncio._get_running_loop() is not None:
            raise Misuse(
                "`with` would block the event loop of this thread: write `async with leases.hold(...)`"
            )
        ours: list[Keeper] = []

        async def acquire() -> Keeper:
            ours.append(await self._acquired())
            return ours[0]

        try:
            return PlainLease(portal().call(acquire))
        except BaseException:
            # Interrupted just after the grant: Python will not call `__exit__`.
            for keeper in ours:
                portal().call(given_back, keeper)
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        keeper = self._keeper
        assert keeper is not None
        outcome = portal().call(given_back, keeper, at_least_for=self._at_least_for)
        self._judge(outcome, keeper, error, stopped=False)
