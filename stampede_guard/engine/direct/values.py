"""What a face may do with stored values without a call: read, look, set and invalidate."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any

from stampede_guard.engine import serving
from stampede_guard.engine.direct.invalidating import Invalidation, outdate_entry, outdate_tag
from stampede_guard.engine.direct.peeking import peek
from stampede_guard.engine.direct.setting import Stored, encoded, set_value
from stampede_guard.engine.l1 import NOTHING
from stampede_guard.engine.loops.event_loops import Runtimes
from stampede_guard.engine.putting import put

if TYPE_CHECKING:
    from stampede_guard.core.entry import Reading
    from stampede_guard.engine.hooks import Hooks
    from stampede_guard.engine.plan import Plan
    from stampede_guard.errors import StoreRefused
    from stampede_guard.policy import Mode, Policy

__all__ = ["StoredValues"]

_running = asyncio.get_running_loop


class StoredValues:
    """A part of `Engine`, which knows the modes."""

    hooks: Hooks
    _runtimes: Runtimes

    def mode_of_caller(self, plan: Plan, name: str | None = None) -> Mode:
        raise NotImplementedError

    # --- without a computation -------------------------------------------------------------------

    async def peek(self, plan: Plan, name: str, tags: tuple[str, ...] = ()) -> Any:
        """The fresh value, or `NOTHING`: in this mode and at this moment, a call would not be served from the store."""
        if self.mode_of_caller(plan, name) != "on":
            return NOTHING
        return await peek(self._runtimes.here(), plan, name, tags)

    async def set(self, plan: Plan, name: str, value: Any, tags: tuple[str, ...] = ()) -> Stored:
        """Store a value that the caller has. It is newer than every computation that began before.

        In modes that do not use the store, the older value is invalidated: it is not served when the mode is on again.
        Raises `UnsupportedValue` and `StoreRefused`.
        """
        body, policy = encoded(plan, value)
        if policy is not None and self.mode_of_caller(plan, name) in ("on", "shadow"):
            return await set_value(self._runtimes.here(), plan, name, body, policy, tags)
        told = await self.invalidate(name, plan.policy)
        return "dropped" if told == "done" else "pending"

    # --- for the HTTP cache, which judges freshness itself --------------------------------------

    def read(self, plan: Plan, name: str) -> Awaitable[tuple[Reading | None, Any]]:
        """The stored value, fresh or stale, or what this process saw last while the store does not serve it.

        The second item is the decoded value. `NOTHING`: there is none, or its bytes cannot be decoded.
        """
        runtime = self._runtimes.current
        if runtime is None or runtime.loop is not _running():
            runtime = self._runtimes.here()
        return serving.read(runtime, plan, name)

    async def fresh_for(self, name: str) -> float:
        """Seconds for which the stored value stays fresh; 0 if there is no value. Raises `StoreError`."""
        reading = await self._runtimes.here().session.read(name)
        return 0.0 if reading is None else max(0.0, (reading.remaining_ms - reading.stale_ms) / 1_000)

    def last_seen(self, name: str) -> Reading | None:
        """The value that this process saw last, as the store would return it now."""
        runtime = self._runtimes.here()
        return runtime.last.aged(name, now=runtime.now())

    async def put(self, plan: Plan, name: str, value: Any, policy: Policy) -> None:
        """Store a value that the face has without a computation. A running computation is newer."""
        await put(self._runtimes.here(), plan, name, value, policy)

    def is_away(self, name: str) -> bool:
        """Whether nothing is stored under this name at the moment."""
        return self._runtimes.here().away_for(name)

    def now(self) -> float:
        """The clock of ages and pauses."""
        runtime = self._runtimes.current
        if runtime is None or runtime.loop is not _running():
            runtime = self._runtimes.here()
        return runtime.now()

    def note_refusal(self, error: StoreRefused, step: str) -> None:
        """For `health()`: the store has refused this step."""
        self._runtimes.here().note_refusal(error, step)

    # --- invalidation --------------------------------------------------------------------------

    async def invalidate(self, name: str, policy: Policy) -> Invalidation:
        """Invalidate in every mode: stored values are served again when the mode returns to `on`."""
        return await outdate_entry(self._runtimes.here(), self.hooks, name, policy)

    async def invalidate_tag(self, name: str) -> Invalidation:
        return await outdate_tag(self._runtimes.here(), self.hooks, name)
