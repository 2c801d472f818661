"""What the flights of one event loop, and all else there, share: the store's session, and what is known of it.

It knows no flight and no memory of values.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import random
import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from stampede_guard.core.tags import versions_in
from stampede_guard.errors import StoreRefused, Undecodable, UnsupportedValue
from stampede_guard.events import NotStored, Stored

if TYPE_CHECKING:
    from stampede_guard.engine.away.health import Health
    from stampede_guard.engine.away.unsettled import Unsettled
    from stampede_guard.engine.hooks import Hooks
    from stampede_guard.engine.plan import Plan
    from stampede_guard.stores.protocol import Session

__all__ = ["Ground"]

log = logging.getLogger("stampede_guard")


class Ground:
    """A part of `Runtime`, which sets the attributes that are only declared here."""

    away: bool
    health: Health
    hooks: Hooks
    loop: asyncio.AbstractEventLoop
    session: Session
    take_over: Callable[[], None]
    unsettled: Unsettled

    def __init__(self) -> None:
        self.refused = False
        """Whether the store's last answer denied access to this guard (a password, a permission)."""
        self.unkept: set[str] = set()
        """Names of values that the store did not keep, from its answer until that is handled."""
        self._abandoned: set[asyncio.Task[Any]] = set()
        self._id = uuid.uuid4().hex
        self._numbers = itertools.count(1)

    # --- the store -----------------------------------------------------------------------------

    def away_for(self, name: str, tags: tuple[str, ...] = ()) -> bool:
        """Also true while an invalidation of this entry waits: until it is applied the store has an older value.

        The same holds for its tags: without their versions the value cannot be judged.
        """
        if not self.away:
            return False
        if not tags:
            return name in self.unsettled.pending or self.session.away_for(name)
        return any(part in self.unsettled.pending or self.session.away_for(part) for part in (name, *tags))

    def only_waits(self, name: str, tags: tuple[str, ...] = ()) -> bool:
        """Whether its server answers although an invalidation of it waits: see `readonly`."""
        if not self.unsettled.pending:
            return False
        parts = (name, *tags)
        waits = any(part in self.unsettled.pending for part in parts)
        if waits:
            self.take_over()
        return waits and not any(self.session.away_for(part) for part in parts)

    def note_refusal(self, error: StoreRefused, step: str = "read") -> None:
        self.refused = True
        self.health.refused(error, step)

    def read_answered(self) -> None:
        self.refused = False
        if self.health.refusing:
            self.health.admitted("read")

    def published(self, name: str, *, value: bool, plan: Plan | None = None, size: int = 0) -> None:
        """The store has accepted a publication. A `value` was kept, unless `not_kept` was called for it.

        `plan`: that of the computation, whose value has `size` bytes.
        """
        kept = value and name not in self.unkept
        self.unkept.discard(name)
        if self.health.refusing:
            self.health.admitted("publish")
            if kept:
                self.health.admitted("keep")
        if kept and plan is not None and self.hooks.any:
            self.hooks.tell(Stored(plan.title, name, size))

    # --- computations --------------------------------------------------------------------------

    @property
    def abandoned(self) -> int:
        """Computations that were cancelled, did not end, and still run."""
        return len(self._abandoned)

    def new_id(self) -> str:
        return f"{self._id}:{next(self._numbers)}"

    def draw(self) -> float:
        return random.random()

    async def unwind(self, task: asyncio.Task[Any], seconds: float) -> None:
        """Cancel a computation and wait `seconds` for its end. If it does not end, leave it running and count it."""
        task.cancel()
        await asyncio.wait({task}, timeout=seconds)
        if not task.done():
            self._abandoned.add(task)
            task.add_done_callback(self._abandoned.discard)
            log.warning(
                "a cancelled computation does not end and is left running (%d in all)", self.abandoned
            )
        task.add_done_callback(_look_at)

    # --- warnings ------------------------------------------------------------------------------

    def warn_once(self, plan: Plan, what: str, text: str) -> None:
        if what not in plan.warned:
            plan.warned.add(what)
            log.warning("%s", text)

    def warn_if_too_large(self, plan: Plan, body: bytes) -> None:
        most = plan.policy.max_value_bytes
        if len(body) > most:
            text = f"a value of {len(body)} bytes is served but not stored; max_value_bytes is {most}"
            self.warn_once(plan, "too large", f"{plan.title}: {text}")

    def cannot_be_stored(self, plan: Plan, name: str, error: UnsupportedValue) -> None:
        """A result goes to the callers of its flight only. One line per function says what to write."""
        if "unsupported" not in plan.warned:
            plan.warned.add("unsupported")
            log.error("%s: its results are served, but not cached: %s", plan.title, error)
        if self.hooks:
            self.hooks.tell(NotStored(plan.title, name, "unsupported"))

    def warn_undecodable(self, plan: Plan, error: Undecodable, body: bytes) -> None:
        why = f"a stored value cannot be decoded and counts as a miss: {error}"
        if plan.direct and versions_in(body) is not None:
            why = "a value that was stored with tags= counts as a miss: pass the same tags= to every call of its key"
        self.warn_once(plan, "undecodable", f"{plan.title}: {why}")


def _look_at(task: asyncio.Task[Any]) -> None:
    """Retrieve the error of a computation that no caller waits for, so that asyncio does not report it as lost."""
    if not task.cancelled():
        task.exception()
