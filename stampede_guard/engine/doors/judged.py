"""For a face that judges freshness itself, as the HTTP cache does: stored values with their ages."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from stampede_guard.engine import serving
from stampede_guard.engine.l1 import NOTHING
from stampede_guard.engine.putting import PutGrant, put, put_grant, put_under

if TYPE_CHECKING:
    from stampede_guard.core.entry import Reading
    from stampede_guard.engine.loops.event_loops import Runtimes
    from stampede_guard.engine.plan import Plan, Run
    from stampede_guard.engine.previous import Previous
    from stampede_guard.policy import Policy

__all__ = ["JudgedDoor"]

_running = asyncio._get_running_loop


class JudgedDoor:
    """A side door, because `serve` judges by lifetimes alone. A request may refuse fresh values and take stale ones."""

    def __init__(self, runtimes: Runtimes) -> None:
        self._runtimes = runtimes

    def read(self, plan: Plan, name: str) -> Awaitable[tuple[Reading | None, Any]]:
        """The stored value, fresh or stale, or what this process saw last while the store does not serve it.

        The second item is the decoded value. `NOTHING`: there is none, or its bytes cannot be decoded.
        """
        runtime = self._runtimes.current
        if runtime is None or runtime.loop is not _running():
            runtime = self._runtimes.here()
        return serving.read(runtime, plan, name)

    def compute(
        self, plan: Plan, name: str, run: Run, old: Reading | None, *, bypassed: bool
    ) -> Awaitable[Any]:
        """A value newer than `old`, for a caller that cannot use it."""
        runtime = self._runtimes.here()
        if bypassed:
            return serving.serve_bypassed(runtime, plan, name, run)
        return serving.fly(runtime, plan, name, run, old)

    def refresh_behind(self, plan: Plan, name: str, run: Callable[[], Run], old: Reading) -> None:
        """In the background, once fleet-wide, if that is of use now. Only then `run` is made."""
        runtime = self._runtimes.here()
        if not runtime.may_refresh(name, old):
            return
        flight = runtime.take_off(name, plan, run(), (), kind="refresh", newer_than=old.token)
        flight.know(old)

    async def put(
        self, plan: Plan, name: str, value: Any, policy: Policy, *, ahead: PutGrant | None = None
    ) -> bool:
        """Store a value that the face has without a computation. A running computation is newer. Returns whether the
        store keeps the value. `ahead`: from before the value came. Then an invalidation in between counts.
        """
        runtime = self._runtimes.here()
        if ahead is not None:
            return await put_under(runtime, plan, name, value, policy, ahead)
        return await put(runtime, plan, name, value, policy)

    async def put_grant(self, name: str, policy: Policy) -> PutGrant | None:
        """For a value that the face will have later. None: a computation runs, or the store is away."""
        return await put_grant(self._runtimes.here(), name, policy)

    def last_seen(self, name: str) -> Reading | None:
        """The value that this process saw last, as the store would return it now."""
        runtime = self._runtimes.here()
        return runtime.last.aged(name, now=runtime.now())

    @property
    def is_computing(self) -> bool:
        """Whether any flight is under way in this event loop."""
        runtime = self._runtimes.current
        if runtime is None or runtime.loop is not _running():
            runtime = self._runtimes.here()
        return bool(runtime.flights)

    def replaced(self, name: str) -> Previous | Any:
        """What the running flight of this entry replaces, or None. `NOTHING`: there is no flight that all may join."""
        flight = self._runtimes.here().flights.get(name)
        return NOTHING if flight is None or not flight.open_to_all else flight.old

    def is_away(self, name: str) -> bool:
        """Whether nothing is stored under this name at the moment."""
        return self._runtimes.here().away_for(name)

    def now(self) -> float:
        """The clock of ages and pauses."""
        runtime = self._runtimes.current
        if runtime is None or runtime.loop is not _running():
            runtime = self._runtimes.here()
        return runtime.now()
