"""Invalidations that the store has not heard of: kept while it is away, applied when it is back."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextvars import Context
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from stampede_guard.errors import StoreError, StoreRefused

if TYPE_CHECKING:
    from stampede_guard.policy import Policy
    from stampede_guard.stores.protocol import Session

__all__ = ["PendingInvalidations"]

log = logging.getLogger("stampede_guard")

MOST_PENDING = 10_000
AGAIN_SECONDS = 0.05
CLOSE_SECONDS = 1.0


@dataclass(frozen=True, slots=True, eq=False)
class _Pending:
    """One invalidation that waits for the store. Each is told from the next of the same name by its identity."""

    policy: Policy | None
    """None for a tag."""


class PendingInvalidations:
    """`applied(name, fence)` is called for each that the store has heard of, `changed()` when one comes or goes."""

    def __init__(
        self, session: Session, *, applied: Callable[[str, int], None], changed: Callable[[], None]
    ) -> None:
        self.closing = False
        self.task: asyncio.Task[None] | None = None
        self._session = session
        self._applied = applied
        self._changed = changed
        self._waiting: dict[str, _Pending] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def __contains__(self, name: str) -> bool:
        return name in self._waiting

    def add(self, name: str, policy: Policy | None) -> None:
        """Of an entry, or of a tag, which has no policy."""
        if self.closing:
            log.error("an invalidation could not be applied: its guard was closed meanwhile")
        self._waiting[name] = _Pending(policy)
        self._changed()
        if len(self._waiting) > MOST_PENDING:
            lost = next(iter(self._waiting))
            del self._waiting[lost]
            log.error("more than %d invalidations wait for the store: the oldest is given up", MOST_PENDING)
        if not self._session.away_for(name):
            self.apply()

    def apply(self) -> None:
        if self._waiting and not self.closing and (self.task is None or self.task.done()):
            self.task = asyncio.get_running_loop().create_task(
                self._apply_all(), name="stampede_guard invalidations", context=Context()
            )

    async def end(self, cut_short: asyncio.Future[None]) -> None:
        """Give those that the store may hear of yet a moment, and stop."""
        if self.task is not None and not self.task.done():
            either: set[asyncio.Future[Any]] = {self.task, cut_short}
            try:
                await asyncio.wait(either, timeout=CLOSE_SECONDS, return_when=asyncio.FIRST_COMPLETED)
            finally:
                self.task.cancel()
            await asyncio.wait({self.task}, timeout=CLOSE_SECONDS)
        if self._waiting:
            log.error("%d invalidations could not be applied: the store is away", len(self._waiting))

    async def _apply_all(self) -> None:
        while (name := self._next()) is not None:
            pending = self._waiting[name]
            try:
                if pending.policy is None:
                    await self._session.drop_tag(name)
                    fence = 0
                else:
                    fence = await self._session.invalidate(name, policy=pending.policy)
            except StoreRefused as error:
                fence = 0
                log.error("an invalidation was refused and is given up: %s", error)
            except StoreError:
                await asyncio.sleep(AGAIN_SECONDS)
                continue
            self._applied(name, fence)
            # Another one may have been asked for while this one was on its way, and after a later write.
            if self._waiting.get(name) is pending:
                del self._waiting[name]
            self._changed()

    def _next(self) -> str | None:
        return next((name for name in self._waiting if not self._session.away_for(name)), None)
